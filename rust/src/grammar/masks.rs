//! Masks by the state that they were computed in: texts come to the same states again, the next request with the same schema to
//! nearly all of them.

use super::ending::{Allowed, Ending, Endings, Inside, State};
use super::mask::Mask;
use crate::error::Result;
use crate::types::Token;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::{Arc, Weak};

/// Memory of all masks. One of a vocabulary of 128,000 tokens takes 16 KiB.
const MOST_BYTES: u64 = 64 << 20;
/// Tokens up to which a mask is kept as a list.
const FEW: usize = 64;

/// Masks of all grammars of a compiler.
#[derive(Debug)]
pub(super) struct Masks {
    known: Cache<State, Known, Weight>,
    width: usize,
}

#[derive(Debug, Clone)]
enum Known {
    /// Forced tokens, which depend on the token before.
    Forced,
    Few(Box<[Token]>),
    /// What a lexeme allows, while that is known, and some more.
    Near(Weak<Inside>, Box<[Token]>),
    Many(Mask),
}

#[derive(Debug, Clone)]
struct Weight;

impl Weighter<State, Known> for Weight {
    fn weight(&self, _: &State, known: &Known) -> u64 {
        let more = match known {
            Known::Forced => 0,
            Known::Few(list) | Known::Near(_, list) => size_of_val(&**list),
            Known::Many(mask) => size_of_val(mask.words()),
        };
        // What an entry takes in the table, about.
        (128 + more) as u64
    }
}

impl Masks {
    /// None so far; `width` of each.
    pub(super) fn new(width: usize) -> Self {
        let each = 128 + width as u64 / 8;
        Masks { known: Cache::with_weighter((MOST_BYTES / each) as usize, MOST_BYTES, Weight), width }
    }

    /// The mask behind a text; `other` tells it where that can't be told from its state.
    pub(super) fn of(
        &self,
        text: &Ending,
        of: &Endings,
        other: impl FnOnce() -> Result<Allowed>,
    ) -> Result<Mask> {
        let state = text.state();
        if let Some(mask) = self.get(state) {
            return Ok(mask);
        }
        let allowed = text.allowed(of).map_or_else(other, Ok)?;
        self.put(state, &allowed);
        Ok(allowed.mask)
    }

    /// The mask in this state, if it is known.
    fn get(&self, state: State) -> Option<Mask> {
        let known = match self.known.get(&state.behind_any())? {
            Known::Forced => self.known.get(&state)?,
            known => known,
        };
        match known {
            Known::Forced => None,
            Known::Few(list) => {
                let mut mask = Mask::none(self.width);
                list.iter().for_each(|token| mask.set(*token, true));
                Some(mask)
            }
            Known::Near(inside, more) => Some(inside.upgrade()?.with(&more, self.width)),
            Known::Many(mask) => Some(mask),
        }
    }

    /// Notes what may come in this state.
    fn put(&self, state: State, allowed: &Allowed) {
        let state = if allowed.is_forced {
            self.known.insert(state.behind_any(), Known::Forced);
            state
        } else {
            state.behind_any()
        };
        let few: Vec<Token> = allowed.mask.iter().take(FEW + 1).collect();
        let known = match &allowed.near {
            _ if few.len() <= FEW => Known::Few(few.into()),
            Some((inside, more)) if size_of_val(&**more) < size_of_val(allowed.mask.words()) / 2 => {
                Known::Near(Arc::downgrade(inside), more.as_slice().into())
            }
            _ => Known::Many(allowed.mask.clone()),
        };
        self.known.insert(state, known);
    }
}
