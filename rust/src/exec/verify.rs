//! The rules of acceptance.
//!
//! `exact`: the target draws every verified row itself, and a drafted token is kept iff it equals the draw. Since a draw is
//! a pure function of (seed, choice, position, processed logits), the emitted tokens are the same for every draft, the
//! empty one included.
//!
//! `rejection` (in `rejection.rs`): modified rejection sampling, whose tokens have the target's distribution.

mod rejection;
mod room;

pub(super) use rejection::rejection;

use super::{Draft, Job};
use crate::config::DraftSource;
use crate::error::{Error, Result};
use crate::grammar::{Cursor, Grammar, Next};
use crate::request::Fault;
use crate::sampler::{Drawn, Sampler, Scratch};
use crate::types::{Refusal, Token, TokenLogprob};
use std::time::{Duration, Instant};

/// What verifying one job's rows gave.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) tokens: Vec<Token>,
    pub(super) logprobs: Vec<TokenLogprob>,
    /// Of known tokens, where the job asks for them.
    pub(super) scores: Vec<TokenLogprob>,
    /// Drafted tokens that were kept.
    pub(super) accepted: usize,
    /// The grammar allows nothing but the end after `tokens`.
    pub(super) ended: bool,
    /// Why the next drafted token was refused.
    pub(super) refusal: Option<Refusal>,
    /// The hidden state of the row after the last kept token, where it was asked for.
    pub(super) hidden: Option<Vec<f32>>,
    /// A draw was not taken because the output could not have been completed behind it.
    pub(super) shortened: bool,
    /// What failed behind `tokens`.
    pub(super) failure: Option<Error>,
    /// Time spent on masks.
    pub(super) mask_time: Duration,
}

/// Walks the rows of one job: row `i` is the distribution after the first `i` drafted tokens.
///
/// The job's grammar and sampler are as before afterwards. After an error or a panic `verdict` has what came before it.
///
/// # Errors
/// The sequence's own: its grammar broke, or a row is not finite.
/// `decreed`: for measurements, so many drafted tokens are kept, whatever the target says, if the grammar allows them.
pub(super) fn exact(
    job: &mut Job,
    decreed: Option<usize>,
    rows: &[&[f32]],
    scratch: &mut Scratch,
    verdict: &mut Verdict,
) -> Result<()> {
    let Job { draft, sampler, grammar, budget, .. } = job;
    let mut walk = Walk::new(grammar.as_mut());
    for (i, row) in rows.iter().enumerate() {
        let (drawn, allowed) = draw(&mut walk, verdict, draft, (sampler, *budget), (*row, &mut *scratch))?;
        let Drawn::Token(token, logprob) = drawn else {
            verdict.ended = true;
            verdict.refusal = draft.tokens.get(i).map(|_| Refusal::Grammar);
            break;
        };
        let drafted = draft.tokens.get(i).copied();
        let kept = match decreed {
            None => drafted == Some(token),
            Some(decreed) => drafted.is_some() && allowed && i < decreed,
        };
        verdict.tokens.push(drafted.filter(|_| kept).unwrap_or(token));
        verdict.logprobs.extend(logprob);
        let Some(drafted) = drafted else { break };
        if !kept || !walk.push(drafted)? {
            verdict.refusal = Some(if allowed { Refusal::Target } else { Refusal::Grammar });
            break;
        }
        verdict.accepted += 1;
    }
    Ok(())
}

/// Draws how many tokens of a draft are kept at these rates, by their places; forced ones are, always.
pub(super) fn decreed(job: &Job, rates: &[f64]) -> usize {
    let sources = job.draft.sources.iter().flat_map(|(source, n)| std::iter::repeat_n(*source, *n as usize));
    let mut rates = rates.iter().copied().chain(rates.last().copied().into_iter().cycle());
    let mut kept = |(i, source)| {
        source == DraftSource::Forced || rates.next().is_some_and(|rate| job.sampler.chance(i) < rate)
    };
    sources.enumerate().take_while(|place| kept(*place)).count()
}

/// The mask for the row `at`, `width` tokens wide, unless drafting has computed it.
fn fresh_mask(
    walk: &mut Walk<'_>,
    verdict: &mut Verdict,
    (draft, sampler): (&Draft, &Sampler),
    (at, width): (usize, usize),
) -> Result<Option<Next>> {
    if sampler.fault() == Some(Fault::GrammarPanic(sampler.position() + at as u32)) {
        panic!("planted grammar fault");
    }
    let begin = Instant::now();
    let fresh = if draft.masks.len() > at { None } else { walk.mask(width)? };
    verdict.mask_time += begin.elapsed();
    Ok(fresh)
}

/// What the target draws, and whether the grammar allows the drafted token, if there is one.
fn draw(
    walk: &mut Walk<'_>,
    verdict: &mut Verdict,
    draft: &Draft,
    (sampler, budget): (&Sampler, u32),
    (row, scratch): (&[f32], &mut Scratch),
) -> Result<(Drawn, bool)> {
    let at = verdict.tokens.len();
    let fresh = fresh_mask(walk, verdict, (draft, sampler), (at, row.len()))?;
    let mask = draft.masks.get(at).or(fresh.as_ref());
    let allowed = draft.tokens.get(at).zip(mask).is_none_or(|(token, mask)| mask.allows(*token));
    let drawn = sampler.draw(row, mask, &verdict.tokens, scratch)?;
    Ok((room::fitting(drawn, walk, verdict, (sampler, budget), (row, mask, scratch))?, allowed))
}

/// A walk ahead in the grammar that begins a cursor only when a drafted token is kept.
enum Walk<'a> {
    Free,
    Ahead(Cursor<'a>),
}

impl<'a> Walk<'a> {
    fn new(grammar: Option<&'a mut Grammar>) -> Self {
        grammar.map_or(Walk::Free, |g| Walk::Ahead(g.cursor()))
    }

    fn mask(&mut self, width: usize) -> Result<Option<Next>> {
        match self {
            Walk::Free => Ok(None),
            Walk::Ahead(cursor) => cursor.mask().map(|m| Some(m.widened(width))),
        }
    }

    /// False where the walk cannot go on: the grammar refuses the token or it is an end token.
    fn push(&mut self, token: Token) -> Result<bool> {
        match self {
            Walk::Free => Ok(true),
            Walk::Ahead(cursor) => cursor.push(token),
        }
    }
}
