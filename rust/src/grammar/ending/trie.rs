//! A prefix tree of tokens, stored as one list in depth-first order.

use crate::types::Token;
use std::ops::Range;
use toktrie::TokTrie;

/// No token ends here.
const NONE: Token = Token::MAX;

pub(super) struct Trie(Vec<Node>);

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
        let mut trie = Trie(Vec::new());
        let (mut open, mut last): (Vec<usize>, &[u8]) = (Vec::new(), &[]);
        for same in tokens.chunk_by(|a, b| all.token(*a) == all.token(*b)) {
            let bytes = all.token(same[0]);
            let shared = last.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            trie.close(&mut open, shared);
            for depth in shared..bytes.len() {
                let mut add = |token| {
                    let end = trie.0.len() as u32 + 1;
                    trie.0.push(Node { token, end, depth: depth as u16 + 1, byte: bytes[depth] });
                };
                let is_whole = depth + 1 == bytes.len();
                // Further tokens with the same bytes become leaf siblings.
                same[1..].iter().filter(|_| is_whole).for_each(|token| add(*token));
                add(if is_whole { same[0] } else { NONE });
                open.push(trie.0.len() - 1);
            }
            last = bytes;
        }
        trie.close(&mut open, 0);
        trie
    }

    fn close(&mut self, open: &mut Vec<usize>, depth: usize) {
        for node in open.drain(depth..) {
            self.0[node].end = self.0.len() as u32;
        }
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.0
    }

    /// All nodes.
    pub(super) fn all(&self) -> Range<usize> {
        0..self.0.len()
    }

    /// Walks over a range of nodes, parents first, with a place for each. `step` gets the place above a node and the node's index,
    /// and gives the node's own place; None skips all that is below.
    pub(super) fn walk<P: Copy>(
        &self,
        nodes: Range<usize>,
        from: P,
        mut step: impl FnMut(P, usize) -> Option<P>,
    ) {
        let Some(first) = self.0.get(nodes.start) else { return };
        let depth = first.depth;
        let mut places = vec![from];
        let mut at = nodes.start;
        while at < nodes.end {
            let node = self.0[at];
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
