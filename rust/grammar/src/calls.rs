//! Calls of functions.

use super::around::Around;
use super::schema;
use super::spec::Calls;
use super::texts::around;
use super::unique::Shape;
use super::written::{Symbol, Written};
use crate::error::{Error, Result};
use crate::vocab::Vocab;

/// Most functions of one request: OpenAI's bound.
const MOST_TOOLS: usize = 128;

/// Their grammar; `schemas` are those of the arguments, in the order of the functions, and `or` is what may come in their place.
///
/// # Errors
/// `Error::Grammar` where there are none or too many functions.
pub(super) fn written(
    calls: &Calls,
    mut schemas: Vec<Written>,
    mut or: Option<Written>,
    vocab: &Vocab,
) -> Result<Written> {
    let refuse = |why: String| Error::grammar("", "tools", why);
    if calls.tools.is_empty() && calls.except.is_none() || calls.tools.len() > MOST_TOOLS {
        return Err(refuse(format!("there must be 1 to {MOST_TOOLS}, not {}", calls.tools.len())));
    }
    let opening = format!("{}{}", calls.open, calls.before);
    let Some(head) = opening.strip_prefix(&calls.begun) else {
        return Err(refuse("what has begun is no beginning of a call".into()));
    };
    let mut all = Written::frame();
    let shapes: Vec<_> = schemas.iter_mut().map(|schema| schema.shape.take()).collect();
    let answer = or.as_mut().and_then(|or| or.shape.take());
    if answer.is_some() || shapes.iter().any(Option::is_some) {
        all.shape = Some(shape(calls, answer, shapes));
    }
    let after = around(&calls.after, &mut all, vocab)?;
    let mut lines = Vec::new();
    for (tool, schema) in calls.tools.iter().zip(schemas) {
        let mut line = around(&format!("{}{}", tool.name, calls.between), &mut all, vocab)?;
        line.push(all.part(schema));
        line.extend(after.iter().cloned());
        lines.push(line);
    }
    let call = Symbol::Rule(all.rule(lines));
    let mut line = around(head, &mut all, vocab)?;
    line.push(call.clone());
    if let Some(separator) = &calls.separator {
        let mut more = around(&format!("{separator}{}", calls.before), &mut all, vocab)?;
        more.push(call);
        line.push(Symbol::Times(all.rule(vec![more]), 0, None));
    }
    line.extend(around(&calls.close, &mut all, vocab)?);
    if !calls.tools.is_empty() {
        all.or(line);
    }
    if let Some(names) = &calls.except {
        let other = all.terminal(schema::other_strings(names));
        all.or(vec![other]);
    }
    if let Some(or) = or {
        let or = all.part(or);
        all.or(vec![or]);
    }
    Ok(all)
}

/// What a filter has to know of calls: of the arguments of each function, and of an answer in their place.
fn shape(calls: &Calls, answer: Option<Shape>, shapes: Vec<Option<Shape>>) -> Shape {
    let mut all = answer.unwrap_or_default();
    for (tool, shape) in calls.tools.iter().zip(shapes) {
        all.add(&format!("{}{}", tool.name, calls.between), shape.unwrap_or_default());
    }
    all.first = [&calls.open, &calls.before].map(|text| Around::new(text).longest()).iter().sum::<usize>()
        + all.longest;
    all
}
