//! A cache by parser state, of masks and of how far the end is. Texts reach the same states again and again, and a second
//! request with the same schema reaches mostly states that the first one did.

use super::ending::{Allowed, Ending, Endings, Inside, State};
use super::mask::Mask;
use crate::types::Token;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::{Arc, Weak};

/// Most memory for all masks, in bytes. A mask of 128,000 tokens takes 16 KiB.
const MOST_BYTES: u64 = 64 << 20;
/// Most lengths of ways to the end; one takes about 64 bytes.
const MOST_LENGTHS: usize = 1 << 18;
/// A mask with at most so many tokens is kept as a list of them.
const FEW: usize = 64;

/// Masks of all grammars of a compiler.
#[derive(Debug)]
pub(super) struct Masks {
    entries: Cache<State, Entry, Weight>,
    lengths: Cache<State, u32>,
    reaches: Cache<State, u32>,
    width: usize,
}

#[derive(Debug, Clone)]
enum Entry {
    /// Bytes are forced here, so the mask depends on the token before and has an entry of its own for each.
    Forced,
    Few(Box<[Token]>),
    /// The tokens of an [`Inside`], which others own and may drop, and more tokens.
    Near(Weak<Inside>, Box<[Token]>),
    Many(Mask),
}

#[derive(Debug, Clone)]
struct Weight;

impl Weighter<State, Entry> for Weight {
    fn weight(&self, _: &State, entry: &Entry) -> u64 {
        let more = match entry {
            Entry::Forced => 0,
            Entry::Few(list) | Entry::Near(_, list) => size_of_val(&**list),
            Entry::Many(mask) => size_of_val(mask.words()),
        };
        // 128 bytes: about what an entry takes in the table.
        (128 + more) as u64
    }
}

impl Masks {
    /// An empty cache for masks of `width` tokens.
    pub(super) fn new(width: usize) -> Self {
        let each = 128 + width as u64 / 8;
        let entries = Cache::with_weighter((MOST_BYTES / each) as usize, MOST_BYTES, Weight);
        Masks { entries, lengths: Cache::new(MOST_LENGTHS), reaches: Cache::new(MOST_LENGTHS), width }
    }

    /// Tokens of the way to the end from a state, where they are known.
    pub(super) fn length(&self, state: State) -> Option<u32> {
        self.lengths.get(&state)
    }

    /// Notes them.
    pub(super) fn put_length(&self, state: State, tokens: u32) {
        self.lengths.insert(state, tokens);
    }

    /// Tokens, at most, of the way to the end behind any token that may come in a state, where they are known.
    pub(super) fn reach(&self, state: State) -> Option<u32> {
        self.reaches.get(&state)
    }

    /// Notes them.
    pub(super) fn put_reach(&self, state: State, tokens: u32) {
        self.reaches.insert(state, tokens);
    }

    /// The mask for the next token of a text, from the cache or computed. None where our states cannot tell it.
    pub(super) fn of(&self, text: &Ending, of: &Endings) -> Option<Mask> {
        let state = text.state();
        if let Some(mask) = self.get(state) {
            return Some(mask);
        }
        let allowed = text.allowed(of)?;
        self.put(state, &allowed);
        Some(allowed.mask)
    }

    fn get(&self, state: State) -> Option<Mask> {
        let entry = match self.entries.get(&state.behind_any())? {
            Entry::Forced => self.entries.get(&state)?,
            entry => entry,
        };
        match entry {
            Entry::Forced => None,
            Entry::Few(list) => Some(Mask::of(list, self.width)),
            Entry::Near(inside, more) => Some(inside.upgrade()?.with(&more, self.width)),
            Entry::Many(mask) => Some(mask),
        }
    }

    /// Adds what may come in a state.
    pub(super) fn put(&self, state: State, allowed: &Allowed) {
        let state = if allowed.is_forced {
            self.entries.insert(state.behind_any(), Entry::Forced);
            state
        } else {
            state.behind_any()
        };
        let few = match &allowed.near {
            Some((inside, more)) => inside.few().map(|few| [few, more.as_slice()].concat()),
            None => Some(allowed.mask.iter().take(FEW + 1).collect()),
        };
        let entry = match (few.filter(|few| few.len() <= FEW), &allowed.near) {
            (Some(few), _) => Entry::Few(few.into()),
            (None, Some((inside, more))) if size_of_val(&**more) < size_of_val(allowed.mask.words()) / 2 => {
                Entry::Near(Arc::downgrade(inside), more.as_slice().into())
            }
            _ => Entry::Many(allowed.mask.clone()),
        };
        self.entries.insert(state, entry);
    }
}
