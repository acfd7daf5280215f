//! Sets of strings: formulas over lists of texts, regular expressions and lengths.

use super::automaton::Automaton;
use super::decimal::Decimal;
use super::few;
use super::logic::{F, FALSE, Logic, Node, TRUE};
use super::number::{self, Cell, Cells, Kind};
use super::pattern;
use ahash::AHashMap;
use llguidance::derivre::raw::{ExprSet, RelevanceCache};
use llguidance::derivre::{ExprRef, Regex};
use regex_syntax::Parser;
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::sync::LazyLock;

/// Steps to find out whether any text satisfies all of some expressions.
const FUEL: u64 = 2_000_000;

/// What a string may have to be, or (false) must not be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Piece {
    /// One of these.
    Texts(Rc<BTreeSet<String>>, bool),
    /// A whole match of this regular expression.
    Regex(Rc<str>, bool),
    /// The same where the expression has only a part of what is meant; what the second one has not, if there is one, is not
    /// meant, and of the others nothing is known.
    Part(Rc<str>, Option<Rc<str>>, bool),
    /// As many characters as one of these says; one without a lower end begins at 0.
    Length(Rc<Cells>),
}

/// Formulas over strings.
#[derive(Debug)]
pub(super) struct Strings {
    pub(super) logic: Logic<Piece>,
    matchers: AHashMap<Rc<str>, Option<Regex>>,
    space: Space,
    pub(super) automata: AHashMap<Vec<Rc<str>>, Option<Rc<Automaton>>>,
    /// What the automata took.
    pub(super) work: usize,
}

impl Strings {
    pub(super) fn new() -> Self {
        Strings {
            logic: Logic::new(|piece| Some(opposite(piece))),
            matchers: AHashMap::new(),
            space: Space::new(),
            automata: AHashMap::new(),
            work: 0,
        }
    }

    pub(super) fn texts(&mut self, list: impl IntoIterator<Item = String>) -> F {
        let list: BTreeSet<String> = list.into_iter().collect();
        if list.is_empty() { FALSE } else { self.logic.atom(Piece::Texts(Rc::new(list), true)) }
    }

    /// The texts that match the expression as a whole, or (false) all others.
    pub(super) fn regex(&mut self, rx: &str, yes: bool) -> F {
        self.logic.atom(Piece::Regex(Rc::from(rx), yes))
    }

    /// Texts that match the expression, where it does not have all that are meant: these are within the second one.
    pub(super) fn part(&mut self, rx: &str, within: Option<&str>) -> F {
        self.logic.atom(Piece::Part(Rc::from(rx), within.map(Rc::from), true))
    }

    /// The texts in which the pattern of a schema is found.
    ///
    /// # Errors
    /// Where it cannot be said.
    pub(super) fn pattern(&mut self, text: &str) -> Result<F, String> {
        let mut ways = Vec::new();
        for parts in pattern::search(text)? {
            let parts: Vec<F> = parts.iter().map(|(rx, yes)| self.regex(rx, *yes)).collect();
            ways.push(self.logic.all(parts));
        }
        Ok(self.logic.any(ways))
    }

    pub(super) fn length(&mut self, least: u32, most: Option<u32>) -> F {
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
    pub(super) fn listed(&self, f: F) -> Option<Rc<BTreeSet<String>>> {
        match self.logic.node(f) {
            Node::Atom(Piece::Texts(list, true)) => Some(Rc::clone(list)),
            _ => None,
        }
    }

    pub(super) fn and(&mut self, a: F, b: F) -> F {
        for (list, other) in [(self.listed(a), b), (self.listed(b), a)] {
            let Some(list) = list else { continue };
            let (surely, perhaps) = (self.surely(other), self.perhaps(other));
            let left: Vec<String> = list.iter().filter(|t| self.has(surely, t)).cloned().collect();
            // What may be in the other set, or not, stays an open question.
            if surely == perhaps || list.iter().filter(|t| self.has(perhaps, t)).count() == left.len() {
                return self.texts(left);
            }
        }
        let f = self.logic.all([a, b]);
        self.merged(f, true)
    }

    pub(super) fn or(&mut self, a: F, b: F) -> F {
        let f = self.logic.any([a, b]);
        self.merged(f, false)
    }

    pub(super) fn not(&mut self, f: F) -> F {
        self.logic.rebuild(f, true, &mut |logic, piece| logic.atom(opposite(piece)))
    }

    /// What is in the set for certain: less of it, of which everything is known.
    pub(super) fn surely(&mut self, f: F) -> F {
        self.logic.rebuild(f, false, &mut |logic, piece| match piece {
            Piece::Part(rx, _, true) => logic.atom(Piece::Regex(Rc::clone(rx), true)),
            Piece::Part(_, Some(within), false) => logic.atom(Piece::Regex(Rc::clone(within), false)),
            Piece::Part(_, None, false) => FALSE,
            known => logic.atom(known.clone()),
        })
    }

    /// What may be in the set: all of it and more, of which everything is known.
    pub(super) fn perhaps(&mut self, f: F) -> F {
        let not = self.not(f);
        let surely_not = self.surely(not);
        self.not(surely_not)
    }

    /// What stands side by side in a conjunction (`all`) or disjunction becomes one: bounds on the length, and lists of what is
    /// not allowed in the first, of what is in the second.
    pub(super) fn merged(&mut self, f: F, all: bool) -> F {
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
    pub(super) fn has(&mut self, f: F, text: &str) -> bool {
        match self.logic.node(f).clone() {
            Node::All(parts) => parts.iter().all(|f| self.has(*f, text)),
            Node::Any(parts) => parts.iter().any(|f| self.has(*f, text)),
            Node::Atom(Piece::Texts(list, yes)) => list.contains(text) == yes,
            Node::Atom(Piece::Length(cells)) => {
                let length = Decimal::new(text.chars().count() as i128, 0);
                cells.iter().any(|cell| cell.spans(length))
            }
            Node::Atom(Piece::Regex(rx, yes)) => self.matches(&rx, text) == yes,
            Node::Atom(Piece::Part(rx, _, true)) => self.matches(&rx, text),
            Node::Atom(Piece::Part(_, within, false)) => within.is_some_and(|rx| !self.matches(&rx, text)),
        }
    }

    fn matches(&mut self, rx: &Rc<str>, text: &str) -> bool {
        let matcher = self.matchers.entry(Rc::clone(rx)).or_insert_with(|| Regex::new(rx).ok());
        matcher.as_mut().is_some_and(|rx| rx.is_match(text))
    }

    /// All texts of the set where they are so few; None where there are more, or too many steps would tell.
    pub(super) fn few(&mut self, f: F, most: usize) -> Option<Vec<String>> {
        if let Some(list) = self.listed(f) {
            return (list.len() <= most).then(|| list.iter().cloned().collect());
        }
        let all = self.expression(f)?;
        let Space { exprs, relevance, texts, .. } = &mut self.space;
        let set = exprs.mk_and(&mut vec![*texts, all]);
        let few = few::texts((exprs, relevance), set, most);
        self.tidy();
        few
    }

    /// What it took to find something out is kept for the next set, and is not to grow with their number.
    fn tidy(&mut self) {
        if self.space.exprs.cost() > FUEL {
            self.space = Space::new();
        }
    }

    /// Whether no text is in what is known of the set; None where that is not found out within the limit.
    pub(super) fn is_empty(&mut self, f: F) -> Option<bool> {
        match self.logic.node(f) {
            Node::Any(parts) if parts.is_empty() => return Some(true),
            Node::Atom(Piece::Texts(..) | Piece::Length(..)) => return Some(false),
            Node::All(parts) if parts.is_empty() => return Some(false),
            _ => {}
        }
        let all = self.expression(f)?;
        let Space { exprs, relevance, texts, .. } = &mut self.space;
        let set = exprs.mk_and(&mut vec![*texts, all]);
        let some = relevance.is_non_empty_limited(exprs, set, FUEL);
        self.tidy();
        some.map(|some| !some).ok()
    }

    /// The set among the expressions, with texts that are no UTF-8 where something is negated; None where it is too big for one.
    fn expression(&mut self, f: F) -> Option<ExprRef> {
        if let Some(known) = self.space.known.get(&f) {
            return Some(*known);
        }
        let node = self.logic.node(f).clone();
        let expression = match &node {
            Node::Atom(piece) => self.space.piece(piece)?,
            Node::All(parts) | Node::Any(parts) => {
                let mut parts = parts.iter().map(|f| self.expression(*f)).collect::<Option<Vec<_>>>()?;
                let exprs = &mut self.space.exprs;
                if matches!(node, Node::All(_)) { exprs.mk_and(&mut parts) } else { exprs.mk_or(&mut parts) }
            }
        };
        self.space.known.insert(f, expression);
        Some(expression)
    }
}

/// All that a piece has not.
fn opposite(piece: &Piece) -> Piece {
    match piece {
        Piece::Texts(list, yes) => Piece::Texts(Rc::clone(list), !yes),
        Piece::Regex(rx, yes) => Piece::Regex(Rc::clone(rx), !yes),
        Piece::Part(rx, within, yes) => Piece::Part(Rc::clone(rx), within.clone(), !yes),
        Piece::Length(cells) => Piece::Length(Rc::new(number::not(cells, Kind::Whole))),
    }
}

/// Expressions of one document, and what is known of them.
#[derive(Clone)]
struct Space {
    exprs: ExprSet,
    relevance: RelevanceCache,
    /// Of all texts.
    texts: ExprRef,
    known: AHashMap<F, ExprRef>,
}

impl Space {
    fn new() -> Self {
        // Many documents have no use for it: a copy costs less than to read the expression.
        static EMPTY: LazyLock<Space> = LazyLock::new(|| {
            let mut exprs = ExprSet::new(256);
            let texts = exprs.parse_expr(Parser::new(), "(?s:.*)", false).unwrap_or(ExprRef::ANY_BYTE_STRING);
            Space { exprs, relevance: RelevanceCache::new(), texts, known: AHashMap::new() }
        });
        EMPTY.clone()
    }

    fn piece(&mut self, piece: &Piece) -> Option<ExprRef> {
        let mut regex = |rx: &str| self.exprs.parse_expr(Parser::new(), rx, false).ok();
        let (expression, yes) = match piece {
            Piece::Regex(rx, yes) => (regex(rx)?, *yes),
            Piece::Part(rx, _, true) => (regex(rx)?, true),
            Piece::Part(_, None, false) => (ExprRef::NO_MATCH, true),
            Piece::Part(_, Some(rx), false) => (regex(rx)?, false),
            Piece::Length(cells) => (regex(&length("(?s:.)", cells))?, true),
            Piece::Texts(list, yes) => {
                let mut texts = list.iter().map(|text| self.exprs.mk_literal(text)).collect();
                (self.exprs.mk_or(&mut texts), *yes)
            }
        };
        Some(if yes { expression } else { self.exprs.mk_not(expression) })
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

/// So many of something.
pub(super) fn length(of: &str, lengths: &[Cell]) -> String {
    let way = |cell: &Cell| {
        let least = cell.low.map_or(0, |(n, _)| n.digits);
        format!("{of}{{{least},{}}}", cell.high.map_or(String::new(), |(n, _)| n.text()))
    };
    let ways: Vec<String> = lengths.iter().map(way).collect();
    format!("(?:{})", ways.join("|"))
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
