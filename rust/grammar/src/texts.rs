//! Grammars of regular expressions, lists of choices and fixed texts.

use super::around::next_chosen;
use super::text;
use super::written::{Line, Symbol, Written};
use crate::config::GrammarConfig;
use crate::error::{Error, Result};
use crate::vocab::Vocab;
use llguidance::regex_to_lark;

/// Most choices of a choice list: 40,000 take 0.23 s.
const MAX_CHOICES: usize = 50_000;

/// Refuses a text that is too long.
pub(super) fn check_size(kind: &str, source: &str, config: &GrammarConfig) -> Result<()> {
    if source.len() > config.max_lark_bytes {
        return Err(Error::grammar("", kind, format!("longer than {} bytes", config.max_lark_bytes)));
    }
    Ok(())
}

/// A regular expression over the whole output. `\d` and `\w` are ASCII, as in JSON schemas.
///
/// # Errors
/// `Error::Grammar` where it is none, or too long.
pub(super) fn regex(rx: &str, config: &GrammarConfig) -> Result<Written> {
    check_size("regex", rx, config)?;
    let mut written = Written::frame();
    if rx.is_empty() {
        written.or(Vec::new());
        return Ok(written);
    }
    if let Err(e) = regex_syntax::parse(rx) {
        return Err(Error::grammar("", "regex", text::of_regex(rx, &e)));
    }
    let matches = written.matches(regex_to_lark(rx, "dw"));
    written.or(vec![matches]);
    Ok(written)
}

/// One of these texts, as one terminal: as alternatives of a rule, masks cost a hundred times more.
///
/// # Errors
/// `Error::Grammar` where there are none, or too many.
pub(super) fn choice(list: &[String], config: &GrammarConfig) -> Result<Written> {
    let bytes: usize = list.iter().map(String::len).sum();
    if list.is_empty() {
        return Err(Error::grammar("", "choice", "the list is empty"));
    }
    if list.len() > MAX_CHOICES || bytes > config.max_schema_bytes {
        let why = format!("more than {MAX_CHOICES} texts or {} bytes", config.max_schema_bytes);
        return Err(Error::grammar("", "choice", why));
    }
    let mut written = Written::frame();
    let (empty, texts): (Vec<_>, Vec<_>) = list.iter().partition(|text| text.is_empty());
    if !empty.is_empty() {
        written.or(Vec::new());
    }
    if !texts.is_empty() {
        let texts = written.one_of(texts.into_iter().map(String::as_str));
        written.or(vec![texts]);
    }
    Ok(written)
}

/// Exactly this text, in which special tokens are known.
///
/// # Errors
/// `Error::Grammar` where it is too long.
pub(super) fn fixed(text: &str, config: &GrammarConfig, vocab: &Vocab) -> Result<Written> {
    check_size("text", text, config)?;
    let mut written = Written::frame();
    let line = exactly(text, &mut written, vocab)?;
    written.or(line);
    Ok(written)
}

/// The symbols of a text around calls: special tokens are known in it, and where it says so the model chooses an id or a number.
///
/// # Errors
/// Where the text cannot be read as tokens.
pub(super) fn around(text: &str, written: &mut Written, vocab: &Vocab) -> Result<Line> {
    let Some((at, chosen)) = next_chosen(text) else { return exactly(text, written, vocab) };
    let mut line = exactly(&text[..at], written, vocab)?;
    let texts = written.matches(chosen.rx.to_owned());
    if chosen.least > 0 {
        line.push(texts);
    } else {
        let perhaps = written.rule(vec![Vec::new(), vec![texts]]);
        line.push(Symbol::Rule(perhaps));
    }
    line.extend(around(&text[at + chosen.mark.len()..], written, vocab)?);
    Ok(line)
}

/// The symbols of exactly this text, in which special tokens are known.
///
/// # Errors
/// Where the text cannot be read as tokens.
pub(super) fn exactly(text: &str, written: &mut Written, vocab: &Vocab) -> Result<Line> {
    let (mut line, mut rest) = (Line::new(), text);
    for token in vocab.encode(&[(text, true)])?.into_iter().filter(|t| vocab.is_marked(*t)) {
        let Some((before, behind)) =
            std::str::from_utf8(vocab.bytes(token)).ok().and_then(|form| rest.split_once(form))
        else {
            continue;
        };
        if !before.is_empty() {
            line.push(written.one_of([before]));
        }
        line.push(Symbol::Token(token));
        rest = behind;
    }
    if !rest.is_empty() {
        line.push(written.one_of([rest]));
    }
    Ok(line)
}
