//! What may come in a state of the lexer, whatever the row is: tokens that stay in the lexeme, and the others by what they have
//! behind its end. A string in an object has the same lexeme for each key, so this is found out once, and a row has to say only
//! which of the ends may follow.

use super::Endings;
use super::lexing::{Lexing, Step};
use super::trie::{Node, Trie};
use crate::grammar::mask::Mask;
use crate::types::Token;
use llguidance::derivre::StateID;
use std::fmt;
use std::ops::Range;
use toktrie::SimpleVob;

/// Nodes of the trie behind the end of a lexeme from which on they are not listed, but walked over.
const MANY: usize = 64;

/// Tokens up to which a list of them is kept.
const FEW: usize = 256;

enum Tokens {
    Few(Vec<Token>),
    Many(Mask),
}

pub(in crate::grammar) struct Inside {
    /// Those that stay in the lexeme.
    tokens: Tokens,
    pub(super) ends: Vec<End>,
    pub(super) borders: Vec<Border>,
    /// A lexeme was met of a kind that is not followed here.
    pub(super) is_unknown: bool,
}

/// A state in which the lexeme ends, and what tokens have behind it, in order.
pub(super) struct End {
    pub(super) state: StateID,
    pub(super) tails: Vec<Tail>,
}

/// The same bytes behind the end of a lexeme.
pub(super) struct Tail {
    /// As many are the same as in the tail before.
    pub(super) shared: usize,
    pub(super) bytes: Box<[u8]>,
    pub(super) tokens: Vec<Token>,
}

/// Many nodes that follow bytes behind which the lexeme may end, or (`is_last`) does, and the state then.
pub(super) struct Border {
    pub(super) nodes: Range<usize>,
    pub(super) state: StateID,
    pub(super) is_last: bool,
    /// The token of those bytes, where they end the lexeme.
    pub(super) token: Option<Token>,
}

impl Inside {
    /// Of tokens that begin in a state of the lexer.
    pub(super) fn new(of: &Endings, lexing: &mut Lexing, state: StateID) -> Self {
        let (trie, tokens) = of.begun(lexing, state);
        let width = of.common.vocab.len();
        let none = Inside {
            tokens: Tokens::Few(Vec::new()),
            ends: Vec::new(),
            borders: Vec::new(),
            is_unknown: false,
        };
        let mut search =
            Search { nodes: trie.nodes(), tokens, inside: none, bytes: Vec::new(), found: Vec::new() };
        search.run(lexing, trie, state);
        let Search { mut inside, tokens, bytes, mut found, .. } = search;
        inside.tokens = match tokens.num_set() {
            0..=FEW => Tokens::Few(tokens.to_list()),
            _ => Tokens::Many(Mask::from_words(tokens.as_slice(), width)),
        };
        let tail = |at: &Range<usize>| &bytes[at.clone()];
        found.sort_unstable_by(|a, b| (a.0, tail(&a.1), a.2).cmp(&(b.0, tail(&b.1), b.2)));
        for same in found.chunk_by(|a, b| a.0 == b.0) {
            let mut tails: Vec<Tail> = Vec::new();
            for same in same.chunk_by(|a, b| tail(&a.1) == tail(&b.1)) {
                let bytes = tail(&same[0].1);
                let last = tails.last().map_or(&[][..], |last| &last.bytes);
                let shared = last.iter().zip(bytes).take_while(|(a, b)| a == b).count();
                tails.push(Tail {
                    shared,
                    bytes: bytes.into(),
                    tokens: same.iter().map(|found| found.2).collect(),
                });
            }
            inside.ends.push(End { state: StateID::new(same[0].0), tails });
        }
        inside
    }

    /// The mask with some more tokens.
    pub(in crate::grammar) fn with(&self, more: &[Token], width: usize) -> Mask {
        let (mut mask, few) = match &self.tokens {
            Tokens::Few(few) => (Mask::none(width), &few[..]),
            Tokens::Many(mask) => (mask.clone(), &[][..]),
        };
        few.iter().chain(more).for_each(|token| mask.set(*token, true));
        mask
    }

    /// Memory, about.
    pub(super) fn bytes(&self) -> usize {
        let tails = self.ends.iter().flat_map(|end| &end.tails);
        let each = |tail: &Tail| size_of::<Tail>() + tail.bytes.len() + size_of_val(&*tail.tokens);
        let tokens = match &self.tokens {
            Tokens::Few(few) => size_of_val(&**few),
            Tokens::Many(mask) => size_of_val(mask.words()),
        };
        size_of::<Self>() + tokens + tails.map(each).sum::<usize>()
    }
}

struct Search<'a> {
    nodes: &'a [Node],
    tokens: SimpleVob,
    inside: Inside,
    /// Of tails.
    bytes: Vec<u8>,
    /// The state at the end of the lexeme, where the bytes behind it are, and a token.
    found: Vec<(u32, Range<usize>, Token)>,
}

impl Search<'_> {
    fn run(&mut self, lexing: &mut Lexing, trie: &Trie, state: StateID) {
        // Places by their depth, each with whether it is a border.
        let mut places = vec![(state, self.border(lexing, trie.all(), state))];
        let mut at = 0;
        while let Some(node) = self.nodes.get(at) {
            let (nodes, depth) = (at + 1..node.end as usize, usize::from(node.depth));
            let (state, is_border) = places[depth - 1];
            at = nodes.end;
            match lexing.step(state, node.byte) {
                Step::In(next) => {
                    node.token().into_iter().for_each(|token| self.tokens.allow_token(token));
                    places.truncate(depth);
                    places.push((next, self.border(lexing, nodes.clone(), next)));
                    at = nodes.start;
                }
                Step::Last(state) if nodes.len() > MANY => {
                    self.inside.borders.push(Border { nodes, state, is_last: true, token: node.token() });
                }
                Step::Last(end) => self.beyond(end, nodes.start - 1, depth),
                Step::Behind if !is_border => self.beyond(state, nodes.start - 1, depth - 1),
                Step::Unknown => self.inside.is_unknown = true,
                Step::Behind | Step::Refused => {}
            }
        }
    }

    /// Notes nodes that are walked over where the lexeme may end before them.
    fn border(&mut self, lexing: &Lexing, nodes: Range<usize>, state: StateID) -> bool {
        let is_border = nodes.len() > MANY && lexing.ended(state).is_some();
        if is_border {
            self.inside.borders.push(Border { nodes, state, is_last: false, token: None });
        }
        is_border
    }

    /// Lists the token of a node and those below it, all of which have `depth` bytes up to the end of the lexeme.
    fn beyond(&mut self, end: StateID, at: usize, depth: usize) {
        let mut path: Vec<u8> = Vec::new();
        for node in &self.nodes[at..self.nodes[at].end as usize] {
            let below = usize::from(node.depth) - depth;
            if below > 0 {
                path.truncate(below - 1);
                path.push(node.byte);
            }
            if let Some(token) = node.token() {
                let begin = self.bytes.len();
                self.bytes.extend_from_slice(&path);
                self.found.push((end.as_u32(), begin..self.bytes.len(), token));
            }
        }
    }
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").field("ends", &self.ends.len()).finish_non_exhaustive()
    }
}
