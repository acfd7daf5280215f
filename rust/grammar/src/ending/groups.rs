//! The tokens that may come, by where the text is behind them.

use super::inside::Begin;
use super::places::{Known, Spot};
use super::{Ending, Endings};
use crate::mask::Mask;
use crate::types::Token;
use ahash::{AHashMap, AHashSet};

/// Tokens that lead to one place.
pub(crate) struct Group {
    pub(crate) tokens: Vec<Token>,
    /// Whether bytes are forced there.
    pub(crate) is_forced: bool,
}

impl Ending {
    /// The most of the fewest bytes that complete the text behind a token of its mask, `ends` aside. None where that cannot be told.
    pub(crate) fn reach(&self, of: &Endings, mask: (&Mask, &[Token])) -> Option<usize> {
        if self.at.is_lost {
            return None;
        }
        self.places.known().reach(of, self.at.spot, mask)
    }

    /// Tokens that may come, by where the text is behind them. None where that cannot be told.
    pub(crate) fn groups(&self, of: &Endings, tokens: impl Iterator<Item = Token>) -> Option<Vec<Group>> {
        if self.at.is_lost {
            return None;
        }
        self.places.known().groups(of, self.at.spot, tokens)
    }
}

impl Known {
    /// The most of the fewest bytes that complete the text behind a token of its mask. None beyond a limit.
    pub(super) fn reach(
        &mut self,
        of: &Endings,
        spot: Spot,
        (mask, ends): (&Mask, &[Token]),
    ) -> Option<usize> {
        self.begin_step(of);
        self.lexing.set_fuel(u64::MAX);
        let mut looked_at = mask.clone();
        let mut leading = Vec::new();
        if let [alone] = &self.lexing.apart(spot.state)[..]
            && alone.state == spot.state
        {
            // Tokens that stay in the lexeme lead to few places, whatever the row is.
            let here = self.here(of, Begin::at(spot.state));
            leading.extend(here.inside.leading(&mut self.lexing, spot.state, &of.common.vocab));
            here.inside.many().into_iter().for_each(|many| looked_at.remove(many));
        }
        let others = looked_at.iter().filter(|token| !ends.contains(token));
        let mut places = AHashSet::new();
        let mut reach = 0;
        for token in leading.into_iter().chain(others) {
            self.rows.begin_work();
            let behind = self.take(of, spot, token)?;
            if places.insert(behind) {
                reach = reach.max(self.least(of, behind)? as usize);
            }
        }
        (!self.is_unknown && !self.lexing.has_failed()).then_some(reach)
    }

    /// All groups, in the order of the first token of each. None beyond a limit.
    pub(super) fn groups(
        &mut self,
        of: &Endings,
        spot: Spot,
        tokens: impl Iterator<Item = Token>,
    ) -> Option<Vec<Group>> {
        self.begin_step(of);
        self.lexing.set_fuel(u64::MAX);
        let (mut places, mut groups) = (AHashMap::new(), Vec::<(Spot, Vec<Token>)>::new());
        for token in tokens {
            self.rows.begin_work();
            let behind = self.take(of, spot, token)?;
            let at = *places.entry(behind).or_insert_with(|| {
                groups.push((behind, Vec::new()));
                groups.len() - 1
            });
            groups[at].1.push(token);
        }
        let mut list = Vec::with_capacity(groups.len());
        for (spot, tokens) in groups {
            let is_forced = of.cuts_forced() && !self.forced(of, spot)?.0.is_empty();
            list.push(Group { tokens, is_forced });
        }
        (!self.is_unknown && !self.lexing.has_failed()).then_some(list)
    }

    /// The fewest bytes that complete the text.
    pub(super) fn least(&mut self, of: &Endings, spot: Spot) -> Option<u32> {
        if self.is_whole(spot) { Some(0) } else { self.nearest(of, spot).map(|(least, ..)| least) }
    }
}
