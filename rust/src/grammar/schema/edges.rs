//! What stands at the edges of expressions: word boundaries, and what anything may follow.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Dot, Hir, HirKind, Repetition};

/// An end of an expression's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    First,
    Last,
}

/// Most parts of expressions that the boundaries of a pattern may make of it.
pub(super) const MOST: usize = 100_000;

/// One expression for parts with boundaries between them: `first`, and each next one with the boundary before it, which has a
/// character of a word on one side, or (false) on both or none. None where a part between two boundaries may be empty, or it
/// takes more parts than are `left`.
pub(super) fn bounded(first: Hir, rest: &[(bool, Hir)], left: &mut usize) -> Option<Hir> {
    let Some(((boundary, next), more)) = rest.split_first() else { return Some(first) };
    if !more.is_empty() && may_be_empty(next) {
        return None;
    }
    let mut ways = Vec::new();
    for before in [false, true] {
        let first = begun(&first, Edge::Last, before, left)?;
        let next = begun(next, Edge::First, before != *boundary, left)?;
        if !is_nothing(&first) && !is_nothing(&next) {
            ways.push(bounded(Hir::concat(vec![first, next]), more, left)?);
        }
    }
    Some(Hir::alternation(ways))
}

/// Those texts that have a character of a word at the edge, or (false) another one or none at all.
fn begun(hir: &Hir, edge: Edge, word: bool, left: &mut usize) -> Option<Hir> {
    // `\w` of ECMA-262.
    let ranges = [('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')];
    let mut wanted = ClassUnicode::new(ranges.map(|(from, to)| ClassUnicodeRange::new(from, to)));
    if !word {
        wanted.negate();
    }
    let mut ways = vec![begun_by(hir, edge, &wanted, left)?];
    if !word && may_be_empty(hir) {
        ways.push(Hir::empty());
    }
    Some(any(ways))
}

/// Those texts that have one of these characters at the edge.
fn begun_by(hir: &Hir, edge: Edge, wanted: &ClassUnicode, left: &mut usize) -> Option<Hir> {
    *left = left.checked_sub(1)?;
    let mut begun = |hir: &Hir| begun_by(hir, edge, wanted, left);
    Some(match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Hir::fail(),
        HirKind::Capture(inner) => begun(&inner.sub)?,
        HirKind::Class(class) => {
            let mut own = match class {
                Class::Unicode(class) => class.clone(),
                // Bytes that are characters: patterns are of texts.
                Class::Bytes(class) => class.to_unicode_class().unwrap_or_else(ClassUnicode::empty),
            };
            own.intersect(wanted);
            Hir::class(Class::Unicode(own))
        }
        HirKind::Literal(literal) => {
            let text = String::from_utf8_lossy(&literal.0);
            let own = if edge == Edge::First { text.chars().next() } else { text.chars().next_back() };
            let is_own =
                |range: &ClassUnicodeRange| own.is_some_and(|c| range.start() <= c && c <= range.end());
            if wanted.iter().any(is_own) { hir.clone() } else { Hir::fail() }
        }
        HirKind::Alternation(inner) => any(inner.iter().map(begun).collect::<Option<_>>()?),
        HirKind::Repetition(inner) if inner.max == Some(0) => Hir::fail(),
        HirKind::Repetition(inner) => {
            let outer = begun(&inner.sub)?;
            let (min, max) = (inner.min.saturating_sub(1), inner.max.map(|max| max - 1));
            let others = Repetition { min, max, ..inner.with(copy(&inner.sub, left)?) };
            joined(outer, Hir::repetition(others), edge)
        }
        HirKind::Concat(inner) => {
            let (mut ways, mut line) = (Vec::new(), inner.as_slice());
            while let Some((outer, others)) = split(line, edge) {
                let own = begun_by(outer, edge, wanted, left)?;
                let rest = others.iter().map(|part| copy(part, left)).collect::<Option<_>>()?;
                ways.push(joined(own, Hir::concat(rest), edge));
                if !may_be_empty(outer) {
                    break;
                }
                line = others;
            }
            any(ways)
        }
    })
}

/// A copy, each part of which is paid for.
fn copy(hir: &Hir, left: &mut usize) -> Option<Hir> {
    pay(hir, left)?;
    Some(hir.clone())
}

fn pay(hir: &Hir, left: &mut usize) -> Option<()> {
    *left = left.checked_sub(1)?;
    hir.kind().subs().iter().try_for_each(|sub| pay(sub, left))
}

/// Any of these that has a text.
pub(super) fn any(mut ways: Vec<Hir>) -> Hir {
    ways.retain(|way| !is_nothing(way));
    Hir::alternation(ways)
}

/// What stands at an edge, before or behind the rest.
fn joined(outer: Hir, rest: Hir, edge: Edge) -> Hir {
    Hir::concat(if edge == Edge::First { vec![outer, rest] } else { vec![rest, outer] })
}

/// The part at the edge, and the others.
fn split(parts: &[Hir], edge: Edge) -> Option<(&Hir, &[Hir])> {
    if edge == Edge::First { parts.split_first() } else { parts.split_last() }
}

/// Whether the empty text is one of the expression.
pub(super) fn may_be_empty(hir: &Hir) -> bool {
    hir.properties().minimum_len() == Some(0)
}

/// Whether the expression has no text at all.
fn is_nothing(hir: &Hir) -> bool {
    hir.properties().minimum_len().is_none()
}

/// The expression, and anything beyond its edge.
pub(super) fn open(hir: &Hir, edge: Edge) -> Hir {
    let sub = Box::new(Hir::dot(Dot::AnyChar));
    let anything = Hir::repetition(Repetition { min: 0, max: None, greedy: true, sub });
    joined(anything, least(hir, edge), edge)
}

/// What is enough of an expression beyond whose edge anything may stand: of a repetition as many as there must be.
fn least(hir: &Hir, edge: Edge) -> Hir {
    match hir.kind() {
        HirKind::Capture(inner) => least(&inner.sub, edge),
        HirKind::Repetition(inner) => Hir::repetition(Repetition { max: Some(inner.min), ..inner.clone() }),
        HirKind::Alternation(inner) => Hir::alternation(inner.iter().map(|part| least(part, edge)).collect()),
        HirKind::Concat(inner) => {
            let mut line = inner.as_slice();
            while let Some((outer, others)) = split(line, edge) {
                let enough = least(outer, edge);
                if *enough.kind() != HirKind::Empty {
                    return joined(enough, Hir::concat(others.to_vec()), edge);
                }
                line = others;
            }
            Hir::empty()
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
