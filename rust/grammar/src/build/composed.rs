//! Grammars that consist of others: one after the other, one of several, so many of one, between texts.
//!
//! The lexer takes the longest lexeme, so a regular expression before a text would take that text, too. Neighbours that are regular
//! expressions therefore become one terminal.

use super::{Builder, OBJECT, functions, unstyled};
use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::gbnf::Dialect;
use crate::spec::{GrammarSpec, Tag, Tags};
use crate::written::base::goes_on;
use crate::written::expr::Expr;
use crate::written::{Line, Symbol, Written};
use crate::{schema, tags, texts};
use serde_json::Value;

/// What JSON of each type begins with, behind white space.
const FIRST: [(&str, &str); 7] = [
    ("object", "{"),
    ("array", "["),
    ("string", "\""),
    ("number", "-0123456789"),
    ("integer", "-0123456789"),
    ("boolean", "tf"),
    ("null", "n"),
];
/// Most repetitions that are counted.
const MAX_REPEAT: u32 = 10_000;

/// The grammar of what consists of others.
///
/// # Errors
/// What cannot be enforced.
pub(super) fn written(builder: &Builder, spec: &GrammarSpec, budget: &Budget) -> Result<Written> {
    let mut all = Written::frame();
    let line = symbols(builder, spec, &mut all, budget)?;
    all.or(line);
    Ok(all)
}

/// Contents between texts.
///
/// # Errors
/// What cannot be enforced.
pub(super) fn tagged(builder: &Builder, tags: &Tags, budget: &Budget) -> Result<Written> {
    let rest = |tag: &Tag| {
        let rest = match &tag.content {
            Some(content) => GrammarSpec::Sequence(vec![content.clone(), GrammarSpec::Text(tag.end.clone())]),
            None => GrammarSpec::UpTo { ends: vec![tag.end.clone()], excludes: Vec::new() },
        };
        written(builder, &rest, budget)
    };
    let rests = tags.tags.iter().map(rest).collect::<Result<_>>()?;
    tags::written(tags, rests, &builder.vocab)
}

/// A grammar within another one. No filter knows where it begins.
fn part(builder: &Builder, spec: &GrammarSpec, budget: &Budget) -> Result<Written> {
    let source = match unstyled(spec, budget) {
        GrammarSpec::JsonObject => OBJECT,
        GrammarSpec::JsonSchema(source) => source,
        GrammarSpec::Arguments { tool, parameters } => {
            return functions::arguments(builder, (tool, Some(parameters)), budget);
        }
        GrammarSpec::Tags(tags) => return tagged(builder, tags, budget),
        spec => return written(builder, spec, budget),
    };
    let schema = schema::parse(source, &builder.config)?;
    schema::prepare(&schema, &builder.config, (budget, &builder.library, false))
}

/// The symbols of a grammar.
fn symbols(builder: &Builder, spec: &GrammarSpec, all: &mut Written, budget: &Budget) -> Result<Line> {
    budget.spend(1)?;
    if let Some(expr) = regular(builder, spec, budget)? {
        return Ok(terminal(expr, all));
    }
    match spec {
        GrammarSpec::Sequence(list) => sequence(builder, list, all, budget),
        GrammarSpec::Or(list) => {
            let ways = list.iter().map(|one| symbols(builder, one, all, budget)).collect::<Result<_>>()?;
            Ok(vec![Symbol::Rule(all.rule(ways))])
        }
        GrammarSpec::Repeat { grammar, least, most } => {
            let line = symbols(builder, grammar, all, budget)?;
            Ok(vec![Symbol::Times(all.rule(vec![line]), *least, *most)])
        }
        GrammarSpec::UpTo { ends, excludes } => tags::up_to((ends, excludes), all, &builder.vocab),
        GrammarSpec::Text(text) => texts::exactly(text, all, &builder.vocab),
        GrammarSpec::JsonObject
        | GrammarSpec::JsonSchema(_)
        | GrammarSpec::Styled { .. }
        | GrammarSpec::Arguments { .. }
        | GrammarSpec::Tags(_) => {
            let inner = part(builder, spec, budget)?;
            Ok(vec![all.part(inner)])
        }
        _ => {
            let why = "of this kind cannot stand within another, and rules that refer to themselves cannot: use a \
                       schema or a regular expression";
            Err(Error::grammar("", "grammar", why))
        }
    }
}

fn sequence(builder: &Builder, list: &[GrammarSpec], all: &mut Written, budget: &Budget) -> Result<Line> {
    let (mut line, mut run) = (Line::new(), Vec::new());
    for one in list {
        match regular(builder, one, budget)? {
            Some(expr) => run.push(expr),
            None => {
                let before = Expr::concat(run.drain(..));
                check_end(&before, &first(one))?;
                line.extend(terminal(before, all));
                line.extend(symbols(builder, one, all, budget)?);
            }
        }
    }
    line.extend(terminal(Expr::concat(run), all));
    Ok(line)
}

/// Refuses an expression that the lexer would go on with where the next part begins with a text of `first`.
fn check_end(before: &Expr, first: &Expr) -> Result<()> {
    let why = "it is unclear where it ends, since what follows could be part of it: let it exclude the first character of that";
    match before {
        Expr::Text(_) => Ok(()),
        _ if *first == Expr::NOTHING => Ok(()),
        _ => match goes_on(before, first) {
            Ok(false) => Ok(()),
            Ok(true) => Err(refuse("regex", why)),
            Err(e) => Err(refuse("regex", &e)),
        },
    }
}

/// The characters that a part may begin with that is no regular expression.
fn first(spec: &GrammarSpec) -> Expr {
    let begin = |text: &str| text.chars().next().map_or_else(Expr::character, |c| Expr::Text(c.into()));
    match spec {
        GrammarSpec::JsonObject => of_json(OBJECT),
        GrammarSpec::JsonSchema(source) => of_json(source),
        GrammarSpec::Styled { grammar, .. } => first(grammar),
        GrammarSpec::Tags(tags) => Expr::any(tags.tags.iter().map(|tag| begin(&tag.begin))),
        GrammarSpec::Sequence(list) => list.first().map_or_else(Expr::character, first),
        GrammarSpec::Or(list) => Expr::any(list.iter().map(first)),
        GrammarSpec::Repeat { grammar, least: 1.., .. } => first(grammar),
        GrammarSpec::Text(text) => begin(text),
        _ => Expr::character(),
    }
}

/// The characters that JSON of a schema may begin with, as far as its `type` says it.
fn of_json(source: &str) -> Expr {
    let schema: Value = serde_json::from_str(source).unwrap_or_default();
    let may_be = |name: &str| match &schema["type"] {
        Value::String(of) => of == name,
        Value::Array(list) => list.iter().any(|of| of == name),
        _ => true,
    };
    let firsts = FIRST.iter().filter(|(name, _)| may_be(name)).map(|(_, first)| *first);
    let each = std::iter::once(" \t\r\n").chain(firsts).flat_map(str::chars);
    Expr::any(each.map(|c| Expr::Text(c.into())))
}

fn terminal(expr: Expr, all: &mut Written) -> Line {
    if expr == Expr::EMPTY { Line::new() } else { vec![all.terminal(expr)] }
}

/// A grammar as one regular expression; None if it is none.
fn regular(builder: &Builder, spec: &GrammarSpec, budget: &Budget) -> Result<Option<Expr>> {
    budget.spend(1)?;
    let each = |list: &[GrammarSpec]| -> Result<Option<Vec<Expr>>> {
        list.iter().map(|one| regular(builder, one, budget)).collect()
    };
    match spec {
        GrammarSpec::Sequence(list) => Ok(each(list)?.map(Expr::concat)),
        GrammarSpec::Or(list) if list.is_empty() => Err(refuse("or", "must have at least one element")),
        GrammarSpec::Or(list) => Ok(each(list)?.map(Expr::any)),
        GrammarSpec::Repeat { least, most, .. }
            if most.unwrap_or(*least).max(*least) > MAX_REPEAT || most.is_some_and(|most| most < *least) =>
        {
            let why = format!("must be from min to max, not above {MAX_REPEAT}");
            Err(refuse("repeat", &why))
        }
        GrammarSpec::Repeat { grammar, least, most } => {
            Ok(regular(builder, grammar, budget)?.map(|one| one.times(*least, *most)))
        }
        GrammarSpec::Gbnf(source) | GrammarSpec::Ebnf(source) => {
            let lark = builder.gbnf(source, Dialect::of(spec), budget)?;
            let rx = lark.strip_prefix("start: /").and_then(|rx| rx.strip_suffix('/'));
            Ok(rx.filter(|rx| !rx.contains('\n')).map(|rx| Expr::Regex(rx.to_owned())))
        }
        GrammarSpec::Regex(_) | GrammarSpec::Choice(_) | GrammarSpec::Text(_) => {
            Ok(only(builder.written(spec, budget)?))
        }
        GrammarSpec::UpTo { ends, excludes } => {
            let mut all = Written::frame();
            let line = tags::up_to((ends, excludes), &mut all, &builder.vocab)?;
            all.or(line);
            Ok(only(all))
        }
        _ => Ok(None),
    }
}

/// The texts of a grammar whose alternatives are one terminal each; None if there are others.
fn only(written: Written) -> Option<Expr> {
    let ways = written.rules[0].iter().map(|line| match line[..] {
        [] => Some(Expr::EMPTY),
        [Symbol::Terminal(terminal)] => Some(written.terminals[terminal].clone()),
        _ => None,
    });
    ways.collect::<Option<Vec<_>>>().map(Expr::any)
}

fn refuse(keyword: &str, why: &str) -> Error {
    Error::grammar("", keyword, why)
}
