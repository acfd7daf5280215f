//! What judging a step's rows takes on one thread and on several: `cargo run --release --example judging [threads]`.
//!
//! Rows of random logits stand in for a model's. Printed are rows per second, medians of rounds in which both take turns.

use llgtrt::config::SpeculativeConfig;
use llgtrt::exec::helpers::Helpers;
use llgtrt::exec::sampled::Sampled;
use llgtrt::exec::{Caps, Copying, Draft, ExecError, Forward, Job, Kv, Promise, Rows, Run, Target};
use llgtrt::request::{Limits, Request, RequestSpec};
use llgtrt::sampler::Sampler;
use llgtrt::types::Slot;
use llgtrt::vocab::Vocab;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 40;

/// A model that takes no time.
struct Instantly {
    caps: Caps,
    logits: Vec<f32>,
}

impl Instantly {
    fn new(n_vocab: usize, slots: u32) -> Self {
        let caps = Caps {
            kv_total: 1 << 30,
            max_step_tokens: slots,
            copying: Copying::Shares,
            ragged: true,
            promise: Promise::BitIdentical,
            ..Caps::of_rows(n_vocab, slots, 1 << 20)
        };
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32
        };
        // About normal, as a model's are, with a few likely ones.
        let mut logit = || (0..4).map(|_| uniform() - 0.5).sum::<f32>() * 5.0 + 8.0 * uniform().powi(64);
        Instantly { caps, logits: (0..n_vocab * slots as usize).map(|_| logit()).collect() }
    }
}

impl Forward for Instantly {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn forward(&mut self, _: &[Run<'_>]) -> Result<Rows<'_>, ExecError> {
        // As after a pass: what it has written last is what is in the caches.
        Ok(Rows { logits: self.logits.chunks(self.caps.n_vocab).collect(), ..Rows::default() })
    }
}

impl Kv for Instantly {
    fn truncate(&mut self, _: Slot, _: u32) -> Result<(), ExecError> {
        Ok(())
    }

    fn copy(&mut self, _: Slot, _: Slot, _: u32) -> Result<(), ExecError> {
        Ok(())
    }
}

/// Seconds of a step, and what was drawn.
fn step(
    target: &mut Sampled,
    request: &Arc<Request>,
    vocab: &Arc<Vocab>,
    round: u64,
) -> Result<(f64, Vec<u32>), ExecError> {
    let job = |slot: u32| Job {
        slot: Slot(slot),
        start: 0,
        tokens: vec![0],
        sample: true,
        score: None,
        decides: 0,
        draft: Draft::default(),
        budget: 100,
        sampler: Sampler::new(Arc::clone(request), slot, round, vocab.clone()),
        grammar: None,
    };
    let jobs = (0..target.caps().slots).map(job).collect();
    let begin = Instant::now();
    let outcomes = target.run(jobs)?.outcomes;
    let took = begin.elapsed().as_secs_f64();
    let tokens =
        outcomes.into_iter().flat_map(|(_, outcome)| outcome.map_or(Vec::new(), |round| round.tokens));
    Ok((took, tokens.collect()))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Microseconds of a step on one thread and on several.
fn compare(
    sampling: &str,
    (n_vocab, slots): (usize, u32),
    threads: usize,
) -> Result<[f64; 2], Box<dyn std::error::Error>> {
    let vocab = Vocab::toy()?;
    let limits = Limits {
        n_vocab: n_vocab as u32,
        context: 64,
        max_prompt: 64,
        default_output: u32::MAX,
        faults: false,
        lacks: Default::default(),
    };
    let json = format!(r#"{{"prompt":[1],"sampling":{sampling}}}"#);
    let request = Arc::new(Request::new(serde_json::from_str::<RequestSpec>(&json)?, &limits)?);
    let target = |judges| {
        Sampled::new(
            Box::new(Instantly::new(n_vocab, slots)),
            0,
            Helpers::new(judges),
            &SpeculativeConfig::default(),
        )
    };
    let mut targets = [1, threads].map(target);
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let mut drawn = Vec::new();
        for (target, times) in targets.iter_mut().zip(&mut times) {
            // As between the steps of an engine: who helps sleeps.
            std::thread::sleep(Duration::from_millis(1));
            let (took, tokens) = step(target, &request, &vocab, round)?;
            times.push(took * 1e6);
            drawn.push(tokens);
        }
        assert_eq!(drawn[0], drawn[1]);
    }
    Ok(times.map(median))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cores = std::thread::available_parallelism()?.get();
    let threads = std::env::args().nth(1).map_or(Ok(cores), |threads| threads.parse())?;
    for sampling in [r#"{"temperature":0}"#, r#"{"temperature":0.8}"#, r#"{"temperature":0.8,"top_p":0.9}"#] {
        for n_vocab in [2 << 10, 32 << 10, 128 << 10] {
            for slots in [1, 16, 64] {
                let [one, several] = compare(sampling, (n_vocab, slots), threads)?;
                let rate = |us: f64| f64::from(slots) * 1e6 / us;
                println!(
                    "{sampling} {n_vocab} tokens x {slots}: {one:.0} us, {:.0} rows/s on 1 thread; {several:.0} us, {:.0} rows/s on {threads}: {:.2} times as fast",
                    rate(one),
                    rate(several),
                    one / several
                );
            }
        }
    }
    Ok(())
}
