//! The rules of acceptance.
//!
//! By the exact one the target draws every verified row itself, and a drafted token is kept iff it equals the draw. Since a draw
//! is a pure function of (seed, choice, position, processed logits), the emitted tokens are the same for every draft, the
//! empty one included. The other is that of `rejection.rs`, whose tokens have the target's distribution.

mod rejection;
mod successors;

use super::{Job, Round};
use crate::config::{Acceptance, DraftSource};
use crate::error::Result;
use crate::grammar::{Cursor, Grammar, Mask, Next};
use crate::request::Fault;
use crate::sampler::{Drawn, Scratch};
use crate::types::Refusal;
use rejection::Rule;
use std::time::Instant;

/// Draws before the next token on the way to the end is taken.
const DRAWS: usize = 8;

/// Judges a job by its rows of logits. Rows for log-probabilities of the prompt come first. After them, row `i` belongs to the token
/// after the first `i` drafted tokens. A decision has rows for known tokens only.
/// `rates`: see [`SpeculativeConfig::synthetic_acceptance`](crate::config::SpeculativeConfig::synthetic_acceptance).
///
/// `grammar` is the job's, which is taken out of it; it is as before afterwards. After an error or a panic the round has what came
/// before it.
///
/// # Errors
/// The sequence's own: its grammar broke, or a row is not finite.
pub(super) fn judge(
    round: &mut Round,
    grammar: Option<&mut Grammar>,
    rates: Option<&[f64]>,
    mut rows: &[&[f32]],
    scratch: &mut Scratch,
) -> Result<()> {
    let job = &round.job;
    if let Some(score) = &job.score {
        round.scores = job.sampler.scores(rows, score.targets.iter().copied(), score.top, scratch)?;
        rows = &rows[job.tokens.len() - 1..];
    }
    if job.decides > 0 {
        round.successors = successors::behind(job, grammar, rows)?;
        return Ok(());
    }
    if !job.sample {
        return Ok(());
    }
    let decreed = rates.map(|rates| decreed(job, rates));
    Walk::new(round, grammar, scratch, &rejection::modified).judge(rows, decreed)
}

/// Draws how many tokens of a draft are kept at these rates, by their places; forced ones are, always.
fn decreed(job: &Job, rates: &[f64]) -> usize {
    let mut rates = rates.iter().copied().chain(rates.last().copied().into_iter().cycle());
    let mut kept = |(i, source): (usize, &DraftSource)| {
        *source == DraftSource::Forced || rates.next().is_some_and(|rate| job.sampler.chance(i) < rate)
    };
    job.draft.sources.iter().enumerate().take_while(|place| kept(*place)).count()
}

/// A round in the making.
struct Walk<'a> {
    round: &'a mut Round,
    cursor: Option<Cursor<'a>>,
    scratch: &'a mut Scratch,
    /// Where tokens are accepted by rejection.
    rule: Option<&'a Rule<'a>>,
}

impl<'a> Walk<'a> {
    fn new(
        round: &'a mut Round,
        grammar: Option<&'a mut Grammar>,
        scratch: &'a mut Scratch,
        rejection: &'a Rule<'a>,
    ) -> Self {
        let draft = &round.job.draft;
        let rejects = draft.acceptance == Acceptance::Rejection && !draft.tokens.is_empty();
        Walk { round, cursor: grammar.map(Grammar::cursor), scratch, rule: rejects.then_some(rejection) }
    }

    /// `decreed`: for measurements, the exact rule keeps so many drafted tokens, whatever the target says, if the grammar allows
    /// them.
    fn judge(&mut self, rows: &[&[f32]], decreed: Option<usize>) -> Result<()> {
        let decreed = decreed.filter(|_| self.rule.is_none());
        for (at, row) in rows.iter().enumerate() {
            self.fill(at, row.len())?;
            let (drawn, may_keep) = self.draw(row)?;
            let drawn = self.fitting(row, drawn)?;
            let Job { draft, sampler, .. } = &self.round.job;
            let drafted = draft.tokens.get(at).copied();
            let Drawn::Token(token, logprob) = drawn else {
                self.round.ended = true;
                self.round.refusal = drafted.map(|_| Refusal::Grammar);
                break;
            };
            self.round.logprobs.extend(logprob);
            let Some(drafted) = drafted else {
                self.round.tokens.push(token);
                break;
            };
            let allowed = draft.masks.get(at).is_none_or(|mask| mask.allows(drafted));
            let kept = match decreed {
                None => may_keep && token == drafted,
                Some(decreed) => allowed && at < decreed,
            };
            self.round.tokens.push(if kept { drafted } else { token });
            if !kept {
                self.round.refusal = Some(if allowed { Refusal::Target } else { Refusal::Grammar });
                break;
            }
            let ends = self.rule.is_some() && sampler.is_end(drafted);
            if ends || !self.cursor.as_mut().map_or(Ok(true), |cursor| cursor.push(drafted))? {
                self.round.refusal = Some(Refusal::End);
                break;
            }
            self.round.computed += 1;
        }
        Ok(())
    }

    /// Computes the mask for the row `at`, `width` tokens wide, unless drafting has.
    fn fill(&mut self, at: usize, width: usize) -> Result<()> {
        let Job { draft, sampler, .. } = &mut self.round.job;
        if sampler.fault() == Some(Fault::GrammarPanic(sampler.position() + at as u32)) {
            panic!("planted grammar fault");
        }
        let begin = Instant::now();
        self.cursor.as_mut().map_or(Ok(()), |cursor| draft.fill(at, cursor, width))?;
        self.round.mask_time += begin.elapsed();
        Ok(())
    }

    /// What comes of the row by the rule, and whether it may be kept as the drafted token, if it is the same.
    fn draw(&mut self, row: &[f32]) -> Result<(Drawn, bool)> {
        let (Round { job: Job { draft, sampler, .. }, tokens, .. }, scratch) =
            (&*self.round, &mut *self.scratch);
        let mask = draft.masks.get(tokens.len());
        let Some(rule) = self.rule else { return Ok((sampler.draw(row, mask, tokens, scratch)?, true)) };
        if !sampler.spread(row, mask, tokens, scratch)? {
            return Ok((Drawn::End, false));
        }
        let (token, may_keep) = rule(sampler, draft, tokens.len(), &scratch.spread);
        Ok((Drawn::Token(token, sampler.logprobs(row, (mask, tokens), token, scratch)), may_keep))
    }

    /// What is drawn in place of `drawn`, by the same row and mask, where `max_tokens` comes near: an output that is constrained
    /// is completed.
    ///
    /// Of the tokens that the mask allows, only those may come behind which the output can still be completed. Where the token that
    /// was drawn does not fit, another is drawn from those that are left. Each token has noise of its own, so this draw has the
    /// distribution without the tokens that do not fit. After some draws, or where all tokens that are left are needed, the next
    /// token on the way to the end is taken.
    fn fitting(&mut self, row: &[f32], drawn: Drawn) -> Result<Drawn> {
        let (Drawn::Token(token, _), Some(cursor)) = (&drawn, &mut self.cursor) else { return Ok(drawn) };
        let Round { job: Job { draft, sampler, budget, .. }, tokens, shortened, .. } = &mut *self.round;
        let left = budget.saturating_sub(tokens.len() as u32 + 1);
        // A way to the end may lead over tokens that the request does not allow.
        if sampler.request().spec().allowed_token_ids.is_some() || cursor.fits(*token, left)? {
            return Ok(drawn);
        }
        // Where no way to the end is known, none can be kept open.
        let Some((next, least)) = cursor.way() else { return Ok(drawn) };
        *shortened = true;
        let mut others = cursor.listed(&draft.masks[tokens.len()], row.len());
        others.set(*token, false);
        let mut draw = |mask: &Mask| sampler.draw(row, Some(&Next::Only(mask.clone())), tokens, self.scratch);
        // With no more left than the way takes, only its tokens fit.
        for _ in 0..if left < least { 0 } else { DRAWS } {
            if others.count() == 0 {
                break;
            }
            match draw(&others)? {
                Drawn::Token(token, _) if !cursor.fits(token, left)? => others.set(token, false),
                drawn => return Ok(drawn),
            }
        }
        let mut only = Mask::none(row.len());
        only.set(next, true);
        draw(&only)
    }
}
