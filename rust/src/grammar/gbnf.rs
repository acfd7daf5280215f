//! GBNF, the grammars of llama.cpp, and the EBNF of SGLang and XGrammar, which is written the same way: as one regular
//! expression.
//!
//! llguidance reads its output in lexemes, each as long as can be, where GBNF goes by single characters: rule for rule, a
//! grammar would come to mean something else (`[a-z]* "z"` could never end). One expression means the same, and is
//! possible where no rule refers to itself; other grammars are refused.

use crate::error::{Error, Result};
use std::collections::HashMap;
use std::fmt::Write;

/// Deepest nesting of groups, and of rules and groups when they are put in their places.
const MAX_DEPTH: usize = 100;
/// Most repetitions of a part.
const MAX_REPEAT: u32 = 10_000;

/// A part of a rule.
#[derive(Debug, Clone)]
enum Part {
    /// A regular expression for characters.
    Plain(String),
    /// A rule, and where it is named.
    Rule(String, usize),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Repeat(Box<Part>, String),
}

/// The regular expression of a grammar's rule `root`, at most `most` bytes long.
///
/// # Errors
/// `Error::Grammar` with line and column where the text is no GBNF, or a rule is missing, refers to itself, or is too
/// large.
pub(super) fn to_regex(source: &str, most: usize) -> Result<String> {
    let mut parser = Parser { text: source.chars().collect(), at: 0 };
    let rules = parser.rules()?;
    let mut writer = Writer { parser: &parser, rules: &rules, open: Vec::new(), out: String::new(), most };
    writer.part(&Part::Rule("root".into(), 0), 0)?;
    Ok(writer.out)
}

struct Parser {
    text: Vec<char>,
    at: usize,
}

impl Parser {
    fn refuse<T>(&self, at: usize, why: impl AsRef<str>) -> Result<T> {
        let before = &self.text[..at.min(self.text.len())];
        let line = 1 + before.iter().filter(|c| **c == '\n').count();
        let column = 1 + before.iter().rev().take_while(|c| **c != '\n').count();
        Err(Error::grammar("", "gbnf", format!("line {line}, column {column}: {}", why.as_ref())))
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn takes(&mut self, text: &str) -> bool {
        let found = self.text[self.at..].iter().copied().take(text.len()).eq(text.chars());
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// Passes white space and comments over.
    fn skip(&mut self) {
        while let Some(c) = self.peek().filter(|c| c.is_whitespace() || *c == '#') {
            let line =
                if c == '#' { self.text[self.at..].iter().take_while(|c| **c != '\n').count() } else { 1 };
            self.at += line;
        }
    }

    fn name(&mut self) -> String {
        let rest = self.text[self.at..].iter();
        let name: String =
            rest.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')).collect();
        self.at += name.len();
        name
    }

    /// Whether a rule begins here.
    fn begins_rule(&mut self) -> bool {
        let begin = self.at;
        let named = !self.name().is_empty();
        self.skip();
        let found = named && self.takes("::=");
        self.at = begin;
        found
    }

    fn rules(&mut self) -> Result<HashMap<String, Part>> {
        let mut rules = HashMap::new();
        self.skip();
        while self.peek().is_some() {
            let begin = self.at;
            if !self.begins_rule() {
                return self.refuse(begin, "a rule is missing here: name ::= what it stands for");
            }
            let name = self.name();
            self.skip();
            self.takes("::=");
            let part = self.choice(0)?;
            if rules.insert(name.clone(), part).is_some() {
                return self.refuse(begin, format!("the rule {name} is there twice"));
            }
        }
        Ok(rules)
    }

    fn choice(&mut self, depth: usize) -> Result<Part> {
        if depth > MAX_DEPTH {
            return self.refuse(self.at, format!("groups are nested deeper than {MAX_DEPTH}"));
        }
        let mut choices = vec![self.sequence(depth)?];
        while self.takes("|") {
            choices.push(self.sequence(depth)?);
        }
        Ok(Part::Choice(choices))
    }

    fn sequence(&mut self, depth: usize) -> Result<Part> {
        let mut parts = Vec::new();
        loop {
            self.skip();
            let begin = self.at;
            let part = match self.peek() {
                None | Some('|' | ')') => return Ok(Part::Sequence(parts)),
                Some('"') => self.literal()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.at += 1;
                    Part::Plain("(?s:.)".into())
                }
                Some('(') => {
                    self.at += 1;
                    let group = self.choice(depth + 1)?;
                    if !self.takes(")") {
                        return self.refuse(begin, "this group is not closed");
                    }
                    group
                }
                Some(_) if self.begins_rule() => return Ok(Part::Sequence(parts)),
                Some(c) => match self.name() {
                    name if name.is_empty() => return self.refuse(begin, format!("{c} means nothing here")),
                    name => Part::Rule(name, begin),
                },
            };
            parts.push(self.repeated(part)?);
        }
    }

    /// The part with what stands behind it: `*`, `+`, `?`, `{2}`, `{2,}`, `{2,5}`.
    fn repeated(&mut self, mut part: Part) -> Result<Part> {
        loop {
            let begin = self.at;
            self.skip();
            let times = match self.peek() {
                Some(c @ ('*' | '+' | '?')) => {
                    self.at += 1;
                    c.to_string()
                }
                Some('{') => {
                    let rest = &self.text[self.at..];
                    let Some(end) = rest.iter().position(|c| *c == '}') else {
                        return self.refuse(self.at, "this number of repetitions is not closed");
                    };
                    let inner: String = rest[..end].iter().filter(|c| **c != ' ').collect();
                    let (least, most) = inner[1..].split_once(',').unwrap_or((&inner[1..], &inner[1..]));
                    let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= MAX_REPEAT);
                    let ordered = number(least).is_some_and(|least| {
                        most.is_empty() || number(most).is_some_and(|most| least <= most)
                    });
                    if !ordered {
                        let why = format!("must be like {{2}}, {{2,}} or {{2,5}}, up to {MAX_REPEAT}");
                        return self.refuse(self.at, why);
                    }
                    self.at += end + 1;
                    format!("{inner}}}")
                }
                _ => {
                    self.at = begin;
                    return Ok(part);
                }
            };
            part = Part::Repeat(Box::new(part), times);
        }
    }

    fn literal(&mut self) -> Result<Part> {
        let begin = self.at;
        self.at += 1;
        let mut out = String::new();
        while !self.takes("\"") {
            if self.peek().is_none_or(|c| c == '\n') {
                return self.refuse(begin, "this text is not closed");
            }
            let c = self.character()?;
            push(&mut out, c);
        }
        Ok(Part::Plain(out))
    }

    fn class(&mut self) -> Result<Part> {
        let begin = self.at;
        self.at += 1;
        let mut out = String::from(if self.takes("^") { "[^" } else { "[" });
        let empty = out.len();
        while !self.takes("]") {
            if self.peek().is_none() {
                return self.refuse(begin, "this class is not closed");
            }
            let first = self.character()?;
            push(&mut out, first);
            if self.peek() == Some('-') && self.text.get(self.at + 1) != Some(&']') {
                self.at += 1;
                let last = self.character()?;
                if last < first {
                    return self.refuse(begin, format!("the range {first}-{last} is empty"));
                }
                out.push('-');
                push(&mut out, last);
            }
        }
        if out.len() == empty {
            return self.refuse(begin, "this class is empty");
        }
        out.push(']');
        Ok(Part::Plain(out))
    }

    /// A character, perhaps written with a backslash.
    fn character(&mut self) -> Result<char> {
        let begin = self.at;
        let Some(first) = self.peek() else { return self.refuse(begin, "ends too early") };
        self.at += 1;
        if first != '\\' {
            return Ok(first);
        }
        let kind = self.peek().unwrap_or('\n');
        self.at += 1;
        let digits = match kind {
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            '"' | '\\' | '[' | ']' | '-' | '^' | '/' | '\'' => return Ok(kind),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => {
                return self
                    .refuse(begin, "no such escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\x \\u \\U");
            }
        };
        let hex: String = self.text[self.at..].iter().take(digits).collect();
        let whole = hex.len() == digits && hex.chars().all(|c| c.is_ascii_hexdigit());
        match u32::from_str_radix(&hex, 16).ok().filter(|_| whole).and_then(char::from_u32) {
            Some(c) => {
                self.at += digits;
                Ok(c)
            }
            None => {
                self.refuse(begin, format!("must be followed by {digits} digits of a character's number"))
            }
        }
    }
}

/// Writes a character so that it means itself, in a class and outside.
fn push(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() {
        out.push(c);
    } else {
        write!(out, "\\x{{{:x}}}", u32::from(c)).expect("a String takes all. This is a bug.");
    }
}

struct Writer<'a> {
    parser: &'a Parser,
    rules: &'a HashMap<String, Part>,
    /// Rules that are being written.
    open: Vec<String>,
    out: String,
    most: usize,
}

impl Writer<'_> {
    fn part(&mut self, part: &Part, depth: usize) -> Result<()> {
        if self.out.len() > self.most || depth > 3 * MAX_DEPTH {
            let why = "is too large once every rule stands in its place; make it smaller";
            return Err(Error::grammar("", "gbnf", why));
        }
        match part {
            Part::Plain(text) => self.out.push_str(text),
            Part::Sequence(parts) => parts.iter().try_for_each(|part| self.part(part, depth + 1))?,
            Part::Choice(choices) => {
                for (i, choice) in choices.iter().enumerate() {
                    self.out.push_str(if i == 0 { "(?:" } else { "|" });
                    self.part(choice, depth + 1)?;
                }
                self.out.push(')');
            }
            Part::Repeat(part, times) => {
                self.out.push_str("(?:");
                self.part(part, depth + 1)?;
                self.out.push(')');
                self.out.push_str(times);
            }
            Part::Rule(name, at) => {
                let Some(rule) = self.rules.get(name) else {
                    return self.parser.refuse(*at, format!("there is no rule {name}"));
                };
                if self.open.contains(name) {
                    let why = format!(
                        "the rule {name} refers to itself, which is not supported: bound it, or write the grammar in \
                         Lark, or as a JSON schema"
                    );
                    return self.parser.refuse(*at, why);
                }
                self.open.push(name.clone());
                self.part(rule, depth + 1)?;
                self.open.pop();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(source: &str) -> String {
        to_regex(source, 10_000).unwrap()
    }

    fn refused(source: &str) -> String {
        let Err(Error::Grammar { keyword, why, .. }) = to_regex(source, 10_000) else { panic!("{source}") };
        assert_eq!(keyword, "gbnf");
        why
    }

    #[test]
    fn rules_stand_in_their_places() {
        assert_eq!(
            regex("root ::= \"a.\" b*\nb ::= [x-z^] | # one\n  \"\""),
            r"(?:a\x{2e}(?:(?:[x-z\x{5e}]|))*)"
        );
        assert_eq!(
            regex("root::=(\"a\"|\"b\"){2,}[^\\n-]? ."),
            r"(?:(?:(?:a|b)){2,}(?:[^\x{a}\x{2d}])?(?s:.))"
        );
        assert_eq!(
            regex(r#"root ::= "\x41\u00e9\U0001F600\"" "c"{ 1, 3 }+"#),
            r"(?:A\x{e9}\x{1f600}\x{22}(?:(?:c){1,3})+)"
        );
        assert_eq!(regex("root ::= my-rule\nmy-rule ::= \"a\"\n  \"b\"\nx ::= x"), "(?:(?:ab))");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (source, place, why) in [
            ("", "line 1, column 1", "no rule root"),
            ("a ::= \"x\"", "line 1, column 1", "no rule root"),
            ("root ::= b\n", "line 1, column 10", "no rule b"),
            ("root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1", "twice"),
            ("root ::= \"a\n\"", "line 1, column 10", "not closed"),
            ("root ::= [a", "line 1, column 10", "not closed"),
            ("root ::= [z-a]", "line 1, column 10", "empty"),
            ("root ::= []", "line 1, column 10", "empty"),
            ("root ::= (\"a\"", "line 1, column 10", "not closed"),
            ("root ::= \"a\")", "line 1, column 13", "a rule is missing"),
            ("root ::=\n \"\\q\"", "line 2, column 3", "no such escape"),
            ("root ::= \"\\ud800\"", "line 1, column 11", "digits"),
            ("root ::= \"a\"{3,2}", "line 1, column 13", "must be like"),
            ("root ::= \"a\"{99999}", "line 1, column 13", "must be like"),
            ("root ::= \"a\"{3", "line 1, column 13", "not closed"),
            ("root ::= \"a\"{", "line 1, column 13", "not closed"),
            ("root ::= \"a\"{}", "line 1, column 13", "must be like"),
            ("root ::= \"a\" !", "line 1, column 14", "means nothing"),
            ("root ::= \"(\" root \")\" | \"\"", "line 1, column 14", "refers to itself"),
        ] {
            let said = refused(source);
            assert!(said.starts_with(place) && said.contains(why), "{source}: {said}");
        }
        assert!(refused(&format!("root ::= {}", "(".repeat(1000))).contains("nested"));
    }

    #[test]
    fn large_ones_are_refused_soon() {
        let doubling: String = (0..60).map(|i| format!("r{i} ::= r{} r{}\n", i + 1, i + 1)).collect();
        assert!(refused(&format!("root ::= r0\n{doubling}r60 ::= \"a\"")).contains("too large"));
        let chain: String = (0..5000).map(|i| format!("r{i} ::= r{}\n", i + 1)).collect();
        assert!(refused(&format!("root ::= r0\n{chain}r5000 ::= \"a\"")).contains("too large"));
    }
}
