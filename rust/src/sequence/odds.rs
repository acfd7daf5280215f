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
    const UNKNOWN: Odds = Odds { first: 0.7, next: 0.7 };

    /// As they may be where they are doubted: fully, half as many are refused.
    pub fn hoped(self, doubt: f64) -> Odds {
        let better = |odds: f64| 1.0 - (1.0 - odds) / (1.0 + doubt);
        Odds { first: better(self.first), next: better(self.next) }
    }
}

/// How often drafted tokens of one source were accepted, of one sequence or of all. Sums in which each round weighs less
/// than the next.
#[derive(Debug, Clone, Copy, Default)]
pub struct Acceptance {
    rounds: f64,
    first: f64,
    next: f64,
    stopped: f64,
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
        for sum in [&mut self.rounds, &mut self.first, &mut self.next, &mut self.stopped] {
            *sum *= memory;
        }
    }

    /// What is likely of all sequences.
    pub fn of_all(&self) -> Odds {
        self.of_one(Odds::UNKNOWN)
    }

    /// What is likely of one sequence, where `expected` is of all.
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
        let (parts, whole) = (parts.of_all(), whole.of_all());
        assert!((parts.first - whole.first).abs() < 0.02 && parts.first > 0.4, "{parts:?}, {whole:?}");
    }
}
