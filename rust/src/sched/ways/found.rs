//! How much is drafted where drafts are asked for.

use crate::sequence::{Acceptance, fade};

/// Sums in which each draft weighs less than the next.
#[derive(Debug)]
pub(super) struct Found {
    asks: f64,
    found: f64,
    /// Tokens that were asked for where something was found.
    asked: f64,
    drafted: f64,
}

impl Default for Found {
    /// As if everything that was asked for had been found a few times.
    fn default() -> Self {
        Found { asks: 2.0, found: 2.0, asked: 10.0, drafted: 10.0 }
    }
}

impl Found {
    /// How often anything is found, at most 1.
    pub(super) fn often(&self) -> f64 {
        (self.found / self.asks).min(1.0)
    }

    /// How much of what was asked for is there where anything is found, at most 1.
    pub(super) fn share(&self) -> f64 {
        (self.drafted / self.asked).min(1.0)
    }

    pub(super) fn learn(&mut self, asked: u32, drafted: u32) {
        let more = |sum: &mut f64, new: f64| fade(sum, Acceptance::OF_ALL, new);
        more(&mut self.asks, 1.0);
        more(&mut self.found, f64::from(drafted.min(1)));
        if drafted > 0 {
            more(&mut self.asked, f64::from(asked));
            more(&mut self.drafted, f64::from(drafted));
        }
    }
}
