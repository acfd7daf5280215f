//! Patterns of schemas as expressions for whole texts.

use super::edges::{self, Edge, may_be_empty, open};
use super::syntax::for_engine;
use crate::grammar::text::of_regex;
use regex_syntax::Parser;
use regex_syntax::hir::{Capture, Hir, HirKind, Look, Repetition};

/// Most ways through a pattern with anchors within.
const MAX_WAYS: usize = 200;

/// Regular expressions for whole texts, and whether the text must match each or must not. The pattern is found in a text where,
/// of one of the alternatives, all hold.
///
/// # Errors
/// What cannot be said so.
pub(super) fn search(pattern: &str) -> Result<Vec<Vec<(String, bool)>>, String> {
    let (mut parts, mut rest) = (Vec::new(), pattern);
    while let Some(at) = outside(rest, '|') {
        parts.push(&rest[..at]);
        rest = &rest[at + 1..];
    }
    parts.push(rest);
    let looks = |part: &&str| part.starts_with("^(?!") || part.starts_with("^(?=");
    // What is looked for ahead is so in one alternative only.
    if parts.iter().any(looks) { parts.into_iter().map(all_of).collect() } else { Ok(vec![all_of(pattern)?]) }
}

fn all_of(pattern: &str) -> Result<Vec<(String, bool)>, String> {
    let (mut parts, mut rest) = (Vec::new(), pattern.to_owned());
    while let Some(after) = rest.strip_prefix("^(?!").or_else(|| rest.strip_prefix("^(?=")) {
        let positive = rest.starts_with("^(?=");
        let end = outside(after, ')').ok_or("a group is not closed")?;
        parts.push((found(&format!("^(?:{})", &after[..end]))?, positive));
        rest = format!("^{}", &after[end + 1..]);
    }
    parts.push((found(&rest)?, true));
    Ok(parts)
}

/// Where this character first stands outside the groups and classes of a pattern.
fn outside(pattern: &str, wanted: char) -> Option<usize> {
    let (mut depth, mut in_class, mut escaped) = (0, false, false);
    for (at, c) in pattern.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            _ if c == wanted && depth == 0 => return Some(at),
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The expression for whole texts in which the pattern is found.
fn found(pattern: &str) -> Result<String, String> {
    let ready = llguidance::regex_to_lark(&for_engine(pattern)?, "dw");
    let hir = Parser::new().parse(&ready).map_err(|e| of_regex(pattern, &e))?;
    let mut left = edges::MOST;
    let ways =
        ways(&hir)?.iter().filter_map(|way| whole(way, &mut left).transpose()).collect::<Result<_, _>>()?;
    Ok(mapped(&Hir::alternation(ways), &|hir| Ok(hir.clone()))?.to_string())
}

/// The expression with other literals and classes, fit to be written as text: a repetition that is repeated is in a group, since
/// the text would otherwise mean a lazy one.
///
/// # Errors
/// Those of `leaf`.
pub(super) fn mapped(hir: &Hir, leaf: &dyn Fn(&Hir) -> Result<Hir, String>) -> Result<Hir, String> {
    let all = |parts: &[Hir]| parts.iter().map(|part| mapped(part, leaf)).collect::<Result<Vec<_>, _>>();
    Ok(match hir.kind() {
        HirKind::Repetition(inner) => {
            let mut sub = mapped(&inner.sub, leaf)?;
            if matches!(sub.kind(), HirKind::Repetition(_)) {
                sub = Hir::capture(Capture { index: 1, name: None, sub: Box::new(sub) });
            }
            Hir::repetition(Repetition { greedy: true, ..inner.with(sub) })
        }
        HirKind::Capture(inner) => mapped(&inner.sub, leaf)?,
        HirKind::Concat(inner) => Hir::concat(all(inner)?),
        HirKind::Alternation(inner) => Hir::alternation(all(inner)?),
        _ => leaf(hir)?,
    })
}

/// Parts of an expression one after another: anchors, and what has none within.
type Way = Vec<Hir>;

/// All ways through alternatives with anchors in them.
fn ways(hir: &Hir) -> Result<Vec<Way>, String> {
    if hir.properties().look_set().is_empty() {
        return Ok(vec![vec![hir.clone()]]);
    }
    Ok(match hir.kind() {
        HirKind::Look(Look::Start | Look::End) => vec![vec![hir.clone()]],
        HirKind::Look(_) if boundary(hir).is_some() => vec![vec![hir.clone()]],
        HirKind::Look(_) => return Err("has an anchor that cannot be enforced: leave it out".to_owned()),
        HirKind::Capture(inner) => ways(&inner.sub)?,
        HirKind::Repetition(inner) if inner.max == Some(1) => {
            let mut list = ways(&inner.sub)?;
            if inner.min == 0 {
                list.push(Vec::new());
            }
            list
        }
        HirKind::Alternation(inner) => inner.iter().map(ways).collect::<Result<Vec<_>, _>>()?.concat(),
        HirKind::Concat(inner) => {
            let mut list = vec![Vec::new()];
            for part in inner {
                list = in_turn(&list, &ways(part)?);
                if list.len() > MAX_WAYS {
                    return Err("too many anchors within".to_owned());
                }
            }
            list
        }
        HirKind::Repetition(inner) if inner.min <= 1 && inner.max.is_none() => repeated(inner)?,
        _ => return Err("an anchor in a counted repetition cannot be enforced: put it outside".to_owned()),
    })
}

/// Each way of the first with each of the second behind it.
fn in_turn(first: &[Way], second: &[Way]) -> Vec<Way> {
    first.iter().flat_map(|a| second.iter().map(move |b| [a.as_slice(), b].concat())).collect()
}

/// The ways through a repetition: those without anchors as often as one likes, and at most one to the start and one to
/// the end of the text, since what is beyond an anchor is empty.
fn repeated(inner: &Repetition) -> Result<Vec<Way>, String> {
    let (mut plain, mut start, mut end) = (Vec::new(), vec![Vec::new()], vec![Vec::new()]);
    for way in ways(&inner.sub)? {
        if way.iter().any(|part| boundary(part).is_some()) {
            return Err("a word boundary in a repetition cannot be enforced: put it outside".to_owned());
        }
        let has = |look| way.iter().any(|part| is(part, look));
        match (has(Look::Start), has(Look::End)) {
            (false, false) => plain.push(Hir::concat(way)),
            (true, false) => start.push(way),
            (false, true) => end.push(way),
            (true, true) => return Err("both anchors in a repetition: put them outside".to_owned()),
        }
    }
    let plain = inner.with(Hir::alternation(plain));
    let between = Hir::repetition(Repetition { min: 0, ..plain.clone() });
    let mut all = in_turn(&in_turn(&start, &[vec![between]]), &end);
    // The way that goes to neither end of the text must be gone as often as the repetition asks.
    all[0] = vec![Hir::repetition(plain)];
    Ok(all)
}

fn is(part: &Hir, look: Look) -> bool {
    *part.kind() == HirKind::Look(look)
}

/// Of a place between characters: whether exactly one side is a character of a word, or (false) both or none.
fn boundary(part: &Hir) -> Option<bool> {
    match part.kind() {
        HirKind::Look(Look::WordAscii | Look::WordUnicode) => Some(true),
        HirKind::Look(Look::WordAsciiNegate | Look::WordUnicodeNegate) => Some(false),
        _ => None,
    }
}

/// One way as an expression for whole texts, if there are any: what is before a start, or after an end, must be empty. `left`:
/// how much boundaries may still make of it.
fn whole(way: &[Hir], left: &mut usize) -> Result<Option<Hir>, String> {
    let start = way.iter().rposition(|part| is(part, Look::Start)).map_or(0, |i| i + 1);
    let end = way.iter().position(|part| is(part, Look::End)).unwrap_or(way.len());
    let mut beyond = way[..start].iter().chain(&way[end.max(start)..]);
    if beyond.clone().any(|part| boundary(part).is_some()) {
        return Err("a word boundary beyond an anchor cannot be enforced: leave it out".to_owned());
    }
    if !beyond.all(may_be_empty) {
        return Ok(None);
    }
    let within = way.get(start..end).unwrap_or_default();
    let between = within.split(|part| boundary(part).is_some());
    let mut parts: Vec<Hir> = between.map(|part| Hir::concat(part.to_vec())).collect();
    let last = parts.len() - 1;
    if start == 0 {
        parts[0] = open(&parts[0], Edge::First);
    }
    if end == way.len() {
        parts[last] = open(&parts[last], Edge::Last);
    }
    let rest: Vec<_> = within.iter().filter_map(boundary).zip(parts.drain(1..)).collect();
    let why = "too many word boundaries, or two with nothing between, cannot be enforced: leave some out";
    edges::bounded(parts.remove(0), &rest, left).map(Some).ok_or(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::search;

    #[test]
    fn what_cannot_be_said_is_refused() {
        assert!(search("a\\").is_err());
        let many = r"\b(?:x|-)(?:x|-)".repeat(40);
        let optional = format!(r"\b{0}x{0}\b", "a?".repeat(3000));
        for pattern in [&many, &optional, r"\b-*\ba", r"\b^a", r"(?:\ba)*", "(?=a)b", r"(a)\1", "(^a){3}b"] {
            assert!(search(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn anchors_mean_the_ends_of_the_text() {
        let matches = |pattern: &str, text: &str| {
            search(pattern).unwrap().remove(0).iter().all(|(rx, yes)| {
                regex_syntax::Parser::new().parse(rx).unwrap();
                llguidance::derivre::Regex::new(rx).unwrap().is_match(text) == *yes
            })
        };
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
        ];
        for (pattern, yes, no) in rows {
            assert!(yes.iter().all(|text| matches(pattern, text)), "{pattern}");
            assert!(pattern.is_empty() || !matches(pattern, no), "{pattern}");
        }
    }
}
