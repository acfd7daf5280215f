//! Calls of functions as a Lark grammar.

use super::lark::literal;
use super::spec::Calls;
use super::unique::Shape;
use crate::error::{Error, Result};
use crate::vocab::Vocab;

/// Most functions of one request: OpenAI's bound.
const MOST_TOOLS: usize = 128;

/// The name under which what the output may be instead is known.
pub(super) const ANSWER: &str = "answer";

/// Lark for exactly this text, in which special tokens are known. Empty for an empty text.
pub(super) fn exactly(text: &str, vocab: &Vocab) -> Result<String> {
    let mut lark = String::new();
    let mut rest = text;
    let mut add = |piece: &str| {
        if !piece.is_empty() {
            lark.push_str(piece);
            lark.push(' ');
        }
    };
    for token in vocab.encode(&[(text, true)])?.into_iter().filter(|t| vocab.is_marked(*t)) {
        let Some((before, behind)) =
            std::str::from_utf8(vocab.bytes(token)).ok().and_then(|form| rest.split_once(form))
        else {
            continue;
        };
        add(&if before.is_empty() { String::new() } else { literal(before) });
        add(&format!("<[{token}]>"));
        rest = behind;
    }
    add(&if rest.is_empty() { String::new() } else { literal(rest) });
    Ok(lark)
}

/// The grammar; `schemas` are the names of the arguments' grammars, in the order of the functions.
///
/// # Errors
/// `Error::Grammar` where there are none or too many functions.
pub(super) fn lark(calls: &Calls, schemas: &[String], vocab: &Vocab) -> Result<String> {
    let refuse = |why: String| Error::grammar("", "tools", why);
    if calls.tools.is_empty() || calls.tools.len() > MOST_TOOLS {
        return Err(refuse(format!("there must be 1 to {MOST_TOOLS}, not {}", calls.tools.len())));
    }
    let opening = format!("{}{}", calls.open, calls.before);
    let Some(head) = opening.strip_prefix(&calls.begun) else {
        return Err(refuse("what has begun is no beginning of a call".into()));
    };
    let more = match &calls.separator {
        None => String::new(),
        Some(separator) => format!("({}call)*", exactly(&format!("{separator}{}", calls.before), vocab)?),
    };
    let or = if calls.or.is_some() { format!(" | @{ANSWER}") } else { String::new() };
    let names: Vec<String> = (0..schemas.len()).map(|i| format!("call_{i}")).collect();
    let mut lark = format!("start: calls{or}\ncalls: {}call {more} ", exactly(head, vocab)?);
    lark += &format!("{}\ncall: {}\n", exactly(&calls.close, vocab)?, names.join(" | "));
    for (i, (tool, schema)) in calls.tools.iter().zip(schemas).enumerate() {
        let before = exactly(&format!("{}{}", tool.name, calls.between), vocab)?;
        let after = exactly(&calls.after, vocab)?;
        lark += &format!("call_{i}: {before}args_{i} {after}\nargs_{i}: @{schema}\n");
    }
    Ok(lark)
}

/// What a filter has to know of calls: of the arguments of each function, and of an answer in their place, if its schema comes
/// behind theirs. None where there is nothing to tell apart.
pub(super) fn shape(calls: &Calls, mut shapes: Vec<Option<Shape>>) -> Option<Shape> {
    if shapes.iter().all(Option::is_none) {
        return None;
    }
    let answer = shapes.split_off(calls.tools.len()).into_iter().next().flatten();
    let mut all = answer.unwrap_or_default();
    for (tool, shape) in calls.tools.iter().zip(shapes) {
        all.add(format!("{}{}", tool.name, calls.between), shape.unwrap_or_default());
    }
    all.first = calls.open.len() + calls.before.len() + all.longest;
    Some(all)
}
