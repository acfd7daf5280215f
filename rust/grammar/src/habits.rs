//! What came next in earlier texts under a grammar, lately: in the same state, or else behind the same token. It is only a
//! proposal: whoever drafts by it has it verified.
//!
//! It tells white space as a model writes it, the optional key that follows, the end of a list, and how a tokenizer cuts all
//! of these. Clients do not learn from each other.

use super::Client;
use super::ending::State;
use super::mask::Mask;
use crate::types::Token;
use quick_cache::sync::Cache;

/// States and tokens that are remembered, each, for all grammars of a compiler; some 20 MiB together.
const MOST: usize = 1 << 16;
/// Share of what was seen in a place that is left when the place is seen again.
const MEMORY: f32 = 0.8;
/// Tokens that are remembered of a place.
const TOKENS: usize = 4;

/// What came next, by state and by token.
#[derive(Debug)]
pub(super) struct Habits {
    states: Cache<(State, Client), Habit>,
    pairs: Cache<(Option<Token>, Client), Habit>,
}

/// The tokens that came most in a place, with how often they and all tokens did: each time weighs less than the next.
#[derive(Debug, Clone, Copy, Default)]
struct Habit {
    tokens: [(Token, f32); TOKENS],
    all: f32,
}

impl Habit {
    fn note(&mut self, token: Token) {
        self.tokens.iter_mut().for_each(|(_, weight)| *weight *= MEMORY);
        self.all = self.all * MEMORY + 1.0;
        let known = self.tokens.iter().position(|(known, weight)| *known == token && *weight > 0.0);
        let place = known.unwrap_or(TOKENS - 1);
        if known.is_none() {
            self.tokens[place] = (token, 0.0);
        }
        self.tokens[place].1 += 1.0;
        self.tokens.sort_by(|a, b| b.1.total_cmp(&a.1));
    }

    /// The token that came more often than all others that may come now, and one unknown one: once is no habit.
    fn usual(&self, mask: &Mask) -> Option<Token> {
        let out = self.tokens.iter().filter(|(token, _)| !mask.allows(*token));
        let all = self.all - out.map(|(_, weight)| weight).sum::<f32>();
        let first = self.tokens.iter().find(|(token, _)| mask.allows(*token))?;
        (first.1 * 2.0 > all + 1.0).then_some(first.0)
    }
}

impl Habits {
    /// Nothing is known.
    pub(super) fn new() -> Self {
        Habits { states: Cache::new(MOST), pairs: Cache::new(MOST) }
    }

    /// Takes the token that came in a state of a text of this client.
    pub(super) fn note(&self, state: State, client: Client, token: Token) {
        let key = (state.behind_any(), client);
        let mut habit = self.states.get(&key).unwrap_or_default();
        habit.note(token);
        self.states.insert(key, habit);
        let key = (state.last(), client);
        let mut habit = self.pairs.get(&key).unwrap_or_default();
        habit.note(token);
        self.pairs.insert(key, habit);
    }

    /// What is likely to come in a state with this mask. Nothing is where most tokens may come, as within a string: what came
    /// there before says little.
    pub(super) fn usual(&self, state: State, client: Client, mask: &Mask) -> Option<Token> {
        if mask.count() * 2 > mask.len() {
            return None;
        }
        match self.states.get(&(state.behind_any(), client)) {
            Some(habit) => habit.usual(mask),
            None => self.pairs.get(&(state.last(), client))?.usual(mask),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(came: &[Token], may: &[Token]) -> Option<Token> {
        let mut habit = Habit::default();
        came.iter().for_each(|token| habit.note(*token));
        habit.usual(&Mask::of(may.iter().copied(), 100))
    }

    #[test]
    fn the_usual_token_came_more_often_than_all_others_lately() {
        assert_eq!(usual(&[], &[0, 1]), None);
        assert_eq!(usual(&[0], &[0, 1]), None);
        assert_eq!(usual(&[5, 5], &[0, 5]), Some(5));
        assert_eq!(usual(&[7, 7, 7, 7, 8], &[7, 8]), Some(7));
        assert_eq!(usual(&[7, 8, 8, 8], &[7, 8]), Some(8));
        assert_eq!(usual(&[1, 2, 3, 1, 2, 3], &[1, 2, 3]), None);
        // Of those that may come.
        assert_eq!(usual(&[7, 7, 8, 8], &[8, 9]), Some(8));
        assert_eq!(usual(&[7, 7, 7], &[8, 9]), None);
        // Rare ones make room.
        assert_eq!(usual(&[1, 2, 3, 4, 5, 5, 5, 5], &[1, 2, 3, 4, 5]), Some(5));
        assert_eq!(usual(&[1, 2, 3, 4, 5, 6, 5, 7], &[1, 2, 3, 4, 5, 6, 7]), None);
    }
}
