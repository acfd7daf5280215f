//! A grammar as rules and terminals: of a schema, of another constraint, or of schemas and what stands around them.

pub(super) mod assemble;
pub(super) mod base;
pub(super) mod decimal;
pub(super) mod expr;
pub(super) mod multiple;
pub(super) mod rules;
mod strings;

use super::unique::Shape;
use ahash::AHashMap;
use expr::{Expr, Terminal, quoted};
use llguidance::earley::{ParamCond, ParamExpr};
pub(super) use rules::{Line, Symbol};
use rules::{Rule, condition, spaced, with_parameter};
use std::fmt::Write as _;

/// White space as models write it: a space, or a line break with indentation. It is bounded, since a model can write white space
/// without end.
pub(super) const WHITESPACE: &str = r"\r?\n(?: {0,40}|\t{0,10})| ";

/// A grammar; the first rule is its start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Written {
    pub(crate) rules: Vec<Vec<Line>>,
    pub(crate) terminals: Vec<Expr>,
    /// Terminals with conditions on what divides numbers, as rules of Lark where that can say them.
    pub(crate) multiples: AHashMap<Terminal, Option<String>>,
    /// The sum of all divisors.
    pub(crate) divisors: f64,
    /// White space in JSON, where there may be some.
    pub(crate) space: Option<String>,
    /// Where items, or keys, must differ that the grammar lets be equal.
    pub(crate) shape: Option<Shape>,
    /// The texts are JSON and nothing else: white space may stand around it.
    pub(crate) is_alone: bool,
}

impl Written {
    /// A grammar whose start has no alternative yet.
    pub(crate) fn frame() -> Self {
        Written { rules: vec![Vec::new()], ..Written::default() }
    }

    /// One more alternative of the start.
    pub(crate) fn or(&mut self, line: Line) {
        self.rules[0].push(line);
    }

    /// A rule with these alternatives.
    pub(crate) fn rule(&mut self, lines: Vec<Line>) -> Rule {
        self.rules.push(lines);
        self.rules.len() - 1
    }

    /// The matches of a regular expression, as it stands between the slashes of Lark.
    pub(crate) fn matches(&mut self, rx: String) -> Symbol {
        self.terminal(Expr::Regex(rx))
    }

    /// These texts, as one terminal.
    pub(crate) fn one_of<'t>(&mut self, texts: impl IntoIterator<Item = &'t str>) -> Symbol {
        self.terminal(Expr::Any(texts.into_iter().map(|text| Expr::Text(text.to_owned())).collect()))
    }

    /// The texts of this expression.
    pub(crate) fn terminal(&mut self, expr: Expr) -> Symbol {
        self.terminals.push(expr);
        Symbol::Terminal(self.terminals.len() - 1)
    }

    /// Makes `other`, whose white space is the same, a part of this grammar: a symbol for its texts. JSON may begin with a
    /// space, which pieces of some vocabularies carry.
    pub(crate) fn part(&mut self, other: Written) -> Symbol {
        let (rules, terminals) = (self.rules.len(), self.terminals.len());
        let begins_with_space = other.has_space_around();
        self.rules.extend(other.rules);
        self.rules[rules..].iter_mut().flatten().flatten().for_each(|symbol| symbol.shift(rules, terminals));
        self.terminals.extend(other.terminals);
        self.multiples
            .extend(other.multiples.into_iter().map(|(terminal, lark)| (terminal + terminals, lark)));
        self.divisors += other.divisors;
        self.space = self.space.take().or(other.space);
        if !begins_with_space {
            return Symbol::Rule(rules);
        }
        let space = self.one_of([" "]);
        Symbol::Rule(self.rule(vec![vec![Symbol::Rule(rules)], vec![space, Symbol::Rule(rules)]]))
    }

    /// How deep its rules stand in each other.
    pub(crate) fn depth(&self) -> usize {
        rules::depth(&self.rules)
    }

    /// In Lark; None where that cannot say it.
    pub(crate) fn lark(&self) -> Option<String> {
        let begin = if self.has_space_around() { "\" \"? " } else { "" };
        let mut out = format!("start: {begin}r0\n");
        let with_parameter = with_parameter(&self.rules);
        for (rule, lines) in self.rules.iter().enumerate().filter(|(_, lines)| !lines.is_empty()) {
            let _ = write!(out, "r{rule}{}: ", if with_parameter.contains(&rule) { "::_" } else { "" });
            let lines: Vec<String> = lines.iter().map(|line| self.lark_of(line)).collect();
            let _ = writeln!(out, "{}", lines.join(" | "));
        }
        for (i, expression) in self.terminals.iter().enumerate() {
            let _ = match self.multiples.get(&i) {
                Some(lark) => writeln!(out, "m{i}: {}", lark.as_ref()?),
                None => writeln!(out, "T{i}: {}", expression.lark()),
            };
        }
        Some(out)
    }

    /// An alternative in Lark.
    fn lark_of(&self, line: &Line) -> String {
        let mut out = String::new();
        for symbol in line {
            let _ = match symbol {
                Symbol::Rule(r) => write!(out, "r{r} "),
                Symbol::Terminal(t) if self.multiples.contains_key(t) => write!(out, "m{t} "),
                Symbol::Terminal(t) => write!(out, "T{t} "),
                Symbol::Text(text) => match spaced(text, self.space.as_deref()) {
                    Some(rx) => write!(out, "/{rx}/ "),
                    None => write!(out, "{} ", quoted(text)),
                },
                Symbol::Token(token) => write!(out, "<[{token}]> "),
                Symbol::Times(r, 0, None) => write!(out, "r{r}* "),
                Symbol::Times(r, least, None) => write!(out, "r{r}{{{least},}} "),
                Symbol::Times(r, least, Some(most)) => write!(out, "r{r}{{{least},{most}}} "),
                Symbol::With(r, ParamExpr::Const(bits)) => write!(out, "r{r}::{} ", bits.0),
                Symbol::With(r, bits) => write!(out, "r{r}::{bits} "),
                // They have been seen to.
                Symbol::If(_) | Symbol::Needs(_) => Ok(()),
            };
        }
        if out.is_empty() {
            out.push_str("\"\"");
        }
        match condition(line) {
            ParamCond::True => out,
            condition => format!("{out} %if {condition}"),
        }
    }

    /// Whether white space may stand around a text ([`Written::parts`]).
    pub(crate) fn has_space_around(&self) -> bool {
        self.is_alone && self.space.as_deref() == Some(WHITESPACE)
    }
}
