//! Computes which options of a decision remain after each possible next token.

use crate::error::{Error, Result};
use crate::exec::Job;
use crate::grammar::{Grammar, Next};
use crate::request::Decide;
use crate::sampler::not_finite;
use crate::types::{Successors, Token};
use crate::vocab::Vocab;

/// Returns one entry for each of the last [`Job::decides`] tokens, by the row after it. The grammar is unchanged afterwards.
///
/// # Errors
/// The sequence's own: its grammar broke or refuses the path, or a row is not finite.
pub(super) fn behind(job: &Job, grammar: Option<&mut Grammar>, rows: &[&[f32]]) -> Result<Vec<Successors>> {
    let spec = job.sampler.request().spec();
    let (Some(decide), Some(grammar)) = (&spec.decide, grammar) else { return Ok(Vec::new()) };
    let (path, vocab) = (&decide.paths[job.sampler.choice() as usize].tokens, job.sampler.vocab());
    let end = job.start as usize + job.tokens.len();
    let first = end + 1 - job.decides as usize - spec.prompt.len();
    let (mut cursor, mut begun, mut known) = (grammar.cursor(), Vec::new(), 0);
    let mut successors = Vec::with_capacity(rows.len());
    for (wanted, row) in (first..).zip(rows) {
        for token in &path[known..wanted] {
            if !cursor.push(*token)? {
                return Err(Error::invalid("paths", "the constraint refuses one of these tokens"));
            }
            if known >= decide.base as usize {
                begun.extend_from_slice(vocab.bytes(*token));
            }
            known += 1;
        }
        successors.push(split(decide, &begun, &cursor.mask()?, row, vocab)?);
    }
    Ok(successors)
}

/// Computes the entry of one row. `begun` is the text of the options that the path has written so far.
fn split(decide: &Decide, begun: &[u8], next: &Next, row: &[f32], vocab: &Vocab) -> Result<Successors> {
    // Each token that fits, one option that remains after it, and whether others remain.
    let mut fitting: Vec<(Token, usize, bool)> = Vec::new();
    let mut look = |token: Token, end: bool| {
        let mut left = decide.left(begun, (!end).then(|| vocab.bytes(token)));
        fitting.extend(left.next().map(|option| (token, option, left.next().is_some())));
    };
    let known = 0..row.len().min(vocab.len()) as Token;
    match next {
        Next::Only(mask) => mask.iter().filter(|t| known.contains(t)).for_each(|t| look(t, vocab.is_eog(t))),
        Next::Any { end } => {
            known.filter(|t| *end || !vocab.is_eog(*t)).for_each(|t| look(t, vocab.is_eog(t)))
        }
    }
    let logit = |token: Token| f64::from(row[token as usize]);
    let best = fitting.iter().map(|(token, ..)| logit(*token)).fold(f64::NEG_INFINITY, f64::max);
    let weight = |token: Token| (logit(token) - best).exp();
    let total: f64 = fitting.iter().map(|(token, ..)| weight(*token)).sum();
    if !fitting.is_empty() && !total.is_finite() {
        return Err(not_finite());
    }
    let mut found = Successors { settled: vec![0.0; decide.options.len()], open: Vec::new() };
    for (token, option, others) in fitting {
        let probability = weight(token) / total;
        if others {
            found.open.push((token, probability));
        } else {
            found.settled[option] += probability;
        }
    }
    Ok(found)
}
