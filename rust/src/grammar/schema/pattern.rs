//! Patterns of schemas as expressions for whole texts.

use super::edges::{Boundary, Edge, Edges, open};
use super::syntax::for_engine;
use crate::grammar::text::of_regex;
use regex_syntax::Parser;
use regex_syntax::hir::{Capture, Hir, HirKind, Look, Repetition};

/// Most ways through a pattern with anchors within.
const MAX_WAYS: usize = 200;

/// Why a pattern cannot be enforced.
pub(super) type Why = String;

/// Regular expressions for whole texts, and whether the text must match each or must not. The pattern is found in a text where,
/// of one of the alternatives, all hold.
///
/// # Errors
/// What cannot be said so.
pub(super) fn search(pattern: &str) -> Result<Vec<Vec<(String, bool)>>, Why> {
    let looks = |part: &&str| part.starts_with("^(?!") || part.starts_with("^(?=");
    let parts = alternatives(pattern);
    // What is looked for ahead is so in one alternative only.
    if parts.iter().any(looks) { parts.into_iter().map(all_of).collect() } else { Ok(vec![all_of(pattern)?]) }
}

fn all_of(pattern: &str) -> Result<Vec<(String, bool)>, Why> {
    let (mut parts, mut rest) = (Vec::new(), pattern.to_owned());
    while let Some(after) = rest.strip_prefix("^(?!").or_else(|| rest.strip_prefix("^(?=")) {
        let positive = rest.starts_with("^(?=");
        let end = group_end(after).ok_or("a group is not closed")?;
        parts.push((found(&format!("^(?:{})", &after[..end]))?, positive));
        rest = format!("^{}", &after[end + 1..]);
    }
    parts.push((found(&rest)?, true));
    Ok(parts)
}

/// The alternatives of a pattern outside its groups.
fn alternatives(pattern: &str) -> Vec<&str> {
    let mut begin = 0;
    let mut parts = Vec::new();
    for (at, _, _) in marks(pattern).into_iter().filter(|(_, c, depth)| (*c, *depth) == ('|', 0)) {
        parts.push(&pattern[begin..at]);
        begin = at + 1;
    }
    parts.push(&pattern[begin..]);
    parts
}

/// Where the group that is open at the beginning is closed.
fn group_end(text: &str) -> Option<usize> {
    marks(text).into_iter().find(|(_, c, depth)| (*c, *depth) == (')', 0)).map(|(at, ..)| at)
}

/// The parentheses and bars of a pattern that are no plain characters, each with its place and the number of groups that are open
/// before it.
fn marks(pattern: &str) -> Vec<(usize, char, i32)> {
    let mut marks = Vec::new();
    let mut depth = 0;
    let (mut in_class, mut escaped) = (false, false);
    for (at, c) in pattern.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' | ')' | '|' => {
                marks.push((at, c, depth));
                depth += i32::from(c == '(') - i32::from(c == ')');
            }
            _ => {}
        }
    }
    marks
}

/// The expression for whole texts in which the pattern is found.
fn found(pattern: &str) -> Result<String, Why> {
    let ready = llguidance::regex_to_lark(&for_engine(pattern)?, "dw");
    let hir = Parser::new().parse(&ready).map_err(|e| of_regex(pattern, &e))?;
    let mut edges = Edges::new();
    let whole = |way: &Vec<Piece>| whole(way, &mut edges).transpose();
    let ways = ways(&hir)?.iter().filter_map(whole).collect::<Result<_, _>>()?;
    Ok(printable(&Hir::alternation(ways)).to_string())
}

/// The same with a group around each repetition that is repeated: its text would otherwise mean a lazy one.
pub(super) fn printable(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Repetition(inner) => {
            let sub = printable(&inner.sub);
            let repeated = matches!(sub.kind(), HirKind::Repetition(_));
            let sub = if repeated {
                Hir::capture(Capture { index: 1, name: None, sub: Box::new(sub) })
            } else {
                sub
            };
            Hir::repetition(Repetition { greedy: true, ..inner.with(sub) })
        }
        HirKind::Capture(inner) => printable(&inner.sub),
        HirKind::Concat(inner) => Hir::concat(inner.iter().map(printable).collect()),
        HirKind::Alternation(inner) => Hir::alternation(inner.iter().map(printable).collect()),
        _ => hir.clone(),
    }
}

/// A part of one way through a pattern.
#[derive(Debug, Clone)]
enum Piece {
    Start,
    End,
    Word(Boundary),
    Plain(Hir),
}

/// All ways through alternatives with anchors in them.
fn ways(hir: &Hir) -> Result<Vec<Vec<Piece>>, Why> {
    if hir.properties().look_set().is_empty() {
        return Ok(vec![vec![Piece::Plain(hir.clone())]]);
    }
    let ways = match hir.kind() {
        HirKind::Look(Look::Start) => vec![vec![Piece::Start]],
        HirKind::Look(Look::End) => vec![vec![Piece::End]],
        HirKind::Look(Look::WordAscii | Look::WordUnicode) => vec![vec![Piece::Word(true)]],
        HirKind::Look(Look::WordAsciiNegate | Look::WordUnicodeNegate) => vec![vec![Piece::Word(false)]],
        HirKind::Look(_) => return Err("has an anchor that cannot be enforced: leave it out".to_owned()),
        HirKind::Capture(inner) => ways(&inner.sub)?,
        HirKind::Repetition(inner) if inner.max == Some(1) => {
            let mut list = ways(&inner.sub)?;
            if inner.min == 0 {
                list.push(Vec::new());
            }
            list
        }
        HirKind::Alternation(inner) => {
            inner.iter().map(ways).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
        }
        HirKind::Concat(inner) => {
            let mut list = vec![Vec::new()];
            for part in inner {
                let next = ways(part)?;
                let join = |way: &Vec<Piece>| {
                    next.iter().map(|n| way.iter().chain(n).cloned().collect()).collect::<Vec<_>>()
                };
                list = list.iter().flat_map(join).collect();
                if list.len() > MAX_WAYS {
                    return Err("too many anchors within".to_owned());
                }
            }
            list
        }
        HirKind::Repetition(inner) if inner.min <= 1 && inner.max.is_none() => repeated(inner)?,
        _ => return Err("an anchor in a counted repetition cannot be enforced: put it outside".to_owned()),
    };
    Ok(ways)
}

/// The ways through a repetition: those without anchors as often as one likes, and at most one to the start and one to
/// the end of the text, since what is beyond an anchor is empty.
fn repeated(inner: &Repetition) -> Result<Vec<Vec<Piece>>, Why> {
    let (mut plain, mut start, mut end) = (Vec::new(), vec![Vec::new()], vec![Vec::new()]);
    for way in ways(&inner.sub)? {
        if way.iter().any(|piece| matches!(piece, Piece::Word(_))) {
            return Err("a word boundary in a repetition cannot be enforced: put it outside".to_owned());
        }
        let (has_start, has_end) =
            (way.iter().any(|p| matches!(p, Piece::Start)), way.iter().any(|p| matches!(p, Piece::End)));
        match (has_start, has_end) {
            (false, false) => plain.push(Hir::concat(way.into_iter().filter_map(Piece::plain).collect())),
            (true, false) => start.push(way),
            (false, true) => end.push(way),
            (true, true) => return Err("both anchors in a repetition: put them outside".to_owned()),
        }
    }
    let sub = Box::new(Hir::alternation(plain));
    let between =
        Piece::Plain(Hir::repetition(Repetition { min: 0, max: None, greedy: true, sub: sub.clone() }));
    let mut all = Vec::new();
    for (i, first) in start.iter().enumerate() {
        for (j, last) in end.iter().enumerate() {
            let none = i == 0 && j == 0;
            let between = if none {
                Piece::Plain(Hir::repetition(inner.with((*sub).clone())))
            } else {
                between.clone()
            };
            all.push(first.iter().cloned().chain([between]).chain(last.iter().cloned()).collect());
        }
    }
    Ok(all)
}

impl Piece {
    fn plain(self) -> Option<Hir> {
        match self {
            Piece::Plain(hir) => Some(hir),
            _ => None,
        }
    }
}

/// One way as an expression for whole texts, if there are any: what is before a start, or after an end, must be empty.
fn whole(way: &[Piece], edges: &mut Edges) -> Result<Option<Hir>, Why> {
    let empty = |piece: &Piece| match piece {
        Piece::Plain(hir) => hir.properties().minimum_len() == Some(0),
        _ => true,
    };
    let start = way.iter().rposition(|p| matches!(p, Piece::Start)).map_or(0, |i| i + 1);
    let end = way.iter().position(|p| matches!(p, Piece::End)).unwrap_or(way.len());
    let mut outside = way[..start].iter().chain(&way[end.max(start)..]);
    if outside.clone().any(|piece| matches!(piece, Piece::Word(_))) {
        return Err("a word boundary beyond an anchor cannot be enforced: leave it out".to_owned());
    }
    if !outside.all(empty) || way[end.min(start)..start].iter().any(|p| !empty(p)) {
        return Ok(None);
    }
    // Parts between boundaries.
    let mut parts = vec![(false, Vec::new())];
    for piece in way.get(start..end).unwrap_or_default() {
        match (piece, parts.last_mut()) {
            (Piece::Word(boundary), _) => parts.push((*boundary, Vec::new())),
            (Piece::Plain(hir), Some((_, part))) => part.push(hir.clone()),
            _ => {}
        }
    }
    let last = parts.len() - 1;
    let mut parts = parts.into_iter().enumerate().map(|(i, (boundary, part))| {
        let (first, last) = (i == 0 && start == 0, i == last && end == way.len());
        let mut part = Hir::concat(part);
        for (is_open, edge) in [(first, Edge::First), (last, Edge::Last)] {
            if is_open {
                part = open(&part, edge);
            }
        }
        (boundary, part)
    });
    let first = parts.next().map_or(Hir::empty(), |(_, part)| part);
    let rest: Vec<_> = parts.collect();
    let why = "too many word boundaries, or two with nothing between, cannot be enforced: leave some out";
    edges.bounded(first, &rest).map(Some).ok_or(why.to_owned())
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
