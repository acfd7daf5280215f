//! How far drafts may reach in one step.
//!
//! A draft is never worth a preemption, a kept prefix or another sequence's tokens: it takes what they leave ([`Room`]).
//! Within that, the lengths of a step are those with the most expected tokens per second ([`Lengths`]); of about equal ones the shortest.
//!
//! No draft at all is preferred to lengths that promise less than a tenth more (`LEAST_GAIN`).
//!
//! Tokens: a sequence whose drafts are accepted with probability `a` per token emits `1 + a + … + a^k` of `k`; forced
//! tokens, which are known beforehand, count in full. Seconds: a table of whole steps, drafting included (but for what a
//! draft model that is far behind reads), by number of sequences and mean draft length, learned from the steps themselves; between measured lengths it is interpolated,
//! beyond the longest one it grows half as fast as before. So the first steps are the probe, [`FIRST`] tokens at first: an
//! optimistic guess is tried and corrected. For a number of sequences that was not drafted for yet the costs of the
//! nearest one hold, relative to a step without drafts ([`Prior`]): where rows are dear, a single step at the most tokens
//! takes as long as ten without drafts, and load changes the number all the time.
//! A probe of shapes before the first request would measure neither masks nor the split of ragged passes.
//! Now and then another length is measured again for a few steps, more and more rarely as long as it does not win.
//!
//! A draft model that would have to read a long prompt first is asked only where the time that it saves until the
//! sequence's likely end is more than the reading takes; one sequence in [`TRIAL`] is tried whatever it takes, so that
//! what is known stays true.
//!
//! Where ragged runs cost passes there is one length for all, evaluated for every length; else each sequence has its
//! own: the likeliest tokens of all sequences are added one by one, and the best number of them is taken.

use crate::sequence::Sequence;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What a step leaves to drafts.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Tokens of the step's budget, and rows of logits.
    pub tokens: u32,
    /// KV tokens that neither running sequences nor kept prefixes need.
    pub kv: u64,
    /// KV tokens that one slot may hold.
    pub per_slot: u32,
}

impl Room {
    /// An equal part for each of `n` sequences.
    pub fn split(self, n: usize) -> Room {
        let n = u32::try_from(n.max(1)).unwrap_or(u32::MAX);
        Room { tokens: self.tokens / n, kv: self.kv / u64::from(n), ..self }
    }

    /// Tokens that may be drafted for `sequence` out of this, at most `most`.
    pub fn of(&self, sequence: &Sequence, most: u32) -> u32 {
        let kv = u32::try_from(self.kv).unwrap_or(u32::MAX);
        let slot = self.per_slot.saturating_sub(sequence.known());
        sequence.draft_len(most).min(slot).min(self.tokens).min(kv)
    }
}

/// One sequence's prospects in a step.
#[derive(Debug, Clone, Copy)]
pub struct Prospect {
    /// Its forced tokens, which come first.
    pub forced: u32,
    /// Probability that a further token is accepted, given that those before it were.
    pub rate: f64,
    /// Most tokens that it may have drafted.
    pub most: u32,
}

impl Prospect {
    /// Probability that token `i`, counted from 0, is accepted.
    fn gain(&self, i: u32) -> f64 {
        match (i + 1).checked_sub(self.forced) {
            _ if i >= self.most => 0.0,
            None | Some(0) => 1.0,
            Some(beyond) => self.rate.powi(beyond.cast_signed()),
        }
    }
}

/// Steps of one length that are remembered.
const RECENT: usize = 8;
/// A drafted token costs at least this share of a step without drafts: masks, sampling, the row itself.
const LEAST_COST: f64 = 0.01;
/// Speeds that differ by less are taken for equal, and the shorter draft is chosen.
pub(super) const NOISE: f64 = 0.02;
/// Drafts that promise less more speed than this are left out: the best of many lengths, measured with errors, promises
/// more than it keeps, and never to be slower counts for more than the last tenth.
const LEAST_GAIN: f64 = 0.1;
/// Steps of one batch size from one look at another length to the next, at first and at most.
const LOOKS: (u32, u32) = (24, 1536);
/// Steps of a look where drafts pay: a single one may have been held up, and drafting goes on if that was the one without.
const LOOK_STEPS: u32 = 3;

/// Tokens that are drafted where nothing is known of longer drafts.
pub const FIRST: u32 = 2;
/// Beyond the longest measured length, each token is thought to cost this share of what the last ones did.
const BEYOND: f64 = 0.5;

/// What steps with drafts of 0, 1, 2, … tokens take, relative to 0, as far as other steps tell; empty where they don't.
pub type Prior = Vec<f64>;

/// The first so many sequences are tried, then one of so many, where drafts don't seem to pay.
pub const TRIAL: u64 = 16;

/// Seconds of the last [`RECENT`] steps of a length.
///
/// What holds a step up never makes it faster, and on a busy machine one step in five is held up, for as long as several
/// take. In a mean of a few such steps, some length always seems cheap: of two lengths that take the same, the better one
/// is the one that was lucky. So a length takes what its fastest steps did, but for one of eight, which may be an error.
#[derive(Debug, Default)]
struct Recent {
    seconds: VecDeque<f64>,
    cost: f64,
}

impl Recent {
    fn add(&mut self, seconds: f64) {
        if self.seconds.len() == RECENT {
            self.seconds.pop_front();
        }
        self.seconds.push_back(seconds);
        let mut sorted: Vec<f64> = self.seconds.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        self.cost = sorted[sorted.len() / RECENT];
    }
}

/// What is known of steps with about as many sequences.
#[derive(Debug, Default)]
struct Costs {
    /// Seconds by draft length (mean over the sequences, rounded).
    seconds: BTreeMap<u32, Recent>,
    /// Steps since the last look.
    since: u32,
    /// Steps from one look to the next.
    period: u32,
    looks: u32,
    /// A length that is looked at, and for how many steps more.
    looking: Option<(u32, u32)>,
    /// The best length when it was last looked for another.
    best: u32,
    /// Seconds that each token came earlier by the last choices than without drafts, a mean in which later ones weigh
    /// more; None where nothing is known.
    saved: Option<f64>,
}

impl Costs {
    /// Whether drafts were measured here.
    fn drafted(&self) -> bool {
        self.seconds.len() > 1 && self.seconds.contains_key(&0)
    }

    /// Seconds of a step with a mean draft length of `x`; where none was measured, as `prior` says.
    fn at(&self, x: f64, prior: &Prior) -> Option<f64> {
        let none = self.seconds.get(&0)?.cost;
        let floor = none * (1.0 + LEAST_COST * x);
        if !self.drafted() && prior.len() > x.ceil() as usize {
            let (low, high) = (prior[x.floor() as usize], prior[x.ceil() as usize]);
            return Some((none * (low + (high - low) * x.fract())).max(floor));
        }
        let below = self.seconds.range(..=x.floor() as u32).next_back();
        let above = self.seconds.range(x.ceil() as u32..).next();
        let seconds = match (below, above) {
            (Some((&a, low)), Some((&b, high))) if a < b => {
                low.cost + (high.cost - low.cost) * (x - f64::from(a)) / f64::from(b - a)
            }
            (_, Some((_, exact))) => exact.cost,
            // Optimistic, so that it is tried.
            (Some((&a, low)), None) => low.cost + BEYOND * self.slope() * (x - f64::from(a)),
            (None, None) => return None,
        };
        Some(seconds.max(floor))
    }

    /// Seconds that a token more took, between the two longest lengths measured.
    fn slope(&self) -> f64 {
        let mut longest = self.seconds.iter().rev();
        match (longest.next(), longest.next()) {
            (Some((&b, high)), Some((&a, low))) => ((high.cost - low.cost) / f64::from(b - a)).max(0.0),
            _ => 0.0,
        }
    }

    fn learn(&mut self, length: u32, seconds: f64) {
        self.seconds.entry(length).or_default().add(seconds);
    }
}

/// Chooses draft lengths, and learns what they cost.
#[derive(Debug, Default)]
pub struct Lengths {
    /// By number of sequences, in classes.
    costs: BTreeMap<u32, Costs>,
}

impl Lengths {
    /// Lengths for the sequences of a step, `forced` tokens included. `ragged`: differing lengths cost nothing extra;
    /// `prior`: what holds where nothing was measured; `trial`: some tokens, even if none would pay.
    pub fn choose(&mut self, prospects: &[Prospect], ragged: bool, prior: &Prior, trial: bool) -> Vec<u32> {
        let longest = prospects.iter().map(|p| p.most).max().unwrap_or(0);
        let costs = self.costs.entry(class(prospects.len())).or_default();
        let uniform = |length: u32| prospects.iter().map(|p| p.most.min(length)).collect();
        if !costs.seconds.contains_key(&0) || longest == 0 {
            return uniform(0);
        }
        let (lengths, speed) = best_of(costs, prospects, ragged, prior);
        let best = if ragged { mean(&lengths) } else { lengths.iter().max().copied().unwrap_or(0) };
        if trial {
            return if best > 0 { lengths } else { uniform(FIRST) };
        }
        let alone = costs.at(0.0, prior).unwrap_or(f64::INFINITY) / prospects.len() as f64;
        if costs.drafted() {
            let saved = (alone - 1.0 / speed).max(0.0);
            costs.saved = Some(costs.saved.map_or(saved, |mean| mean + 0.1 * (saved - mean)));
        }
        match costs.look(best, longest) {
            Some(other) => uniform(other),
            None => lengths,
        }
    }

    /// Tokens per second that the best lengths promise; 0 where nothing is known.
    pub fn expected(&self, prospects: &[Prospect], ragged: bool, prior: &Prior) -> f64 {
        let costs = self.costs.get(&class(prospects.len())).filter(|costs| costs.seconds.contains_key(&0));
        costs.map_or(0.0, |costs| best_of(costs, prospects, ragged, prior).1)
    }

    /// What so many sequences may cost, by the nearest number of them that was drafted for.
    pub fn prior(&self, sequences: usize, longest: u32) -> Prior {
        let wanted = class(sequences);
        let near = self.costs.iter().filter(|(_, costs)| costs.drafted());
        let Some((_, costs)) = near.min_by_key(|(class, _)| class.abs_diff(wanted)) else {
            return Vec::new();
        };
        let none = Vec::new();
        let at = |x: u32| costs.at(f64::from(x), &none).unwrap_or(f64::INFINITY);
        (0..=longest).map(|x| at(x) / at(0)).collect()
    }

    /// Whether drafts for one of `sequences` are worth a delay of so many seconds, if `tokens` are to come.
    pub fn pays(&self, sequences: usize, delay: f64, tokens: f64) -> bool {
        let saved = self.costs.get(&class(sequences)).and_then(|costs| costs.saved);
        saved.is_none_or(|saved| saved * tokens > delay)
    }

    /// Learns that a step of nothing but these drafts took this long.
    pub fn learn(&mut self, lengths: &[u32], took: Duration) {
        let costs = self.costs.entry(class(lengths.len())).or_default();
        costs.learn(mean(lengths), took.as_secs_f64());
    }
}

/// The lengths with the most tokens per second, and these.
fn best_of(costs: &Costs, prospects: &[Prospect], ragged: bool, prior: &Prior) -> (Vec<u32>, f64) {
    let known = costs.drafted() || !prior.is_empty();
    let most = |p: &Prospect| if known { p.most } else { p.most.min(FIRST) };
    let prospects: Vec<_> = prospects.iter().map(|p| Prospect { most: most(p), ..*p }).collect();
    if ragged {
        return spread(costs, &prospects, prior);
    }
    let longest = prospects.iter().map(|p| p.most).max().unwrap_or(0);
    let (best, speed) = evaluate(costs, &prospects, longest, prior);
    (prospects.iter().map(|p| p.most.min(best)).collect(), speed)
}

/// The one length with the most tokens per second, and these.
fn evaluate(costs: &Costs, prospects: &[Prospect], longest: u32, prior: &Prior) -> (u32, f64) {
    let mut tokens = prospects.len() as f64;
    let speed = |length: u32| {
        if length > 0 {
            tokens += prospects.iter().map(|p| p.gain(length - 1)).sum::<f64>();
        }
        tokens / costs.at(f64::from(length), prior).unwrap_or(f64::INFINITY)
    };
    let (best, speed) = shortest((0..=longest).map(speed).collect());
    (best as u32, speed)
}

/// A length for each sequence: the likeliest tokens first, up to the number of them with the most tokens per second; and
/// these.
fn spread(costs: &Costs, prospects: &[Prospect], prior: &Prior) -> (Vec<u32>, f64) {
    let mut lengths = vec![0; prospects.len()];
    let (mut order, mut speeds) = (Vec::new(), Vec::new());
    let mut tokens = prospects.len() as f64;
    loop {
        let mean = order.len() as f64 / prospects.len() as f64;
        speeds.push(tokens / costs.at(mean, prior).unwrap_or(f64::INFINITY));
        let gain = |i: &usize| prospects[*i].gain(lengths[*i]);
        let Some(next) = (0..prospects.len()).max_by(|a, b| gain(a).total_cmp(&gain(b))) else { break };
        if gain(&next) <= 0.0 {
            break;
        }
        tokens += gain(&next);
        lengths[next] += 1;
        order.push(next);
    }
    let (best, speed) = shortest(speeds);
    let mut chosen = vec![0; prospects.len()];
    order[..best].iter().for_each(|next| chosen[*next] += 1);
    (chosen, speed)
}

/// The first that is as good as the best, up to what measurements differ by anyhow; none, where the best is hardly better.
fn shortest(speeds: Vec<f64>) -> (usize, f64) {
    let best = speeds.iter().copied().fold(0.0, f64::max);
    if best < speeds[0] * (1.0 + LEAST_GAIN) {
        return (0, speeds[0]);
    }
    let first = speeds.iter().position(|speed| *speed >= best * (1.0 - NOISE)).unwrap_or(0);
    (first, speeds[first])
}

impl Costs {
    /// Another length than `best` to measure in this step, if it is time to.
    fn look(&mut self, best: u32, longest: u32) -> Option<u32> {
        if let Some((length, left)) = self.looking {
            self.looking = (left > 1).then_some((length, left - 1));
            return Some(length.min(longest));
        }
        if self.best.abs_diff(best) > 1 {
            (self.best, self.period) = (best, LOOKS.0);
        }
        self.period = self.period.max(LOOKS.0);
        self.since += 1;
        if self.since < self.period {
            return None;
        }
        self.since = 0;
        // Without drafts, what short ones would cost, from which that of longer ones follows; else twice as much, the
        // neighbours, and none.
        let others = match best {
            0 => [1, FIRST, 1, FIRST],
            _ => [best * 2, best + 1, best - 1, 0],
        };
        let other = others[self.looks as usize % others.len()].min(longest);
        self.looks += 1;
        // Where drafts pay, each of them is measured before looks become rarer; where they don't, looks are dear.
        if best == 0 || self.looks.is_multiple_of(others.len() as u32) {
            self.period = (self.period * 2).min(LOOKS.1);
        }
        if best > 0 && other != best {
            self.looking = Some((other, LOOK_STEPS - 1));
        }
        (other != best).then_some(other)
    }
}

fn mean(lengths: &[u32]) -> u32 {
    let sum: u32 = lengths.iter().sum();
    (f64::from(sum) / lengths.len().max(1) as f64).round() as u32
}

/// Up to 8 sequences one by one, then in classes a quarter apart.
fn class(sequences: usize) -> u32 {
    let n = sequences as u32;
    if n <= 8 {
        return n;
    }
    let power = n.ilog2();
    n >> (power - 2) << (power - 2)
}

#[cfg(test)]
mod tests;
