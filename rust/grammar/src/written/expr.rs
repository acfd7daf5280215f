//! What terminals and patterns are: regular expressions closed under and, or and not.

use super::decimal::Decimal;
use crate::gbnf::{of_class, times};
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
use serde_json::Value;

/// The number of a terminal.
pub(crate) type Terminal = usize;

/// A terminal's texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Expr {
    /// Matches of a regular expression, as it stands between the slashes of Lark.
    Regex(String),
    /// One text.
    Text(String),
    /// Single characters, from one to another each.
    Class(Vec<(char, char)>),
    /// Texts of each, one after the other.
    Concat(Vec<Expr>),
    /// So many texts at least and at most.
    Repeat(Box<Expr>, u32, Option<u32>),
    /// All others.
    Not(Box<Expr>),
    /// What all of them have.
    All(Vec<Expr>),
    /// What any of them has.
    Any(Vec<Expr>),
    /// A place in a text, in a pattern alone.
    Look(Look),
    /// A place from which on a pattern matches, or (false) does not.
    Ahead(Box<Expr>, bool),
    /// Among texts of numbers the multiples of one, or (false) all others.
    Multiples(Decimal, bool),
}

/// What a place in a text may have to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Look {
    Start,
    End,
    /// Exactly one side is a character of a word, or (false) both or none.
    Boundary(bool),
}

impl Expr {
    pub(crate) const EMPTY: Expr = Expr::Text(String::new());
    pub(crate) const NOTHING: Expr = Expr::Any(Vec::new());

    pub(crate) fn text(text: &str) -> Self {
        Expr::Text(text.to_owned())
    }

    pub(crate) fn class(class: &ClassUnicode) -> Self {
        match class.ranges() {
            [] => Expr::NOTHING,
            [one] if one.start() == one.end() => Expr::Text(one.start().into()),
            ranges => Expr::Class(ranges.iter().map(|range| (range.start(), range.end())).collect()),
        }
    }

    /// Any character.
    pub(crate) fn character() -> Self {
        Expr::Class(vec![('\0', char::MAX)])
    }

    /// Any text.
    pub(crate) fn anything() -> Self {
        Expr::Repeat(Box::new(Expr::character()), 0, None)
    }

    pub(crate) fn not(self) -> Self {
        Expr::Not(Box::new(self))
    }

    pub(crate) fn times(self, least: u32, most: Option<u32>) -> Self {
        match (least, most) {
            (1, Some(1)) => self,
            (0, _) if self == Expr::NOTHING => Expr::EMPTY,
            (_, Some(0)) => Expr::EMPTY,
            _ if self == Expr::NOTHING => self,
            _ => Expr::Repeat(Box::new(self), least, most),
        }
    }

    pub(crate) fn concat(parts: impl IntoIterator<Item = Expr>) -> Self {
        let mut line: Vec<Expr> = Vec::new();
        for part in parts {
            let inner = if let Expr::Concat(inner) = part { inner } else { vec![part] };
            for part in inner {
                match (line.last_mut(), part) {
                    (Some(Expr::Text(text)), Expr::Text(more)) => text.push_str(&more),
                    (_, part) if part == Expr::NOTHING => return part,
                    (_, part) => line.extend(Some(part).filter(|part| *part != Expr::EMPTY)),
                }
            }
        }
        if line.is_empty() { Expr::EMPTY } else { single(line, Expr::Concat) }
    }

    pub(crate) fn any(ways: impl IntoIterator<Item = Expr>) -> Self {
        let inner = |way| if let Expr::Any(inner) = way { inner } else { vec![way] };
        let mut list: Vec<Expr> = ways.into_iter().flat_map(inner).collect();
        list.dedup();
        single(list, Expr::Any)
    }

    pub(crate) fn all(parts: impl IntoIterator<Item = Expr>) -> Self {
        let inner = |part| if let Expr::All(inner) = part { inner } else { vec![part] };
        let mut list: Vec<Expr> = parts.into_iter().flat_map(inner).collect();
        list.retain(|part| *part != Expr::anything());
        list.dedup();
        let length = |part: &Expr| match part {
            Expr::Repeat(unit, least, most) if **unit == Expr::character() => Some((*least, *most)),
            _ => None,
        };
        if let [a, b] = &list[..]
            && let Some(((least, most), other)) = length(a).zip(Some(b)).or(length(b).zip(Some(a)))
        {
            let ways = if let Expr::Any(ways) = other { ways } else { std::slice::from_ref(other) };
            let (mut short, mut others) = (Vec::new(), Vec::new());
            for way in ways {
                match way.of_length(least, most) {
                    Some(both) => short.push(both),
                    None => others.push(way.clone()),
                }
            }
            if others.is_empty() {
                return Expr::any(short);
            }
            if !short.is_empty() {
                short.push(Expr::all([Expr::character().times(least, most), Expr::any(others)]));
                return Expr::any(short);
            }
        }
        // What is no text of one is a text all the same.
        if list.iter().all(|part| matches!(part, Expr::Not(_))) {
            list.push(Expr::anything());
        }
        if list.contains(&Expr::NOTHING) { Expr::NOTHING } else { single(list, Expr::All) }
    }

    /// The same with other parts.
    pub(crate) fn map(&self, part: &dyn Fn(&Expr) -> Expr) -> Expr {
        let all = |parts: &[Expr]| parts.iter().map(part).collect();
        match self {
            Expr::Not(inner) => part(inner).not(),
            Expr::Repeat(inner, least, most) => Expr::Repeat(Box::new(part(inner)), *least, *most),
            Expr::Concat(parts) => Expr::Concat(all(parts)),
            Expr::All(parts) => Expr::All(all(parts)),
            Expr::Any(parts) => Expr::Any(all(parts)),
            Expr::Ahead(inner, yes) => Expr::Ahead(Box::new(part(inner)), *yes),
            _ => self.clone(),
        }
    }

    /// Whether the empty text is one of it.
    pub(crate) fn may_be_empty(&self) -> bool {
        match self {
            Expr::Text(text) => text.is_empty(),
            Expr::Concat(parts) | Expr::All(parts) => parts.iter().all(Expr::may_be_empty),
            Expr::Any(ways) => ways.iter().any(Expr::may_be_empty),
            Expr::Repeat(inner, least, _) => *least == 0 || inner.may_be_empty(),
            Expr::Not(inner) => !inner.may_be_empty(),
            _ => false,
        }
    }

    /// Whether such a part is in it.
    pub(crate) fn has(&self, part: &dyn Fn(&Expr) -> bool) -> bool {
        part(self) || self.parts().iter().any(|inner| inner.has(part))
    }

    /// Whether it is a pattern that depends on what stands around.
    pub(crate) fn looks(&self) -> bool {
        self.has(&|part| matches!(part, Expr::Look(_) | Expr::Ahead(..)))
    }

    /// What stands in it one after the other, if it is such.
    pub(crate) fn line(&self) -> &[Expr] {
        if let Expr::Concat(parts) = self { parts } else { &[] }
    }

    pub(crate) fn parts(&self) -> &[Expr] {
        match self {
            Expr::Not(inner) | Expr::Ahead(inner, _) | Expr::Repeat(inner, ..) => std::slice::from_ref(inner),
            Expr::Concat(parts) | Expr::All(parts) | Expr::Any(parts) => parts,
            _ => &[],
        }
    }

    /// Limits the texts to those with at least `least` and at most `most` characters, by changing the bounds of a repetition. None
    /// where that is not enough.
    fn of_length(&self, least: u32, most: Option<u32>) -> Option<Expr> {
        let mut line = if let Expr::Concat(parts) = self { parts.clone() } else { vec![self.clone()] };
        let (mut fixed, mut free) = (0, None);
        for (at, part) in line.iter().enumerate() {
            match part {
                Expr::Text(text) => fixed += text.chars().count() as u32,
                Expr::Class(_) => fixed += 1,
                Expr::Repeat(unit, ..) if matches!(**unit, Expr::Class(_)) && free.is_none() => {
                    free = Some((at, part.clone()));
                }
                _ => return None,
            }
        }
        let Some((at, Expr::Repeat(unit, low, high))) = free else {
            let fits = least <= fixed && most.is_none_or(|most| fixed <= most);
            return Some(if fits { self.clone() } else { Expr::NOTHING });
        };
        let left = most.map_or(Some(u32::MAX), |most| most.checked_sub(fixed));
        let (low, most) = (low.max(least.saturating_sub(fixed)), most.and(left));
        let high = [high, most].into_iter().flatten().min();
        if left.is_none() || high.is_some_and(|high| high < low) {
            return Some(Expr::NOTHING);
        }
        line[at] = unit.times(low, high);
        Some(Expr::concat(line))
    }

    /// Its texts, where they are listed and there is one.
    pub(crate) fn listed(&self) -> Option<Vec<&str>> {
        match self {
            Expr::Text(text) => Some(vec![text]),
            Expr::Any(parts) if !parts.is_empty() => {
                Some(parts.iter().map(Expr::listed).collect::<Option<Vec<_>>>()?.concat())
            }
            _ => None,
        }
    }

    /// As Lark reads it: as one regular expression between slashes, if that can say it.
    pub(super) fn lark(&self) -> String {
        let joined = |by: &str| self.parts().iter().map(Expr::within).collect::<Vec<_>>().join(by);
        match self {
            Expr::Text(text) => quoted(text),
            Expr::Regex(rx) => format!("/{rx}/"),
            Expr::Not(_) => format!("~{}", joined("")),
            Expr::All(_) => joined(" & "),
            Expr::Any(ways) if !ways.is_empty() => joined(" | "),
            _ if !self.has(&|part| matches!(part, Expr::All(_) | Expr::Not(_))) => {
                format!("/{}/", self.regex())
            }
            Expr::Repeat(_, least, most) => joined("") + &times(*least, *most),
            _ => joined(" "),
        }
    }

    /// The same as a part of another one.
    fn within(&self) -> String {
        match self {
            Expr::Regex(_) | Expr::Text(_) | Expr::Class(_) => self.lark(),
            _ => format!("({})", self.lark()),
        }
    }

    /// As a regular expression, which knows neither and nor not.
    pub(crate) fn regex(&self) -> String {
        match self {
            Expr::Regex(rx) => format!("(?:{rx})"),
            Expr::Text(text) => regex_syntax::escape(text).replace('/', "\\/").replace('\n', "\\n"),
            Expr::Class(ranges) => of_class(&class(ranges)),
            Expr::Concat(parts) => parts.iter().map(Expr::regex).collect(),
            Expr::Any(ways) if ways.is_empty() => "[^\\x00-\\u{10ffff}]".to_owned(),
            Expr::Any(ways) => format!("(?:{})", ways.iter().map(Expr::regex).collect::<Vec<_>>().join("|")),
            Expr::Repeat(inner, least, most) => match **inner {
                Expr::Class(_) => inner.regex() + &times(*least, *most),
                _ => format!("(?:{}){}", inner.regex(), times(*least, *most)),
            },
            _ => unreachable!("it is no regular expression alone. This is a bug."),
        }
    }
}

/// The characters of these ranges.
pub(crate) fn class(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|(from, to)| ClassUnicodeRange::new(*from, *to)))
}

/// All characters but these.
pub(crate) fn not(ranges: &[(char, char)]) -> ClassUnicode {
    let mut others = class(ranges);
    others.negate();
    others
}

/// Those of the characters that are in the class.
pub(crate) fn common(ranges: &[(char, char)], with: &ClassUnicode) -> ClassUnicode {
    let mut common = class(ranges);
    common.intersect(with);
    common
}

/// The JSON text of a string, which Lark reads alike. Each character is spelled in one way only: a name that could be spelled in
/// two ways would pass for two names.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

pub(super) fn single(mut list: Vec<Expr>, of: fn(Vec<Expr>) -> Expr) -> Expr {
    if list.len() == 1 { list.remove(0) } else { of(list) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_become_numbers_of_repetitions() {
        let letters = |least, most| Expr::Class(vec![('a', 'z')]).times(least, most);
        let length = |least, most| Expr::character().times(least, most);
        let behind = |text: &str, part: Expr| Expr::concat([Expr::text(text), part]);
        for (other, (least, most), expected) in [
            (letters(1, None), (0, Some(63)), letters(1, Some(63))),
            (letters(0, None), (4, None), letters(4, None)),
            (letters(3, Some(9)), (5, Some(7)), letters(5, Some(7))),
            (letters(3, Some(9)), (10, None), Expr::NOTHING),
            (behind("éa", letters(0, None)), (3, Some(8)), behind("éa", letters(1, Some(6)))),
            (behind("éa", letters(0, None)), (0, Some(2)), Expr::text("éa")),
            (behind("éa", letters(0, None)), (0, Some(1)), Expr::NOTHING),
            (Expr::text("abc"), (0, Some(3)), Expr::text("abc")),
            (Expr::text("abc"), (4, None), Expr::NOTHING),
        ] {
            for parts in [[other.clone(), length(least, most)], [length(least, most), other.clone()]] {
                assert_eq!(Expr::all(parts), expected, "{other:?} {least} {most:?}");
            }
        }
        let two = Expr::concat([letters(0, None), letters(0, Some(2))]);
        let either = Expr::any([Expr::text("abc"), Expr::EMPTY, two.clone()]);
        let left = Expr::All(vec![length(1, Some(5)), two.clone()]);
        assert_eq!(Expr::all([length(1, Some(5)), either]), Expr::any([Expr::text("abc"), left]));
        assert!(matches!(Expr::all([two, length(0, Some(5))]), Expr::All(_)));
    }
}
