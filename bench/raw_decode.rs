//! The limit that the engine is measured against: a bare loop of `llama_decode` and argmax.
//!
//!     cargo run --release --features llama --example raw_decode -- model.gguf [steps] [context]
//!
//! Prints one JSON object per number of sequences: tokens per second of the decode steps (prompts not counted) and
//! the milliseconds of a step, each the median of the rounds. Threads, KV type, flash attention, slots and argmax are
//! those of the engine with its default configuration.

mod harness;

use harness::{Case, Timing, argmax, case_from_args, prompt, report};
use llgtrt::config::Config;
use llgtrt::exec::llama::context::{Context, DecodeError, Shape};
use llgtrt::exec::llama::ffi::Model;
use llgtrt::exec::llama::{kv_type, threads};
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), String> {
    let (path, cases) = case_from_args()?;
    let model = Model::load(&path)?;
    for case in cases {
        report("llama_decode", &path, &case, &raw_loop(&model, &case)?);
    }
    Ok(())
}

/// Computes a prompt for each sequence, then decodes steps of one token per sequence; times each round of steps.
fn raw_loop(model: &Arc<Model>, case: &Case) -> Result<Vec<Timing>, String> {
    let config = Config::default();
    let shape = Shape {
        shared: false,
        sequences: case.sequences,
        cells: case.sequences * case.context,
        batch: config.max_num_tokens,
        kv: kv_type(&config),
        threads: threads(&config),
    };
    let mut context = Context::new(model, &shape)?;
    (0..case.rounds).map(|_| one_round(&mut context, case).map_err(|e| e.to_string())).collect()
}

fn one_round(context: &mut Context, case: &Case) -> Result<Timing, DecodeError> {
    let mut next = Vec::new();
    for sequence in 0..case.sequences {
        context.remove(sequence, 0);
        context.clear();
        for (position, token) in (0..).zip(prompt(sequence, case.prompt, context.n_vocab())) {
            context.push(token, position, sequence, position + 1 == case.prompt);
        }
        context.decode()?;
        next.push(context.logits(case.prompt as usize - 1).map_or(0, argmax));
    }
    let begin = Instant::now();
    for position in (case.prompt..).take(case.steps as usize) {
        context.clear();
        for (sequence, &token) in (0..).zip(&next) {
            context.push(token, position, sequence, true);
        }
        context.decode()?;
        for (index, token) in next.iter_mut().enumerate() {
            *token = context.logits(index).map_or(0, argmax);
        }
    }
    Ok(Timing { seconds: begin.elapsed().as_secs_f64(), tokens: u64::from(case.steps * case.sequences) })
}
