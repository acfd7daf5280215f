//! What every loop under measurement shares: the cases, the prompts, the report.

use llgtrt::types::Token;
use std::path::{Path, PathBuf};

/// One thing to measure.
#[derive(Debug, Clone)]
pub struct Case {
    /// Sequences that decode at the same time.
    pub sequences: u32,
    /// Tokens of each sequence's prompt.
    pub prompt: u32,
    /// Tokens generated per sequence and round.
    pub steps: u32,
    /// Cells of each sequence.
    pub context: u32,
    /// Rounds; the median counts.
    pub rounds: u32,
}

/// What one round took.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Seconds of all steps, prompts not counted.
    pub seconds: f64,
    /// Tokens generated.
    pub tokens: u64,
}

/// `model.gguf [steps] [context]`: the model and the cases of 1 and 16 sequences.
pub fn case_from_args() -> Result<(PathBuf, Vec<Case>), String> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or("usage: raw_decode model.gguf [steps] [context]")?);
    let mut number =
        |default: u32| args.next().map_or(Ok(default), |a| a.parse::<u32>().map_err(|e| format!("{a}: {e}")));
    let (steps, context) = (number(128)?, number(512)?);
    let prompt = 64;
    if prompt + steps > context {
        return Err(format!("{prompt} + {steps} tokens are more than a context of {context}"));
    }
    let case = |sequences| Case { sequences, prompt, steps, context, rounds: 3 };
    Ok((path, vec![case(1), case(16)]))
}

/// The same random prompt for a sequence in every loop.
pub fn prompt(sequence: u32, len: u32, n_vocab: usize) -> Vec<Token> {
    let mut state = u64::from(sequence) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize % n_vocab) as Token
    };
    (0..len).map(|_| next()).collect()
}

/// The best token of a row, the lowest id on ties.
pub fn argmax(row: &[f32]) -> Token {
    // Sixteen lanes, so that the compiler uses the wide instructions.
    let mut lanes = [f32::NEG_INFINITY; 16];
    let chunks = row.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = if x > *lane { x } else { *lane };
        }
    }
    let best = lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter().position(|&x| x == best).unwrap_or(0) as Token
}

/// Prints a case's median as one line of JSON.
pub fn report(what: &str, model: &Path, case: &Case, timings: &[Timing]) {
    let mut rates: Vec<f64> = timings.iter().map(|t| t.tokens as f64 / t.seconds).collect();
    rates.sort_by(f64::total_cmp);
    let rate = rates[rates.len() / 2];
    let line = serde_json::json!({
        "loop": what,
        "model": model.file_name().map(|n| n.to_string_lossy()),
        "sequences": case.sequences,
        "steps": case.steps,
        "tokens_per_second": (rate * 10.0).round() / 10.0,
        "step_ms": (f64::from(case.sequences) * 1e6 / rate).round() / 1e3,
        "spread": (rates[rates.len() - 1] / rates[0] * 1e3).round() / 1e3,
    });
    println!("{line}");
}
