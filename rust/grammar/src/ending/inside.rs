//! What a lexer state allows, whatever the Earley row is: the tokens that stay within the lexeme, and the tokens that end it,
//! grouped by the bytes that they have after its end. The values of many keys are in the same lexer state, so this is computed
//! once, and for each row only the bytes after the end are checked. It depends on what may follow in the lexeme, not on the grammar,
//! so that grammars with the same terminals share it; states of a lexer are written as the bytes that lead to them.
//!
//! If many tokens continue a text in which the lexeme has ended, their bytes are not listed. The text is a [`Border`], and another
//! [`Inside`] says which of these tokens the next lexeme allows.

use super::Endings;
use super::automata::Residual;
use super::lexing::Lexing;
use super::search::{Border, End, Search, Tail};
use crate::mask::Mask;
use crate::types::Token;
use crate::vocab::Vocab;
use ahash::AHashSet;
use llguidance::derivre::StateID;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// So many tokens or fewer are kept as a list.
const FEW: usize = 256;

/// Limits of the cache that grammars share: memory in bytes, and about how many entries.
const MOST_SHARED_BYTES: u64 = 64 << 20;
const MOST_SHARED: usize = 4_000;

enum Tokens {
    Few(Vec<Token>),
    Many(Mask),
}

/// Where the tokens of an [`Inside`] begin. `S` is a state of a lexer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Begin<S> {
    /// The state in which they begin.
    pub(super) state: S,
    /// The border that they are behind. None for whole tokens.
    pub(super) behind: Option<Behind<S>>,
}

/// The parts of tokens that follow a border.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Behind<S> {
    /// The trie's number.
    pub(super) trie: usize,
    /// The first node.
    pub(super) start: usize,
    /// The state of the lexeme that may end at the border. Tokens with a next byte that continues this lexeme are left out.
    /// `DEAD` if nothing can continue it.
    pub(super) ended: S,
}

impl<S> Begin<S> {
    /// The beginning of all tokens.
    pub(super) fn at(state: S) -> Self {
        Begin { state, behind: None }
    }
}

impl Begin<StateID> {
    /// The same place in terms that all grammars share. None if a state has lexemes that belong to this grammar only.
    pub(super) fn residual(self, lexing: &Lexing) -> Option<Begin<Residual>> {
        let behind = match self.behind {
            None => None,
            Some(Behind { trie, start, ended }) => {
                Some(Behind { trie, start, ended: lexing.residual(ended)? })
            }
        };
        Some(Begin { state: lexing.residual(self.state)?, behind })
    }
}

pub(crate) struct Inside {
    /// Those that stay in the lexeme.
    tokens: Tokens,
    pub(super) ends: Vec<End>,
    pub(super) borders: Vec<Border>,
    /// Where the lexeme may end here and a border has all of a trie: the bytes that go on with it all the same.
    pub(super) on: Option<Vec<u8>>,
    /// A lexeme was met of a kind that is not followed here.
    pub(super) is_unknown: bool,
    /// See [`Inside::leading`].
    leading: OnceLock<Vec<Token>>,
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
pub(super) type Insides = Cache<Begin<Residual>, Arc<Inside>, Weight>;

/// None yet.
pub(super) fn shared() -> Insides {
    Cache::with_weighter(MOST_SHARED, MOST_SHARED_BYTES, Weight)
}

#[derive(Clone)]
pub(super) struct Weight;

impl Weighter<Begin<Residual>, Arc<Inside>> for Weight {
    fn weight(&self, _: &Begin<Residual>, inside: &Arc<Inside>) -> u64 {
        inside.bytes() as u64
    }
}

impl Inside {
    pub(super) fn new(of: &Endings, lexing: &mut Lexing, begin: Begin<StateID>) -> Self {
        let Begin { state, behind } = begin;
        let (tries, slice) = match behind {
            None => of.begun(lexing, state),
            Some(Behind { trie, .. }) => (trie..trie + 1, None),
        };
        let listed = lexing.listed_apart(state);
        let width = of.common.vocab.len();
        let (mut few, mut many) = (Vec::new(), slice);
        let mut search = Search::new(&of.common.tries, lexing, begin);
        for number in tries {
            let allowed = search.tokens(number, listed.as_deref());
            let trie = &of.common.tries[number];
            let count: usize = allowed.iter().map(ExactSizeIterator::len).sum();
            match &mut many {
                None if few.len() + count <= FEW => few.extend(trie.at(&allowed)),
                many => {
                    let many = many.get_or_insert_with(|| of.common.env.tok_trie().alloc_token_set());
                    trie.allow(&allowed, many);
                }
            }
        }
        let (ends, borders, is_unknown) = search.finish();
        let goes_on = |byte: &u8| !lexing.behind(state, *byte).is_dead();
        let on = borders.iter().any(Border::is_whole).then(|| (0..=u8::MAX).filter(goes_on).collect());
        let tokens = match many {
            None => Tokens::Few(few),
            Some(mut many) => {
                few.into_iter().for_each(|token| many.allow_token(token));
                Tokens::Many(Mask::from_words(many.as_slice(), width))
            }
        };
        Inside { tokens, ends, borders, on, is_unknown, leading: OnceLock::new() }
    }

    /// Those that stay in the lexeme, where they are a list.
    pub(crate) fn few(&self) -> Option<&[Token]> {
        match &self.tokens {
            Tokens::Few(few) => Some(few),
            Tokens::Many(_) => None,
        }
    }

    /// Those that stay in the lexeme, where they are many.
    pub(super) fn many(&self) -> Option<&Mask> {
        match &self.tokens {
            Tokens::Few(_) => None,
            Tokens::Many(many) => Some(many),
        }
    }

    /// Of those, one for each state of the lexer that they lead to. `state`: where they begin.
    pub(super) fn leading(&self, lexing: &mut Lexing, state: StateID, vocab: &Vocab) -> &[Token] {
        self.leading.get_or_init(|| {
            let mut reached = AHashSet::new();
            let mut behind = |token: &Token| {
                let bytes = vocab.bytes(*token);
                reached.insert(bytes.iter().fold(state, |state, byte| lexing.behind(state, *byte)))
            };
            self.many().into_iter().flat_map(Mask::iter).filter(|token| behind(token)).collect()
        })
    }

    /// Adds those that stay in the lexeme to a list.
    pub(super) fn add_to(&self, more: &mut Vec<Token>) {
        match &self.tokens {
            Tokens::Few(few) => more.extend(few),
            Tokens::Many(many) => more.extend(many.iter()),
        }
    }

    /// The mask with the tokens of all these and `more`. If at most one of them has many tokens, returns that one, too, and adds the tokens of
    /// the others to `more`.
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
    pub(crate) fn with(&self, more: &[Token], width: usize) -> Mask {
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

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").field("ends", &self.ends.len()).finish_non_exhaustive()
    }
}
