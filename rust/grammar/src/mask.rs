//! What may come next: a set of tokens as a bitset over the vocabulary, or anything.

use crate::types::Token;
use std::sync::Arc;

/// Allowed tokens: bit `t % 32` of word `t / 32`. Copies share the words until one is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask {
    words: Arc<Vec<u32>>,
    len: usize,
}

impl Mask {
    /// A mask of `len` tokens with all allowed.
    pub fn all(len: usize) -> Self {
        Mask::from_words(&vec![u32::MAX; len.div_ceil(32)], len)
    }

    /// A mask of `len` tokens with none allowed.
    pub fn none(len: usize) -> Self {
        Mask { words: Arc::new(vec![0; len.div_ceil(32)]), len }
    }

    /// A mask of `len` tokens with these allowed.
    pub fn of(tokens: impl IntoIterator<Item = Token>, len: usize) -> Self {
        let mut mask = Mask::none(len);
        mask.allow(tokens);
        mask
    }

    /// The same set over `len` tokens; engines may pad their logits rows past the vocabulary.
    pub fn widened(self, len: usize) -> Self {
        if len == self.len {
            return self;
        }
        let mut words = Arc::unwrap_or_clone(self.words);
        words.resize(len.div_ceil(32).max(words.len()), 0);
        Mask::from_words(&words, len)
    }

    /// A mask over `len` tokens from words; spare words and bits past `len` are dropped.
    pub fn from_words(words: &[u32], len: usize) -> Self {
        let mut words = words[..len.div_ceil(32)].to_vec();
        if !len.is_multiple_of(32)
            && let Some(last) = words.last_mut()
        {
            *last &= (1 << (len % 32)) - 1;
        }
        Mask { words: Arc::new(words), len }
    }

    /// Number of tokens it speaks about.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it speaks about no tokens at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the token is allowed; false past the end.
    pub fn allows(&self, token: Token) -> bool {
        let t = token as usize;
        t < self.len && self.words[t / 32] >> (t % 32) & 1 == 1
    }

    /// Allows or forbids a token; past the end it does nothing.
    pub fn set(&mut self, token: Token, allowed: bool) {
        let t = token as usize;
        // Words that others share are copied only for a change.
        if t < self.len && self.allows(token) != allowed {
            Arc::make_mut(&mut self.words)[t / 32] ^= 1 << (t % 32);
        }
    }

    /// Allows these tokens, too; those past the end are left out.
    pub fn allow(&mut self, tokens: impl IntoIterator<Item = Token>) {
        let len = self.len;
        let words = Arc::make_mut(&mut self.words);
        for t in tokens.into_iter().map(|token| token as usize).filter(|t| *t < len) {
            words[t / 32] |= 1 << (t % 32);
        }
    }

    /// Allows the tokens of another mask over as many tokens, too.
    pub(crate) fn add(&mut self, other: &Mask) {
        let words = Arc::make_mut(&mut self.words);
        words.iter_mut().zip(other.words.iter()).for_each(|(own, word)| *own |= word);
    }

    /// Forbids the tokens of another mask over as many tokens.
    pub(crate) fn remove(&mut self, other: &Mask) {
        let words = Arc::make_mut(&mut self.words);
        words.iter_mut().zip(other.words.iter()).for_each(|(own, word)| *own &= !word);
    }

    /// Number of allowed tokens.
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether no token is allowed.
    pub fn is_none(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The allowed tokens, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Token> + '_ {
        let some = self.words.iter().enumerate().filter(|(_, w)| **w != 0);
        some.flat_map(|(i, &w)| {
            let mut w = w;
            std::iter::from_fn(move || {
                if w == 0 {
                    return None;
                }
                let b = w.trailing_zeros();
                w &= w - 1;
                Some(i as Token * 32 + b)
            })
        })
    }

    /// The only allowed token, if there is exactly one.
    pub fn single(&self) -> Option<Token> {
        let mut it = self.iter();
        let first = it.next()?;
        it.next().is_none().then_some(first)
    }

    /// The words, for loops that go word by word.
    pub fn words(&self) -> &[u32] {
        &self.words
    }
}

/// What may come next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Anything; `end`: end tokens, too.
    Any {
        /// The text may end here.
        end: bool,
    },
    /// These tokens.
    Only(Mask),
}

impl Next {
    /// The tokens, where not all may come.
    pub fn mask(&self) -> Option<&Mask> {
        match self {
            Next::Any { .. } => None,
            Next::Only(mask) => Some(mask),
        }
    }

    /// Whether a token that ends no text may come.
    pub fn allows(&self, token: Token) -> bool {
        self.mask().is_none_or(|mask| mask.allows(token))
    }

    /// The only token that may come, if there is exactly one.
    pub fn single(&self) -> Option<Token> {
        self.mask().and_then(Mask::single)
    }

    /// Whether end tokens are left out of what else has no bounds.
    pub fn goes_on(&self) -> bool {
        *self == Next::Any { end: false }
    }

    /// As [`Mask::widened`].
    pub fn widened(self, len: usize) -> Self {
        match self {
            Next::Only(mask) => Next::Only(mask.widened(len)),
            any => any,
        }
    }
}

impl From<Mask> for Next {
    fn from(mask: Mask) -> Self {
        Next::Only(mask)
    }
}
