//! What stands at the edges of expressions: word boundaries, and what anything may follow.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Repetition};

/// An end of an expression's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    First,
    Last,
}

/// A place between characters: whether exactly one side is a character of a word, or (false) both or none.
pub(super) type Boundary = bool;

/// Most parts of expressions that the boundaries of a pattern may make of it.
const MOST: usize = 100_000;

/// Puts boundaries into expressions, within what one pattern may take.
#[derive(Debug)]
pub(super) struct Edges {
    left: usize,
}

impl Edges {
    pub(super) fn new() -> Self {
        Edges { left: MOST }
    }

    /// One expression for parts with boundaries between them: `first`, and each next one with the boundary before it. None
    /// where a part between two boundaries may be empty, or it takes too much.
    pub(super) fn bounded(&mut self, first: Hir, rest: &[(Boundary, Hir)]) -> Option<Hir> {
        let Some(((boundary, next), more)) = rest.split_first() else { return Some(first) };
        if !more.is_empty() && may_be_empty(next) {
            return None;
        }
        let mut ways = Vec::new();
        for before in [false, true] {
            let left = self.begun(&first, Edge::Last, before)?;
            let right = self.begun(next, Edge::First, before != *boundary)?;
            if !is_nothing(&left) && !is_nothing(&right) {
                ways.push(self.bounded(Hir::concat(vec![left, right]), more)?);
            }
        }
        Some(Hir::alternation(ways))
    }

    /// Those texts that have a character of a word at the edge, or (false) another one or none at all.
    fn begun(&mut self, hir: &Hir, edge: Edge, word: bool) -> Option<Hir> {
        let mut ways: Vec<Hir> = Vec::new();
        for (class, rest) in self.at_edge(hir, edge)? {
            let mut own = class;
            if word {
                own.intersect(&letters());
            } else {
                own.difference(&letters());
            }
            ways.push(joined(Hir::class(Class::Unicode(own)), rest, edge));
        }
        ways.retain(|way| !is_nothing(way));
        if !word && may_be_empty(hir) {
            ways.push(Hir::empty());
        }
        Some(Hir::alternation(ways))
    }

    /// A copy, which is paid for.
    fn copy(&mut self, hir: &Hir) -> Option<Hir> {
        self.pay(hir)?;
        Some(hir.clone())
    }

    fn pay(&mut self, hir: &Hir) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        hir.kind().subs().iter().try_for_each(|sub| self.pay(sub))
    }

    /// The ways in which a text that is not empty may have its character at the edge, and the rest of it then.
    fn at_edge(&mut self, hir: &Hir, edge: Edge) -> Option<Vec<(ClassUnicode, Hir)>> {
        self.left = self.left.checked_sub(1)?;
        Some(match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Vec::new(),
            HirKind::Capture(inner) => self.at_edge(&inner.sub, edge)?,
            HirKind::Class(Class::Unicode(class)) => vec![(class.clone(), Hir::empty())],
            // Bytes that are characters: patterns are of texts.
            HirKind::Class(Class::Bytes(class)) => {
                class.to_unicode_class().map(|class| (class, Hir::empty())).into_iter().collect()
            }
            HirKind::Literal(literal) => {
                let text = String::from_utf8_lossy(&literal.0);
                let mut rest = text.chars();
                let own = if edge == Edge::First { rest.next() } else { rest.next_back() };
                let only = |c| ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
                own.map(|c| (only(c), Hir::literal(rest.as_str().as_bytes()))).into_iter().collect()
            }
            HirKind::Alternation(inner) => {
                let ways = inner.iter().map(|part| self.at_edge(part, edge)).collect::<Option<Vec<_>>>()?;
                ways.into_iter().flatten().collect()
            }
            HirKind::Repetition(inner) if inner.max == Some(0) => Vec::new(),
            HirKind::Repetition(inner) => {
                let max = inner.max.map(|max| max - 1);
                let mut all = Vec::new();
                for (own, rest) in self.at_edge(&inner.sub, edge)? {
                    let sub = Box::new(self.copy(&inner.sub)?);
                    let (min, greedy) = (inner.min.saturating_sub(1), inner.greedy);
                    let others = Hir::repetition(Repetition { min, max, greedy, sub });
                    all.push((own, joined(rest, others, edge)));
                }
                all
            }
            HirKind::Concat(inner) => self.at_edge_of(inner, edge)?,
        })
    }

    /// The same of parts one after another.
    fn at_edge_of(&mut self, parts: &[Hir], edge: Edge) -> Option<Vec<(ClassUnicode, Hir)>> {
        let mut all = Vec::new();
        let mut line = parts;
        while let Some((outer, others)) =
            if edge == Edge::First { line.split_first() } else { line.split_last() }
        {
            for (own, rest) in self.at_edge(outer, edge)? {
                let others = others.iter().map(|part| self.copy(part)).collect::<Option<Vec<_>>>()?;
                all.push((own, joined(rest, Hir::concat(others), edge)));
            }
            if !may_be_empty(outer) {
                break;
            }
            line = others;
        }
        Some(all)
    }
}

/// `\w` of ECMA-262.
fn letters() -> ClassUnicode {
    let ranges = [('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')];
    ClassUnicode::new(ranges.map(|(from, to)| ClassUnicodeRange::new(from, to)))
}

/// What stands at an edge, before or behind the rest.
fn joined(outer: Hir, rest: Hir, edge: Edge) -> Hir {
    Hir::concat(if edge == Edge::First { vec![outer, rest] } else { vec![rest, outer] })
}

fn may_be_empty(hir: &Hir) -> bool {
    hir.properties().minimum_len() == Some(0)
}

/// Whether the expression has no text at all.
fn is_nothing(hir: &Hir) -> bool {
    hir.properties().minimum_len().is_none()
}

/// Any text.
pub(super) fn anything() -> Hir {
    let class = ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)]);
    let sub = Box::new(Hir::class(Class::Unicode(class)));
    Hir::repetition(Repetition { min: 0, max: None, greedy: true, sub })
}

/// The expression, and anything beyond its edge.
pub(super) fn open(hir: &Hir, edge: Edge) -> Hir {
    joined(anything(), least(hir, edge), edge)
}

/// What is enough of an expression beyond whose edge anything may stand: of a repetition as many as there must be.
fn least(hir: &Hir, edge: Edge) -> Hir {
    match hir.kind() {
        HirKind::Capture(inner) => least(&inner.sub, edge),
        HirKind::Repetition(inner) => Hir::repetition(Repetition { max: Some(inner.min), ..inner.clone() }),
        HirKind::Alternation(inner) => Hir::alternation(inner.iter().map(|part| least(part, edge)).collect()),
        HirKind::Concat(inner) => {
            let mut line: Vec<Hir> = inner.clone();
            if edge == Edge::First {
                line.reverse();
            }
            while let Some(outer) = line.pop() {
                let enough = least(&outer, edge);
                if !matches!(enough.kind(), HirKind::Empty) {
                    line.push(enough);
                    break;
                }
            }
            if edge == Edge::First {
                line.reverse();
            }
            Hir::concat(line)
        }
        _ => hir.clone(),
    }
}

#[cfg(test)]
mod tests {
    use crate::grammar::schema::pattern::search;
    use llguidance::derivre::Regex;
    use regex_automata::dfa::{Automaton, dense};
    use regex_automata::{Anchored, Input};

    /// All texts of up to five of these characters.
    fn texts() -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..5 {
            let to = all.len();
            let longer = all[from..to].iter().flat_map(|text| ["a", "b", "-"].map(|c| format!("{text}{c}")));
            let longer: Vec<String> = longer.collect();
            (from, _) = (to, all.extend(longer));
        }
        all
    }

    #[test]
    fn boundaries_and_open_ends_are_those_of_another_engine() {
        let patterns = [
            r"\ba",
            r"a\b",
            r"\Ba\B",
            r"\b",
            r"^\B",
            r"^\b$",
            r"\bab?\b",
            r"\b(?:a|-)+\b",
            r"^(?:a|b-)*\b-?$",
            r"^-*\b(?:ab|-)?b\b",
            r"a\b|^\bb|-\B$",
            r"(?:a{1,3}|-b*)",
            r"^a(?:b{2,4}-*)",
            r"(?:-+|b{0,2})a{2,3}b*$",
            r"b(?:a{1,2}|-)?",
        ];
        for pattern in patterns {
            let same = pattern.replace(r"\b", r"(?-u:\b)").replace(r"\B", r"(?-u:\B)");
            let dfa = dense::DFA::new(&format!("(?s:.*)(?:{same})(?s:.*)$")).unwrap();
            let parts = search(pattern).unwrap().remove(0);
            let mut parts: Vec<_> = parts.iter().map(|(rx, yes)| (Regex::new(rx).unwrap(), *yes)).collect();
            for text in texts() {
                let input = Input::new(&text).anchored(Anchored::Yes);
                let expected = dfa.try_search_fwd(&input).unwrap().is_some();
                let found = parts.iter_mut().all(|(rx, yes)| rx.is_match(&text) == *yes);
                assert_eq!(found, expected, "{text:?} in {pattern}");
            }
        }
    }
}
