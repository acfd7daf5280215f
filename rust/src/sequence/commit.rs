//! What a round adds to a sequence.

use super::Sequence;
use crate::error::Result;
use crate::exec::Round;
use crate::grammar::Grammar;
use crate::types::{End, Event, FinishReason, Successors, Token, TokenLogprob};
use crate::vocab::Vocab;

impl Sequence {
    /// Takes a round, token by token: an end token, stop string, grammar end or the last allowed token cuts it there.
    ///
    /// None if nothing is to be told (a prompt chunk, of which nothing is wanted).
    ///
    /// # Errors
    /// Where the grammar refuses a token that its mask allowed.
    pub fn commit(&mut self, round: Round) -> Result<Option<Event>> {
        let (sampled, waits) = (round.job.sample, round.waits());
        self.sampler = Some(round.job.sampler);
        self.grammar = round.job.grammar;
        self.computed = round.computed;
        // A block that is found may hold the last token, which is computed all the same.
        self.cached = self.cached.max(round.reused.unwrap_or(0).min(self.prompt_len() - 1));
        self.shortened |= round.shortened;
        let mut event = self.event();
        // A sequence that was preempted computes again what it has told.
        let told = self.scored.saturating_sub(round.job.start) as usize;
        event.prompt_logprobs = round.scores.into_iter().skip(told).collect();
        self.scored += event.prompt_logprobs.len() as u32;
        if self.decides() {
            return Ok(self.decide(round.job.start, round.successors, event));
        }
        if !sampled || waits {
            return Ok(if event.prompt_logprobs.is_empty() { None } else { Some(event) });
        }
        let mut logprobs = round.logprobs.into_iter();
        for token in round.tokens {
            let end = match self.take(token, logprobs.next(), &mut event) {
                // What was drawn before it is told, as it is where each token has a round of its own.
                Err(error) if !event.tokens.is_empty() => {
                    event.end = Some(End::Failed(error));
                    return Ok(Some(event));
                }
                taken => taken?,
            };
            if end.is_some() {
                self.finish(&mut event, end);
                return Ok(Some(event));
            }
        }
        if let Some(error) = round.failure {
            event.end = Some(End::Failed(error));
            return Ok(Some(event));
        }
        let over = self.grammar.as_ref().is_some_and(Grammar::is_ended);
        let end = if round.ended || over { Some(FinishReason::Stop) } else { None };
        self.finish(&mut event, end);
        assert!(event.end.is_some() || self.computed < self.known(), "the gap is closed. This is a bug.");
        Ok(Some(event))
    }

    /// Sends what a job that starts at token `start` computed for a decision, which ends with its last token.
    fn decide(&mut self, start: u32, successors: Vec<Successors>, mut event: Event) -> Option<Event> {
        // After a preemption, rows are computed again that were already sent.
        let first = self.decides_from().map_or(0, |first| start.saturating_sub(first));
        event.successors = successors.into_iter().skip(self.decided.saturating_sub(first) as usize).collect();
        self.decided += event.successors.len() as u32;
        if self.computed == self.known() {
            self.finish(&mut event, Some(FinishReason::Stop));
        }
        (event.end.is_some() || !event.successors.is_empty()).then_some(event)
    }

    fn take(
        &mut self,
        token: Token,
        logprob: Option<TokenLogprob>,
        event: &mut Event,
    ) -> Result<Option<FinishReason>> {
        event.usage.completion += 1;
        if self.vocab.is_eog(token) || self.stops_at(token) {
            return Ok(Some(FinishReason::Stop));
        }
        if let Some(grammar) = &mut self.grammar {
            let reasoning = grammar.is_reasoning();
            grammar.commit(token)?;
            self.reasoning += u32::from(reasoning);
            event.usage.reasoning = self.reasoning;
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.commit(token);
        }
        self.tokens.push(token);
        event.tokens.push(token);
        event.logprobs.extend(logprob);
        let (grammar, tokens, vocab) =
            (&self.grammar, &self.tokens[self.spec.spec().prompt.len()..], &self.vocab);
        let may_stop = |behind: usize| ends_before(grammar.as_ref(), tokens, vocab, behind);
        let pushed = self.text.push(token, &may_stop);
        event.text.push_str(&pushed.text);
        if pushed.stopped {
            return Ok(Some(FinishReason::Stop));
        }
        let over = self.grammar.as_ref().is_some_and(Grammar::is_ended);
        if self.generated() >= self.spec.max_tokens() {
            // What was led to its end is not cut.
            let whole = self.shortened && self.grammar.as_mut().is_some_and(Grammar::may_end);
            return Ok(Some(if over || whole { FinishReason::Stop } else { FinishReason::Length }));
        }
        Ok(over.then_some(FinishReason::Stop))
    }

    fn finish(&mut self, event: &mut Event, end: Option<FinishReason>) {
        if let Some(reason) = end {
            event.text.push_str(&self.text.finish());
            event.end = Some(End::Finished(reason));
            event.narrowed =
                self.grammar.as_ref().map_or_else(Vec::new, |grammar| grammar.narrowed().to_vec());
        }
    }

    /// Whether the request's own end token ends the output: within a constraint only where that may end.
    fn stops_at(&mut self, token: Token) -> bool {
        let named = self.spec.spec().stop_token_ids.contains(&token);
        named && self.grammar.as_mut().is_none_or(|grammar| !grammar.completes() || grammar.may_end())
    }
}

/// Whether the output may end before its last `behind` bytes.
fn ends_before(grammar: Option<&Grammar>, tokens: &[Token], vocab: &Vocab, behind: usize) -> bool {
    let Some(grammar) = grammar.filter(|grammar| grammar.completes()) else { return true };
    let bytes: usize = tokens.iter().map(|token| vocab.bytes(*token).len()).sum();
    let mut before = bytes.saturating_sub(behind);
    let mut walk = grammar.restart();
    for token in tokens {
        let own = vocab.bytes(*token);
        let taken = match before.checked_sub(own.len()) {
            Some(rest) => {
                before = rest;
                walk.commit(*token).is_ok()
            }
            // The stop text begins within this token.
            None => {
                let begun = vocab.tok_env().tok_trie().greedy_tokenize(&own[..before]);
                return begun.into_iter().all(|token| walk.commit(token).is_ok()) && walk.may_end();
            }
        };
        if !taken {
            return false;
        }
    }
    walk.may_end()
}
