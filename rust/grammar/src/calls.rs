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
        return named(calls, schemas, &opening, vocab);
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
        let rest = [vec![all.part(schema)], after.clone()].concat();
        for named in calls.named(tool) {
            lines.push([around(&named, &mut all, vocab)?, rest.clone()].concat());
        }
    }
    let call = Symbol::Rule(all.rule(lines));
    let mut line = [around(head, &mut all, vocab)?, vec![call.clone()]].concat();
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
        let mut line = around(&calls.lead, &mut all, vocab)?;
        line.push(all.part(or));
        all.or(line);
    }
    Ok(all)
}

/// The rest of one call whose name is there already.
///
/// # Errors
/// `Error::Grammar` where there may be other calls, or no call of the function begins so.
fn named(calls: &Calls, schemas: Vec<Written>, opening: &str, vocab: &Vocab) -> Result<Written> {
    let refuse = || Error::grammar("", "tools", "what has begun is no beginning of a call");
    let [tool] = &calls.tools[..] else { return Err(refuse()) };
    let texts = calls.named(tool).map(|named| format!("{opening}{named}"));
    let rests = texts.filter_map(|text| Some(text.strip_prefix(&calls.begun)?.to_owned()));
    let rests: Vec<String> = rests.collect();
    if rests.is_empty() || calls.separator.is_some() || calls.or.is_some() {
        return Err(refuse());
    }
    let mut all = Written::frame();
    for mut schema in schemas {
        all.shape = schema.shape.take().map(|shape| behind(&rests, shape));
        let arguments = all.part(schema);
        for rest in &rests {
            let mut line = around(rest, &mut all, vocab)?;
            line.push(arguments.clone());
            line.extend(around(&format!("{}{}", calls.after, calls.close), &mut all, vocab)?);
            all.or(line);
        }
    }
    Ok(all)
}

/// The shape of arguments behind one of these texts.
fn behind(texts: &[String], shape: Shape) -> Shape {
    if texts.iter().all(String::is_empty) {
        return shape;
    }
    let mut all = Shape::default();
    texts.iter().for_each(|text| all.add(text, shape.clone()));
    all
}

/// What a filter has to know of calls: of the arguments of each function, and of an answer in their place.
fn shape(calls: &Calls, answer: Option<Shape>, shapes: Vec<Option<Shape>>) -> Shape {
    let mut all = match answer {
        Some(answer) if !calls.lead.is_empty() => behind(std::slice::from_ref(&calls.lead), answer),
        answer => answer.unwrap_or_default(),
    };
    for (tool, shape) in calls.tools.iter().zip(shapes) {
        let shape = shape.unwrap_or_default();
        calls.named(tool).for_each(|text| all.add(&text, shape.clone()));
    }
    all.first = [&calls.open, &calls.before].map(|text| Around::new(text).longest()).iter().sum::<usize>()
        + all.longest;
    all
}
