//! JSON schemas in a client's Lark, which get the same treatment as others.

use super::budget::Budget;
use super::schema::{self, Library};
use super::texts::check_size;
use super::written::Written;
use crate::config::GrammarConfig;
use crate::error::Result;
use serde_json::Value;

/// The grammars that a client's Lark refers to by name. The limit of divisors is one for all of them together.
pub(super) struct Named<'a> {
    budget: &'a Budget,
    library: &'a Library,
    divisors: f64,
    /// Each with its name.
    pub(super) grammars: Vec<(String, Written)>,
}

impl<'a> Named<'a> {
    /// None so far.
    pub(super) fn new(budget: &'a Budget, library: &'a Library) -> Self {
        Named { budget, library, divisors: 0.0, grammars: Vec::new() }
    }

    /// Adds the grammar of a schema, and returns the name by which Lark refers to it.
    ///
    /// # Errors
    /// What cannot be enforced, by pointer and keyword; where the budget is spent.
    pub(super) fn schema(&mut self, schema: &Value, config: &GrammarConfig) -> Result<String> {
        self.add(schema::prepare(schema, config, (self.budget, self.library, false))?)
    }

    /// Adds a grammar, and returns its name.
    ///
    /// # Errors
    /// Divisors that are too much together.
    pub(super) fn add(&mut self, written: Written) -> Result<String> {
        self.divisors += written.divisors;
        schema::check_divisors(self.divisors)?;
        let name = format!("llgtrt-{}", self.grammars.len());
        self.grammars.push((name.clone(), written));
        Ok(name)
    }
}

/// A client's Lark text (`kind` is its name) with a name for the grammar of every schema after `%json` in its place.
///
/// Reads Lark as llguidance's lexer does as far as needed: comments, strings, regular expressions and special tokens are
/// passed over.
///
/// # Errors
/// Where it is too long, and what a schema cannot have.
pub(super) fn with_schemas(
    kind: &str,
    source: &str,
    config: &GrammarConfig,
    named: &mut Named<'_>,
) -> Result<String> {
    check_size(kind, source, config)?;
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        if let Some(json) = rest.strip_prefix("%json")
            && let Some((schema, used)) = value(json)
        {
            out.push('@');
            out.push_str(&named.schema(&schema, config)?);
            at += "%json".len() + used;
            continue;
        }
        let n = lexeme(rest).unwrap_or(first.len_utf8());
        out.push_str(&rest[..n]);
        at += n;
    }
    Ok(out)
}

/// The JSON value at the beginning, and how many bytes it takes.
fn value(text: &str) -> Option<(Value, usize)> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = stream.next()?.ok()?;
    Some((value, stream.byte_offset()))
}

/// The length of a lexeme in which `%json` would mean nothing; None where there is none.
fn lexeme(text: &str) -> Option<usize> {
    let delimited = |end: char| {
        let mut escaped = false;
        let body = text[1..].char_indices().find(|(_, c)| {
            let closes = !escaped && *c == end;
            escaped = !escaped && *c == '\\';
            closes
        });
        body.map(|(i, c)| 1 + i + c.len_utf8())
    };
    match text.as_bytes().first()? {
        b'#' => Some(text.find('\n').unwrap_or(text.len())),
        b'/' if text.starts_with("//") => Some(text.find('\n').unwrap_or(text.len())),
        b'/' => delimited('/'),
        b'"' => delimited('"'),
        b'<' => {
            let end = text[1..].find(|c: char| c == '<' || c == '>' || c.is_whitespace())? + 1;
            text[end..].starts_with('>').then_some(end + 1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_schemas_are_touched() {
        let budget = Budget::of_a_test();
        let library = Library::default();
        let with = |source| {
            with_schemas(
                "lark_grammar",
                source,
                &GrammarConfig::default(),
                &mut Named::new(&budget, &library),
            )
        };
        let plain = "start: a // %json {\"not\": {}}\n# %json {\na: \"%json {\" /%json \\/ {/ <%json> \"\\\"%json {\"\n";
        assert_eq!(with(plain).unwrap(), plain);
        let ready = with("start: \"x\" %json {\"type\":\"null\"} \"y\"").unwrap();
        assert_eq!(ready, "start: \"x\" @llgtrt-0 \"y\"");
        assert!(with("start: %json {\"not\": {}}").is_err());
    }
}
