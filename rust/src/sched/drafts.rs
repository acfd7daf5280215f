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
use crate::exec::Drafter;
use crate::exec::cost::{Cost, Work};
use crate::sequence::odds::{Acceptance, Odds};

/// Drafts that promise less more speed than this are left out: the best of many choices, measured with errors, promises
/// more than it keeps, and never to be slower than without counts for more than the last twentieth.
const LEAST_GAIN: f64 = 0.05;

/// What may be drafted for one sequence in a step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prospect {
    /// Tokens that were found without a model, in their order.
    pub(crate) found: Vec<(DraftSource, u32)>,
    /// Models that may go on, and how many tokens of the draft they reach.
    pub(crate) models: Vec<(DraftSource, u32)>,
    /// Most tokens of the draft; no fewer than were found.
    pub(crate) most: u32,
    /// Tokens of the sequence, which each row reads.
    pub(crate) known: u32,
    /// How its drafts have fared, by the number of their source.
    pub(crate) acceptance: [Acceptance; DraftSource::ALL.len()],
}

/// Whom to ask in a step, and for how much.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Choice {
    /// The model that goes on behind the found tokens.
    pub(crate) model: Option<DraftSource>,
    /// Of each sequence.
    pub(crate) lengths: Vec<Length>,
}

/// How far one sequence's draft goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Length {
    /// Found tokens that are kept.
    pub(crate) found: u32,
    /// Tokens in all.
    pub(crate) all: u32,
}

pub(crate) struct Drafts {
    /// How drafts of all sequences are accepted, by the number of the source.
    pub(crate) acceptance: [Acceptance; DraftSource::ALL.len()],
    /// Of drafting: passes and rows of the model.
    pub(crate) costs: [Cost; DraftSource::ALL.len()],
    ragged: bool,
}

/// What one sequence may have by one model.
#[derive(Debug, Clone)]
struct Offer {
    /// Found tokens that would be kept.
    found: u32,
    /// For every token the probability that it is drafted and accepted.
    gains: Vec<f64>,
    /// Tokens of the sequence.
    known: f64,
    /// Passes of the model for each token that it drafts.
    passes: f64,
}

impl Drafts {
    /// `ragged`: runs of differing lengths cost no more than as many tokens in runs of one length. Of the `models` a probe
    /// may have measured passes.
    pub(crate) fn new(ragged: bool, models: &[(DraftSource, Box<dyn Drafter>)]) -> Self {
        let mut drafts = Drafts { acceptance: Default::default(), costs: Default::default(), ragged };
        for (model, drafter) in models {
            drafts.costs[*model as usize] = Cost::new(drafter.probed());
        }
        drafts
    }

    /// What to draft for the sequences of a step, where passes have this `cost`; `work` tells what drafts of these lengths
    /// make of the step.
    pub(crate) fn choose(
        &mut self,
        prospects: &[Prospect],
        cost: &Cost,
        work: impl Fn(&[u32]) -> Work,
    ) -> Choice {
        let nothing = |p: &Prospect| p.most == 0 || p.found.is_empty() && p.models.is_empty();
        if !cost.known() || prospects.iter().all(nothing) {
            return Choice { model: None, lengths: vec![Length::default(); prospects.len()] };
        }
        let seconds = |lengths: &[u32]| cost.seconds(work(lengths));
        let choice = self.best(prospects, &seconds);
        for source in DraftSource::ALL.into_iter().filter(|s| s.is_model() && choice.model != Some(*s)) {
            self.acceptance[source as usize].idle();
            let cost = &mut self.costs[source as usize];
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
            let offers: Vec<_> = prospects.iter().map(|p| self.offer(p, model, replaces)).collect();
            self.lengths(model, &offers, pass)
        });
        let better = |best: (Choice, f64), other: (Choice, f64)| if other.1 > best.1 { other } else { best };
        choices.reduce(better).expect("none is a choice. This is a bug.").0
    }

    /// What one sequence may have by `model`: behind all that was found, or if it `replaces` that behind what is forced.
    fn offer(&self, prospect: &Prospect, model: Option<DraftSource>, replaces: bool) -> Offer {
        let is_kept = |(source, _): &&(DraftSource, u32)| !replaces || *source == DraftSource::Forced;
        let kept: Vec<_> = prospect.found.iter().take_while(is_kept).copied().collect();
        let found = kept.iter().map(|(_, count)| count).sum();
        let reaches = prospect.models.iter().find(|(name, _)| Some(*name) == model);
        let more = reaches.map(|(name, reach)| (*name, prospect.most.min(*reach).saturating_sub(found)));
        let mut gains = Vec::new();
        let mut chance = 1.0;
        for (source, count) in kept.into_iter().chain(more) {
            let odds = self.odds(source, prospect);
            for i in 0..count {
                chance *= if i == 0 { odds.first } else { odds.next };
                gains.push(chance);
            }
        }
        let passes = model.map_or(0.0, |model| prospect.acceptance[model as usize].passes());
        Offer { found, gains, known: f64::from(prospect.known), passes }
    }

    /// How drafts by `source` are accepted of a sequence.
    fn odds(&self, source: DraftSource, of: &Prospect) -> Odds {
        if source == DraftSource::Forced {
            return Odds::SURE;
        }
        let expected = if source.is_model() { Odds::HOPED } else { Odds::UNKNOWN };
        let of_all = self.acceptance[source as usize].of_one(expected);
        of.acceptance[source as usize].of_one(of_all)
    }

    /// The best lengths for the offers by a model, and their tokens per second; of equal ones the shortest. Where differing
    /// lengths cost nothing the likeliest tokens of all sequences are added one by one, else those at the next place of all
    /// drafts at once.
    fn lengths(
        &self,
        model: Option<DraftSource>,
        offers: &[Offer],
        pass: &impl Fn(&[u32]) -> f64,
    ) -> (Choice, f64) {
        let n = offers.len();
        // Drafting that was never done takes no time.
        let cost = model.map(|model| &self.costs[model as usize]).filter(|cost| cost.known());
        let mut order: Vec<(usize, usize, f64)> = (0..)
            .zip(offers)
            .flat_map(|(i, offer)| (0..).zip(&offer.gains).map(move |(place, gain)| (place, i, *gain)))
            .collect();
        order.sort_by(|a, b| if self.ragged { b.2.total_cmp(&a.2) } else { a.0.cmp(&b.0) });
        let mut lengths = vec![0; n];
        let none = n as f64 / pass(&lengths);
        let mut best = (0, none * (1.0 + LEAST_GAIN));
        let (mut tokens, mut drafting) = (n as f64, Work::default());
        for (count, (place, i, gain)) in (1..).zip(&order) {
            lengths[*i] += 1;
            tokens += gain;
            let Offer { found, known, passes, .. } = &offers[*i];
            let guessed = lengths[*i].saturating_sub(*found);
            if guessed > 0 {
                drafting.passes = drafting.passes.max(f64::from(guessed) * passes);
                drafting.rows += passes;
                drafting.cells += known * passes;
            }
            if self.ragged || order.get(count).is_none_or(|next| next.0 > *place) {
                let speed = tokens / (pass(&lengths) + cost.map_or(0.0, |cost| cost.seconds(drafting)));
                best = if speed > best.1 { (count, speed) } else { best };
            }
        }
        let (count, speed) = if best.0 == 0 { (0, none) } else { best };
        let mut lengths = vec![Length::default(); n];
        order[..count].iter().for_each(|(_, i, _)| lengths[*i].all += 1);
        lengths.iter_mut().zip(offers).for_each(|(length, offer)| length.found = length.all.min(offer.found));
        let model = model.filter(|_| lengths.iter().any(|length| length.all > length.found));
        (Choice { model, lengths }, speed)
    }

    /// Whether drafts by `model` for one of so many sequences, all with as many tokens `known`, are worth a delay, in seconds,
    /// if `tokens` are to come and up to `most` of them are drafted at once.
    pub(crate) fn pays(
        &self,
        model: DraftSource,
        cost: &Cost,
        (sequences, known, most): (usize, u32, u32),
        (delay, tokens): (f64, f64),
    ) -> bool {
        if !cost.known() || !self.costs[model as usize].known() {
            return true;
        }
        let n = sequences.max(1);
        let prospect = Prospect { models: vec![(model, most)], most, known, ..Prospect::default() };
        let offers = vec![self.offer(&prospect, Some(model), false); n];
        let pass = |lengths: &[u32]| {
            let rows = n as u32 + lengths.iter().sum::<u32>();
            cost.seconds(Work::of(lengths.iter().map(|length| (known, 0, 1 + length)), &[rows]))
        };
        let with = self.lengths(Some(model), &offers, &pass).1;
        let without = n as f64 / pass(&vec![0; n]);
        (1.0 / without - 1.0 / with) * tokens > delay
    }
}

#[cfg(test)]
mod tests;
