//! A prefix tree of tokens, stored as one list in depth-first order.

use crate::types::Token;
use std::ops::Range;
use toktrie::SimpleVob;

pub(super) struct Trie {
    /// The last one stands behind all others and is none itself.
    nodes: Vec<Node>,
    /// For each byte, the node of the tokens that begin with it.
    first: [Option<u32>; 256],
    /// The nodes directly below each node, one node after the other, with their bytes.
    children: Vec<u32>,
    bytes: Vec<u8>,
    /// All tokens, in the order of the nodes.
    tokens: Vec<Token>,
    /// The same as a set.
    all: SimpleVob,
    /// Most bytes of a token.
    height: u16,
    /// Whether each token is UTF-8 by itself, so that none begins or ends inside a character.
    is_text: bool,
}

/// A set of [`kind`]s.
pub(super) type Kinds = u64;

/// Characters outside ASCII, in a trie of texts.
pub(super) const WIDE: Kinds = 1 << 40;

/// The kind of a byte. Patterns mostly take all bytes of a kind, or none.
pub(super) fn kind(byte: u8) -> Kinds {
    let number = match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'f' => 1,
        b'g'..=b'z' => 2,
        b'A'..=b'F' => 3,
        b'G'..=b'Z' => 4,
        // Space and punctuation, each a kind of its own: 33 of them.
        b' '..=b'/' => 5 + (byte - b' '),
        b':'..=b'@' => 21 + (byte - b':'),
        b'['..=b'`' => 28 + (byte - b'['),
        b'{'..=b'~' => 34 + (byte - b'{'),
        // Control characters, and parts of characters outside ASCII.
        0..=0x1f | 0x7f => 38,
        0x80.. => 39,
    };
    1 << number
}

/// A byte of one or more tokens. The nodes below it follow it in the list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// The kinds of the bytes below it.
    below: Kinds,
    /// The first node that is not below this one.
    pub(super) end: u32,
    /// How many tokens come before it.
    before: u32,
    /// The index of its first child in [`Trie::children`].
    children: u32,
    /// Bytes from the root up to it, its own included.
    pub(super) depth: u16,
    pub(super) byte: u8,
}

impl Trie {
    /// Of tokens by their bytes, none of them empty. `all`: a set with room for them. `is_text`: the bytes of each are UTF-8.
    pub(super) fn new(mut words: Vec<(&[u8], Token)>, all: SimpleVob, is_text: bool) -> Self {
        words.sort_unstable();
        let mut trie = Trie {
            nodes: Vec::new(),
            first: [None; 256],
            children: Vec::new(),
            bytes: Vec::new(),
            tokens: Vec::new(),
            all,
            height: 0,
            is_text,
        };
        let (mut open, mut last): (Vec<usize>, &[u8]) = (Vec::new(), &[]);
        for same in words.chunk_by(|a, b| a.0 == b.0) {
            let bytes = same[0].0;
            let shared = last.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            trie.close(&mut open, shared);
            for (depth, byte) in bytes.iter().copied().enumerate().skip(shared) {
                if depth == 0 {
                    trie.first[usize::from(byte)] = Some(trie.nodes.len() as u32);
                }
                open.push(trie.nodes.len());
                trie.push(depth as u16 + 1, byte);
            }
            trie.tokens.extend(same.iter().map(|word| word.1));
            last = bytes;
        }
        trie.close(&mut open, 0);
        trie.push(0, 0);
        trie.list_children();
        trie.tokens.iter().for_each(|token| trie.all.allow_token(*token));
        for at in trie.all().rev() {
            trie.nodes[at].below = trie.kinds(at);
        }
        trie.height = trie.nodes.iter().map(|node| node.depth).max().unwrap_or(0);
        trie
    }

    fn push(&mut self, depth: u16, byte: u8) {
        let before = self.tokens.len() as u32;
        self.nodes.push(Node { below: 0, end: 0, before, children: 0, depth, byte });
    }

    /// Lists the children of all nodes.
    fn list_children(&mut self) {
        for at in 0..self.nodes.len() {
            self.nodes[at].children = self.children.len() as u32;
            let (mut child, end) = (at + 1, self.nodes[at].end as usize);
            while child < end {
                self.children.push(child as u32);
                self.bytes.push(self.nodes[child].byte);
                child = self.nodes[child].end as usize;
            }
        }
    }

    /// Where the children of a node stand in the list of all children.
    fn children_of(&self, at: usize) -> Range<usize> {
        self.nodes[at].children as usize..self.nodes[at + 1].children as usize
    }

    /// The kinds of all bytes below a node, from those of its children.
    fn kinds(&self, at: usize) -> Kinds {
        self.children[self.children_of(at)].iter().fold(0, |kinds, child| {
            let node = self.nodes[*child as usize];
            let own = if self.is_text && !node.byte.is_ascii() { WIDE } else { kind(node.byte) };
            kinds | own | node.below
        })
    }

    /// The kinds of all bytes below a node. None where a character of a text is not complete with it.
    pub(super) fn kinds_below(&self, at: usize) -> Option<Kinds> {
        let is_inside = self.is_text && self.nodes.get(at + 1).is_some_and(|node| node.byte & 0xc0 == 0x80);
        (!is_inside).then(|| self.nodes[at].below)
    }

    /// The nodes below the one that a text leads to. None if no token begins with the text.
    pub(super) fn below(&self, text: &[u8]) -> Option<Range<usize>> {
        let mut at = None;
        for byte in text {
            at = Some(self.child(at, *byte)?);
        }
        at.map(|at| at + 1..self.nodes[at].end as usize)
    }

    /// The node with this byte directly below another one, or at the top.
    pub(super) fn child(&self, above: Option<usize>, byte: u8) -> Option<usize> {
        let Some(above) = above else { return self.first[usize::from(byte)].map(|at| at as usize) };
        let below = self.children_of(above);
        let found = self.bytes[below.clone()].binary_search(&byte).ok()?;
        Some(self.children[below.start + found] as usize)
    }

    /// The bytes up to a node, its own included.
    pub(super) fn path(&self, at: usize) -> Vec<u8> {
        let (mut path, mut above) = (Vec::new(), 0);
        while above <= at {
            let node = self.nodes[above];
            if at < node.end as usize {
                path.push(node.byte);
                above += 1;
            } else {
                above = node.end as usize;
            }
        }
        path
    }

    /// The tokens that end with a node.
    pub(super) fn tokens(&self, at: usize) -> &[Token] {
        &self.tokens[self.places(at..at + 1)]
    }

    /// Where the tokens that end with these nodes stand among all tokens.
    pub(super) fn places(&self, nodes: Range<usize>) -> Range<usize> {
        self.nodes[nodes.start].before as usize..self.nodes[nodes.end].before as usize
    }

    /// The tokens at these places.
    pub(super) fn at(&self, places: &[Range<usize>]) -> impl Iterator<Item = Token> {
        places.iter().flat_map(|range| &self.tokens[range.clone()]).copied()
    }

    /// Allows the tokens at these places, which are sorted.
    pub(super) fn allow(&self, places: &[Range<usize>], tokens: &mut SimpleVob) {
        let count: usize = places.iter().map(ExactSizeIterator::len).sum();
        if count <= self.tokens.len() / 2 {
            return self.at(places).for_each(|token| tokens.allow_token(token));
        }
        tokens.or(&self.all);
        let (mut from, end) = (0, self.tokens.len());
        for next in places.iter().cloned().chain(std::iter::once(end..end)) {
            self.tokens[from..next.start].iter().for_each(|token| tokens.disallow_token(*token));
            from = next.end;
        }
    }

    fn close(&mut self, open: &mut Vec<usize>, depth: usize) {
        for node in open.drain(depth..) {
            self.nodes[node].end = self.nodes.len() as u32;
        }
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes[..self.nodes.len() - 1]
    }

    /// All nodes.
    pub(super) fn all(&self) -> Range<usize> {
        0..self.nodes.len() - 1
    }

    /// The nodes from `start` on that are below the node before it; all nodes if it is the first.
    pub(super) fn from(&self, start: usize) -> Range<usize> {
        let end = start.checked_sub(1).map_or(self.nodes().len(), |above| self.nodes[above].end as usize);
        start..end
    }

    /// Walks over a range of nodes, parents first, with a place for each. `step` gets the place above a node and the node's index,
    /// and gives the node's own place; None skips all that is below.
    pub(super) fn walk<P: Copy>(
        &self,
        nodes: Range<usize>,
        from: P,
        mut step: impl FnMut(P, usize) -> Option<P>,
    ) {
        if nodes.is_empty() {
            return;
        }
        let depth = self.nodes[nodes.start].depth;
        // By depth, the place above a node.
        let mut places = vec![from; usize::from(self.height - depth) + 2];
        let mut at = nodes.start;
        while at < nodes.end {
            let node = self.nodes[at];
            let above = usize::from(node.depth - depth);
            match step(places[above], at) {
                Some(place) => {
                    places[above + 1] = place;
                    at += 1;
                }
                None => at = node.end as usize,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_text_begins_with_it() {
        let words: [&[u8]; 5] = [b"a", b"abc", b"abd", b"b", b"bb"];
        let numbered = words.iter().copied().zip(0..).collect();
        let trie = Trie::new(numbered, SimpleVob::alloc(5), true);
        let below = |text: &[u8]| {
            let mut found = Vec::new();
            trie.walk(trie.below(text)?, (), |(), at| {
                found.extend(trie.tokens(at));
                Some(())
            });
            Some(found)
        };
        assert_eq!(below(b"a"), Some(vec![1, 2]));
        assert_eq!(below(b"ab"), Some(vec![1, 2]));
        assert_eq!(below(b"abd"), Some(vec![]));
        assert_eq!(below(b"b"), Some(vec![4]));
        for other in [&b""[..], b"c", b"ac", b"bbb"] {
            assert_eq!(below(other), None);
        }
    }
}
