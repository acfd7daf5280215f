//! The core, driven in this process, beside a bare loop of `llama_decode` and argmax.
//!
//!     cargo run --release --features python,llama --example core_loop -- model.gguf [steps] [context] [rounds] [threads]
//!
//! Both generate the same number of tokens from the same prompts, with the same threads, slots, KV type, flash attention
//! and batch, and pick the likeliest token. Rounds of the loops take turns, and each round is held against the bare one
//! before it. One line of JSON per loop: the medians of the rounds, prompts not counted; and, since all rounds of a loop
//! make the same steps, what each step took when it was least disturbed, for machines whose speed is not their own.

mod core;
mod raw;

use llgtrt::config::DraftSource;
use std::path::PathBuf;

/// One thing to measure.
#[derive(Debug, Clone)]
struct Case {
    /// Sequences that decode at the same time.
    sequences: u32,
    /// Tokens of each sequence's prompt.
    prompt: u32,
    /// Tokens generated per sequence and round, after the first.
    steps: u32,
    /// Cells of each sequence.
    context: u32,
    /// Threads of the pass; 0 = the server's choice.
    threads: u32,
}

/// What one round took.
#[derive(Debug, Clone, Default)]
struct Timing {
    /// Seconds of each step, prompts not counted.
    steps: Vec<f64>,
    /// Tokens generated in them.
    tokens: u64,
    /// Seconds of them that went into masks on the engine's thread.
    mask: f64,
}

impl Timing {
    fn seconds(&self) -> f64 {
        self.steps.iter().sum()
    }

    fn rate(&self) -> f64 {
        self.tokens as f64 / self.seconds()
    }
}

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: core_loop model.gguf [steps] [context] [rounds] [threads]";
    let path = PathBuf::from(args.next().ok_or(usage)?);
    let mut number =
        |default: u32| args.next().map_or(Ok(default), |a| a.parse::<u32>().map_err(|e| format!("{a}: {e}")));
    let (steps, context, rounds, threads) = (number(128)?, number(512)?, number(5)?, number(0)?);
    let prompt = 64;
    if prompt + steps >= context {
        return Err(format!("{prompt} + {steps} tokens are too many for a context of {context}"));
    }
    for sequences in [1, 16] {
        measure(&path, &Case { sequences, prompt, steps, context, threads }, rounds)?;
    }
    Ok(())
}

fn measure(path: &std::path::Path, case: &Case, rounds: u32) -> Result<(), String> {
    let mut raw = raw::Raw::open(path, case)?;
    let mut core = core::Core::open(path, case, &[], 0)?;
    let mut beside = core::Core::open(path, case, &[], 1)?;
    let mut forced = core::Core::open(path, case, &[DraftSource::Forced], 0)?;
    let mut timings: [Vec<Timing>; 5] = Default::default();
    for _ in 0..rounds {
        timings[0].push(raw.round(case)?);
        timings[1].push(core.round(case, None)?);
        timings[2].push(core.round(case, Some(core::SCHEMA))?);
        timings[3].push(beside.round(case, Some(core::SCHEMA))?);
        timings[4].push(forced.round(case, Some(core::SCHEMA))?);
    }
    let names = [
        "llama_decode",
        "core",
        "core with a schema",
        "core with a schema, masks beside the pass",
        "core with a schema, forced tokens drafted",
    ];
    for (name, own) in names.iter().zip(&timings) {
        report(name, path, case, own, &timings[0]);
    }
    Ok(())
}

fn report(name: &str, model: &std::path::Path, case: &Case, own: &[Timing], bare: &[Timing]) {
    let rate = median(own.iter().map(Timing::rate));
    let round = |x: f64| (x * 1e3).round() / 1e3;
    let line = serde_json::json!({
        "loop": name,
        "model": model.file_name().map(|n| n.to_string_lossy()),
        "sequences": case.sequences,
        "tokens_per_second": rate.round(),
        "step_ms": round(f64::from(case.sequences) * 1e3 / rate),
        "mask_share": round(median(own.iter().map(|t| t.mask / t.seconds()))),
        "ratio_to_llama_decode": round(median(own.iter().zip(bare).map(|(a, b)| a.rate() / b.rate()))),
        "best_steps_ms": best_steps(own).map(|s| round(1e3 * s)),
        "ratio_of_best_steps": best_rate(bare).zip(best_rate(own)).map(|(b, o)| round(o / b)),
    });
    println!("{line}");
}

/// Seconds of a round whose every step is the fastest of all rounds; none where rounds took different steps.
fn best_steps(rounds: &[Timing]) -> Option<f64> {
    let steps = rounds.first()?.steps.len();
    if rounds.iter().any(|round| round.steps.len() != steps) {
        return None;
    }
    let fastest = |step: usize| rounds.iter().map(|round| round.steps[step]).fold(f64::INFINITY, f64::min);
    Some((0..steps).map(fastest).sum())
}

/// Tokens per second of such a round.
fn best_rate(rounds: &[Timing]) -> Option<f64> {
    Some(rounds.first()?.tokens as f64 / best_steps(rounds)?)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The same random prompt for a sequence in every loop.
fn prompt(sequence: u32, len: u32, n_vocab: usize) -> Vec<u32> {
    let mut state = u64::from(sequence) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The last ids are special tokens.
        ((state >> 33) as usize % (n_vocab - 8)) as u32
    };
    (0..len).map(|_| next()).collect()
}
