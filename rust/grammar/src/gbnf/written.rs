//! Rules over lexemes: what llguidance's parser and its lexer do of a grammar.

use super::part::Part;
use super::{regex, rules};
use crate::budget::Budget;
use crate::error::Result;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write;

/// Longest regular expression of a lexeme, in bytes; what is longer is written as rules.
const MAX_LEXEME: usize = 4_000;
/// Most parts side by side that are tried as one lexeme. Each trial may take another look at all of them.
const MAX_TOGETHER: usize = 4;

/// What stands in a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Symbol {
    Lexeme(usize),
    Token(usize),
    /// A rule so many times.
    Rule(usize, u32, Option<u32>),
}

/// A lexeme: a text that is not empty.
#[derive(Debug)]
pub(super) struct Lexeme {
    /// Its regular expression.
    pub(super) text: String,
    /// One that has all of its texts and maybe more, and fewer states.
    pub(super) loose: String,
}

/// Rules, each a list of choices, of which the first rule is the whole; and their lexemes and tokens.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) rules: Vec<Vec<Vec<Symbol>>>,
    pub(super) lexemes: Vec<Lexeme>,
    /// In Lark's notation.
    tokens: Vec<String>,
}

impl Written {
    /// As Lark reads it.
    pub(super) fn lark(&self) -> String {
        let mut out = String::from("start: r0\n");
        let mut line = |text: std::fmt::Arguments<'_>| {
            out.write_fmt(text).expect("a String takes all. This is a bug.");
        };
        for (rule, choices) in self.rules.iter().enumerate() {
            let choices: Vec<_> = choices.iter().map(|choice| self.of_choice(choice)).collect();
            line(format_args!("r{rule}: {}\n", choices.join(" | ")));
        }
        for (number, lexeme) in self.lexemes.iter().enumerate() {
            line(format_args!("T{number}: /{}/\n", lexeme.text));
        }
        out
    }

    fn of_choice(&self, symbols: &[Symbol]) -> String {
        let symbol = |symbol: &Symbol| match symbol {
            Symbol::Lexeme(lexeme) => format!("T{lexeme}"),
            Symbol::Token(token) => self.tokens[*token].clone(),
            Symbol::Rule(rule, 1, Some(1)) => format!("r{rule}"),
            Symbol::Rule(rule, least, most) => format!("r{rule}{}", regex::times(*least, *most)),
        };
        match symbols {
            [] => "\"\"".into(),
            _ => symbols.iter().map(symbol).collect::<Vec<_>>().join(" "),
        }
    }
}

/// Writes rules.
pub(super) struct Writer<'a> {
    parts: &'a [Part],
    budget: &'a Budget,
    /// By rule: whether it does not come to refer to itself, and whether it may be the empty text.
    regular: Vec<bool>,
    may_be_empty: Vec<bool>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(parts: &'a [Part], budget: &'a Budget) -> Result<Self> {
        let regular = rules::least(parts, budget, Part::all_ways)?;
        let may_be_empty = rules::least(parts, budget, |part, known| part.some_way(known, false))?;
        Ok(Writer { parts, budget, regular, may_be_empty })
    }

    /// The whole as a regular expression of at most `most` bytes, if it can be.
    pub(super) fn regex(&self, most: usize) -> Option<String> {
        self.regular[0].then(|| regex::text(&self.parts[0], self.parts, most, false)).flatten()
    }

    fn is_regular(&self, part: &Part) -> bool {
        part.all_ways(&self.regular)
    }

    /// The whole as rules in which regular parts are lexemes, but for those with these regular expressions; None: only single
    /// characters are.
    pub(super) fn write(&self, apart: Option<&HashSet<String>>) -> Result<Written> {
        let (out, numbers, waiting) = Default::default();
        let mut writing = Writing { writer: self, apart, out, numbers, waiting, lexemes: HashMap::new() };
        writing.numbered(0);
        while let Some((number, rule)) = writing.waiting.pop_front() {
            self.budget.spend(1)?;
            writing.out.rules[number] = writing.choices(&self.parts[rule])?;
        }
        Ok(writing.out)
    }
}

struct Writing<'a> {
    writer: &'a Writer<'a>,
    apart: Option<&'a HashSet<String>>,
    out: Written,
    /// Numbers in `out` by numbers of rules.
    numbers: HashMap<usize, usize>,
    /// Rules that are still to be written: their numbers in `out`, and their own.
    waiting: VecDeque<(usize, usize)>,
    lexemes: HashMap<String, usize>,
}

impl Writing<'_> {
    fn fresh(&mut self, choices: Vec<Vec<Symbol>>) -> usize {
        self.out.rules.push(choices);
        self.out.rules.len() - 1
    }

    fn numbered(&mut self, rule: usize) -> usize {
        if let Some(number) = self.numbers.get(&rule) {
            return *number;
        }
        let number = self.fresh(Vec::new());
        self.numbers.insert(rule, number);
        self.waiting.push_back((number, rule));
        number
    }

    fn choices(&mut self, part: &Part) -> Result<Vec<Vec<Symbol>>> {
        match part {
            Part::Choice(choices) => choices.iter().map(|choice| self.symbols(choice)).collect(),
            _ => Ok(vec![self.symbols(part)?]),
        }
    }

    fn symbols(&mut self, part: &Part) -> Result<Vec<Symbol>> {
        if let Some(lexeme) = self.lexeme(part)? {
            return Ok(vec![lexeme]);
        }
        Ok(match part {
            // It is always a lexeme.
            Part::Class(_) => Vec::new(),
            Part::Token(name) => {
                self.out.tokens.push(name.clone());
                vec![Symbol::Token(self.out.tokens.len() - 1)]
            }
            Part::Rule(rule, _) => vec![Symbol::Rule(self.numbered(*rule), 1, Some(1))],
            Part::Choice(_) => {
                let choices = self.choices(part)?;
                vec![Symbol::Rule(self.fresh(choices), 1, Some(1))]
            }
            Part::Sequence(parts) => self.sequence(parts)?,
            Part::Repeat(part, least, most) => vec![self.repeat(part, *least, *most)?],
        })
    }

    /// As many regular parts as can stand side by side in one lexeme, and so on.
    fn sequence(&mut self, parts: &[Part]) -> Result<Vec<Symbol>> {
        let (mut symbols, mut rest) = (Vec::new(), parts);
        while let Some(first) = rest.first() {
            let regular = rest.iter().take_while(|part| self.writer.is_regular(part));
            let mut taken = regular.take(MAX_TOGETHER).count();
            let mut together = None;
            while taken > 1 && together.is_none() {
                together = self.lexeme(&Part::Sequence(rest[..taken].to_vec()))?;
                taken -= usize::from(together.is_none());
            }
            match together {
                Some(lexeme) => symbols.push(lexeme),
                None => symbols.extend(self.symbols(first)?),
            }
            rest = &rest[taken.max(1)..];
        }
        Ok(symbols)
    }

    fn repeat(&mut self, part: &Part, least: u32, most: Option<u32>) -> Result<Symbol> {
        if least == 0 && most != Some(1) {
            let some = Part::Repeat(Box::new(part.clone()), 1, most);
            if let Some(lexeme) = self.lexeme(&some)? {
                return Ok(Symbol::Rule(self.fresh(vec![vec![lexeme]]), 0, Some(1)));
            }
        }
        let inner = self.symbols(part)?;
        let rule = match *inner {
            [Symbol::Rule(rule, 1, Some(1))] => rule,
            _ => self.fresh(vec![inner]),
        };
        Ok(Symbol::Rule(rule, least, most))
    }

    /// The part as a lexeme, where it is one.
    fn lexeme(&mut self, part: &Part) -> Result<Option<Symbol>> {
        let single = matches!(part, Part::Class(_));
        let may_be = single || (self.apart.is_some() && self.writer.is_regular(part));
        if !may_be || part.some_way(&self.writer.may_be_empty, false) {
            return Ok(None);
        }
        let write = |loose| {
            let most = if single { usize::MAX } else { MAX_LEXEME };
            regex::text(part, self.writer.parts, most, loose)
        };
        let texts = write(false).zip(write(true));
        let tried = texts.as_ref().map_or(MAX_LEXEME, |(text, _)| text.len());
        self.writer.budget.spend(1 + tried / 64)?;
        let Some((text, loose)) = texts else { return Ok(None) };
        if !single && self.apart.is_some_and(|texts| texts.contains(&text)) {
            return Ok(None);
        }
        let known = self.lexemes.entry(text).or_insert_with_key(|text| {
            self.out.lexemes.push(Lexeme { text: text.clone(), loose });
            self.out.lexemes.len() - 1
        });
        Ok(Some(Symbol::Lexeme(*known)))
    }
}
