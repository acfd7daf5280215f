//! A search in the tries for the tokens that continue a lexeme and for those that end it.

use super::inside::{Begin, Behind};
use super::lexing::{Lexing, Step};
use super::trie::{Kinds, Trie, WIDE, kind};
use crate::types::Token;
use ahash::AHashMap;
use llguidance::derivre::StateID;
use std::ops::Range;

/// If more than this many nodes of a trie follow the end of a lexeme, their tokens are not listed. A search from a [`Border`] finds those
/// that are allowed.
const MANY: usize = 64;

/// Where the lexeme ends, and what tokens have after the end, sorted by bytes.
pub(super) struct End {
    /// Bytes of the lexeme to there.
    pub(super) path: Vec<u8>,
    pub(super) tails: Vec<Tail>,
}

/// Tokens with the same bytes after the end of the lexeme.
pub(super) struct Tail {
    /// How many bytes it has in common with the tail before it.
    pub(super) shared: usize,
    pub(super) bytes: Box<[u8]>,
    pub(super) tokens: Vec<Token>,
}

/// A place in the trie with many nodes below it, where the lexeme may end, or (`is_last`) has ended with the last byte.
pub(super) struct Border {
    /// The trie's number.
    pub(super) trie: usize,
    /// The first node after it.
    pub(super) start: usize,
    /// Bytes of the lexeme to there.
    pub(super) path: Vec<u8>,
    pub(super) is_last: bool,
}

impl Border {
    /// Whether it covers the whole trie, because the lexeme may end before the token begins.
    pub(super) fn is_whole(&self) -> bool {
        self.start == 0
    }
}

/// A token in which the lexeme ends: the lexer state at the end of the lexeme, the place of the token's other bytes, and the token's id.
type Found = (u32, Range<usize>, Token);

/// Groups tokens by the state in which the lexeme ends and by their other bytes. `paths`: for each state, bytes of the lexeme that lead to it.
fn grouped(mut found: Vec<Found>, bytes: &[u8], mut paths: AHashMap<u32, Vec<u8>>) -> Vec<End> {
    let tail = |at: &Range<usize>| &bytes[at.clone()];
    found.sort_unstable_by(|a, b| (a.0, tail(&a.1), a.2).cmp(&(b.0, tail(&b.1), b.2)));
    let end = |same: &[Found]| {
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
        End { path: paths.remove(&same[0].0).unwrap_or_default(), tails }
    };
    found.chunk_by(|a, b| a.0 == b.0).map(end).collect()
}

/// A search from one lexer state.
pub(super) struct Search<'a> {
    begin: Begin<StateID>,
    /// How many bytes of each token come before the place where the search begins.
    skipped: usize,
    tries: &'a [Trie],
    /// The number of the trie that is searched.
    number: usize,
    lexing: &'a mut Lexing,
    /// Those that stay in the lexeme, by their places among the trie's tokens.
    allowed: Vec<Range<usize>>,
    borders: Vec<Border>,
    /// A lexeme was met of a kind that is not followed here.
    is_unknown: bool,
    /// The bytes that tokens have after the end of the lexeme.
    bytes: Vec<u8>,
    found: Vec<Found>,
    /// Bytes of the lexeme to each of those states.
    ends: AHashMap<u32, Vec<u8>>,
    /// By lexer state, the kinds of bytes that were tried, and those that leave the lexer in the same state.
    stays: Vec<(Kinds, Kinds)>,
}

/// A lexer state, and whether a border stands for the tokens that end the lexeme in it.
type Place = (StateID, bool);

impl<'a> Search<'a> {
    pub(super) fn new(tries: &'a [Trie], lexing: &'a mut Lexing, begin: Begin<StateID>) -> Self {
        let skipped = begin
            .behind
            .map_or(0, |Behind { trie, start, .. }| usize::from(tries[trie].nodes()[start].depth) - 1);
        Search {
            begin,
            skipped,
            tries,
            number: 0,
            lexing,
            allowed: Vec::new(),
            borders: Vec::new(),
            is_unknown: false,
            bytes: Vec::new(),
            found: Vec::new(),
            ends: AHashMap::new(),
            stays: Vec::new(),
        }
    }

    fn trie(&self) -> &'a Trie {
        &self.tries[self.number]
    }

    /// Searches a trie. Returns the tokens that stay in the lexeme, by their places among the trie's tokens. `listed`: the texts that may
    /// follow, sorted, if all are listed and none begins another.
    pub(super) fn tokens(&mut self, number: usize, listed: Option<&[Box<[u8]>]>) -> Vec<Range<usize>> {
        self.number = number;
        let (state, start) = (self.begin.state, self.begin.behind.map_or(0, |behind| behind.start));
        match listed {
            Some(texts) => self.along(state, start, texts),
            None => {
                let nodes = self.trie().from(start);
                // At a border a lexeme has just ended. Another one cannot end there without any bytes of its own.
                let is_border = self.begin.behind.is_some() || self.border(nodes.clone(), state);
                self.trie().walk(nodes, (state, is_border), |above, at| self.step(above, at));
            }
        }
        std::mem::take(&mut self.allowed)
    }

    /// What ends the lexeme in the tries that were searched, and whether a lexeme was met of a kind that is not followed here.
    pub(super) fn finish(self) -> (Vec<End>, Vec<Border>, bool) {
        (grouped(self.found, &self.bytes, self.ends), self.borders, self.is_unknown)
    }

    /// Allows the tokens of these nodes. The calls come in the order of the nodes.
    fn allow(&mut self, nodes: Range<usize>) {
        let tokens = self.trie().places(nodes);
        match self.allowed.last_mut() {
            Some(last) if last.end == tokens.start => last.end = tokens.end,
            _ if tokens.is_empty() => {}
            _ => self.allowed.push(tokens),
        }
    }

    /// Searches along listed texts, which are sorted and of which none begins another. This needs no states of the lexer.
    fn along(&mut self, state: StateID, start: usize, texts: &[Box<[u8]>]) {
        let top = start.checked_sub(1);
        let (mut nodes, mut last): (Vec<usize>, &[u8]) = (Vec::new(), &[]);
        for text in texts {
            if self.continues(text[0]) {
                continue;
            }
            let shared = last.iter().zip(text).take_while(|(a, b)| a == b).count();
            last = text;
            if nodes.len() < shared {
                // The trie does not have the bytes that both texts begin with.
                continue;
            }
            nodes.truncate(shared);
            while let Some(byte) = text.get(nodes.len()) {
                let Some(at) = self.trie().child(nodes.last().copied().or(top), *byte) else { break };
                nodes.push(at);
                if nodes.len() < text.len() {
                    self.allow(at..at + 1);
                    continue;
                }
                let below = at + 1..self.trie().nodes()[at].end as usize;
                if below.len() > MANY {
                    self.push_border(below, true);
                } else {
                    let end = text.iter().fold(state, |state, byte| self.lexing.behind(state, *byte));
                    self.beyond(end, at, self.skipped + text.len());
                }
            }
        }
    }

    /// Steps from a place to the trie node `at` below it. None if the node's byte does not continue the lexeme.
    fn step(&mut self, (state, is_border): Place, at: usize) -> Option<Place> {
        let node = self.trie().nodes()[at];
        let (below, depth) = (at + 1..node.end as usize, usize::from(node.depth));
        if depth == self.skipped + 1 && self.continues(node.byte) {
            return None;
        }
        match self.lexing.step(state, node.byte) {
            Step::In(next) => {
                if !below.is_empty() && self.stays_below(next, at) {
                    self.allow(at..below.end);
                    return None;
                }
                self.allow(at..at + 1);
                return Some((next, self.border(below, next)));
            }
            Step::Last(_) if below.len() > MANY => self.push_border(below, true),
            Step::Last(end) => self.beyond(end, at, depth),
            Step::Behind if !is_border => self.beyond(state, at, depth - 1),
            Step::Unknown => self.is_unknown = true,
            Step::Behind | Step::Refused => {}
        }
        None
    }

    /// Whether a byte continues the lexeme that may end where the search begins.
    fn continues(&mut self, byte: u8) -> bool {
        self.begin.behind.is_some_and(|behind| !self.lexing.behind(behind.ended, byte).is_dead())
    }

    /// Whether the lexer stays in a state through all bytes below a node.
    fn stays_below(&mut self, state: StateID, at: usize) -> bool {
        // This tells for most states.
        let first = self.trie().nodes()[at + 1].byte;
        if first.is_ascii() && !self.stays_at(state, first) {
            return false;
        }
        self.trie().kinds_below(at).is_some_and(|kinds| self.stays(state, kinds))
    }

    fn stays_at(&mut self, state: StateID, byte: u8) -> bool {
        matches!(self.lexing.step(state, byte), Step::In(next) if next == state)
    }

    /// Whether each byte of these kinds leaves the lexer in the same state.
    fn stays(&mut self, state: StateID, wanted: Kinds) -> bool {
        let known = state.as_usize();
        if known >= self.stays.len() {
            self.stays.resize(known + 1, (0, 0));
        }
        let (mut tried, mut same) = self.stays[known];
        while wanted & !tried != 0 && tried & !same & wanted == 0 {
            let next = 1 << (wanted & !tried).trailing_zeros();
            tried |= next;
            let mut bytes = (0..=u8::MAX).filter(|byte| kind(*byte) == next);
            let stays = match next {
                WIDE => self.lexing.keeps_wide(state),
                _ => bytes.all(|byte| self.stays_at(state, byte)),
            };
            same |= if stays { next } else { 0 };
            self.stays[known] = (tried, same);
        }
        wanted & !same == 0
    }

    /// Adds a border before these nodes if they are many and the lexeme may end there.
    fn border(&mut self, nodes: Range<usize>, state: StateID) -> bool {
        let is_border = nodes.len() > MANY && self.lexing.ended(state).is_some();
        if is_border {
            self.push_border(nodes, false);
        }
        is_border
    }

    fn push_border(&mut self, nodes: Range<usize>, is_last: bool) {
        let above = nodes.start.checked_sub(1);
        let path = above.map(|above| self.trie().path(above)[self.skipped..].to_vec()).unwrap_or_default();
        self.borders.push(Border { trie: self.number, start: nodes.start, path, is_last });
    }

    /// Lists the tokens of a node and those below it. The first `depth` bytes of each end the lexeme.
    fn beyond(&mut self, end: StateID, at: usize, depth: usize) {
        let mut path: Vec<u8> = Vec::new();
        let (trie, nodes, skipped) = (self.trie(), self.trie().nodes(), self.skipped);
        self.ends.entry(end.as_u32()).or_insert_with(|| trie.path(at)[skipped..depth].to_vec());
        for (at, node) in nodes[..nodes[at].end as usize].iter().enumerate().skip(at) {
            let below = usize::from(node.depth) - depth;
            if below > 0 {
                path.truncate(below - 1);
                path.push(node.byte);
            }
            let (begin, tokens) = (self.bytes.len(), self.trie().tokens(at));
            if !tokens.is_empty() {
                self.bytes.extend_from_slice(&path);
                let found = tokens.iter().map(|token| (end.as_u32(), begin..self.bytes.len(), *token));
                self.found.extend(found);
            }
        }
    }
}
