//! What a plan gave, in numbers.

use crate::answer::{Answer, Failure};
use crate::drive::Measured;
use crate::plan::{Limits, Plan};
use serde::Serialize;
use std::collections::BTreeMap;

/// The numbers of one plan. Rates are per second of the time from the first request to the last answer.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Requests that were sent.
    pub requests: usize,
    /// Of them, those that were answered.
    pub answered: usize,
    /// The others, by kind.
    pub failed: BTreeMap<Failure, usize>,
    /// What the first failed one was told.
    pub first_failure: Option<String>,
    /// Answers that ended at `max_tokens`.
    pub cut: usize,
    /// Finished answers that had to be JSON, and those of them that are not.
    pub json: usize,
    /// See `json`.
    pub invalid_json: usize,
    /// Connections that were made.
    pub connections: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// Answers per second.
    pub requests_per_second: f64,
    /// As the server counts them.
    pub prompt_tokens: u64,
    /// Of the prompts, those that were in the KV.
    pub cached_tokens: u64,
    /// As the server counts them.
    pub completion_tokens: u64,
    /// Completion tokens per second.
    pub tokens_per_second: f64,
    /// Answers per second that kept the plan's limits; none where it has none.
    pub goodput: Option<f64>,
    /// To the first text; none where nothing was streamed.
    pub first_ms: Option<Spread>,
    /// Between pieces of text.
    pub gap_ms: Option<Spread>,
    /// Per token after the first chunk, on average of each answer.
    pub per_token_ms: Option<Spread>,
    /// To the end of the answer.
    pub whole_ms: Option<Spread>,
    /// Pieces of text.
    pub chunks: usize,
    /// CPU time of this client, in cores.
    pub client_cpu_share: f64,
}

/// How values lie, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 9 of 10 are at most this.
    pub p90: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of seconds; none where there are none. Percentiles are by nearest rank.
    #[must_use]
    pub fn of(seconds: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut ms: Vec<f64> = seconds.map(|s| round(s * 1e3)).collect();
        ms.sort_by(f64::total_cmp);
        let rank = |percent: usize| ms[(ms.len() * percent).div_ceil(100).max(1) - 1];
        let max = *ms.last()?;
        let mean = round(ms.iter().sum::<f64>() / ms.len() as f64);
        Some(Spread { mean, p50: rank(50), p90: rank(90), p99: rank(99), max })
    }
}

impl Report {
    /// Of everything that was measured; failed requests count in nothing but `failed`.
    #[must_use]
    pub fn new(plan: &Plan, measured: &Measured) -> Report {
        let (good, bad): (Vec<_>, Vec<_>) = measured.answers.iter().partition(|a| a.error.is_none());
        let mut failed = BTreeMap::new();
        for failure in bad.iter().filter_map(|answer| answer.error) {
            *failed.entry(failure).or_default() += 1;
        }
        let seconds = measured.wall.as_secs_f64();
        let usages = || good.iter().filter_map(|answer| answer.usage);
        let completion_tokens = usages().map(|u| u.completion_tokens).sum();
        let cached = usages().filter_map(|u| u.prompt_tokens_details?.cached_tokens);
        let gaps = good.iter().flat_map(|a| a.pieces.windows(2).map(|pair| pair[1] - pair[0]));
        let kept = |limits: &Limits| good.iter().filter(|answer| keeps(answer, limits)).count();
        Report {
            requests: measured.answers.len(),
            answered: good.len(),
            failed,
            first_failure: bad.first().and_then(|answer| answer.message.clone()),
            cut: good.iter().filter(|answer| answer.cut()).count(),
            json: good.iter().filter(|answer| answer.valid_json.is_some()).count(),
            invalid_json: good.iter().filter(|answer| answer.valid_json == Some(false)).count(),
            connections: measured.opened,
            seconds: round(seconds),
            requests_per_second: round(good.len() as f64 / seconds),
            prompt_tokens: usages().map(|u| u.prompt_tokens).sum(),
            cached_tokens: cached.sum(),
            completion_tokens,
            tokens_per_second: round(completion_tokens as f64 / seconds),
            goodput: plan.goodput.as_ref().map(|limits| round(kept(limits) as f64 / seconds)),
            first_ms: Spread::of(good.iter().filter_map(|answer| answer.first)),
            gap_ms: Spread::of(gaps),
            per_token_ms: Spread::of(good.iter().filter_map(|answer| answer.per_token())),
            whole_ms: Spread::of(good.iter().map(|answer| answer.whole)),
            chunks: good.iter().map(|answer| answer.pieces.len()).sum(),
            client_cpu_share: round(measured.cpu.as_secs_f64() / seconds),
        }
    }
}

/// An answer that has no such time keeps its limit: one that was not streamed has no first text, one token no second.
fn keeps(answer: &Answer, limits: &Limits) -> bool {
    let within = |limit: Option<f64>, seconds: Option<f64>| {
        limit.zip(seconds).is_none_or(|(limit, s)| s * 1e3 <= limit)
    };
    within(limits.first_ms, answer.first)
        && within(limits.per_token_ms, answer.per_token())
        && within(limits.whole_ms, Some(answer.whole))
}

/// Three places: what a shared machine's clock can mean.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
