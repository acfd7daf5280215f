//! The text of a grammar as rules.

use super::part::Part;
use crate::GrammarSpec;
use crate::error::{Error, Result};
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
use std::collections::HashMap;

/// Deepest nesting of groups.
pub(super) const MAX_DEPTH: usize = 100;
/// Most repetitions of a part.
const MAX_REPEAT: u32 = 10_000;
/// What XGrammar writes like calls: they depend on the tokenizer, or search.
const MACROS: [&str; 5] = ["TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken", "Regex"];

/// The dialect of a grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// As llama.cpp reads it: `\x` has two digits, and tokens can be named.
    Gbnf,
    /// As XGrammar reads it: `\x` has any number of digits, and `[^]` is any character.
    Ebnf,
}

impl Dialect {
    pub(crate) fn of(spec: &GrammarSpec) -> Dialect {
        if matches!(spec, GrammarSpec::Ebnf(_)) { Dialect::Ebnf } else { Dialect::Gbnf }
    }
}

/// A grammar as it is written.
#[derive(Debug)]
pub(super) struct Source {
    text: Vec<char>,
    /// By the rules' numbers; the first is `root`.
    pub(super) names: Vec<String>,
    /// What they stand for; None: there is no such rule.
    pub(super) parts: Vec<Option<Part>>,
}

impl Source {
    /// # Errors
    /// `Error::Grammar` with line and column where the text is no GBNF, or has what cannot be enforced.
    pub(super) fn read(text: &str, dialect: Dialect, names: Names<'_>) -> Result<Source> {
        let source = Source { text: text.chars().collect(), names: Vec::new(), parts: Vec::new() };
        let mut parser = Parser { source, dialect, names, at: 0, numbers: HashMap::new() };
        parser.number("root".into());
        parser.rules()?;
        Ok(parser.source)
    }

    /// What is wrong at a character.
    pub(super) fn refuse<T>(&self, at: usize, why: impl AsRef<str>) -> Result<T> {
        let before = &self.text[..at.min(self.text.len())];
        let line = 1 + before.iter().filter(|c| **c == '\n').count();
        let column = 1 + before.iter().rev().take_while(|c| **c != '\n').count();
        Err(Error::grammar("", "gbnf", format!("line {line}, column {column}: {}", why.as_ref())))
    }
}

/// Writes a token of GBNF, such as `<think>` or `<[1000]>`, in Lark's notation; if the flag is true, every token except this one. The
/// error says why Lark cannot name it.
pub(crate) type Names<'a> = &'a dyn Fn(&str, bool) -> Result<String, String>;

struct Parser<'a> {
    source: Source,
    dialect: Dialect,
    names: Names<'a>,
    at: usize,
    numbers: HashMap<String, usize>,
}

impl Parser<'_> {
    fn refuse<T>(&self, at: usize, why: impl AsRef<str>) -> Result<T> {
        self.source.refuse(at, why)
    }

    fn rest(&self) -> &[char] {
        &self.source.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().first().copied()
    }

    fn takes(&mut self, text: &str) -> bool {
        let found = self.rest().iter().copied().take(text.len()).eq(text.chars());
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// Passes white space and comments over.
    fn skip(&mut self) {
        while let Some(c) = self.peek().filter(|c| c.is_whitespace() || *c == '#') {
            self.at += if c == '#' { self.rest().iter().take_while(|c| **c != '\n').count() } else { 1 };
        }
    }

    fn name(&mut self) -> String {
        let rest = self.rest().iter();
        let name: String =
            rest.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')).collect();
        self.at += name.len();
        name
    }

    /// The number of a rule.
    fn number(&mut self, name: String) -> usize {
        let source = &mut self.source;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            source.names.push(name.clone());
            source.parts.push(None);
            source.parts.len() - 1
        })
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

    fn rules(&mut self) -> Result<()> {
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
            let rule = self.number(name.clone());
            if self.source.parts[rule].replace(part).is_some() {
                return self.refuse(begin, format!("the rule {name} is there twice"));
            }
        }
        Ok(())
    }

    fn choice(&mut self, depth: usize) -> Result<Part> {
        if depth > MAX_DEPTH {
            return self.refuse(self.at, format!("groups are nested deeper than {MAX_DEPTH}"));
        }
        let mut choices = vec![self.sequence(depth)?];
        while self.takes("|") {
            choices.push(self.sequence(depth)?);
        }
        Ok(Part::choice(choices))
    }

    fn sequence(&mut self, depth: usize) -> Result<Part> {
        let mut parts = Vec::new();
        loop {
            self.skip();
            let begin = self.at;
            let part = match self.peek() {
                None | Some('|' | ')') => return Ok(Part::sequence(parts)),
                Some('"') => self.literal()?,
                Some('[') => self.class()?,
                Some('.') => {
                    self.at += 1;
                    Part::Class(ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)]))
                }
                Some('(') => self.group(depth)?,
                Some('<' | '!') if self.dialect == Dialect::Gbnf => self.token()?,
                Some('<' | '!') => {
                    let why = "tokens cannot be named in XGrammar's EBNF: write the grammar in GBNF or as lark_grammar";
                    return self.refuse(begin, why);
                }
                Some(_) if self.begins_rule() => return Ok(Part::sequence(parts)),
                Some(c) => match self.name() {
                    name if name.is_empty() => return self.refuse(begin, format!("{c} means nothing here")),
                    name if MACROS.contains(&&*name) && self.peek() == Some('(') => {
                        return self
                            .refuse(begin, format!("{name} is not supported: write its texts as rules"));
                    }
                    name => Part::Rule(self.number(name), begin),
                },
            };
            parts.push(self.repeated(part)?);
        }
    }

    /// A token by its text or its number: `<think>`, `<[1000]>`; behind `!`, any token but this one.
    fn token(&mut self) -> Result<Part> {
        let begin = self.at;
        let is_other = self.takes("!");
        let inner = self.rest().iter().skip(1).take_while(|c| !c.is_whitespace() && !matches!(c, '<' | '>'));
        let name: String = inner.collect();
        let opens = self.takes("<");
        self.at += name.chars().count();
        let number = name.strip_prefix('[').map(|number| number.strip_suffix(']').unwrap_or_default());
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !opens || name.is_empty() || !self.takes(">") || number.is_some_and(|number| !is_number(number)) {
            return self.refuse(begin, "a token must be written like <think> or <[1000]>, or !<think>");
        }
        match (self.names)(&format!("<{name}>"), is_other) {
            Ok(token) => Ok(Part::Token(token)),
            Err(why) => self.refuse(begin, why),
        }
    }

    fn group(&mut self, depth: usize) -> Result<Part> {
        let begin = self.at;
        if self.takes("(=") {
            let why = "what must follow without being taken cannot be asked for: leave it out, or write it where it \
                       follows";
            return self.refuse(begin, why);
        }
        self.at += 1;
        let group = self.choice(depth + 1)?;
        if self.takes(")") { Ok(group) } else { self.refuse(begin, "this group is not closed") }
    }

    /// The part with what stands behind it: `*`, `+`, `?`, `{2}`, `{2,}`, `{2,5}`.
    fn repeated(&mut self, mut part: Part) -> Result<Part> {
        for _ in 0..MAX_DEPTH {
            let begin = self.at;
            self.skip();
            let (least, most) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.counts()?,
                _ => {
                    self.at = begin;
                    return Ok(part);
                }
            };
            self.at += 1;
            let part_before = Box::new(part);
            part = if most == Some(0) { Part::nothing() } else { Part::Repeat(part_before, least, most) };
        }
        self.refuse(self.at, format!("more than {MAX_DEPTH} repetitions of each other"))
    }

    /// How often, from `{` to before `}`.
    fn counts(&mut self) -> Result<(u32, Option<u32>)> {
        let Some(end) = self.rest().iter().position(|c| *c == '}') else {
            return self.refuse(self.at, "this number of repetitions is not closed");
        };
        let inner: String = self.rest()[1..end].iter().filter(|c| !c.is_whitespace()).collect();
        let (least, most) = inner.split_once(',').unwrap_or((&inner, &inner));
        let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= MAX_REPEAT);
        // XGrammar writes -1 where there is no bound.
        let bound = if ["", "-1"].contains(&most) { Some(None) } else { number(most).map(Some) };
        match (number(least), bound) {
            (Some(least), Some(most)) if most.is_none_or(|most| least <= most) => {
                self.at += end;
                Ok((least, most))
            }
            _ => {
                let why = format!("must be like {{2}}, {{2,}} or {{2,5}}, up to {MAX_REPEAT}");
                self.refuse(self.at, why)
            }
        }
    }

    fn literal(&mut self) -> Result<Part> {
        let begin = self.at;
        self.at += 1;
        let mut parts = Vec::new();
        while !self.takes("\"") {
            if self.peek().is_none_or(|c| c == '\n') {
                return self.refuse(begin, "this text is not closed");
            }
            let c = self.character()?;
            parts.push(Part::Class(ClassUnicode::new([ClassUnicodeRange::new(c, c)])));
        }
        Ok(Part::sequence(parts))
    }

    fn class(&mut self) -> Result<Part> {
        let begin = self.at;
        self.at += 1;
        let negated = self.takes("^");
        let mut ranges = Vec::new();
        while !self.takes("]") {
            if self.peek().is_none() {
                return self.refuse(begin, "this class is not closed");
            }
            let first = self.character()?;
            let mut last = first;
            if self.peek() == Some('-') && self.rest().get(1) != Some(&']') {
                self.at += 1;
                last = self.character()?;
                if last < first {
                    return self.refuse(begin, format!("the range {first}-{last} is empty"));
                }
            }
            ranges.push(ClassUnicodeRange::new(first, last));
        }
        let written = !ranges.is_empty() || (negated && self.dialect == Dialect::Ebnf);
        let mut class = ClassUnicode::new(ranges);
        if negated {
            class.negate();
        }
        if !written || class.ranges().is_empty() {
            return self.refuse(begin, "this class is empty");
        }
        Ok(Part::Class(class))
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
            'a' => return Ok('\x07'),
            'b' => return Ok('\x08'),
            'v' => return Ok('\x0b'),
            'f' => return Ok('\x0c'),
            'e' => return Ok('\x1b'),
            '0' => return Ok('\0'),
            _ if kind.is_ascii_punctuation() => return Ok(kind),
            'x' if self.dialect == Dialect::Ebnf => {
                self.rest().iter().take(8).take_while(|c| c.is_ascii_hexdigit()).count().max(1)
            }
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => {
                let why = "no such escape; there are \\n \\r \\t \\a \\b \\v \\f \\e \\0 \\x \\u \\U, and \\ before \
                           punctuation";
                return self.refuse(begin, why);
            }
        };
        let hex: String = self.rest().iter().take(digits).collect();
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
