//! The rules of a grammar that is being written: which of them derive a text, and how they look in Lark.

use super::expr::{Terminal, quoted};
use crate::types::Token;
use ahash::AHashMap;
use llguidance::earley::{BitIdx, ParamCond, ParamRef, ParamValue};
use std::fmt::Write as _;
use std::rc::Rc;

/// The number of a rule.
pub(in crate::grammar) type Rule = usize;

/// A part of an alternative.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::grammar) enum Symbol {
    Rule(Rule),
    Terminal(Terminal),
    /// This text, with white space where it is a part of JSON between values.
    Text(Rc<str>),
    /// A token by its number.
    Token(Token),
    /// A terminal of numbers with conditions on what divides them, which in Lark is a rule.
    Multiples(Terminal),
    /// As often as one likes.
    Star(Rule),
    /// So many times at least and at most.
    Times(Rule, u32, Option<u32>),
    /// A rule that remembers what has been there, and nothing has.
    Fresh(Rule),
    /// The same after this, too, has been there.
    Past(Rule, BitIdx),
    /// The same after nothing that it remembers.
    Same(Rule),
    /// No text, where this rule derives one.
    Needs(Rule),
}

impl Symbol {
    /// The same where so many rules and terminals come before its own.
    pub(super) fn shift(&mut self, rules: usize, terminals: usize) {
        match self {
            Symbol::Text(_) | Symbol::Token(_) => {}
            Symbol::Terminal(terminal) | Symbol::Multiples(terminal) => *terminal += terminals,
            Symbol::Rule(rule) | Symbol::Star(rule) | Symbol::Times(rule, ..) | Symbol::Needs(rule) => {
                *rule += rules;
            }
            Symbol::Fresh(rule) | Symbol::Past(rule, _) | Symbol::Same(rule) => *rule += rules,
        }
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
pub(in crate::grammar) type Line = Vec<Symbol>;

/// For each rule with a parameter, the condition of every alternative.
pub(super) type Conditions = AHashMap<Rule, Vec<ParamCond>>;

/// A parameter remembers so many things.
pub(super) const BITS: usize = ParamValue::NUM_BITS;

/// Both of these.
pub(super) fn and(a: ParamCond, b: ParamCond) -> ParamCond {
    if b.is_true() { a } else { ParamCond::And(Box::new(a), Box::new(b)) }
}

/// That something has not been there.
pub(super) fn is_clear(bit: BitIdx) -> ParamCond {
    ParamCond::EQ(ParamRef::single_bit(bit), ParamValue(0))
}

/// Takes out what derives no text, and what is not used.
pub(super) fn prune(rules: &mut [Vec<Line>], conditions: &mut Conditions) {
    let lives = productive(rules);
    for (rule, lines) in rules.iter_mut().enumerate() {
        let keep: Vec<bool> = lines.iter().map(|line| line.iter().all(|s| is_live(s, &lives))).collect();
        let mut kept = keep.iter();
        lines.retain(|_| *kept.next().unwrap_or(&false));
        if let Some(list) = conditions.get_mut(&rule) {
            let mut kept = keep.iter();
            list.retain(|_| *kept.next().unwrap_or(&false));
        }
        for line in lines {
            line.retain(|s| match s {
                Symbol::Times(.., Some(0)) | Symbol::Needs(_) => false,
                Symbol::Star(r) | Symbol::Times(r, 0, _) => lives[*r],
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

/// The rules as they look in Lark.
pub(super) fn print(rules: &[Vec<Line>], conditions: &Conditions, space: Option<&str>) -> String {
    let mut out = String::new();
    for (rule, lines) in rules.iter().enumerate().filter(|(_, lines)| !lines.is_empty()) {
        let conditions = conditions.get(&rule);
        let _ = write!(out, "r{rule}{}: ", if conditions.is_some() { "::_" } else { "" });
        for (i, line) in lines.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { " | " });
            line.iter().for_each(|symbol| put(symbol, space, &mut out));
            if line.is_empty() {
                out.push_str("\"\"");
            }
            if let Some(condition) = conditions.map(|list| &list[i]).filter(|c| !c.is_true()) {
                let _ = write!(out, " %if {condition}");
            }
        }
        out.push('\n');
    }
    out
}

/// Lines for so many of something: the first of them, and those that follow a comma.
pub(super) fn counted((first, more): (Rule, Rule), least: u32, most: Option<u32>, comma: bool) -> Vec<Line> {
    if comma {
        return vec![vec![Symbol::Times(more, least, most)]];
    }
    let mut lines = Vec::new();
    if least == 0 {
        lines.push(Vec::new());
    }
    if most != Some(0) {
        let rest = Symbol::Times(more, least.saturating_sub(1), most.map(|n| n - 1));
        lines.push(vec![Symbol::Rule(first), rest]);
    }
    lines
}

fn rule_of(symbol: &Symbol) -> Option<Rule> {
    match symbol {
        Symbol::Terminal(_) | Symbol::Text(_) | Symbol::Token(_) | Symbol::Multiples(_) => None,
        Symbol::Times(_, _, Some(0)) => None,
        Symbol::Rule(r) | Symbol::Star(r) | Symbol::Times(r, ..) | Symbol::Needs(r) => Some(*r),
        Symbol::Fresh(r) | Symbol::Past(r, _) | Symbol::Same(r) => Some(*r),
    }
}

fn is_live(symbol: &Symbol, lives: &[bool]) -> bool {
    match symbol {
        Symbol::Terminal(_) | Symbol::Text(_) | Symbol::Token(_) | Symbol::Multiples(_) => true,
        Symbol::Star(_) | Symbol::Times(_, 0, _) => true,
        Symbol::Rule(r) | Symbol::Times(r, ..) | Symbol::Needs(r) => lives[*r],
        Symbol::Fresh(r) | Symbol::Past(r, _) | Symbol::Same(r) => lives[*r],
    }
}

/// Which rules derive a text.
pub(super) fn productive(rules: &[Vec<Line>]) -> Vec<bool> {
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

fn put(symbol: &Symbol, space: Option<&str>, out: &mut String) {
    let _ = match symbol {
        Symbol::Rule(r) => write!(out, "r{r} "),
        Symbol::Terminal(terminal) => write!(out, "T{terminal} "),
        Symbol::Text(text) => match spaced(text, space) {
            Some(rx) => write!(out, "/{rx}/ "),
            None => write!(out, "{} ", quoted(text)),
        },
        Symbol::Token(token) => write!(out, "<[{token}]> "),
        Symbol::Multiples(terminal) => write!(out, "m{terminal} "),
        Symbol::Star(r) => write!(out, "r{r}* "),
        Symbol::Times(r, least, None) => write!(out, "r{r}{{{least},}} "),
        Symbol::Times(r, least, Some(most)) => write!(out, "r{r}{{{least},{most}}} "),
        Symbol::Fresh(r) => write!(out, "r{r}::0 "),
        Symbol::Past(r, bit) => write!(out, "r{r}::set_bit({bit}) "),
        Symbol::Same(r) => write!(out, "r{r}::_ "),
        // It has been seen to.
        Symbol::Needs(_) => Ok(()),
    };
}
