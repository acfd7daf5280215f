//! Patterns of schemas as expressions for whole texts.
//!
//! A pattern is read from its end: what the rest of a text may be depends on what stands before it, so there are as many rests
//! as word boundaries and `^` tell apart. What is looked for ahead is then a condition on the rest.

use super::syntax::{self, WORD};
use crate::written::expr::{Expr, Look, class, common, not};

/// Most parts of expressions that a pattern may be made into.
const MOST: usize = 100_000;

/// What a text may go on with: at its start, behind a character of a word, and behind another one.
type Rest = [Expr; 3];

/// An end of an expression's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    First,
    Last,
}

/// The texts in which the pattern is found.
///
/// # Errors
/// What cannot be said so.
pub(super) fn search(pattern: &str) -> Result<Expr, String> {
    Translator { left: MOST }.found(&syntax::parse(pattern)?)
}

struct Translator {
    /// So many parts may still be made.
    left: usize,
}

impl Translator {
    fn found(&mut self, node: &Expr) -> Result<Expr, String> {
        if let Expr::Any(ways) = node {
            let ways = ways.iter().map(|way| self.found(way)).collect::<Result<Vec<_>, _>>()?;
            return Ok(Expr::any(ways));
        }
        let [start, word, other] = self.before(node, &[(); 3].map(|()| Expr::anything()))?;
        if start == word && word == other {
            return Ok(joined(Expr::anything(), least(&start, Edge::First), Edge::First));
        }
        let behind = |first: Expr, rest| Expr::concat([Expr::anything(), first, rest]);
        if word == other {
            return Ok(Expr::any([start, behind(Expr::character(), word)]));
        }
        let word = behind(Expr::class(&class(&WORD)), word);
        Ok(Expr::any([start, word, behind(Expr::class(&not(&WORD)), other)]))
    }

    /// What a text may go on with where the node is next, and the rest behind it.
    fn before(&mut self, node: &Expr, rest: &Rest) -> Result<Rest, String> {
        let copies = usize::from(matches!(node, Expr::Look(_) | Expr::Ahead(..)));
        rest.iter().take(1 + 2 * copies).try_for_each(|next| self.pay(next))?;
        Ok(match node {
            expr if !expr.looks() && rest.iter().all(|next| *next == rest[0]) => {
                let is_open = rest[0] == Expr::anything();
                let expr = if is_open { least(expr, Edge::Last) } else { expr.clone() };
                let all = self.in_turn(expr, &rest[0])?;
                each(rest, |_, _| all.clone())
            }
            expr if !expr.looks() => {
                let word = self.in_turn(begun(expr, Edge::Last, true), &rest[1])?;
                let other = self.in_turn(begun(expr, Edge::Last, false), &rest[2])?;
                let none = |next: &Expr| only_if(expr.may_be_empty(), next.clone());
                each(rest, |_, next| Expr::any([word.clone(), other.clone(), none(next)]))
            }
            Expr::Look(Look::Start) => each(rest, |at, next| only_if(at == 0, next.clone())),
            Expr::Look(Look::End) => each(rest, |_, next| only_if(next.may_be_empty(), Expr::EMPTY)),
            Expr::Look(Look::Boundary(yes)) => each(rest, |at, next| {
                let word = (at == 1) != *yes;
                Expr::any([
                    begun(next, Edge::First, word),
                    only_if(!word && next.may_be_empty(), Expr::EMPTY),
                ])
            }),
            Expr::Ahead(inner, yes) => {
                let there = self.before(inner, &[(); 3].map(|()| Expr::anything()))?;
                let there = there.map(|there| if *yes { there } else { there.not() });
                each(rest, |at, next| Expr::all([there[at].clone(), next.clone()]))
            }
            Expr::Concat(parts) => {
                // What does not look around goes in one step, which copies the rest once.
                let line: Vec<_> = parts.chunk_by(|a, b| !a.looks() && !b.looks()).collect();
                line.into_iter().rev().try_fold(rest.clone(), |rest, parts| {
                    self.before(&Expr::concat(parts.iter().cloned()), &rest)
                })?
            }
            Expr::Any(ways) => ways.iter().try_fold([Expr::NOTHING; 3], |all, way| {
                Ok::<_, String>(any(&all, &self.before(way, rest)?))
            })?,
            Expr::Repeat(inner, count, most) => {
                let mut all = if most.is_none() { self.repeated(inner, rest)? } else { rest.clone() };
                for _ in *count..most.unwrap_or(*count) {
                    all = any(rest, &self.before(inner, &all)?);
                }
                (0..*count).try_fold(all, |all, _| self.before(inner, &all))?
            }
            _ => unreachable!("a pattern has no such part. This is a bug."),
        })
    }

    /// As many of a node as one likes. Those that are empty may be left out; then only the first is at the start of the text, and
    /// only the last at its end.
    fn repeated(&mut self, inner: &Expr, rest: &Rest) -> Result<Rest, String> {
        if let Some(all) = without(inner).filter(|_| rest.iter().all(|rest| *rest == Expr::EMPTY)) {
            self.pay(&all)?;
            return Ok(each(rest, |_, _| all.clone()));
        }
        if inner.has(&|part| matches!(part, Expr::Ahead(..) | Expr::Look(Look::Boundary(_)))) {
            let why = "a word boundary or a look ahead in a repetition without end cannot be enforced: put it outside";
            return Err(why.to_owned());
        }
        let names = |look| inner.has(&|part| *part == Expr::Look(look));
        let last = if names(Look::End) { any(rest, &self.before(inner, rest)?) } else { rest.clone() };
        let all = self.before(&within(inner).times(0, None), &last)?;
        Ok(if names(Look::Start) { any(&last, &self.before(inner, &all)?) } else { all })
    }

    fn in_turn(&mut self, first: Expr, rest: &Expr) -> Result<Expr, String> {
        [&first, rest].into_iter().try_for_each(|part| self.pay(part))?;
        Ok(Expr::concat([first, rest.clone()]))
    }

    /// Pays for a copy.
    fn pay(&mut self, expr: &Expr) -> Result<(), String> {
        let why = "too many anchors, word boundaries or places to look ahead from: leave some out";
        self.left = self.left.checked_sub(1).ok_or(why)?;
        expr.parts().iter().try_for_each(|part| self.pay(part))
    }
}

/// What `(?:(?!a)b)*` matches up to the end of a text, where `b` is a character: characters in which no `a` is found.
fn without(inner: &Expr) -> Option<Expr> {
    let (Expr::Class(_), ahead) = inner.line().split_last()? else { return None };
    let found = |part: &Expr| match part {
        Expr::Ahead(text, false) if !text.looks() && !text.may_be_empty() => {
            Some(Expr::concat([Expr::anything(), (**text).clone(), Expr::anything()]).not())
        }
        _ => None,
    };
    let none = ahead.iter().map(found).collect::<Option<Vec<_>>>()?;
    Some(Expr::all(inner.line().last().map(|b| b.clone().times(0, None)).into_iter().chain(none)))
}

fn each(rest: &Rest, of: impl Fn(usize, &Expr) -> Expr) -> Rest {
    std::array::from_fn(|at| of(at, &rest[at]))
}

fn any(a: &Rest, b: &Rest) -> Rest {
    each(a, |at, own| Expr::any([own.clone(), b[at].clone()]))
}

fn only_if(is: bool, expr: Expr) -> Expr {
    if is { expr } else { Expr::NOTHING }
}

/// What of a node is neither at the start nor at the end of the text.
fn within(node: &Expr) -> Expr {
    match node {
        Expr::Look(_) => Expr::NOTHING,
        Expr::Concat(parts) => Expr::concat(parts.iter().map(within)),
        Expr::Any(ways) => Expr::any(ways.iter().map(within)),
        Expr::Repeat(inner, least, most) => within(inner).times(*least, *most),
        _ => node.clone(),
    }
}

/// Those texts that have a character of a word at the edge, or (false) another one.
fn begun(expr: &Expr, edge: Edge, word: bool) -> Expr {
    let wanted = if word { class(&WORD) } else { not(&WORD) };
    let begun = |expr: &Expr| begun(expr, edge, word);
    match expr {
        Expr::Class(ranges) => Expr::class(&common(ranges, &wanted)),
        Expr::Text(text) => {
            let own = if edge == Edge::First { text.chars().next() } else { text.chars().next_back() };
            let is_wanted = own.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') == word;
            if is_wanted && own.is_some() { expr.clone() } else { Expr::NOTHING }
        }
        Expr::Any(ways) => Expr::any(ways.iter().map(begun)),
        Expr::Repeat(inner, least, most) => {
            let others = (**inner).clone().times(least.saturating_sub(1), most.map(|most| most - 1));
            joined(begun(inner), others, edge)
        }
        _ => match split(expr.line(), edge).filter(|(outer, _)| !outer.may_be_empty()) {
            Some((outer, others)) => joined(begun(outer), Expr::concat(others.iter().cloned()), edge),
            None => Expr::all([expr.clone(), joined(Expr::class(&wanted), Expr::anything(), edge)]),
        },
    }
}

/// What stands at an edge, before or behind the rest.
fn joined(outer: Expr, rest: Expr, edge: Edge) -> Expr {
    Expr::concat(if edge == Edge::First { [outer, rest] } else { [rest, outer] })
}

/// The part at the edge, and the others.
fn split(parts: &[Expr], edge: Edge) -> Option<(&Expr, &[Expr])> {
    if edge == Edge::First { parts.split_first() } else { parts.split_last() }
}

/// What is enough of an expression beyond whose edge anything may stand: of a repetition as many as there must be.
fn least(expr: &Expr, edge: Edge) -> Expr {
    match expr {
        Expr::Repeat(inner, count, _) => (**inner).clone().times(*count, Some(*count)),
        Expr::Any(ways) => Expr::any(ways.iter().map(|way| least(way, edge))),
        Expr::Concat(parts) => {
            let mut line = parts.as_slice();
            while let Some((outer, others)) = split(line, edge) {
                let outer = least(outer, edge);
                if outer != Expr::EMPTY {
                    return joined(outer, Expr::concat(others.iter().cloned()), edge);
                }
                line = others;
            }
            Expr::EMPTY
        }
        _ => expr.clone(),
    }
}

#[cfg(test)]
mod tests {
    use crate::sets::strings::Strings;
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
            r"\b-*\ba",
            r"\b^a?\b",
            r"(?:\ba?-?){2,3}$",
            r"(?:^a|-$|b)*",
            r"^(?:^a|-$|b)+$",
            r"(?:^|-)a(?:$|-)",
            r"(?:^-?){2}a$",
        ];
        for pattern in patterns {
            let same = pattern.replace(r"\b", r"(?-u:\b)").replace(r"\B", r"(?-u:\B)");
            let dfa = dense::DFA::new(&format!("(?s:.*)(?:{same})(?s:.*)$")).unwrap();
            let mut strings = Strings::new();
            let found = strings.pattern(pattern).unwrap();
            for text in texts() {
                let input = Input::new(&text).anchored(Anchored::Yes);
                let expected = dfa.try_search_fwd(&input).unwrap().is_some();
                assert_eq!(strings.has(found, &text), expected, "{text:?} in {pattern}");
            }
        }
    }

    #[test]
    fn long_patterns_are_no_matter() {
        let (long, text) = (format!("^{}$", "[a-b]?c".repeat(2000)), "c".repeat(2000));
        let mut strings = Strings::new();
        let found = strings.pattern(&long).unwrap();
        assert!(strings.has(found, &text) && !strings.has(found, &text[1..]));
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        let many = r"\b(?:x|-)(?:x|-)".repeat(40);
        for pattern in [&many, r"\b{1000000}", r"(?:\ba)*", "(?:(?!ab)a)*", "(?:^?){1000000}"] {
            assert!(super::search(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn anchors_mean_the_ends_of_the_text() {
        let rows = [
            ("^a|b$", ["a-", "-b"], "-a-b-"),
            ("(^|-)a", ["ab", "x-a"], "xa"),
            ("(?:^b)*a", ["ba", "xa"], "b"),
            ("a$b|c", ["c", "xcx"], "ab"),
            ("^(?!ab)a", ["ac", "a"], "ab"),
            ("a.b", ["axb", "xa-bx"], "a\rb"),
            ("^{a}$", ["{a}", "{a}"], "a"),
            (r"^(\/?([.]{2}|[a-z]*)($|\/))*$", ["/a/../b", "a"], "a/B"),
            ("^(?:a{2})?b$", ["aab", "b"], "ab"),
            ("^(?:[a-z]+)?:$", [":", "ab:"], "a1:"),
            (r"^\p{Letter}$", ["é", "x"], "1"),
            ("", ["", "a\nb"], "\u{0}never"),
            ("a(?=b)[a-z]", ["ab", "xabx"], "ac"),
            ("a(?!b|$)", ["ac", "aba-"], "ab"),
            ("^((?!ab)(?!c).)*$", ["ba", "a"], "xcx"),
            ("^x((?!ab).)+$", ["xba", "xa"], "xaab"),
            ("^(?=.*[0-9])(?=.*[a-z]).{3}$", ["a12", "ab1"], "abc"),
        ];
        for (pattern, yes, no) in rows {
            let mut strings = Strings::new();
            let found = strings.pattern(pattern).unwrap();
            assert!(yes.iter().all(|text| strings.has(found, text)), "{pattern}");
            assert!(pattern.is_empty() || !strings.has(found, no), "{pattern}");
        }
    }
}
