//! The limit: `llama_decode` and argmax, nothing else.

use super::{Case, Timing, prompt};
use llgtrt::config::{Config, KvHome, KvPlan};
use llgtrt::exec::llama::context::{Context, DecodeError, PASS_TOKENS, Shape, Workers};
use llgtrt::exec::llama::ffi::Model;
use llgtrt::exec::llama::placement::Placement;
use llgtrt::exec::llama::{kv_type, threads};
use llgtrt::types::Token;
use std::path::Path;
use std::time::Instant;

/// A context, and the tokens of its vocabulary.
pub(super) struct Raw(Context, usize);

impl Raw {
    pub(super) fn open(path: &Path, case: &Case) -> Result<Raw, String> {
        let mut config = Config::default();
        config.engine.threads = case.threads;
        let (sequences, per_slot) = (case.sequences, case.context);
        let cells = sequences * per_slot;
        let plan = KvPlan { home: KvHome::Slots, sequences, cells, per_slot, total: cells.into() };
        let shape = Shape {
            plan: &plan,
            batch: config.max_num_tokens,
            pass: PASS_TOKENS,
            kv: kv_type(&config),
            paged: true,
            rollback: 0,
            positions: &config.engine,
        };
        let model = Model::load(path, &Placement::default(), &|_| ())?;
        let context = Context::new(&model, &shape, &Workers::team(threads(&config), &[])?)?;
        Ok(Raw(context, model.n_vocab()))
    }

    /// A prompt for each sequence, then steps of one token per sequence.
    pub(super) fn round(&mut self, case: &Case) -> Result<Timing, String> {
        self.try_round(case).map_err(|e| e.to_string())
    }

    fn try_round(&mut self, case: &Case) -> Result<Timing, DecodeError> {
        let Raw(context, n_vocab) = self;
        let mut next = Vec::new();
        for sequence in 0..case.sequences {
            context.remove(sequence, 0);
            context.clear();
            for (position, token) in (0..).zip(prompt(sequence, case.prompt, *n_vocab)) {
                context.push(token, position, sequence, position + 1 == case.prompt);
            }
            context.decode()?;
            next.push(context.logits(case.prompt as usize - 1).map_or(0, argmax));
        }
        let mut steps = Vec::new();
        for position in (case.prompt..).take(case.steps as usize) {
            let begin = Instant::now();
            context.clear();
            for (sequence, &token) in (0..).zip(&next) {
                context.push(token, position, sequence, true);
            }
            context.decode()?;
            for (index, token) in next.iter_mut().enumerate() {
                *token = context.logits(index).map_or(0, argmax);
            }
            steps.push(begin.elapsed().as_secs_f64());
        }
        Ok(Timing { steps, tokens: u64::from(case.steps * case.sequences), mask: 0.0 })
    }
}

/// The best token of a row, the lowest id on ties.
fn argmax(row: &[f32]) -> Token {
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
