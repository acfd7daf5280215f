//! The rules of a grammar that is being written, and which of them derive a text.

use super::expr::Terminal;
use crate::types::Token;
use ahash::AHashSet;
use llguidance::earley::{BitIdx, ParamCond, ParamExpr, ParamRef, ParamValue};
use std::sync::Arc;

/// The number of a rule.
pub(crate) type Rule = usize;

/// A part of an alternative.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Symbol {
    Rule(Rule),
    Terminal(Terminal),
    /// This text, with white space where it is a part of JSON between values.
    Text(Arc<str>),
    /// A token by its number.
    Token(Token),
    /// So many times at least and at most.
    Times(Rule, u32, Option<u32>),
    /// A rule with a parameter, a set of bits that says what has been there.
    With(Rule, ParamExpr),
    /// No text, where this holds of the parameter: first in an alternative.
    If(ParamCond),
    /// No text, where this rule derives one.
    Needs(Rule),
}

impl Symbol {
    /// The same where so many rules and terminals come before its own.
    pub(super) fn shift(&mut self, rules: usize, terminals: usize) {
        match self {
            Symbol::Text(_) | Symbol::Token(_) | Symbol::If(_) => {}
            Symbol::Terminal(terminal) => *terminal += terminals,
            Symbol::Rule(rule) | Symbol::Times(rule, ..) | Symbol::With(rule, _) | Symbol::Needs(rule) => {
                *rule += rules;
            }
        }
    }

    /// A rule that remembers what has been there, and nothing has.
    pub(crate) fn fresh(rule: Rule) -> Self {
        Symbol::With(rule, ParamExpr::Const(ParamValue(0)))
    }

    /// The same with these bits set as well.
    pub(crate) fn past(rule: Rule, bits: u64) -> Self {
        Symbol::With(rule, ParamExpr::BitOr(ParamValue(bits)))
    }
}

/// A bracket, comma or colon with the white space that models write behind it, or before it where it closes.
pub(super) fn spaced(text: &str, space: Option<&str>) -> Option<String> {
    let space = space?;
    match text {
        "," | ":" => Some(format!("{text}(?:{space})?")),
        "{" | "[" => Some(format!(r"\{text}(?:{space})?")),
        "}" | "]" => Some(format!(r"(?:{space})?\{text}")),
        _ => None,
    }
}

/// Symbols one after another.
pub(crate) type Line = Vec<Symbol>;

/// The condition of an alternative.
pub(super) fn condition(line: &Line) -> &ParamCond {
    match line.first() {
        Some(Symbol::If(condition)) => condition,
        _ => &ParamCond::True,
    }
}

/// The rules with a parameter.
pub(super) fn with_parameter(rules: &[Vec<Line>]) -> AHashSet<Rule> {
    let rule = |symbol: &Symbol| match symbol {
        Symbol::With(rule, _) => Some(*rule),
        _ => None,
    };
    rules.iter().flatten().flatten().filter_map(rule).collect()
}

/// A parameter remembers so many things.
pub(crate) const BITS: usize = ParamValue::NUM_BITS;

/// Both of these.
pub(crate) fn and(a: ParamCond, b: ParamCond) -> ParamCond {
    if b.is_true() { a } else { ParamCond::And(Box::new(a), Box::new(b)) }
}

/// That something has not been there.
pub(crate) fn is_clear(bit: BitIdx) -> ParamCond {
    ParamCond::EQ(ParamRef::single_bit(bit), ParamValue(0))
}

/// Takes out what derives no text, and what is not used.
pub(crate) fn prune(rules: &mut [Vec<Line>]) {
    let lives = productive(rules);
    for lines in rules.iter_mut() {
        lines.retain(|line| line.iter().all(|s| is_live(s, &lives)));
        for line in lines {
            line.retain(|s| match s {
                Symbol::Times(.., Some(0)) | Symbol::Needs(_) => false,
                Symbol::Times(r, 0, _) => lives[*r],
                _ => true,
            });
        }
    }
    let (mut used, mut line) = (vec![false; rules.len()], vec![0]);
    while let Some(rule) = line.pop() {
        if !std::mem::replace(&mut used[rule], true) {
            line.extend(rules[rule].iter().flatten().filter_map(rule_of));
        }
    }
    rules.iter_mut().zip(used).filter(|(_, used)| !used).for_each(|(lines, _)| lines.clear());
}

/// The depth of the recursion by which llguidance reads these rules in Lark: it enters each rule once, where it first meets it.
pub(super) fn depth(rules: &[Vec<Line>]) -> usize {
    let used = |rule: Rule| rules[rule].iter().flatten().filter_map(rule_of);
    let (mut met, mut open, mut deepest) = (vec![false; rules.len()], vec![used(0)], 1);
    met[0] = true;
    while let Some(rest) = open.last_mut() {
        match rest.next() {
            Some(rule) if std::mem::replace(&mut met[rule], true) => {}
            Some(rule) => open.push(used(rule)),
            None => drop(open.pop()),
        }
        deepest = deepest.max(open.len());
    }
    deepest
}

fn rule_of(symbol: &Symbol) -> Option<Rule> {
    match symbol {
        Symbol::Terminal(_) | Symbol::Text(_) | Symbol::Token(_) | Symbol::If(_) => None,
        Symbol::Times(_, _, Some(0)) => None,
        Symbol::Rule(r) | Symbol::Times(r, ..) | Symbol::With(r, _) | Symbol::Needs(r) => Some(*r),
    }
}

fn is_live(symbol: &Symbol, lives: &[bool]) -> bool {
    matches!(symbol, Symbol::Times(_, 0, _)) || rule_of(symbol).is_none_or(|rule| lives[rule])
}

/// Whether every alternative of these rules derives a text.
pub(crate) fn are_whole(rules: &[Vec<Line>], some: &[Rule]) -> bool {
    let lives = productive(rules);
    some.iter().all(|rule| rules[*rule].iter().flatten().all(|symbol| is_live(symbol, &lives)))
}

/// Which rules derive a text.
pub(crate) fn productive(rules: &[Vec<Line>]) -> Vec<bool> {
    // Each rule is looked at again only when one that it uses has come to life.
    let mut users: Vec<Vec<Rule>> = vec![Vec::new(); rules.len()];
    for (rule, lines) in rules.iter().enumerate() {
        lines.iter().flatten().filter_map(rule_of).for_each(|used| users[used].push(rule));
    }
    let (mut lives, mut line) = (vec![false; rules.len()], (0..rules.len()).collect::<Vec<_>>());
    while let Some(rule) = line.pop() {
        if !lives[rule] && rules[rule].iter().any(|l| l.iter().all(|s| is_live(s, &lives))) {
            lives[rule] = true;
            line.extend(&users[rule]);
        }
    }
    lives
}
