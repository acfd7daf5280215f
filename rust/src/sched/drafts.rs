//! Who drafts in a step, and how far.
//!
//! What is found without a model is there beforehand; then a model may go on, which takes time: behind what was found, or behind
//! the forced tokens that it begins with. Of none and each of the models, and of all lengths, that is taken which promises the
//! most tokens per second: tokens by how often the sources' drafts were right, seconds by what passes and drafting cost
//! ([`Cost`]). Drafts that promise less than a twentieth more than none are left out.
//!
//! Whether what was found was right shows in the tokens that come, drafted or not. What a model would have drafted
//! shows only where it is asked. So its counts are read with optimism, as if it had been right some times more, and they fade
//! while it is not asked: a model that was refused is tried again after a while, for one draft, if it would be the best were
//! it right. One that could not be the best even so is never asked.

use crate::config::DraftSource;
use crate::exec::cost::{Cost, Work};
use crate::sequence::odds::{Acceptance, Odds};
use std::time::Duration;

/// Drafts that promise less more speed than this are left out: the best of many choices, measured with errors, promises
/// more than it keeps, and never to be slower than without counts for more than the last twentieth.
const LEAST_GAIN: f64 = 0.05;

/// What may be drafted for one sequence in a step.
#[derive(Debug, Clone, Default)]
pub struct Prospect {
    /// Tokens that were found without a model, in their order.
    pub found: Vec<(DraftSource, u32)>,
    /// Models that may go on, and how many tokens of the draft they reach.
    pub models: Vec<(DraftSource, u32)>,
    /// Most tokens of the draft; no fewer than were found.
    pub most: u32,
    /// Tokens of the sequence, which each row reads.
    pub known: u32,
    /// How its drafts have fared, by the number of their source.
    pub acceptance: [Acceptance; DraftSource::ALL.len()],
}

/// Whom to ask in a step, and for how much.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice {
    /// The model that goes on behind the found tokens.
    pub model: Option<DraftSource>,
    /// Of each sequence.
    pub lengths: Vec<Length>,
}

/// How far one sequence's draft goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Length {
    /// Found tokens that are kept.
    pub found: u32,
    /// Tokens in all.
    pub all: u32,
}

/// What is known of sources.
#[derive(Debug)]
pub struct Drafts {
    /// By the number of the source.
    sources: [Source; DraftSource::ALL.len()],
    ragged: bool,
}

/// What is known of a source.
#[derive(Debug)]
struct Source {
    acceptance: Acceptance,
    /// Of drafting: passes and rows of the model.
    cost: Cost,
}

/// What sequences may have by one model: of each, found tokens that would be kept, and for every token the probability
/// that it is drafted and accepted.
struct Offer {
    model: Option<DraftSource>,
    gains: Vec<(u32, Vec<f64>)>,
    /// Of each sequence: its tokens, and passes of the model for each that it drafts.
    each: Vec<(f64, f64)>,
}

impl Drafts {
    /// `ragged`: runs of differing lengths cost no more than as many tokens in runs of one length. `probed`: the passes of
    /// models that a probe measured.
    pub fn new(ragged: bool, probed: &[(DraftSource, Vec<(u32, f64)>)]) -> Self {
        let source = |source| {
            let passes = probed.iter().find(|(model, _)| *model == source);
            let cost = passes.map_or_else(Cost::default, |(_, passes)| Cost::new(passes));
            Source { acceptance: Acceptance::default(), cost }
        };
        Drafts { sources: DraftSource::ALL.map(source), ragged }
    }

    /// What to draft for the sequences of a step, where passes have this `cost`; `work` tells what drafts of these lengths
    /// make of the step.
    pub fn choose(&mut self, prospects: &[Prospect], cost: &Cost, work: impl Fn(&[u32]) -> Work) -> Choice {
        let nothing = |p: &Prospect| p.most == 0 || p.found.is_empty() && p.models.is_empty();
        if !cost.known() || prospects.iter().all(nothing) {
            return Choice { model: None, lengths: vec![Length::default(); prospects.len()] };
        }
        let seconds = |lengths: &[u32]| cost.seconds(work(lengths));
        let choice = self.best(prospects, &seconds);
        for source in DraftSource::ALL.into_iter().filter(|s| s.is_model() && choice.model != Some(*s)) {
            let Source { acceptance, cost } = &mut self.sources[source as usize];
            acceptance.idle();
            if cost.known() {
                cost.idle();
            }
        }
        choice
    }

    /// The choice with the most tokens per second; `pass`: seconds of a step with drafts of these lengths.
    fn best(&self, prospects: &[Prospect], pass: &impl Fn(&[u32]) -> f64) -> Choice {
        let model = |source: &&DraftSource| {
            prospects.iter().any(|p| p.models.iter().any(|(model, _)| model == *source))
        };
        let models = DraftSource::ALL.iter().filter(model).copied().map(Some);
        let behind = models.flat_map(|model| [(model, false), (model, true)]);
        let choices = std::iter::once((None, false)).chain(behind).map(|(model, replaces)| {
            let gains = prospects.iter().map(|p| self.gains(p, (model, replaces))).collect();
            let passes = |p: &Prospect| model.map_or(0.0, |model| p.acceptance[model as usize].passes());
            let each = prospects.iter().map(|p| (f64::from(p.known), passes(p))).collect();
            self.lengths(&Offer { model, gains, each }, pass)
        });
        let better = |best: (Choice, f64), other: (Choice, f64)| if other.1 > best.1 { other } else { best };
        choices.reduce(better).expect("none is a choice. This is a bug.").0
    }

    /// What one sequence may have by `model`, see [`Offer`]: behind all that was found, or if it `replaces` that behind what is
    /// forced.
    fn gains(&self, prospect: &Prospect, (model, replaces): (Option<DraftSource>, bool)) -> (u32, Vec<f64>) {
        let is_kept = |(source, _): &&(DraftSource, u32)| !replaces || *source == DraftSource::Forced;
        let found: Vec<_> = prospect.found.iter().take_while(is_kept).copied().collect();
        let kept: u32 = found.iter().map(|(_, count)| count).sum();
        let model = prospect.models.iter().find(|(name, _)| Some(*name) == model);
        let more = model.map(|(name, reach)| (*name, prospect.most.min(*reach).saturating_sub(kept)));
        let mut gains = Vec::new();
        let mut chance = 1.0;
        for (source, count) in found.into_iter().chain(more) {
            let odds = self.odds(source, prospect);
            for i in 0..count {
                chance *= if i == 0 { odds.first } else { odds.next };
                gains.push(chance);
            }
        }
        (kept, gains)
    }

    /// How drafts by `source` are accepted of a sequence.
    fn odds(&self, source: DraftSource, of: &Prospect) -> Odds {
        if source == DraftSource::Forced {
            return Odds::SURE;
        }
        let expected = if source.is_model() { Odds::HOPED } else { Odds::UNKNOWN };
        let of_all = self.sources[source as usize].acceptance.of_one(expected);
        of.acceptance[source as usize].of_one(of_all)
    }

    /// The best lengths for an offer, and their tokens per second; of equal ones the shortest. Where differing lengths cost
    /// nothing the likeliest tokens of all sequences are added one by one, else those at the next place of all drafts at once.
    fn lengths(&self, offer: &Offer, pass: &impl Fn(&[u32]) -> f64) -> (Choice, f64) {
        let n = offer.gains.len();
        let places = offer.gains.iter().enumerate();
        let mut order: Vec<(usize, usize, f64)> = places
            .flat_map(|(i, (_, gains))| gains.iter().enumerate().map(move |(place, gain)| (place, i, *gain)))
            .collect();
        order.sort_by(|a, b| if self.ragged { b.2.total_cmp(&a.2) } else { a.0.cmp(&b.0) });
        let mut lengths = vec![0; n];
        let none = n as f64 / pass(&lengths);
        let mut best = (0, none * (1.0 + LEAST_GAIN));
        let (mut tokens, mut drafting) = (n as f64, Work::default());
        for (count, (place, i, gain)) in (1..).zip(&order) {
            lengths[*i] += 1;
            tokens += gain;
            let guessed = lengths[*i].saturating_sub(offer.gains[*i].0);
            if guessed > 0 {
                let (known, passes) = offer.each[*i];
                drafting.passes = drafting.passes.max(f64::from(guessed) * passes);
                drafting.rows += passes;
                drafting.cells += known * passes;
            }
            if self.ragged || order.get(count).is_none_or(|next| next.0 > *place) {
                let speed = tokens / (pass(&lengths) + self.drafting(offer.model, drafting));
                best = if speed > best.1 { (count, speed) } else { best };
            }
        }
        let (count, speed) = if best.0 == 0 { (0, none) } else { best };
        let mut lengths = vec![Length::default(); n];
        order[..count].iter().for_each(|(_, i, _)| lengths[*i].all += 1);
        lengths
            .iter_mut()
            .zip(&offer.gains)
            .for_each(|(length, (found, _))| length.found = length.all.min(*found));
        let model = offer.model.filter(|_| lengths.iter().any(|length| length.all > length.found));
        (Choice { model, lengths }, speed)
    }

    /// Seconds of drafting; 0 where that was never done.
    fn drafting(&self, model: Option<DraftSource>, work: Work) -> f64 {
        let cost = model.map(|model| &self.sources[model as usize].cost).filter(|cost| cost.known());
        cost.map_or(0.0, |cost| cost.seconds(work))
    }

    /// Whether drafts by `model` for one of so many sequences, all with as many tokens `known`, are worth a delay, in seconds,
    /// if `tokens` are to come and up to `most` of them are drafted at once.
    pub fn pays(
        &self,
        model: DraftSource,
        cost: &Cost,
        (sequences, known, most): (usize, u32, u32),
        (delay, tokens): (f64, f64),
    ) -> bool {
        if !cost.known() || !self.sources[model as usize].cost.known() {
            return true;
        }
        let n = sequences.max(1);
        let prospect = Prospect { models: vec![(model, most)], most, ..Prospect::default() };
        let gains = vec![self.gains(&prospect, (Some(model), false)); n];
        let pass = |lengths: &[u32]| {
            let rows = n as u32 + lengths.iter().sum::<u32>();
            cost.seconds(Work::of(lengths.iter().map(|length| (known, 0, 1 + length)), &[rows]))
        };
        let each = vec![(f64::from(known), 1.0); n];
        let with = self.lengths(&Offer { model: Some(model), gains, each }, &pass).1;
        let without = n as f64 / pass(&vec![0; n]);
        (1.0 / without - 1.0 / with) * tokens > delay
    }

    /// Learns what drafting by `model` took.
    pub fn learn_drafting(&mut self, model: DraftSource, work: Work, took: Duration) {
        self.sources[model as usize].cost.learn(work, took);
    }

    /// Learns how a draft by `source` has fared, and that it counts for `share`; see [`Acceptance::learn_of_all`].
    pub fn learn_accepted(&mut self, source: DraftSource, (accepted, stopped): (u32, bool), share: f64) {
        self.sources[source as usize].acceptance.learn_of_all(accepted, stopped, share);
    }
}

#[cfg(test)]
mod tests;
