//! What a request drew, and the outcome of its job.

use super::interface::{Executor, Finish};
use super::walk::Walk;
use crate::error::Error;
use crate::exec::{Job, Outcome, Round};
use crate::types::{Refusal, Token, TokenLogprob};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a request drew for a job.
pub(super) struct Drawn {
    pub(super) tokens: Vec<Token>,
    pub(super) logprobs: Vec<f32>,
    pub(super) finish: Option<Finish>,
    /// Prompt tokens whose KV it found.
    pub(super) reused: Option<u32>,
}

impl Drawn {
    /// The job's outcome; `walk` of a request that has ended.
    pub(super) fn outcome(mut self, mut job: Job, walk: Option<Arc<Mutex<Walk>>>) -> Outcome {
        let (mut refused, mut took) = (None, Duration::ZERO);
        if let Some(walk) = walk {
            Executor::with_walk(&walk, |walk| {
                (refused, took) = (walk.refused, walk.took);
                if job.grammar.is_none() {
                    job.grammar = walk.grammar.take();
                }
            });
        }
        let ended = self.end(&mut job)?;
        if self.tokens.is_empty() && !ended {
            let why = "TensorRT-LLM gave a request no token";
            return Err(Error::Executor(why.into()));
        }
        let draft = &job.draft.tokens;
        let accepted = draft.iter().zip(&self.tokens).take_while(|(ours, theirs)| ours == theirs).count();
        let refusal = match refused {
            _ if accepted == draft.len() => None,
            Some(at) if at == accepted => Some(Refusal::Grammar),
            _ => Some(Refusal::Target),
        };
        let logprobs = self.tokens.iter().zip(&self.logprobs);
        let logprobs = logprobs.map(|(token, logprob)| TokenLogprob {
            token: *token,
            logprob: *logprob,
            top: Vec::new(),
            allowed: None,
        });
        let logprobs = if job.sampler.wants_logprobs() { logprobs.collect() } else { Vec::new() };
        let reused = self.reused;
        let round = round_of(job, self.tokens, took);
        Ok(Box::new(Round { logprobs, ended, refusal, reused, ..round }))
    }

    /// Puts the end token there where it was left out; true where the grammar asked for the end, which is no token then.
    fn end(&mut self, job: &mut Job) -> Result<bool, Error> {
        let is_end = |token: &Token| job.sampler.is_end(*token);
        match self.finish {
            Some(Finish::Given) => return Err(Error::Executor("TensorRT-LLM gave the request up".into())),
            Some(Finish::End | Finish::Stop) if !self.tokens.last().is_some_and(is_end) => {}
            _ => return Ok(false),
        }
        let rules = job.sampler.rules();
        if let Some(grammar) = &mut job.grammar {
            let mut cursor = grammar.cursor();
            for token in &self.tokens {
                cursor.push(*token)?;
            }
            if rules.is_end(&cursor.mask()?) {
                return Ok(true);
            }
        }
        // As an order has them.
        let ends = job.sampler.ends();
        let end = rules.end().unwrap_or(ends[0]);
        let stop = ends.iter().copied().find(|other| *other != end).unwrap_or(end);
        self.tokens.push(if self.finish == Some(Finish::End) { end } else { stop });
        Ok(false)
    }
}

/// A round of these tokens: all but the last, which the executor may leave out, are computed.
pub(super) fn round_of(job: Job, tokens: Vec<Token>, mask_time: Duration) -> Round {
    let round = Round::new(job);
    let computed = round.computed + tokens.len().saturating_sub(1) as u32;
    Round { computed, tokens, mask_time, ..round }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Draft;
    use crate::request::{Limits, Request};
    use crate::sampler::Sampler;
    use crate::types::Slot;
    use crate::vocab::Vocab;

    /// A job that computes one token at position 7, and drafts.
    fn job(draft: &[Token]) -> Job {
        let vocab = Vocab::toy().unwrap();
        let limits = Limits::small(vocab.len());
        let spec = serde_json::from_str(r#"{"prompt":[1],"logprobs":0,"stop_token_ids":[65]}"#).unwrap();
        let request = Arc::new(Request::new(spec, &limits).unwrap());
        Job {
            slot: Slot(0),
            start: 7,
            tokens: vec![5],
            sample: true,
            score: None,
            decides: 0,
            draft: Draft { tokens: draft.to_vec(), ..Draft::default() },
            budget: 9,
            sampler: Sampler::new(request, 0, 0, vocab),
            grammar: None,
        }
    }

    fn outcome(draft: &[Token], tokens: &[Token], finish: Finish) -> Result<Round, String> {
        let logprobs = vec![-1.0; tokens.len()];
        let drawn = Drawn { tokens: tokens.to_vec(), logprobs, finish: Some(finish), reused: None };
        drawn.outcome(job(draft), None).map(|round| *round).map_err(|error| error.to_string())
    }

    #[test]
    fn accepted_drafts_and_one_more_are_a_round() {
        let round = outcome(&[1, 2, 3], &[1, 2, 9], Finish::Length).unwrap();
        assert_eq!((round.tokens, round.computed), (vec![1, 2, 9], 10));
        assert_eq!((round.refusal, round.logprobs.len()), (Some(Refusal::Target), 3));
        let round = outcome(&[1, 2], &[1, 2, 9], Finish::Length).unwrap();
        assert_eq!((round.computed, round.refusal), (10, None));
    }

    #[test]
    fn without_a_bonus_the_last_draft_is_computed_next() {
        let round = outcome(&[1, 2], &[1, 2], Finish::Length).unwrap();
        assert_eq!((round.tokens, round.computed), (vec![1, 2], 9));
    }

    #[test]
    fn an_end_that_was_left_out_is_there_again() {
        let end = job(&[]).sampler.rules().end().unwrap();
        for (finish, end) in [(Finish::End, end), (Finish::Stop, 65)] {
            let round = outcome(&[1, 2], &[1], finish).unwrap();
            assert_eq!((round.tokens, round.computed), (vec![1, end], 9));
            assert_eq!(outcome(&[1], &[], finish).unwrap().tokens, [end]);
            // It may be there already.
            assert_eq!(outcome(&[1], &[1, 65], finish).unwrap().tokens, [1, 65]);
        }
    }

    #[test]
    fn nothing_at_all_is_an_error() {
        assert!(outcome(&[1], &[], Finish::Length).unwrap_err().contains("no token"));
        assert!(outcome(&[1], &[4], Finish::Given).unwrap_err().contains("gave the request up"));
    }
}
