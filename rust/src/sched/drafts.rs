//! Who drafts in a step, and how far.
//!
//! What is forced, predicted or looked up costs nothing and is there beforehand; then a model may go on, which takes time.
//! Of none and each of the models, and of all lengths, that is taken which promises the most tokens per second: tokens by
//! how often the sources' drafts were accepted, seconds by what passes of so many rows and drafting took (`times`). Drafts
//! that promise less than a twentieth more than none are left out.
//!
//! One rule for what is not known: what was not seen for a while is doubted, up to half of the refusals and half of the
//! time that drafts cost, and the choice is made as if these doubts were right. So what would be the best if it had become
//! better is looked at; each look halves the doubt, and after one in vain it takes twice as long to grow again. What
//! cannot be the best, whatever is hoped for, is never looked at.

mod times;

use crate::config::DraftSource;
use crate::sequence::odds::{Acceptance, Odds};
use times::{Doubt, Times};

/// Drafts that promise less more speed than this are left out: the best of many choices, measured with errors, promises
/// more than it keeps, and never to be slower than without counts for more than the last twentieth.
const LEAST_GAIN: f64 = 0.05;
/// Speeds that differ by less are taken for equal, and the shorter draft is chosen.
const NOISE: f64 = 0.02;

/// What may be drafted for one sequence in a step.
#[derive(Debug, Clone, Default)]
pub struct Prospect {
    /// Tokens that were found without a model, in their order.
    pub found: Vec<(DraftSource, u32)>,
    /// Models that may go on, and how many tokens of the draft they reach.
    pub models: Vec<(DraftSource, u32)>,
    /// Most tokens of the draft; no fewer than were found.
    pub most: u32,
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

/// What is known of sources and of passes.
#[derive(Debug)]
pub struct Drafts {
    passes: Times,
    /// By the number of the source.
    sources: [Source; DraftSource::ALL.len()],
    ragged: bool,
    steps: u64,
}

/// What is known of a source.
#[derive(Debug)]
struct Source {
    acceptance: Acceptance,
    /// Of a drafted token, by the number of sequences that have one.
    times: Times,
    doubt: Doubt,
    tried: bool,
}

/// What sequences may have by one model: of each, found tokens that would be kept, and for every token the probability
/// that it is drafted and accepted.
struct Offer {
    model: Option<DraftSource>,
    gains: Vec<(u32, Vec<f64>)>,
}

/// The time at which what is known is doubted, in steps; None: it is not.
type Hope = Option<u64>;

impl Drafts {
    /// `probed`: rows and seconds of passes, rising; `ragged`: runs of differing lengths cost no more than as many tokens in
    /// runs of one length.
    pub fn new(probed: &[(u32, f64)], ragged: bool) -> Self {
        let (acceptance, doubt) = (Acceptance::default(), Doubt::default());
        let source = |_| Source { acceptance, times: Times::of_drafting(), doubt, tried: false };
        Drafts { passes: Times::of_passes(probed), sources: DraftSource::ALL.map(source), ragged, steps: 0 }
    }

    /// What to draft for the sequences of a step; `passes` tells the rows of the passes that drafts of these lengths take.
    pub fn choose(&mut self, prospects: &[Prospect], passes: impl Fn(&[u32]) -> Vec<u32>) -> Choice {
        self.steps += 1;
        let nothing = |p: &Prospect| p.most == 0 || p.found.is_empty() && p.models.is_empty();
        if !self.passes.known() || prospects.iter().all(nothing) {
            return Choice { model: None, lengths: vec![Length::default(); prospects.len()] };
        }
        let known = self.best(prospects, &passes, None);
        let hoped = self.best(prospects, &passes, Some(self.steps));
        let rows =
            |choice: &Choice| passes(&choice.lengths.iter().map(|length| length.all).collect::<Vec<_>>());
        let (known_rows, hoped_rows) = (rows(&known), rows(&hoped));
        self.passes.look(&hoped_rows, self.steps, hoped_rows != known_rows);
        let (known, asked) = (known.sources(prospects), hoped.sources(prospects));
        for source in asked {
            self.sources[source as usize].doubt.look(self.steps, !known.contains(&source));
        }
        hoped
    }

    /// The choice with the most tokens per second.
    fn best(&self, prospects: &[Prospect], passes: &impl Fn(&[u32]) -> Vec<u32>, hope: Hope) -> Choice {
        let model = |source: &&DraftSource| {
            prospects.iter().any(|p| p.models.iter().any(|(model, _)| model == *source))
        };
        let models = DraftSource::ALL.iter().filter(model).copied().map(Some);
        let choices = std::iter::once(None).chain(models).map(|model| {
            let offer =
                Offer { model, gains: prospects.iter().map(|p| self.gains(p, model, hope)).collect() };
            self.lengths(&offer, passes, hope)
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

    /// The best lengths for an offer, and their tokens per second; of about equal ones the shortest. Where differing lengths
    /// cost nothing the likeliest tokens of all sequences are added one by one, else those at the next place of all drafts
    /// at once.
    fn lengths(&self, offer: &Offer, passes: &impl Fn(&[u32]) -> Vec<u32>, hope: Hope) -> (Choice, f64) {
        let n = offer.gains.len();
        let places = offer.gains.iter().enumerate();
        let mut order: Vec<(usize, usize, f64)> = places
            .flat_map(|(i, (_, gains))| gains.iter().enumerate().map(move |(place, gain)| (place, i, *gain)))
            .collect();
        order.sort_by(|a, b| if self.ragged { b.2.total_cmp(&a.2) } else { a.0.cmp(&b.0) });
        let mut lengths = vec![0; n];
        let none = passes(&lengths);
        let alone = self.pass(&none, None);
        let mut speeds = vec![(0, n as f64 / self.pass(&none, hope))];
        let (mut tokens, mut asking, mut longest) = (n as f64, 0, 0);
        for (count, (place, i, gain)) in (1..).zip(&order) {
            lengths[*i] += 1;
            tokens += gain;
            let guessed = lengths[*i].saturating_sub(offer.gains[*i].0);
            asking += u32::from(guessed == 1);
            longest = longest.max(guessed);
            if self.ragged || order.get(count).is_none_or(|next| next.0 > *place) {
                let rows = if self.ragged { vec![(n + count) as u32] } else { passes(&lengths) };
                let more = (self.pass(&rows, None) - alone) / (1.0 + self.passes.doubt(&rows, hope));
                let seconds = alone + more + self.drafting(offer.model, (asking, longest), hope);
                speeds.push((count, tokens / seconds));
            }
        }
        let (count, speed) = shortest(&speeds);
        let mut lengths = vec![Length::default(); n];
        order[..count].iter().for_each(|(_, i, _)| lengths[*i].all += 1);
        lengths
            .iter_mut()
            .zip(&offer.gains)
            .for_each(|(length, (found, _))| length.found = length.all.min(*found));
        let model = offer.model.filter(|_| lengths.iter().any(|length| length.all > length.found));
        (Choice { model, lengths }, speed)
    }

    /// Seconds of passes with so many rows.
    fn pass(&self, rows: &[u32], hope: Hope) -> f64 {
        rows.iter().map(|rows| self.passes.of(*rows)).sum::<f64>() / (1.0 + self.passes.doubt(rows, hope))
    }

    /// Seconds of drafting up to `longest` tokens for each of `asking` sequences.
    fn drafting(&self, model: Option<DraftSource>, (asking, longest): (u32, u32), hope: Hope) -> f64 {
        let source = model.map(|model| &self.sources[model as usize]);
        let Some(source) = source.filter(|source| asking > 0 && source.times.known()) else { return 0.0 };
        source.times.of(asking) * f64::from(longest) / (1.0 + source.doubt.at(hope))
    }

    /// Whether drafts by `model` for one of so many sequences are worth a delay, in seconds, if `tokens` are to come and up
    /// to `most` of them are drafted at once.
    pub fn pays(
        &self,
        model: DraftSource,
        (sequences, most): (usize, u32),
        (delay, tokens): (f64, f64),
    ) -> bool {
        if !self.passes.known() || !self.sources[model as usize].tried {
            return true;
        }
        let (hope, prospect) =
            (Some(self.steps), Prospect { models: vec![(model, most)], most, ..Prospect::default() });
        let gains = vec![self.gains(&prospect, Some(model), hope); sequences.max(1)];
        let one_pass = |lengths: &[u32]| vec![lengths.iter().map(|length| 1 + length).sum()];
        let with = self.lengths(&Offer { model: Some(model), gains }, &one_pass, hope).1;
        let without = sequences.max(1) as f64 / self.pass(&one_pass(&vec![0; sequences.max(1)]), None);
        (1.0 / without - 1.0 / with) * tokens > delay
    }

    /// Learns what passes with so many rows took together.
    pub fn learn_passes(&mut self, rows: &[u32], seconds: f64) {
        self.passes.learn(rows, seconds, self.steps);
    }

    /// Learns that up to `longest` tokens by `model` for each of `asking` sequences took this long.
    pub fn learn_drafting(&mut self, model: DraftSource, (asking, longest): (u32, u32), seconds: f64) {
        self.sources[model as usize].times.learn(&[asking], seconds / f64::from(longest.max(1)), self.steps);
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

/// The first that is as good as the best, up to what measurements differ by anyhow; none, where the best is hardly better.
fn shortest(speeds: &[(usize, f64)]) -> (usize, f64) {
    let best = speeds.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
    let pays = best >= speeds[0].1 * (1.0 + LEAST_GAIN);
    let first = speeds.iter().find(|(_, speed)| pays && *speed >= best * (1.0 - NOISE));
    *first.unwrap_or(&speeds[0])
}

#[cfg(test)]
mod tests;
