//! Patterns of schemas as expressions for whole texts, and for the JSON texts of strings.

use super::edges::{Boundary, Edge, Edges, open};
use super::syntax::for_engine;
use crate::grammar::text::of_regex;
use regex_syntax::Parser;
use regex_syntax::hir::{Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition};

/// Most ways through a pattern with anchors within.
const MAX_WAYS: usize = 200;

/// Why a pattern cannot be enforced.
pub(super) type Why = String;

/// Regular expressions for whole texts, and whether the text must match each or must not: the pattern is found in a text
/// where all hold.
///
/// # Errors
/// What cannot be said so.
pub(super) fn search(pattern: &str) -> Result<Vec<(String, bool)>, Why> {
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

/// Where the group that is open at the beginning is closed.
fn group_end(text: &str) -> Option<usize> {
    let (mut depth, mut in_class, mut escaped) = (0, false, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' => in_class = false,
            _ if in_class => {}
            '[' => in_class = true,
            '(' => depth += 1,
            ')' if depth == 0 => return Some(i),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
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
fn printable(hir: &Hir) -> Hir {
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

/// Characters that a JSON string spells with a backslash, each in one way only where texts are told apart: a name that could be
/// spelled in two ways would pass for two names.
fn spelled(c: char) -> Option<String> {
    let letter = match c {
        '"' | '\\' => c,
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\0'..='\u{1f}' | '\u{7f}' => return Some(format!("\\u{:04x}", u32::from(c))),
        _ => return None,
    };
    Some(format!("\\{letter}"))
}

/// A character of a JSON string, in any spelling (RFC 8259): as it is, by a letter, by its number, or by the two numbers of a
/// surrogate pair.
pub(super) const CHARACTER: &str = concat!(
    r#"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?:[0-9a-ceA-CEfF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}"#,
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
);
/// A character of a JSON string, in one spelling. Control characters without a letter are left out: `\u00` could only go on to
/// them, and a model that begins so mostly means another character.
pub(super) const PLAIN: &str = r#"(?:[^"\\\x00-\x1f\x7f]|\\["\\bfnrt])"#;

/// The expression for the JSON texts of all strings, in any spelling.
pub(super) fn any() -> String {
    format!("\"{CHARACTER}*\"")
}

/// The expression for the JSON texts of all strings, each in one spelling.
pub(super) fn plain() -> String {
    format!("\"{PLAIN}*\"")
}

/// An expression for white space, as JSON has it.
///
/// # Errors
/// Where it is none, or takes other characters.
pub(super) fn space(pattern: &str) -> Result<String, Why> {
    let hir = Parser::new().parse(pattern).map_err(|e| of_regex(pattern, &e))?;
    Ok(printable(&space_hir(&hir)?).to_string())
}

fn space_hir(hir: &Hir) -> Result<Hir, Why> {
    let all = |parts: &[Hir]| parts.iter().map(space_hir).collect::<Result<Vec<_>, _>>();
    Ok(match hir.kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(text) if text.0.iter().all(|b| b" \t\n\r".contains(b)) => hir.clone(),
        HirKind::Class(Class::Unicode(class)) => {
            // `\s` has more than JSON.
            let mut json = ClassUnicode::new([' ', '\t', '\n', '\r'].map(|c| ClassUnicodeRange::new(c, c)));
            json.intersect(class);
            Hir::class(Class::Unicode(json))
        }
        HirKind::Repetition(inner) => Hir::repetition(inner.with(space_hir(&inner.sub)?)),
        HirKind::Capture(inner) => space_hir(&inner.sub)?,
        HirKind::Concat(inner) => Hir::concat(all(inner)?),
        HirKind::Alternation(inner) => Hir::alternation(all(inner)?),
        _ => {
            return Err(
                "takes other characters than white space: name spaces, tabs and line breaks".to_owned()
            );
        }
    })
}

/// The JSON text of a string.
pub(super) fn quoted(text: &str) -> String {
    let inner: String = text.chars().map(|c| spelled(c).unwrap_or_else(|| c.to_string())).collect();
    format!("\"{inner}\"")
}

/// The expression for the JSON texts of the strings that match; it is for whole texts.
///
/// # Errors
/// Where it is no regular expression.
pub(super) fn quote(regex: &str) -> Result<String, Why> {
    let hir = Parser::new().parse(regex).map_err(|e| e.to_string())?;
    Ok(format!("\"(?:{})\"", printable(&quoted_hir(&hir))))
}

fn quoted_hir(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Literal(text) => {
            let text = String::from_utf8_lossy(&text.0);
            let spelled: String = text.chars().map(|c| spelled(c).unwrap_or_else(|| c.to_string())).collect();
            Hir::literal(spelled.into_bytes())
        }
        HirKind::Class(Class::Unicode(class)) => quoted_class(class),
        HirKind::Repetition(inner) => Hir::repetition(inner.with(quoted_hir(&inner.sub))),
        HirKind::Capture(inner) => quoted_hir(&inner.sub),
        HirKind::Concat(inner) => Hir::concat(inner.iter().map(quoted_hir).collect()),
        HirKind::Alternation(inner) => Hir::alternation(inner.iter().map(quoted_hir).collect()),
        _ => hir.clone(),
    }
}

fn quoted_class(class: &ClassUnicode) -> Hir {
    let range = |a, b| ClassUnicodeRange::new(a, b);
    let special = ClassUnicode::new([
        range('\0', '\u{1f}'),
        range('"', '"'),
        range('\\', '\\'),
        range('\u{7f}', '\u{7f}'),
    ]);
    let (mut plain, mut rest) = (class.clone(), class.clone());
    plain.difference(&special);
    rest.intersect(&special);
    let rest = rest.ranges().iter().flat_map(|r| r.start()..=r.end());
    let mut spelled: Vec<String> = rest.filter_map(spelled).collect();
    let mut escaped = ClassUnicode::new([range('é', 'é')]);
    escaped.intersect(&plain);
    if !escaped.ranges().is_empty() {
        // As in `PLAIN`, where characters are many: a model that escapes them escapes such.
        spelled.retain(|text| !text.starts_with("\\u"));
    }
    // Expressions are read again by the lexer: one with a branch for each control character takes it five times as long.
    let escapes = ["\\", "\\u000", "\\u001", "\\u007"].into_iter().filter_map(|begin| {
        let last = spelled.iter().filter_map(|text| text.strip_prefix(begin)?.parse().ok());
        let class = ClassUnicode::new(last.map(|c| range(c, c)));
        let is_some = !class.ranges().is_empty();
        is_some.then(|| Hir::concat(vec![Hir::literal(begin.as_bytes()), Hir::class(Class::Unicode(class))]))
    });
    Hir::alternation([Hir::class(Class::Unicode(plain))].into_iter().chain(escapes).collect())
}

#[cfg(test)]
mod tests {
    use super::{CHARACTER, any, quote, search};

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
            search(pattern).unwrap().iter().all(|(rx, yes)| {
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

    #[test]
    fn each_character_has_one_spelling() {
        let control = quote("[\\x00-\\x07]").unwrap();
        assert!(llguidance::derivre::Regex::new(&control).unwrap().is_match(r#""\u0001""#));
        let many = quote("[^a]").unwrap();
        let mut many = llguidance::derivre::Regex::new(&many).unwrap();
        assert!(many.is_match(r#""é""#) && many.is_match(r#""\t""#) && !many.is_match(r#""\u0001""#));
        let rx = quote("[\\x00-\\x22]b\\n").unwrap();
        let mut rx = llguidance::derivre::Regex::new(&rx).unwrap();
        for (text, yes) in [
            (r#""\u0001b\n""#, true),
            (r#""\tb\n""#, true),
            (r#""\"b\n""#, true),
            (r#""!b\n""#, true),
            (r#""\u000ab\n""#, false),
            (r#"""b\n""#, false),
        ] {
            assert_eq!(rx.is_match(text), yes, "{text}");
        }
    }

    #[test]
    fn any_string_has_every_spelling() {
        let mut any = llguidance::derivre::Regex::new(&any()).unwrap();
        let mut one = llguidance::derivre::Regex::new(&format!("\"{CHARACTER}\"")).unwrap();
        for text in [
            "a",
            "é",
            "\u{7f}",
            r"\/",
            r"\n",
            r"\u00e9",
            r"\uD7FF",
            r"\ue000",
            r"\ufffF",
            r"\ud83d\ude00",
            "😀",
        ] {
            let text = format!("\"{text}\"");
            assert!(any.is_match(&text) && one.is_match(&text), "{text}");
            assert_eq!(serde_json::from_str::<String>(&text).unwrap().chars().count(), 1, "{text}");
        }
        for text in [r"\u00g9", r"\ud83d", r"\ude00", r"\ud83d\u0041", r"\x", "\u{1}", "\""] {
            assert!(!any.is_match(&format!("\"{text}\"")), "{text}");
        }
    }
}
