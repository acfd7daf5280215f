//! Sets of strings: formulas over lists of texts, regular expressions and lengths.

use super::automaton::Automaton;
use super::few;
use super::logic::{F, FALSE, Logic, Node, TRUE};
use super::number::{self, Cell, Cells, Kind};
use super::pattern;
use crate::gbnf::of_class;
use crate::written::decimal::Decimal;
use crate::written::expr::{Expr, class};
use ahash::AHashMap;
use llguidance::derivre::ExprRef;
use llguidance::derivre::raw::{DerivCache, ExprSet, RelevanceCache};
use regex_syntax::Parser;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

/// Steps to find out whether any text satisfies all of some expressions.
const FUEL: u64 = 2_000_000;

/// Strings of which all are meant: an under-approximation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Under(pub(crate) F);

/// Strings among which all are that are meant: an over-approximation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Over(pub(crate) F);

/// A set of strings between two sets that are known; an exact set is the same on both sides. The grammar writes strings of
/// `under` only. A string is impossible only if it is outside `over`. The complement swaps the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Between {
    pub(crate) under: Under,
    pub(crate) over: Over,
}

impl From<F> for Between {
    fn from(exact: F) -> Self {
        Between { under: Under(exact), over: Over(exact) }
    }
}

impl Between {
    pub(crate) fn exact(self) -> Option<F> {
        (self.under.0 == self.over.0).then_some(self.under.0)
    }
}

/// What a string may have to be, or (false) must not be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Piece {
    /// One of these.
    Texts(Rc<BTreeSet<String>>, bool),
    /// One of this expression's.
    Regex(Rc<Expr>, bool),
    /// As many characters as one of these says; one without a lower end begins at 0.
    Length(Rc<Cells>),
}

/// Formulas over strings.
#[derive(Debug)]
pub(crate) struct Strings {
    pub(crate) logic: Logic<Piece>,
    space: Space,
    pub(super) automata: AHashMap<Vec<Rc<str>>, Option<Rc<Automaton>>>,
    /// What the automata took.
    pub(crate) work: usize,
}

impl Strings {
    pub(crate) fn new() -> Self {
        Strings {
            logic: Logic::new(|piece| Some(opposite(piece))),
            space: Space::default(),
            automata: AHashMap::new(),
            work: 0,
        }
    }

    /// What is in both or (`all` is false) in any of them.
    pub(crate) fn join(&mut self, a: Between, b: Between, all: bool) -> Between {
        let join = if all { Strings::and } else { Strings::or };
        let under = join(self, a.under.0, b.under.0);
        match (a.exact(), b.exact()) {
            (Some(_), Some(_)) => under.into(),
            _ => Between { under: Under(under), over: Over(join(self, a.over.0, b.over.0)) },
        }
    }

    pub(crate) fn complement(&mut self, of: Between) -> Between {
        Between { under: Under(self.not(of.over.0)), over: Over(self.not(of.under.0)) }
    }

    pub(crate) fn texts(&mut self, list: impl IntoIterator<Item = String>) -> F {
        let list: BTreeSet<String> = list.into_iter().collect();
        if list.is_empty() { FALSE } else { self.logic.atom(Piece::Texts(Rc::new(list), true)) }
    }

    /// The texts in which the pattern of a schema is found.
    ///
    /// # Errors
    /// Where it cannot be said.
    pub(crate) fn pattern(&mut self, text: &str) -> Result<F, String> {
        Ok(match pattern::search(text)? {
            none if none == Expr::NOTHING => FALSE,
            some => self.formula(some),
        })
    }

    /// The texts that have this one somewhere.
    pub(crate) fn with(&mut self, text: &str) -> F {
        let around = Expr::concat([Expr::anything(), Expr::text(text), Expr::anything()]);
        self.logic.atom(Piece::Regex(Rc::new(around), true))
    }

    /// An expression as a set: what it says of whole texts is said by formulas, which are compared more easily.
    fn formula(&mut self, expr: Expr) -> F {
        match expr {
            all if all == Expr::anything() => TRUE,
            Expr::All(parts) => {
                let parts: Vec<F> = parts.into_iter().map(|part| self.formula(part)).collect();
                self.logic.all(parts)
            }
            Expr::Not(inner) => {
                let inner = self.formula(*inner);
                self.not(inner)
            }
            expr => self.logic.atom(Piece::Regex(Rc::new(expr), true)),
        }
    }

    pub(crate) fn length(&mut self, least: u32, most: Option<u32>) -> F {
        let end = |n: u32| (Decimal::new(i128::from(n), 0), true);
        let low = (least > 0).then(|| end(least));
        // No text has more characters than can be counted here.
        let high = most.filter(|most| *most < u32::MAX).map(end);
        self.lengths(number::tidy(vec![Cell { low, high, by: Vec::new() }], Kind::Whole))
    }

    fn lengths(&mut self, lengths: Cells) -> F {
        match lengths.as_slice() {
            [] => FALSE,
            [cell] if cell.is_all() => TRUE,
            _ => self.logic.atom(Piece::Length(Rc::new(lengths))),
        }
    }

    /// The list, where the set is one.
    pub(crate) fn listed(&self, f: F) -> Option<Rc<BTreeSet<String>>> {
        match self.logic.node(f) {
            Node::Atom(Piece::Texts(list, true)) => Some(Rc::clone(list)),
            _ => None,
        }
    }

    pub(crate) fn and(&mut self, a: F, b: F) -> F {
        for (list, other) in [(self.listed(a), b), (self.listed(b), a)] {
            let Some(list) = list else { continue };
            let left: Vec<String> = list.iter().filter(|text| self.has(other, text)).cloned().collect();
            return self.texts(left);
        }
        let f = self.logic.all([a, b]);
        self.merged(f, true)
    }

    pub(crate) fn or(&mut self, a: F, b: F) -> F {
        let f = self.logic.any([a, b]);
        self.merged(f, false)
    }

    pub(crate) fn not(&mut self, f: F) -> F {
        self.logic.rebuild(f, true, &mut |logic, piece| logic.atom(opposite(piece)))
    }

    /// What stands side by side in a conjunction (`all`) or disjunction becomes one: bounds on the length, and lists of what is
    /// not allowed in the first, of what is in the second.
    pub(crate) fn merged(&mut self, f: F, all: bool) -> F {
        let parts = match (self.logic.node(f), all) {
            (Node::All(parts), true) | (Node::Any(parts), false) => Rc::clone(parts),
            _ => return f,
        };
        let (mut rest, mut lists, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts.iter() {
            match self.logic.node(*part) {
                Node::Atom(Piece::Texts(list, yes)) if *yes != all => lists.push(Rc::clone(list)),
                Node::Atom(Piece::Length(cells)) => lengths.push(cells.to_vec()),
                _ => rest.push(*part),
            }
        }
        if lists.len() < 2 && lengths.len() < 2 {
            return f;
        }
        if !lists.is_empty() {
            let list: BTreeSet<String> = lists.iter().flat_map(|list| list.iter().cloned()).collect();
            rest.push(self.logic.atom(Piece::Texts(Rc::new(list), !all)));
        }
        let join = if all { number::and } else { number::or };
        let length = lengths.into_iter().reduce(|a, b| join(&a, &b, Kind::Whole));
        rest.extend(length.map(|lengths| self.lengths(lengths)));
        if all { self.logic.all(rest) } else { self.logic.any(rest) }
    }

    /// Whether the set has this text.
    pub(crate) fn has(&mut self, f: F, text: &str) -> bool {
        match self.logic.node(f).clone() {
            Node::All(parts) => parts.iter().all(|f| self.has(*f, text)),
            Node::Any(parts) => parts.iter().any(|f| self.has(*f, text)),
            Node::Atom(Piece::Texts(list, yes)) => list.contains(text) == yes,
            Node::Atom(Piece::Length(cells)) => {
                let length = Decimal::new(text.chars().count() as i128, 0);
                cells.iter().any(|cell| cell.spans(length))
            }
            Node::Atom(Piece::Regex(..)) => {
                let rest = self.expression(f);
                let Space { exprs, derivatives, .. } = &mut self.space;
                let rest = text.bytes().fold(rest, |rest, byte| derivatives.derivative(exprs, rest, byte));
                let has = exprs.is_nullable(rest);
                self.tidy();
                has
            }
        }
    }

    /// All texts of the set where they are so few; None where there are more, or too many steps would tell.
    pub(crate) fn few(&mut self, f: F, most: usize) -> Option<Vec<String>> {
        if let Some(list) = self.listed(f) {
            return (list.len() <= most).then(|| list.iter().cloned().collect());
        }
        let set = self.expression(f);
        let Space { exprs, relevance, derivatives, .. } = &mut self.space;
        let few = few::texts((exprs, relevance, derivatives), set, most);
        self.tidy();
        few
    }

    /// What it took to find something out is kept for the next set, and is not to grow with their number.
    fn tidy(&mut self) {
        if self.space.exprs.cost() > FUEL {
            self.space = Space::default();
        }
    }

    /// Whether no text is in the set; None where that is not found out within the limit.
    pub(crate) fn is_empty(&mut self, f: F) -> Option<bool> {
        match self.logic.node(f) {
            Node::Any(parts) if parts.is_empty() => return Some(true),
            Node::Atom(Piece::Texts(..) | Piece::Length(..)) => return Some(false),
            Node::All(parts) if parts.is_empty() => return Some(false),
            _ => {}
        }
        let set = self.expression(f);
        let Space { exprs, relevance, .. } = &mut self.space;
        let some = relevance.is_non_empty_limited(exprs, set, FUEL);
        self.tidy();
        some.map(|some| !some).ok()
    }

    /// The set as one expression.
    pub(crate) fn expr(&self, f: F) -> Expr {
        let signed = |expr: Expr, yes: bool| if yes { expr } else { Expr::all([expr.not()]) };
        match self.logic.node(f) {
            Node::Any(parts) => Expr::any(parts.iter().map(|part| self.expr(*part))),
            Node::All(parts) => Expr::all(parts.iter().map(|part| self.expr(*part))),
            Node::Atom(Piece::Texts(list, yes)) => {
                signed(Expr::Any(list.iter().cloned().map(Expr::Text).collect()), *yes)
            }
            Node::Atom(Piece::Regex(rx, yes)) => signed((**rx).clone(), *yes),
            Node::Atom(Piece::Length(cells)) => length(&Expr::character(), cells),
        }
    }

    /// The same among the expressions.
    fn expression(&mut self, f: F) -> ExprRef {
        if let Some(known) = self.space.known.get(&f) {
            return *known;
        }
        let expression = self.space.build(&self.expr(f));
        self.space.known.insert(f, expression);
        expression
    }
}

/// All that a piece has not.
fn opposite(piece: &Piece) -> Piece {
    match piece {
        Piece::Texts(list, yes) => Piece::Texts(Rc::clone(list), !yes),
        Piece::Regex(rx, yes) => Piece::Regex(Rc::clone(rx), !yes),
        Piece::Length(cells) => Piece::Length(Rc::new(number::not(cells, Kind::Whole))),
    }
}

/// Expressions of one document, and what is known of them.
struct Space {
    exprs: ExprSet,
    relevance: RelevanceCache,
    derivatives: DerivCache,
    known: AHashMap<F, ExprRef>,
}

impl Default for Space {
    fn default() -> Self {
        let (relevance, derivatives) = (RelevanceCache::new(), DerivCache::new());
        Space { exprs: ExprSet::new(256), relevance, derivatives, known: AHashMap::new() }
    }
}

impl Space {
    fn build(&mut self, expr: &Expr) -> ExprRef {
        let mut parts: Vec<_> = expr.parts().iter().map(|part| self.build(part)).collect();
        match expr {
            Expr::Text(text) => self.exprs.mk_literal(text),
            Expr::Concat(_) => self.exprs.mk_concat_vec(&parts),
            Expr::Any(_) => self.exprs.mk_or(&mut parts),
            Expr::All(_) => self.exprs.mk_and(&mut parts),
            Expr::Not(_) => self.exprs.mk_not(parts[0]),
            Expr::Repeat(_, least, most) => self.exprs.mk_repeat(parts[0], *least, most.unwrap_or(u32::MAX)),
            Expr::Class(ranges) => {
                // It takes classes of characters as text only.
                let text = of_class(&class(ranges));
                self.exprs.parse_expr(Parser::new(), &text, false).expect("a class is read. This is a bug.")
            }
            _ => unreachable!("no part of translated patterns. This is a bug."),
        }
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

/// So many of something.
pub(crate) fn length(of: &Expr, lengths: &[Cell]) -> Expr {
    let count = |n: Decimal| u32::try_from(n.digits).unwrap_or(u32::MAX);
    Expr::any(lengths.iter().map(|cell| {
        let (low, high) = (cell.low.map_or(0, |(n, _)| count(n)), cell.high.map(|(n, _)| count(n)));
        of.clone().times(low, high)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_strings_are_closed() {
        let mut s = Strings::new();
        let list = s.texts(["a", "bb", "ccc"].map(String::from));
        let (long, word) = (s.length(2, None), s.pattern("^[a-b]+$").unwrap());
        let both = s.and(list, long);
        let found = s.and(both, word);
        assert_eq!(s.listed(found).unwrap().iter().collect::<Vec<_>>(), ["bb"]);
        let (not_list, not_long) = (s.not(list), s.not(long));
        assert!(s.has(not_list, "d") && !s.has(not_list, "a"));
        assert_eq!(s.and(list, not_list), FALSE);
        let none = s.and(not_long, long);
        assert!(s.is_empty(none).unwrap());
        let short = s.and(word, not_long);
        assert!(!s.is_empty(short).unwrap() && s.has(short, "b") && !s.has(short, "bb"));
        let more = s.texts(["d".into()]);
        let joined = s.or(list, more);
        assert_eq!(s.listed(joined).unwrap().len(), 4);
    }
}
