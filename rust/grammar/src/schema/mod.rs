//! JSON schemas as grammars.
//!
//! A document's schemas get numbers and their references are resolved ([`arena`]). Each schema is read as a set of values
//! ([`read`], [`set`]): one part for each JSON type, closed under and, or and not, so that every keyword of every draft is
//! such a set or is refused by pointer and keyword. A grammar is written from the sets ([`write`]): numbers and strings as
//! terminals, arrays and objects as walks whose states are what is left to satisfy. What cannot be finished is taken out.
//! All of it takes from one budget.

mod arena;
mod combine;
mod evaluated;
mod explain;
mod formats;
mod keywords;
mod library;
mod numeral;
mod parameters;
mod read;
mod read_parts;
mod rivals;
mod set;
mod shape;
mod spelling;
mod write;
mod write_array;
mod write_choice;
mod write_list;
mod write_object;
mod write_order;
mod write_parameters;
mod write_run;
mod write_unique;

use super::budget::Budget;
use super::spec::JsonStyle;
use super::written::base::Strings;
use super::written::expr::Expr;
use super::written::{WHITESPACE, Written};
use crate::config::{GrammarConfig, Whitespace};
use crate::error::{Error, Result};
use arena::Arena;
pub(super) use library::Library;
pub(super) use parameters::Parameters;
use read::{Reader, Setting};
use serde_json::Value;
use write::Writer;

/// Deepest nesting of the JSON text.
const MAX_DEPTH: usize = 100;

/// Regular expressions that most grammars of schemas have.
pub(super) fn common() -> [String; 5] {
    [
        spelling::CHARACTER.into(),
        spelling::plain(),
        numeral::any().into(),
        numeral::any_whole().into(),
        numeral::told_apart().into(),
    ]
}

/// What may follow the quotation mark of a JSON string that is none of these: its end, and any text.
pub(super) fn other_strings(names: &[String]) -> Expr {
    let any = Expr::Regex(spelling::CHARACTER.to_owned()).times(0, None);
    let names = Expr::any(names.iter().map(|name| Expr::text(name)));
    let other = if names == Expr::NOTHING { any } else { Expr::all([any, names.not()]) };
    Expr::concat([other, Expr::text("\""), Expr::anything()])
}

/// JSON's strings.
pub(super) fn strings() -> Strings {
    Strings {
        plain: spelling::quote(&Expr::anything()),
        character: spelling::within_quotes(&Expr::character(), false),
        regexes: [spelling::CHARACTER, spelling::PLAIN, &spelling::plain()]
            .map(|rx| Expr::Regex(rx.into()))
            .into(),
    }
}

/// Refuses divisors of several schemas that are too much together.
pub(super) fn check_divisors(sum: f64) -> Result<()> {
    let most = write::MAX_DIVISORS;
    if sum > most {
        let why = format!("the digits of the divisors of all schemas sum up to more than {most}");
        return Err(refuse("", "multipleOf", why));
    }
    Ok(())
}

/// The schema's JSON.
pub(super) fn parse(source: &str, config: &GrammarConfig) -> Result<Value> {
    if source.len() > config.max_schema_bytes {
        return Err(refuse("", "schema", format!("longer than {} bytes", config.max_schema_bytes)));
    }
    serde_json::from_str(source).map_err(|e| refuse("", "schema", format!("is not JSON: {e}")))
}

/// The grammar of a schema. `filters`: what no grammar can say is left to a filter beside it ([`Written::shape`]).
///
/// # Errors
/// What cannot be enforced, by pointer and keyword; where the budget is spent.
pub(super) fn prepare(
    schema: &Value,
    config: &GrammarConfig,
    (budget, library, filters): (&Budget, &Library, bool),
) -> Result<Written> {
    prepare_as(schema, config, (budget, library, filters), None)
}

/// As [`prepare`]. If `parameters` is given, the schema is a function's, and its arguments are written as `parameters` says.
///
/// # Errors
/// As [`prepare`].
pub(super) fn prepare_as(
    schema: &Value,
    config: &GrammarConfig,
    (budget, library, filters): (&Budget, &Library, bool),
    parameters: Option<Parameters<'_>>,
) -> Result<Written> {
    match schema {
        Value::Bool(true) | Value::Object(_) => {}
        Value::Bool(false) => return Err(refuse("", "false", "nothing satisfies it")),
        _ => return Err(refuse("", "schema", "a schema is an object or a boolean")),
    }
    if schema.get("x-guidance").is_some() {
        return Err(refuse("", "x-guidance", "the server sets these options: leave the keyword out"));
    }
    if depth(schema) > MAX_DEPTH {
        return Err(refuse("", "schema", format!("nested deeper than {MAX_DEPTH}")));
    }
    let style = budget.style();
    let config = &styled(config, &style);
    let space = match &style.whitespace_pattern {
        Some(pattern) => Some(spelling::space(pattern).map_err(|why| refuse("", "whitespace_pattern", why))?),
        None => (config.whitespace == Whitespace::Natural).then(|| WHITESPACE.to_owned()),
    };
    let arena = Arena::new(schema, (budget, library))?;
    let setting = Setting { filters, space: space.as_deref() };
    write(&mut Reader::new(&arena, config, setting), parameters, budget.notes())
}

/// The configuration with what a request says.
fn styled(config: &GrammarConfig, style: &JsonStyle) -> GrammarConfig {
    GrammarConfig {
        key_order: style.key_order.unwrap_or(config.key_order),
        undeclared_keys: style.undeclared_keys.unwrap_or(config.undeclared_keys),
        whitespace: style.whitespace.unwrap_or(config.whitespace),
        ..config.clone()
    }
}

fn write(reader: &mut Reader<'_>, parameters: Option<Parameters<'_>>, notes: usize) -> Result<Written> {
    let root = reader.schema(arena::ROOT, 0);
    let mut writer = Writer::new(reader, parameters);
    writer.write(root)?;
    if !writer.tallies_hold() {
        writer = Writer::new(writer.reader, parameters);
        writer.tallies = false;
        writer.write(root)?;
    }
    if !writer.is_satisfiable() {
        return Err(explain::unsatisfiable(writer.reader, notes));
    }
    writer.finish(root)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn refuse(pointer: &str, keyword: &str, why: impl Into<String>) -> Error {
    Error::grammar(pointer, keyword, why)
}
