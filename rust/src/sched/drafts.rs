//! Who drafts in a step, and how far.
//!
//! What is forced, predicted or looked up costs nothing and is there beforehand; then a model may go on, which takes time.
//! Of none and each of the models, and of all lengths, that is taken which promises the most tokens per second: tokens by
//! how often the sources' drafts were accepted, seconds by what passes and drafting cost ([`Cost`]). Drafts that promise
//! less than a twentieth more than none are left out.
//!
//! One rule for what is not known: a source that was not asked for a while is doubted, up to half of the refusals and half
//! of the time that its drafts cost, and the choice is made as if these doubts were right. So what would be the best if it
//! had become better is looked at; each look halves the doubt, and after one in vain it takes twice as long to grow again.
//! What cannot be the best, whatever is hoped for, is never looked at.

use crate::config::DraftSource;
use crate::exec::cost::{Cost, Work};
use crate::sequence::odds::{Acceptance, Odds};
use std::time::Duration;

/// Drafts that promise less more speed than this are left out: the best of many choices, measured with errors, promises
/// more than it keeps, and never to be slower than without counts for more than the last twentieth.
const LEAST_GAIN: f64 = 0.05;
/// Steps until a source is fully doubted, at first: some seconds, in which texts may have changed.
const DOUBTED: f64 = 48.0;
/// The same at most, after looks in vain: then looks cost next to nothing.
const MOST_DOUBTED: f64 = 3072.0;

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
    steps: u64,
}

/// What is known of a source.
#[derive(Debug)]
struct Source {
    acceptance: Acceptance,
    /// Of drafting: passes and rows of the model.
    cost: Cost,
    doubt: Doubt,
    tried: bool,
}

/// How far a source is doubted, from 0 to 1: by how long ago it was asked, and how often a look was in vain.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    /// In steps. Every look brings it half way to the present.
    seen: f64,
    /// Steps until it is fully doubted.
    period: f64,
}

/// What sequences may have by one model: of each, found tokens that would be kept, and for every token the probability
/// that it is drafted and accepted.
struct Offer {
    model: Option<DraftSource>,
    gains: Vec<(u32, Vec<f64>)>,
    /// Tokens of each sequence.
    known: Vec<u32>,
}

/// The time at which what is known is doubted, in steps; None: it is not.
type Hope = Option<u64>;

impl Doubt {
    fn at(&self, hope: Hope) -> f64 {
        hope.map_or(0.0, |now| ((now as f64 - self.seen) / self.period).min(1.0))
    }

    /// Takes a look; `doubted`: it is the best only if the doubt is right.
    fn look(&mut self, now: u64, doubted: bool) {
        self.seen = now as f64 - self.period * self.at(Some(now)) / 2.0;
        self.period = if doubted { (self.period * 2.0).min(MOST_DOUBTED) } else { DOUBTED };
    }
}

impl Drafts {
    /// `ragged`: runs of differing lengths cost no more than as many tokens in runs of one length.
    pub fn new(ragged: bool) -> Self {
        let source = |_| Source {
            acceptance: Acceptance::default(),
            cost: Cost::default(),
            doubt: Doubt { seen: f64::NEG_INFINITY, period: DOUBTED },
            tried: false,
        };
        Drafts { sources: DraftSource::ALL.map(source), ragged, steps: 0 }
    }

    /// What to draft for the sequences of a step, where passes have this `cost`; `work` tells what drafts of these lengths
    /// make of the step.
    pub fn choose(&mut self, prospects: &[Prospect], cost: &Cost, work: impl Fn(&[u32]) -> Work) -> Choice {
        self.steps += 1;
        let nothing = |p: &Prospect| p.most == 0 || p.found.is_empty() && p.models.is_empty();
        if !cost.known() || prospects.iter().all(nothing) {
            return Choice { model: None, lengths: vec![Length::default(); prospects.len()] };
        }
        let seconds = |lengths: &[u32]| cost.seconds(work(lengths));
        let known = self.best(prospects, &seconds, None).sources(prospects);
        let hoped = self.best(prospects, &seconds, Some(self.steps));
        for source in hoped.sources(prospects) {
            self.sources[source as usize].doubt.look(self.steps, !known.contains(&source));
        }
        hoped
    }

    /// The choice with the most tokens per second; `pass`: seconds of a step with drafts of these lengths.
    fn best(&self, prospects: &[Prospect], pass: &impl Fn(&[u32]) -> f64, hope: Hope) -> Choice {
        let model = |source: &&DraftSource| {
            prospects.iter().any(|p| p.models.iter().any(|(model, _)| model == *source))
        };
        let models = DraftSource::ALL.iter().filter(model).copied().map(Some);
        let choices = std::iter::once(None).chain(models).map(|model| {
            let gains = prospects.iter().map(|p| self.gains(p, model, hope)).collect();
            let known = prospects.iter().map(|p| p.known).collect();
            self.lengths(&Offer { model, gains, known }, pass, hope)
        });
        let better = |best: (Choice, f64), other: (Choice, f64)| if other.1 > best.1 { other } else { best };
        choices.reduce(better).expect("none is a choice. This is a bug.").0
    }

    /// What one sequence may have by `model`, see [`Offer`]. Where the model is likely to guess better than what was found,
    /// it begins behind what is forced.
    fn gains(&self, prospect: &Prospect, model: Option<DraftSource>, hope: Hope) -> (u32, Vec<f64>) {
        let model = prospect.models.iter().find(|(name, _)| Some(*name) == model);
        let behind = |found: &[(DraftSource, u32)]| {
            let kept: u32 = found.iter().map(|(_, count)| count).sum();
            let more = model.map(|(name, reach)| (*name, prospect.most.min(*reach).saturating_sub(kept)));
            let mut gains = Vec::new();
            let mut chance = 1.0;
            for (source, count) in found.iter().copied().chain(more) {
                let odds = self.odds(source, prospect, hope);
                for i in 0..count {
                    chance *= if i == 0 { odds.first } else { odds.next };
                    gains.push(chance);
                }
            }
            (kept, gains)
        };
        let forced = prospect.found.iter().take_while(|(source, _)| *source == DraftSource::Forced).count();
        let all = behind(&prospect.found);
        if model.is_none() || forced == prospect.found.len() {
            return all;
        }
        let some = behind(&prospect.found[..forced]);
        if some.1.iter().sum::<f64>() > all.1.iter().sum() { some } else { all }
    }

    /// How drafts by `source` are accepted of a sequence.
    fn odds(&self, source: DraftSource, of: &Prospect, hope: Hope) -> Odds {
        let known = &self.sources[source as usize];
        if source == DraftSource::Forced || hope.is_some() && !known.tried {
            return Odds::SURE;
        }
        let odds = of.acceptance[source as usize].of_one(known.acceptance.of_all());
        odds.hoped(known.doubt.at(hope))
    }

    /// The best lengths for an offer, and their tokens per second; of equal ones the shortest. Where differing lengths cost
    /// nothing the likeliest tokens of all sequences are added one by one, else those at the next place of all drafts at once.
    fn lengths(&self, offer: &Offer, pass: &impl Fn(&[u32]) -> f64, hope: Hope) -> (Choice, f64) {
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
                drafting.passes = drafting.passes.max(f64::from(guessed));
                drafting.rows += 1.0;
                drafting.cells += f64::from(offer.known[*i]);
            }
            if self.ragged || order.get(count).is_none_or(|next| next.0 > *place) {
                let speed = tokens / (pass(&lengths) + self.drafting(offer.model, drafting, hope));
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
    fn drafting(&self, model: Option<DraftSource>, work: Work, hope: Hope) -> f64 {
        let source = model.map(|model| &self.sources[model as usize]).filter(|source| source.cost.known());
        source.map_or(0.0, |source| source.cost.seconds(work) / (1.0 + source.doubt.at(hope)))
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
        if !cost.known() || !self.sources[model as usize].tried {
            return true;
        }
        let (hope, n) = (Some(self.steps), sequences.max(1));
        let prospect = Prospect { models: vec![(model, most)], most, ..Prospect::default() };
        let gains = vec![self.gains(&prospect, Some(model), hope); n];
        let pass = |lengths: &[u32]| {
            let rows = n as u32 + lengths.iter().sum::<u32>();
            cost.seconds(Work::of(lengths.iter().map(|length| (known, 0, 1 + length)), &[rows]))
        };
        let with = self.lengths(&Offer { model: Some(model), gains, known: vec![known; n] }, &pass, hope).1;
        let without = n as f64 / pass(&vec![0; n]);
        (1.0 / without - 1.0 / with) * tokens > delay
    }

    /// Learns what drafting by `model` took.
    pub fn learn_drafting(&mut self, model: DraftSource, work: Work, took: Duration) {
        self.sources[model as usize].cost.learn(work, took);
    }

    /// Learns how a draft by `source` has fared, and that it counts for `share`; see [`Acceptance::learn_of_all`].
    pub fn learn_accepted(&mut self, source: DraftSource, (accepted, stopped): (u32, bool), share: f64) {
        let source = &mut self.sources[source as usize];
        source.acceptance.learn_of_all(accepted, stopped, share);
        source.tried = true;
    }
}

impl Choice {
    /// Who drafts, for sequences with these prospects.
    fn sources(&self, prospects: &[Prospect]) -> Vec<DraftSource> {
        let mut sources: Vec<_> = self.model.into_iter().collect();
        for (length, prospect) in self.lengths.iter().zip(prospects) {
            let mut before = 0;
            for (source, count) in &prospect.found {
                if before < length.found && !sources.contains(source) {
                    sources.push(*source);
                }
                before += count;
            }
        }
        sources
    }
}

#[cfg(test)]
mod tests;
