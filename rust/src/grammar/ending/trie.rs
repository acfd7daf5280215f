//! A prefix tree of tokens, stored as one list in depth-first order.

use crate::types::Token;
use std::ops::Range;
use toktrie::TokTrie;

/// No token ends here.
const NONE: Token = Token::MAX;

pub(super) struct Trie {
    nodes: Vec<Node>,
    /// The kinds of the bytes below each node.
    below: Vec<Kinds>,
}

/// A set of [`kind`]s.
pub(super) type Kinds = u64;

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
        // Control characters, and bytes of characters outside ASCII.
        0..=0x1f | 0x7f => 38,
        0x80.. => 39,
    };
    1 << number
}

/// A byte of one or more tokens. The nodes below it follow it in the list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    token: Token,
    /// The first node that is not below this one.
    pub(super) end: u32,
    /// Bytes from the root up to it, its own included.
    pub(super) depth: u16,
    pub(super) byte: u8,
}

impl Node {
    pub(super) fn token(&self) -> Option<Token> {
        (self.token != NONE).then_some(self.token)
    }
}

impl Trie {
    /// Of tokens that have bytes and are not special.
    pub(super) fn new(all: &TokTrie, mut tokens: Vec<Token>) -> Self {
        let is_plain =
            |token: &Token| all.token(*token).first().is_some_and(|b| *b != TokTrie::SPECIAL_TOKEN_MARKER);
        tokens.retain(is_plain);
        tokens.sort_by_key(|token| (all.token(*token), *token));
        let mut trie = Trie { nodes: Vec::new(), below: Vec::new() };
        let (mut open, mut last): (Vec<usize>, &[u8]) = (Vec::new(), &[]);
        for same in tokens.chunk_by(|a, b| all.token(*a) == all.token(*b)) {
            let bytes = all.token(same[0]);
            let shared = last.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            trie.close(&mut open, shared);
            for depth in shared..bytes.len() {
                let mut add = |token| {
                    let end = trie.nodes.len() as u32 + 1;
                    trie.nodes.push(Node { token, end, depth: depth as u16 + 1, byte: bytes[depth] });
                };
                let is_whole = depth + 1 == bytes.len();
                // Further tokens with the same bytes become leaf siblings.
                same[1..].iter().filter(|_| is_whole).for_each(|token| add(*token));
                add(if is_whole { same[0] } else { NONE });
                open.push(trie.nodes.len() - 1);
            }
            last = bytes;
        }
        trie.close(&mut open, 0);
        trie.below = vec![0; trie.nodes.len()];
        for at in (0..trie.nodes.len()).rev() {
            let mut child = at + 1;
            while child < trie.nodes[at].end as usize {
                trie.below[at] |= kind(trie.nodes[child].byte) | trie.below[child];
                child = trie.nodes[child].end as usize;
            }
        }
        trie
    }

    /// The kinds of the bytes below a node.
    pub(super) fn below(&self, at: usize) -> Kinds {
        self.below[at]
    }

    fn close(&mut self, open: &mut Vec<usize>, depth: usize) {
        for node in open.drain(depth..) {
            self.nodes[node].end = self.nodes.len() as u32;
        }
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All nodes.
    pub(super) fn all(&self) -> Range<usize> {
        0..self.nodes.len()
    }

    /// Walks over a range of nodes, parents first, with a place for each. `step` gets the place above a node and the node's index,
    /// and gives the node's own place; None skips all that is below.
    pub(super) fn walk<P: Copy>(
        &self,
        nodes: Range<usize>,
        from: P,
        mut step: impl FnMut(P, usize) -> Option<P>,
    ) {
        let Some(first) = self.nodes.get(nodes.start) else { return };
        let depth = first.depth;
        let mut places = vec![from];
        let mut at = nodes.start;
        while at < nodes.end {
            let node = self.nodes[at];
            let above = usize::from(node.depth - depth);
            places.truncate(above + 1);
            match step(places[above], at) {
                Some(place) => {
                    places.push(place);
                    at += 1;
                }
                None => at = node.end as usize,
            }
        }
    }
}
