//! What automata make use of in terminals, most of which are strings.

use super::expr::{Expr, single};
use crate::grammar::languages::Bounds;

impl Expr {
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

    /// Where this is an expression without some listed texts: both.
    pub(super) fn difference(&self) -> Option<(Expr, Vec<&str>)> {
        let Expr::All(parts) = self else { return None };
        fn listed(part: &Expr) -> Option<Vec<&str>> {
            if let Expr::Not(texts) = part { texts.listed() } else { None }
        }
        let texts: Vec<&str> = parts.iter().filter_map(listed).flatten().collect();
        let others: Vec<Expr> = parts.iter().filter(|part| listed(part).is_none()).cloned().collect();
        (!texts.is_empty() && !others.is_empty()).then(|| (single(others, Expr::All), texts))
    }

    /// Whether each beginning of a text of it is also the beginning of infinitely many: before the last byte there may be any number of
    /// repetitions.
    pub(super) fn is_endless(&self) -> bool {
        match self.line() {
            [.., Expr::Repeat(unit, _, None), Expr::Text(last)] => !unit.may_be_empty() && last.len() == 1,
            _ => false,
        }
    }

    /// Whether it has JSON strings that begin with any number of any of these `characters`, and have no others. Behind each character
    /// any other may come then.
    pub(in crate::grammar) fn is_open(&self, characters: &Expr) -> bool {
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

    /// Whether all its texts are JSON strings. `known`: expressions of which that is known, or that have no quote but behind a backslash.
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

/// Whether no text of these in turn has a quote but behind a backslash, or ends with a backslash that stands before nothing.
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
