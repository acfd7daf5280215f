//! The masks of one request that is with the executor.

use crate::error::{Error, Result, caught};
use crate::grammar::{Grammar, Next};
use crate::sampler::{Rules, Sampler};
use crate::types::Token;
use std::time::{Duration, Instant};

/// A request's place in its constraint.
pub(super) struct Walk {
    pub(super) rules: Rules,
    /// Generated tokens before the request.
    pub(super) position: u32,
    /// Tokens of the text that was sent.
    pub(super) sent: usize,
    /// Draft tokens sent with it.
    pub(super) draft: Vec<Token>,
    /// Masks of the first rows that are known already.
    pub(super) known: Vec<Next>,
    /// Where the text that was sent is committed.
    pub(super) grammar: Option<Grammar>,
    /// The request runs on after its first draw: the grammar is its own and takes what it draws.
    pub(super) runs_on: bool,
    /// Tokens drawn for the request that are committed here.
    pub(super) taken: usize,
    /// The first draft token that the grammar refuses.
    pub(super) refused: Option<usize>,
    /// The grammar's masks at each drawn token, where they are kept for who verifies it.
    pub(super) made: Option<Vec<Next>>,
    /// Time spent on masks.
    pub(super) took: Duration,
}

impl Walk {
    /// Behind `sent` tokens of text, the last of which the sampler has taken.
    pub(super) fn new(sampler: &Sampler, sent: usize) -> Self {
        Walk {
            rules: sampler.rules(),
            position: sampler.position(),
            sent,
            draft: Vec::new(),
            known: Vec::new(),
            grammar: None,
            runs_on: false,
            taken: 0,
            refused: None,
            made: None,
            took: Duration::ZERO,
        }
    }

    /// Whether the executor is to ask for masks.
    pub(super) fn masked(&self) -> bool {
        self.grammar.is_some() || self.rules.restricts(self.position)
    }

    /// Writes the masks of `rows` rows, each `width` tokens wide, into `out`, after `output`: tokens drawn for the request
    /// behind those that were taken. The same again for the same output, however often it is asked: a chunk of a prompt may
    /// ask, too.
    ///
    /// # Errors
    /// The sequence's own.
    pub(super) fn masks(
        &mut self,
        output: &[Token],
        (rows, width): (usize, usize),
        out: &mut [u32],
    ) -> Result<()> {
        let begin = Instant::now();
        let written = caught("masks", || {
            self.take(output)?;
            self.write((rows, width), out)
        });
        self.took += begin.elapsed();
        written
    }

    fn take(&mut self, output: &[Token]) -> Result<()> {
        if !self.runs_on && !output.is_empty() {
            let why = "TensorRT-LLM goes on with a request that asked for one verification; its release may not suit";
            return Err(Error::Executor(why.into()));
        }
        for token in output {
            if let Some(grammar) = &mut self.grammar {
                grammar.commit(*token)?;
            }
            self.taken += 1;
            self.known.clear();
        }
        Ok(())
    }

    fn write(&mut self, (rows, width): (usize, usize), out: &mut [u32]) -> Result<()> {
        let (words, position) = (width.div_ceil(32), self.position + self.taken as u32);
        let mut cursor = self.grammar.as_mut().map(Grammar::cursor);
        for (row, out) in out.chunks_mut(words).enumerate().take(rows) {
            let next = match (self.known.get(row), &mut cursor) {
                (Some(next), _) => Some(next.clone()),
                (None, Some(cursor)) => Some(cursor.mask()?),
                (None, None) => None,
            };
            if let (Some(made), Some(next)) = (&mut self.made, &next)
                && made.len() == self.taken
            {
                made.push(next.clone());
            }
            let mask = self.rules.mask(next, position + row as u32, width)?;
            out.copy_from_slice(mask.words());
            let Some(next) = self.draft.get(row) else { break };
            let goes_on = match &mut cursor {
                Some(cursor) => mask.allows(*next) && cursor.push(*next)?,
                None => mask.allows(*next),
            };
            if !goes_on {
                // The rows behind it cannot be reached: its own has no chance here.
                self.refused = Some(row);
                break;
            }
        }
        Ok(())
    }
}
