//! The grammar of structural tags: constrained contents between fixed texts.

use super::spec::Tags;
use super::texts::exactly;
use super::written::expr::Expr;
use super::written::{Line, Symbol, Written};
use crate::error::{Error, Result};
use crate::vocab::Vocab;

/// Most tags of one request.
const MOST: usize = 128;

/// The grammar of `tags`; `rests` are the grammars of their contents and ends, in the same order.
///
/// # Errors
/// `Error::Grammar` if no tag begins with `tags.begun`, or if there are too many tags.
pub(super) fn written(tags: &Tags, rests: Vec<Written>, vocab: &Vocab) -> Result<Written> {
    let refuse = |why: &str| Err(Error::grammar("", "structural_tag", why));
    if tags.tags.is_empty() || tags.tags.len() > MOST {
        return refuse(&format!("there must be 1 to {MOST} tags"));
    }
    let (mut all, mut begun, mut whole) = (Written::frame(), Vec::new(), Vec::new());
    for (tag, rest) in tags.tags.iter().zip(rests) {
        let rest = all.part(rest);
        if let Some(begin) = tag.begin.strip_prefix(&tags.begun) {
            begun.push([exactly(begin, &mut all, vocab)?, vec![rest.clone()]].concat());
        }
        whole.push([exactly(&tag.begin, &mut all, vocab)?, vec![rest]].concat());
    }
    if begun.is_empty() {
        return refuse("no tag begins as the text that is there");
    }
    let first = Symbol::Rule(all.rule(begun));
    let mut line = vec![first];
    if let Some(separator) = &tags.separator {
        let tag = Symbol::Rule(all.rule(whole));
        let more = [exactly(separator, &mut all, vocab)?, vec![tag]].concat();
        line.push(Symbol::Times(all.rule(vec![more]), 0, None));
    }
    all.or(line);
    Ok(all)
}

/// Any text, up to and including the first of `ends`, without any of `excludes`.
///
/// # Errors
/// `Error::Grammar` if there are none, or one is empty.
pub(super) fn up_to(
    (ends, excludes): (&[String], &[String]),
    all: &mut Written,
    vocab: &Vocab,
) -> Result<Line> {
    let inner: Vec<&str> = ends.iter().chain(excludes).map(|text| text.trim()).collect();
    if ends.is_empty() || inner.contains(&"") {
        return Err(Error::grammar("", "structural_tag", "a tag with any text needs an end"));
    }
    let around = |text: &&str| Expr::concat([Expr::anything(), Expr::text(text), Expr::anything()]).not();
    let text = Expr::all(std::iter::once(Expr::anything()).chain(inner.iter().map(around)));
    let behind: Vec<Line> = ends.iter().map(|end| exactly(end, all, vocab)).collect::<Result<_>>()?;
    if behind.iter().all(|line| matches!(line[..], [Symbol::Terminal(_)])) {
        let ends = Expr::any(ends.iter().map(|end| Expr::text(end)));
        return Ok(vec![all.terminal(Expr::concat([text, ends]))]);
    }
    let some = all.terminal(Expr::all([text, Expr::character().times(1, None)]));
    let perhaps = all.rule(vec![Vec::new(), vec![some]]);
    Ok(vec![Symbol::Rule(perhaps), Symbol::Rule(all.rule(behind))])
}
