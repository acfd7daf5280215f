//! A head as the seam's `Head`: the slots, passes and KV of any model here, over tokens that come with states.

use super::forward::{Llama, failed};
use crate::exec::head::{Drawn, Head};
use crate::exec::{Caps, ExecError, Run};

impl Head for Llama {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn encode(&mut self, features: &[f32], to: &mut Vec<f32>) -> Result<(), ExecError> {
        self.context.encode(features, to).map_err(|e| failed(e.to_string()))
    }

    fn pass(&mut self, runs: &[Run<'_>], states: &[f32]) -> Result<Vec<Drawn<'_>>, ExecError> {
        let (outputs, filled) = self.fill_batch(runs)?;
        let mut states = states.chunks(self.caps.n_embd);
        for (run, outputs) in runs.iter().zip(&outputs) {
            for index in outputs.end - run.tokens.len()..outputs.end {
                self.context.give(index, states.next().ok_or_else(|| failed("a token has no state"))?);
            }
        }
        if runs.iter().any(|run| run.outputs > 0) {
            self.context.want_all();
        }
        self.decode(runs, &filled)?;
        self.grow(runs);
        let row = |index| {
            let logits = self.context.logits(index).ok_or_else(|| failed("no logits"))?;
            let state = self.context.handed_on(index).ok_or_else(|| failed("no state"))?;
            Ok(Drawn { logits, state })
        };
        outputs.into_iter().flatten().map(row).collect()
    }
}
