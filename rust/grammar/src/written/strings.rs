//! Recognises the kinds of terminals that have special automata: bounded strings, patterns with a length, and strings that are not listed.

use super::expr::{Expr, single};
use crate::languages::Bounds;

/// A string with a pattern and a bound on its number of characters.
pub(super) struct Limited {
    /// The strings that match the pattern, of any length.
    pub(super) pattern: Expr,
    /// Every beginning of such a string can be completed with at most this many characters.
    pub(super) farthest: u32,
    /// All strings.
    pub(super) units: Expr,
    pub(super) bounds: Bounds,
}

impl Expr {
    /// Separates the pattern and the length of a JSON string. None if this has another form. `characters`: all that a string may have.
    pub(super) fn limited(&self, characters: &Expr) -> Option<Limited> {
        let [Expr::Text(first), Expr::All(parts), Expr::Text(last)] = self.line() else { return None };
        let (at, least, most) = parts.iter().enumerate().find_map(|(at, part)| match part {
            Expr::Repeat(unit, least, Some(most)) if **unit == *characters => Some((at, *least, *most)),
            _ => None,
        })?;
        let [other] = [&parts[..at], &parts[at + 1..]].concat().try_into().ok()?;
        let (shortest, farthest) = other.distances()?;
        let string = |part: Expr| Expr::concat([Expr::text("\""), part, Expr::text("\"")]);
        let any = characters.clone().times(0, None);
        let is_string = first == "\"" && last == "\"";
        // `shortest` counts an escaped character as several, so it proves no more than that there is one.
        (is_string && least <= shortest.min(1)).then(|| Limited {
            pattern: string(Expr::All(vec![any.clone(), other])),
            farthest,
            units: string(any),
            bounds: Bounds { begin: b"\"".to_vec(), close: b'"', least: 0, most: Some(most) },
        })
    }

    /// The characters of the shortest text, and the most characters that any beginning of a text needs to be completed. Counts characters
    /// of the JSON text, where an escaped character is several. None if they are not known.
    fn distances(&self) -> Option<(u32, u32)> {
        match self {
            Expr::Text(text) => {
                let characters = text.chars().count() as u32;
                Some((characters, characters))
            }
            Expr::Class(_) => Some((1, 1)),
            // A beginning that ends inside a part needs the rest of that part and all parts behind it.
            Expr::Concat(parts) => parts.iter().rev().try_fold((0_u32, 0_u32), |(all, far), part| {
                let (shortest, farthest) = part.distances()?;
                Some((all.checked_add(shortest)?, far.max(all.checked_add(farthest)?)))
            }),
            Expr::Any(ways) if !ways.is_empty() => {
                let ways = ways.iter().map(Expr::distances).collect::<Option<Vec<_>>>()?;
                let shortest = ways.iter().map(|way| way.0).min()?;
                Some((shortest, ways.iter().map(|way| way.1).max()?))
            }
            Expr::Repeat(inner, least, _) => {
                let (shortest, farthest) = inner.distances()?;
                let others = shortest.checked_mul(least.saturating_sub(1))?;
                Some((shortest.checked_mul(*least)?, farthest.checked_add(others)?))
            }
            _ => None,
        }
    }

    /// Where this is a unit that is repeated, behind texts and classes and before a text of one byte: the same with any number of
    /// units, and the bounds of that number. Units have no repetitions.
    pub(super) fn counted(&self) -> Option<(Expr, Bounds)> {
        let [before @ .., Expr::Repeat(unit, least, most), close @ Expr::Text(text)] = self.line() else {
            return None;
        };
        let is_simple = |part: &Expr| {
            use Expr::{Any, Class, Concat, Regex, Text};
            matches!(part, Regex(_) | Text(_) | Class(_) | Concat(_) | Any(_))
        };
        let (&[close_byte], true) = (text.as_bytes(), (*least, *most) != (0, None)) else { return None };
        if unit.may_be_empty() || unit.has(&|part| !is_simple(part)) {
            return None;
        }
        let one = |part: &Expr| match part {
            Expr::Text(text) => Some(text.clone()),
            Expr::Class(ranges) => ranges.first().map(|(first, _)| first.to_string()),
            _ => None,
        };
        let begin = before.iter().map(one).collect::<Option<String>>()?;
        let any = Expr::Repeat(unit.clone(), 0, None);
        let base = Expr::Concat([before, &[any, close.clone()]].concat());
        Some((base, Bounds { begin: begin.into_bytes(), close: close_byte, least: *least, most: *most }))
    }

    /// Separates an expression and the listed texts that are excluded from it. None if no texts are excluded.
    pub(super) fn difference(&self) -> Option<(Expr, Vec<&str>)> {
        let Expr::All(parts) = self else { return None };
        fn listed(part: &Expr) -> Option<Vec<&str>> {
            if let Expr::Not(texts) = part { texts.listed() } else { None }
        }
        let texts: Vec<&str> = parts.iter().filter_map(listed).flatten().collect();
        let others: Vec<Expr> = parts.iter().filter(|part| listed(part).is_none()).cloned().collect();
        (!texts.is_empty() && !others.is_empty()).then(|| (single(others, Expr::All), texts))
    }

    /// Whether every beginning of a text begins infinitely many texts, because a repetition without limit stands before the last byte.
    pub(super) fn is_endless(&self) -> bool {
        match self.line() {
            [.., Expr::Repeat(unit, _, None), Expr::Text(last)] => !unit.may_be_empty() && last.len() == 1,
            _ => false,
        }
    }

    /// Whether it has JSON strings that begin with any number of any of these `characters`, and have no others. Behind each character
    /// any other may come then.
    pub(crate) fn is_open(&self, characters: &Expr) -> bool {
        let [Expr::Text(quote), Expr::Repeat(any, 0, None), ..] = self.line() else { return false };
        let is_control = |(first, last): &(char, char)| *first < ' ' || (*first..=*last).contains(&'\x7f');
        let may_be_other = |part: &Expr| match part {
            Expr::Text(text) => text.contains("\\u"),
            Expr::Class(ranges) => ranges.iter().any(is_control),
            Expr::Concat(_) | Expr::Any(_) | Expr::Repeat(..) => false,
            _ => true,
        };
        quote == "\"" && **any == *characters && !self.has(&may_be_other)
    }

    /// Whether all texts are JSON strings. May be false where they are. `known`: regular expressions for JSON strings or for their characters.
    pub(super) fn is_string(&self, known: &[Expr]) -> bool {
        match self {
            Expr::All(parts) => parts.iter().any(|part| part.is_string(known)),
            Expr::Any(ways) => ways.iter().all(|way| way.is_string(known)),
            Expr::Concat(parts) => {
                let [Expr::Text(first), within @ .., Expr::Text(last)] = parts.as_slice() else {
                    return false;
                };
                let (Some(first), Some(last)) = (first.strip_prefix('"'), last.strip_suffix('"')) else {
                    return false;
                };
                let line = [first, last].map(Expr::text);
                let [first, last] = &line;
                is_unquoted(std::iter::once(first).chain(within).chain([last]), known)
            }
            _ => known.contains(self),
        }
    }
}

/// Whether the concatenated texts have quotes only behind backslashes, and do not end with a backslash that escapes nothing.
fn is_unquoted<'e>(line: impl IntoIterator<Item = &'e Expr>, known: &[Expr]) -> bool {
    let mut is_escaped = false;
    line.into_iter().all(|part| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match part {
            Expr::Text(text) => {
                is_escaped = was_escaped;
                text.chars().all(|c| {
                    let is_quote = c == '"' && !is_escaped;
                    is_escaped = c == '\\' && !is_escaped;
                    !is_quote
                })
            }
            Expr::Class(_) if was_escaped => true,
            Expr::Class(ranges) => {
                !ranges.iter().any(|(first, last)| ['"', '\\'].iter().any(|c| (first..=last).contains(&c)))
            }
            _ if was_escaped => false,
            Expr::Concat(parts) => is_unquoted(parts, known),
            Expr::Repeat(inner, ..) => is_unquoted([&**inner], known),
            Expr::Any(ways) => ways.iter().all(|way| is_unquoted([way], known)),
            Expr::All(parts) => parts.iter().any(|part| is_unquoted([part], known)),
            _ => known.contains(part),
        }
    }) && !is_escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_with_their_only_quote() {
        let known = [Expr::Regex("x".into())];
        let letters = Expr::Class(vec![('a', 'z')]).times(0, None);
        let escape = Expr::concat([Expr::text("\\"), Expr::Class(vec![('"', '"'), ('\\', '\\')])]);
        let of = |part: Expr| Expr::concat([Expr::text("\""), part, Expr::text("\"")]);
        let strings = [
            of(letters.clone()),
            of(Expr::any([letters.clone(), escape.clone()]).times(0, None)),
            of(Expr::any([Expr::text("a\\\""), known[0].clone()])),
            of(Expr::all([letters.clone(), Expr::text("ab").not()])),
            Expr::all([of(letters.clone()), of(Expr::text("ab")).not()]),
            Expr::any([of(letters.clone()), of(escape.clone())]),
        ];
        for expr in &strings {
            assert!(expr.is_string(&known), "{expr:?}");
        }
        let character = Expr::Class(vec![('!', 'z')]);
        let others = [
            letters.clone(),
            of(character.clone()),
            of(Expr::text("a\"b")),
            of(Expr::text("a\\")),
            of(Expr::concat([Expr::text("\\\\"), character])),
            of(Expr::Regex("y".into())),
            of(letters.clone().not()),
            Expr::any([of(letters.clone()), Expr::Class(vec![('0', '9')])]),
            Expr::concat([Expr::text("\""), letters]),
        ];
        for expr in &others {
            assert!(!expr.is_string(&known), "{expr:?}");
        }
    }

    #[test]
    fn beginnings_are_so_far_from_the_end() {
        let letters = |least, most| Expr::Class(vec![('a', 'z')]).times(least, most);
        let words = Expr::concat([letters(1, None), Expr::text(" ")]).times(2, Some(99));
        for (expr, expected) in [
            (letters(0, None), Some((0, 1))),
            (letters(3, Some(9)), Some((3, 3))),
            (Expr::concat([Expr::text("ab"), letters(0, Some(1))]), Some((2, 2))),
            (Expr::concat([words.clone(), letters(1, None)]), Some((5, 5))),
            (Expr::any([Expr::text("abc"), letters(1, None)]), Some((1, 3))),
            (Expr::concat([words, Expr::text("a").not()]), None),
            (letters(9, None).times(u32::MAX, None), None),
        ] {
            assert_eq!(expr.distances(), expected, "{expr:?}");
        }
    }

    #[test]
    fn a_pattern_and_a_length_are_told_apart() {
        let characters = Expr::Class(vec![('!', '!'), ('#', '[')]);
        let of = |least, other: Expr| {
            let all = Expr::All(vec![characters.clone().times(least, Some(9)), other]);
            Expr::concat([Expr::text("\""), all, Expr::text("\"")])
        };
        let pattern = Expr::concat([Expr::Class(vec![('A', 'Z')]).times(1, None), Expr::text("-")]);
        let limited = of(1, pattern.clone()).limited(&characters).unwrap();
        assert_eq!((limited.farthest, limited.bounds.most), (2, Some(9)));
        let any = characters.clone().times(0, None);
        let string = |part: Expr| Expr::concat([Expr::text("\""), part, Expr::text("\"")]);
        assert_eq!(limited.units, string(any.clone()));
        assert_eq!(limited.pattern, string(Expr::All(vec![any, pattern.clone()])));
        for other in
            [of(2, pattern.clone()), of(1, pattern.clone().not()), of(1, pattern.clone().times(0, None))]
        {
            assert!(other.limited(&characters).is_none(), "{other:?}");
        }
    }

    #[test]
    fn listed_texts_are_told_from_what_they_are_left_out_of() {
        let base = Expr::concat([Expr::text("<"), Expr::character().times(1, None), Expr::text(">")]);
        let texts = Expr::any(["<a>", "<b>"].map(Expr::text));
        let some = Expr::all([base.clone(), texts.not()]);
        assert_eq!(some.difference(), Some((base.clone(), vec!["<a>", "<b>"])));
        assert!(base.is_endless() && base.difference().is_none());
        let few = Expr::concat([Expr::text("<"), Expr::character().times(1, Some(2)), Expr::text(">")]);
        assert!(!few.is_endless() && !Expr::concat([base, Expr::text(">")]).is_endless());
    }
}
