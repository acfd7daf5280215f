//! Counters, gauges and histograms, kept by the engine thread and read as a snapshot.

use crate::config::DraftSource;
use crate::types::Refusal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Upper bounds, in seconds, of the histograms' buckets.
pub const BUCKETS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0, 60.0,
];

/// Durations in seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Observations per bucket of [`BUCKETS`] (not cumulative), the last one for larger values.
    pub counts: [u64; BUCKETS.len() + 1],
    /// Sum of the observations, in seconds.
    pub sum: f64,
}

impl Histogram {
    /// Adds `n` observations of `seconds` each.
    pub fn observe_n(&mut self, seconds: f64, n: u64) {
        let bucket = BUCKETS.partition_point(|b| *b < seconds);
        self.counts[bucket] += n;
        self.sum += seconds * n as f64;
    }

    /// Adds one observation.
    pub fn observe(&mut self, seconds: f64) {
        self.observe_n(seconds, 1);
    }

    /// Adds another histogram's observations.
    pub fn add(&mut self, other: &Histogram) {
        for (a, b) in self.counts.iter_mut().zip(other.counts) {
            *a += b;
        }
        self.sum += other.sum;
    }
}

/// What the engine has done since its start, and what it holds now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Totals, which only grow.
    pub totals: Totals,
    /// What is held now.
    pub gauges: Gauges,
}

/// Totals since the engine's start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests that ended by themselves with an end token, stop string or grammar end (by their last choice).
    pub requests_stop: u64,
    /// Requests that ended by length.
    pub requests_length: u64,
    /// Cancelled requests.
    pub requests_cancelled: u64,
    /// Requests refused because their grammar can't be enforced.
    pub requests_refused: u64,
    /// Requests that failed.
    pub requests_failed: u64,
    /// Choices in which a draw was not taken because they could not have been completed behind it.
    pub choices_shortened: u64,
    /// Prompt tokens of admitted requests.
    pub prompt_tokens: u64,
    /// Prompt tokens whose KV was reused.
    pub cached_tokens: u64,
    /// Emitted tokens.
    pub generated_tokens: u64,
    /// Tokens computed by the target, prompt chunks and recomputation included.
    pub computed_tokens: u64,
    /// Tokens proposed by drafters and given to the target.
    pub drafted_tokens: u64,
    /// Of these, the ones that were emitted.
    pub accepted_tokens: u64,
    /// What became of drafts.
    pub drafting: Drafting,
    /// Sequences preempted.
    pub preemptions: u64,
    /// Tokens whose KV pages were returned to the system.
    pub kv_returned_tokens: u64,
    /// Steps.
    pub steps: u64,
    /// Grammar cache hits.
    pub grammar_cache_hits: u64,
    /// Grammar cache misses.
    pub grammar_cache_misses: u64,
    /// Seconds from arrival to admission.
    pub queue: Histogram,
    /// Seconds from arrival to first token.
    pub time_to_first_token: Histogram,
    /// Seconds between tokens of a choice.
    pub inter_token: Histogram,
    /// Seconds from arrival to the end.
    pub end_to_end: Histogram,
    /// Seconds per step.
    pub step: Histogram,
    /// Seconds of drafting per step in which anything could be drafted, by the number of sequences: 1, 2, up to 4, and so
    /// on; the last one is for all larger numbers.
    pub draft: [Histogram; SIZES],
    /// Seconds of the target's part of a step: the pass, masks, sampling.
    pub verify: Histogram,
    /// Seconds of mask computation per step that had any.
    pub mask: Histogram,
    /// Seconds per grammar compilation.
    pub compile: Histogram,
}

impl Totals {
    /// Adds another engine's totals.
    pub fn add(&mut self, other: &Totals) {
        self.requests_stop += other.requests_stop;
        self.requests_length += other.requests_length;
        self.choices_shortened += other.choices_shortened;
        self.requests_cancelled += other.requests_cancelled;
        self.requests_refused += other.requests_refused;
        self.requests_failed += other.requests_failed;
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.generated_tokens += other.generated_tokens;
        self.computed_tokens += other.computed_tokens;
        self.drafted_tokens += other.drafted_tokens;
        self.accepted_tokens += other.accepted_tokens;
        self.drafting.add(&other.drafting);
        self.preemptions += other.preemptions;
        self.kv_returned_tokens += other.kv_returned_tokens;
        self.steps += other.steps;
        self.grammar_cache_hits += other.grammar_cache_hits;
        self.grammar_cache_misses += other.grammar_cache_misses;
        self.queue.add(&other.queue);
        self.time_to_first_token.add(&other.time_to_first_token);
        self.inter_token.add(&other.inter_token);
        self.end_to_end.add(&other.end_to_end);
        self.step.add(&other.step);
        self.draft.iter_mut().zip(&other.draft).for_each(|(a, b)| a.add(b));
        self.verify.add(&other.verify);
        self.mask.add(&other.mask);
        self.compile.add(&other.compile);
    }
}

/// Numbers of sequences that are told apart: powers of two, up to 256.
pub const SIZES: usize = 9;

/// The place of a number of sequences, at least one.
pub fn size(sequences: u32) -> usize {
    (sequences.next_power_of_two().trailing_zeros() as usize).min(SIZES - 1)
}

/// What became of drafts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Drafting {
    /// By source.
    pub sources: BTreeMap<DraftSource, Fates>,
    /// Accepted tokens by their place in the draft; the last entry is for all further ones.
    pub accepted_at: [u64; PLACES],
    /// Steps of a sequence by the length of its draft; the last entry is for all longer ones.
    pub lengths: [u64; PLACES],
}

/// Places of a draft that are counted apart.
pub const PLACES: usize = 17;

/// What became of a source's tokens. `drafted` is the sum of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Fates {
    /// Proposed and given to the target.
    pub drafted: u64,
    /// Emitted.
    pub accepted: u64,
    /// The target drew another token.
    pub target: u64,
    /// The grammar allows no such token there.
    pub grammar: u64,
    /// Accepted, but not text: an end token, or the sequence ended before, by a stop string, its grammar's end, or a
    /// failure.
    pub stop: u64,
    /// Behind a token that was not accepted.
    pub unverified: u64,
}

impl Drafting {
    /// Takes what became of a draft, of which `emitted` tokens were emitted.
    pub fn take(&mut self, emitted: u32, fates: &BTreeMap<DraftSource, Fates>) {
        let drafted: u64 = fates.values().map(|fates| fates.drafted).sum();
        self.lengths[place(drafted as u32)] += 1;
        for (source, fates) in fates {
            self.sources.entry(*source).or_default().add(fates);
        }
        (0..emitted).for_each(|i| self.accepted_at[place(i)] += 1);
    }

    fn add(&mut self, other: &Drafting) {
        for (source, more) in &other.sources {
            self.sources.entry(*source).or_default().add(more);
        }
        for i in 0..PLACES {
            self.accepted_at[i] += other.accepted_at[i];
            self.lengths[i] += other.lengths[i];
        }
    }
}

/// What became of one draft, by the sources of its tokens: how many were emitted, how many the target accepted, and why
/// the next one was refused.
pub fn fates(
    sources: &[DraftSource],
    (emitted, accepted): (u32, u32),
    refusal: Option<Refusal>,
) -> BTreeMap<DraftSource, Fates> {
    let mut all = BTreeMap::<DraftSource, Fates>::new();
    for (i, source) in (0..).zip(sources) {
        let fates = all.entry(*source).or_default();
        fates.drafted += 1;
        *match refusal {
            _ if i < emitted => &mut fates.accepted,
            _ if i < accepted => &mut fates.stop,
            Some(Refusal::Target) if i == accepted => &mut fates.target,
            Some(Refusal::Grammar) if i == accepted => &mut fates.grammar,
            Some(Refusal::End) if i == accepted => &mut fates.stop,
            _ => &mut fates.unverified,
        } += 1;
    }
    all
}

impl Fates {
    fn add(&mut self, other: &Fates) {
        self.drafted += other.drafted;
        self.accepted += other.accepted;
        self.target += other.target;
        self.grammar += other.grammar;
        self.stop += other.stop;
        self.unverified += other.unverified;
    }
}

fn place(n: u32) -> usize {
    (n as usize).min(PLACES - 1)
}

/// What the engine holds now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gauges {
    /// Requests waiting (compiling ones included).
    pub waiting: u64,
    /// Choices running.
    pub running: u64,
    /// KV tokens in use by running sequences.
    pub kv_used: u64,
    /// KV tokens in total.
    pub kv_total: u64,
    /// KV tokens of kept prefixes.
    pub kv_kept: u64,
    /// KV tokens for which pages are held; 0 where all KV is allocated at the start.
    pub kv_resident: u64,
    /// Compiled grammars in the cache.
    pub grammar_cache_entries: u64,
    /// Tokens that drafters hold in KV of their own.
    pub draft_kv_used: u64,
    /// Drafters that failed and are not asked any more.
    pub drafters_failed: u64,
}
