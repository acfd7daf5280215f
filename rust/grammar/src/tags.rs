//! The grammar of structural tags: constrained contents between fixed texts.

use super::spec::Tags;
use super::texts::exactly;
use super::written::expr::Expr;
use super::written::{Line, Symbol, Written};
use crate::error::{Error, Result};
use crate::vocab::Vocab;

/// Most tags of one request.
const MOST: usize = 128;

/// The grammar of `tags`; `contents` are the grammars of their contents, in the same order.
///
/// # Errors
/// `Error::Grammar` if no tag begins with `tags.begun`, if there are too many tags, or if a tag with any text has no end.
pub(super) fn written(tags: &Tags, contents: Vec<Option<Written>>, vocab: &Vocab) -> Result<Written> {
    let refuse = |why: &str| Err(Error::grammar("", "structural_tag", why));
    if tags.tags.is_empty() || tags.tags.len() > MOST {
        return refuse(&format!("there must be 1 to {MOST} tags"));
    }
    let (mut all, mut begun, mut whole) = (Written::frame(), Vec::new(), Vec::new());
    for (tag, content) in tags.tags.iter().zip(contents) {
        let mut rest = match content {
            Some(content) => {
                let content = all.part(content);
                [vec![content], exactly(&tag.end, &mut all, vocab)?].concat()
            }
            None if tag.end.trim().is_empty() => return refuse("a tag with any text needs an end"),
            None => any_up_to(&tag.end, &mut all, vocab)?,
        };
        if let Some(begin) = tag.begin.strip_prefix(&tags.begun) {
            begun.push([exactly(begin, &mut all, vocab)?, rest.clone()].concat());
        }
        let mut line = exactly(&tag.begin, &mut all, vocab)?;
        line.append(&mut rest);
        whole.push(line);
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

/// Any text, up to and including `end`.
fn any_up_to(end: &str, all: &mut Written, vocab: &Vocab) -> Result<Line> {
    let around = Expr::concat([Expr::anything(), Expr::text(end.trim()), Expr::anything()]);
    let text = Expr::all([Expr::anything(), around.not()]);
    let behind = exactly(end, all, vocab)?;
    match behind.first() {
        Some(Symbol::Terminal(_)) if behind.len() == 1 => {
            Ok(vec![all.terminal(Expr::concat([text, Expr::text(end)]))])
        }
        _ => {
            let some = all.terminal(Expr::all([text, Expr::character().times(1, None)]));
            let perhaps = all.rule(vec![Vec::new(), vec![some]]);
            Ok([vec![Symbol::Rule(perhaps)], behind].concat())
        }
    }
}
