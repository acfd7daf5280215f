//! What a lexer state allows, whatever the Earley row is: the tokens that stay within the lexeme, and the tokens that end it,
//! grouped by the bytes that they have after its end. The values of many keys are in the same lexer state, so this is computed
//! once, and for each row only the bytes after the end are checked. It depends on what may follow in the lexeme, not on the grammar,
//! so that grammars with the same terminals share it; states of a lexer are written as the bytes that lead to them.

use super::Endings;
use super::automata::Residual;
use super::lexing::{Lexing, Step};
use super::trie::{Kinds, Trie, WIDE, kind};
use crate::grammar::mask::Mask;
use crate::types::Token;
use ahash::AHashMap;
use llguidance::derivre::StateID;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Where more nodes of the trie than this follow the end of a lexeme, their tokens are not listed: they are walked for each row.
const MANY: usize = 64;

/// So many tokens or fewer are kept as a list.
const FEW: usize = 256;

/// Limits of the cache that grammars share: memory in bytes, and about how many entries.
const MOST_SHARED_BYTES: u64 = 64 << 20;
const MOST_SHARED: usize = 4_000;

enum Tokens {
    Few(Vec<Token>),
    Many(Mask),
}

pub(in crate::grammar) struct Inside {
    /// Those that stay in the lexeme.
    tokens: Tokens,
    pub(super) ends: Vec<End>,
    pub(super) borders: Vec<Border>,
    /// Where the lexeme may end here and a border has all of a trie: the bytes that go on with it all the same.
    pub(super) on: Option<Vec<u8>>,
    /// A lexeme was met of a kind that is not followed here.
    pub(super) is_unknown: bool,
}

/// Where the lexeme ends, and what tokens have after the end, sorted by bytes.
pub(super) struct End {
    /// Bytes of the lexeme to there.
    path: Vec<u8>,
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
    pub(super) nodes: Range<usize>,
    /// Bytes of the lexeme to there.
    path: Vec<u8>,
    pub(super) is_last: bool,
}

impl Border {
    /// Whether it covers the whole trie, because the lexeme may end before the token begins.
    pub(super) fn is_whole(&self) -> bool {
        self.nodes.start == 0
    }
}

/// An [`Inside`] with the states of one lexer.
pub(super) struct Here {
    pub(super) inside: Arc<Inside>,
    /// In which the lexeme ends, for each [`End`] and each [`Border`].
    pub(super) ends: Vec<StateID>,
    pub(super) borders: Vec<StateID>,
}

impl Here {
    /// For tokens that begin in a lexer state.
    pub(super) fn new(inside: Arc<Inside>, lexing: &mut Lexing, state: StateID) -> Self {
        let mut behind = |path: &[u8]| path.iter().fold(state, |state, byte| lexing.behind(state, *byte));
        let ends = inside.ends.iter().map(|end| behind(&end.path)).collect();
        let borders = inside.borders.iter().map(|border| behind(&border.path)).collect();
        Here { inside, ends, borders }
    }

    /// Memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.inside.bytes() + size_of_val(&*self.ends) + size_of_val(&*self.borders)
    }
}

/// Those that other grammars may need, too.
pub(super) type Insides = Cache<Residual, Arc<Inside>, Weight>;

/// None yet.
pub(super) fn shared() -> Insides {
    Cache::with_weighter(MOST_SHARED, MOST_SHARED_BYTES, Weight)
}

#[derive(Clone)]
pub(super) struct Weight;

impl Weighter<Residual, Arc<Inside>> for Weight {
    fn weight(&self, _: &Residual, inside: &Arc<Inside>) -> u64 {
        inside.bytes() as u64
    }
}

impl Inside {
    /// For tokens that begin in a lexer state.
    pub(super) fn new(of: &Endings, lexing: &mut Lexing, state: StateID) -> Self {
        let (tries, slice) = of.begun(lexing, state);
        let listed = lexing.listed_apart(state);
        let width = of.common.vocab.len();
        let inside = Inside {
            tokens: Tokens::Few(Vec::new()),
            ends: Vec::new(),
            borders: Vec::new(),
            on: None,
            is_unknown: false,
        };
        let (bytes, found, allowed, stays) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut few, mut many) = (Vec::new(), slice.cloned());
        let (number, trie) = (tries.start, &of.common.tries[tries.start]);
        let ends = AHashMap::new();
        let mut search = Search { number, trie, lexing, allowed, inside, bytes, found, ends, stays };
        for number in tries {
            (search.number, search.trie) = (number, &of.common.tries[number]);
            match &listed {
                Some(texts) => search.along(state, texts),
                None => {
                    let all = search.trie.all();
                    let first = (state, search.border(all.clone(), state));
                    search.trie.walk(all, first, |above, at| search.step(above, at));
                }
            }
            let allowed = std::mem::take(&mut search.allowed);
            let count: usize = allowed.iter().map(ExactSizeIterator::len).sum();
            match &mut many {
                None if few.len() + count <= FEW => few.extend(search.trie.at(&allowed)),
                many => {
                    let many = many.get_or_insert_with(|| of.common.env.tok_trie().alloc_token_set());
                    search.trie.allow(&allowed, many);
                }
            }
        }
        let Search { mut inside, bytes, found, ends, lexing, .. } = search;
        if inside.borders.iter().any(Border::is_whole) {
            inside.on = Some((0..=u8::MAX).filter(|byte| !lexing.behind(state, *byte).is_dead()).collect());
        }
        inside.tokens = match many {
            None => Tokens::Few(few),
            Some(mut many) => {
                few.into_iter().for_each(|token| many.allow_token(token));
                Tokens::Many(Mask::from_words(many.as_slice(), width))
            }
        };
        inside.ends = grouped(found, &bytes, ends);
        inside
    }

    /// Those that stay in the lexeme, where they are a list.
    pub(in crate::grammar) fn few(&self) -> Option<&[Token]> {
        match &self.tokens {
            Tokens::Few(few) => Some(few),
            Tokens::Many(_) => None,
        }
    }

    /// The mask of all these and some more tokens. Where only one of them has many tokens, returns that one, too, and adds the others' to
    /// `more`.
    pub(super) fn union(
        mut all: Vec<Arc<Self>>,
        more: &mut Vec<Token>,
        width: usize,
    ) -> (Mask, Option<Arc<Self>>) {
        let first = all.iter().position(|inside| inside.few().is_none()).unwrap_or(0);
        let base = all.swap_remove(first);
        all.retain(|inside| {
            more.extend(inside.few().into_iter().flatten());
            inside.few().is_none() && !Arc::ptr_eq(inside, &base)
        });
        let mut mask = base.with(more, width);
        for inside in &all {
            if let Tokens::Many(many) = &inside.tokens {
                mask.add(many);
            }
        }
        (mask, all.is_empty().then_some(base))
    }

    /// The mask with some more tokens.
    pub(in crate::grammar) fn with(&self, more: &[Token], width: usize) -> Mask {
        let mut mask = match &self.tokens {
            Tokens::Few(few) => Mask::of(few.iter().copied(), width),
            Tokens::Many(mask) => mask.clone(),
        };
        if !more.is_empty() {
            mask.allow(more.iter().copied());
        }
        mask
    }

    /// Memory, about.
    fn bytes(&self) -> usize {
        let tails = self.ends.iter().flat_map(|end| &end.tails);
        let each = |tail: &Tail| size_of::<Tail>() + tail.bytes.len() + size_of_val(&*tail.tokens);
        let tokens = match &self.tokens {
            Tokens::Few(few) => size_of_val(&**few),
            Tokens::Many(mask) => size_of_val(mask.words()),
        };
        size_of::<Self>() + tokens + tails.map(each).sum::<usize>()
    }
}

/// A token that is longer than the rest of the lexeme: the lexer state in which the lexeme ends, where the rest of the token's bytes lies,
/// and the token's id.
type Found = (u32, Range<usize>, Token);

/// Groups tokens by where the lexeme ends and by the rest of their bytes, which are in `bytes`. `paths`: bytes of the lexeme to each end.
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

struct Search<'a> {
    /// The trie's number.
    number: usize,
    trie: &'a Trie,
    lexing: &'a mut Lexing,
    /// Those that stay in the lexeme, by their places among the trie's tokens.
    allowed: Vec<Range<usize>>,
    inside: Inside,
    /// Of tails.
    bytes: Vec<u8>,
    found: Vec<Found>,
    /// Bytes of the lexeme to each of those states.
    ends: AHashMap<u32, Vec<u8>>,
    /// By lexer state, the kinds of bytes that were tried, and those that leave the lexer in the same state.
    stays: Vec<(Kinds, Kinds)>,
}

/// A lexer state, and whether tokens that end the lexeme in it are checked anew for each row.
type Place = (StateID, bool);

impl Search<'_> {
    /// Allows the tokens of these nodes. The calls come in the order of the nodes.
    fn allow(&mut self, nodes: Range<usize>) {
        let tokens = self.trie.places(nodes);
        match self.allowed.last_mut() {
            Some(last) if last.end == tokens.start => last.end = tokens.end,
            _ if tokens.is_empty() => {}
            _ => self.allowed.push(tokens),
        }
    }

    /// Follows listed texts, which are sorted and of which none begins another. No states of the lexer are needed for that.
    fn along(&mut self, state: StateID, texts: &[Box<[u8]>]) {
        let (mut nodes, mut last): (Vec<usize>, &[u8]) = (Vec::new(), &[]);
        for text in texts {
            let shared = last.iter().zip(text).take_while(|(a, b)| a == b).count();
            last = text;
            if nodes.len() < shared {
                // The trie has not even what both have in common.
                continue;
            }
            nodes.truncate(shared);
            while let Some(byte) = text.get(nodes.len()) {
                let Some(at) = self.trie.child(nodes.last().copied(), *byte) else { break };
                nodes.push(at);
                if nodes.len() < text.len() {
                    self.allow(at..at + 1);
                    continue;
                }
                let below = at + 1..self.trie.nodes()[at].end as usize;
                if below.len() > MANY {
                    self.push_border(below, true);
                } else {
                    let end = text.iter().fold(state, |state, byte| self.lexing.behind(state, *byte));
                    self.beyond(end, at, text.len());
                }
            }
        }
    }

    /// Steps from a place to the trie node `at` below it. None if the node's byte does not continue the lexeme.
    fn step(&mut self, (state, is_border): Place, at: usize) -> Option<Place> {
        let node = self.trie.nodes()[at];
        let (below, depth) = (at + 1..node.end as usize, usize::from(node.depth));
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
            Step::Unknown => self.inside.is_unknown = true,
            Step::Behind | Step::Refused => {}
        }
        None
    }

    /// Whether the lexer stays in a state through all bytes below a node.
    fn stays_below(&mut self, state: StateID, at: usize) -> bool {
        // This tells for most states.
        let first = self.trie.nodes()[at + 1].byte;
        if first.is_ascii() && !self.stays_at(state, first) {
            return false;
        }
        self.trie.kinds_below(at).is_some_and(|kinds| self.stays(state, kinds))
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

    /// Notes nodes that are walked for each row, where the lexeme may end before them.
    fn border(&mut self, nodes: Range<usize>, state: StateID) -> bool {
        let is_border = nodes.len() > MANY && self.lexing.ended(state).is_some();
        if is_border {
            self.push_border(nodes, false);
        }
        is_border
    }

    fn push_border(&mut self, nodes: Range<usize>, is_last: bool) {
        let path = nodes.start.checked_sub(1).map(|above| self.trie.path(above)).unwrap_or_default();
        self.inside.borders.push(Border { trie: self.number, nodes, path, is_last });
    }

    /// Lists the tokens of a node and those below it. The first `depth` bytes of each end the lexeme.
    fn beyond(&mut self, end: StateID, at: usize, depth: usize) {
        let mut path: Vec<u8> = Vec::new();
        let (trie, nodes) = (self.trie, self.trie.nodes());
        self.ends.entry(end.as_u32()).or_insert_with(|| trie.path(at)[..depth].to_vec());
        for (at, node) in nodes[..nodes[at].end as usize].iter().enumerate().skip(at) {
            let below = usize::from(node.depth) - depth;
            if below > 0 {
                path.truncate(below - 1);
                path.push(node.byte);
            }
            let (begin, tokens) = (self.bytes.len(), self.trie.tokens(at));
            if !tokens.is_empty() {
                self.bytes.extend_from_slice(&path);
                let found = tokens.iter().map(|token| (end.as_u32(), begin..self.bytes.len(), *token));
                self.found.extend(found);
            }
        }
    }
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").field("ends", &self.ends.len()).finish_non_exhaustive()
    }
}
