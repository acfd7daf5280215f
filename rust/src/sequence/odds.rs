//! How drafted tokens are accepted, learned from rounds.

/// Share of what was seen that is left a round later: of one sequence, and of all.
const MEMORY: (f64, f64) = (0.95, 0.99);
/// Rounds, and tokens beyond a round's first, that what is expected weighs as much as: a sequence's first refusal should not
/// end its drafts.
const WEIGHT: f64 = 2.5;

/// Probabilities that drafted tokens are accepted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Odds {
    /// That the first token is drafted at all, and accepted.
    pub first: f64,
    /// That one more is, after an accepted one.
    pub next: f64,
}

impl Odds {
    /// Of tokens that are always accepted.
    pub const SURE: Odds = Odds { first: 1.0, next: 1.0 };
    /// Expected where nothing is known.
    pub const UNKNOWN: Odds = Odds { first: 0.7, next: 0.7 };
    /// As those of a good draft model are.
    pub const HOPED: Odds = Odds { first: 0.9, next: 0.9 };
}

/// How often drafted tokens of one source were accepted, of one sequence or of all. Sums in which each round weighs less
/// than the next.
#[derive(Debug, Clone, Copy, Default)]
pub struct Acceptance {
    rounds: f64,
    first: f64,
    next: f64,
    stopped: f64,
    drafted: f64,
    drawn: f64,
}

impl Acceptance {
    /// Takes a round of one sequence in which `accepted` tokens were kept; `stopped`: the draft reached further, or ended
    /// before it should have.
    pub fn learn(&mut self, accepted: u32, stopped: bool) {
        self.add(accepted, stopped, (MEMORY.0, 1.0));
    }

    /// The same, among all sequences' rounds, of which it counts for `share`, 0 to 1.
    pub fn learn_of_all(&mut self, accepted: u32, stopped: bool, share: f64) {
        self.add(accepted, stopped, (MEMORY.1, share));
    }

    fn add(&mut self, accepted: u32, stopped: bool, (memory, share): (f64, f64)) {
        self.fade(memory.powf(share));
        self.rounds += share;
        self.first += share * f64::from(accepted.min(1));
        if accepted > 0 {
            self.next += share * f64::from(accepted - 1);
            self.stopped += share * f64::from(u8::from(stopped));
        }
    }

    /// Takes a token without a draft: what was refused some sentences before says little of what comes.
    pub fn idle(&mut self) {
        self.fade(MEMORY.1);
    }

    fn fade(&mut self, memory: f64) {
        let Acceptance { rounds, first, next, stopped, drafted, drawn } = self;
        for sum in [rounds, first, next, stopped, drafted, drawn] {
            *sum *= memory;
        }
    }

    /// Takes that a model drew so many tokens for those that it drafted in a round: fewer where a grammar forced some, more
    /// where its own are shorter, or the last ones were not to be drafted.
    pub fn learn_drawn(&mut self, drafted: u32, drawn: u32) {
        self.drafted += f64::from(drafted.max(1));
        self.drawn += f64::from(drawn);
    }

    /// Passes of the model for each token that it drafts.
    pub fn passes(&self) -> f64 {
        (self.drawn + WEIGHT) / (self.drafted + WEIGHT)
    }

    /// What is likely, where `expected` is expected.
    pub fn of_one(&self, expected: Odds) -> Odds {
        // Nothing is certain.
        let rate =
            |yes: f64, all: f64, expected: f64| ((yes + WEIGHT * expected) / (all + WEIGHT)).clamp(0.0, 0.98);
        let first = rate(self.first, self.rounds, expected.first);
        // Whoever is worse than expected at the first token is likely to be at the others.
        let next = expected.next * (first / expected.first.max(1e-9)).min(1.0);
        Odds { first, next: rate(self.next, self.next + self.stopped, next) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_parts_of_one_count_as_one() {
        let (mut parts, mut whole) = (Acceptance::default(), Acceptance::default());
        for _ in 0..20 {
            (0..128).for_each(|_| parts.learn_of_all(0, true, 1.0 / 128.0));
            parts.learn_of_all(3, false, 1.0);
            whole.learn_of_all(0, true, 1.0);
            whole.learn_of_all(3, false, 1.0);
        }
        let (parts, whole) = (parts.of_one(Odds::UNKNOWN), whole.of_one(Odds::UNKNOWN));
        assert!((parts.first - whole.first).abs() < 0.02 && parts.first > 0.4, "{parts:?}, {whole:?}");
    }
}
