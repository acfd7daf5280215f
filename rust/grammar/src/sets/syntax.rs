//! Patterns as JSON Schema means them: regular expressions of ECMA-262.

use crate::written::expr::{Expr, Look, class, not};
use regex_syntax::Parser;
use regex_syntax::hir::{Class, ClassUnicode, HirKind};
use std::str::Chars;

/// Deepest nesting of groups.
const MAX_DEPTH: usize = 250;

/// The pattern.
///
/// # Errors
/// What ECMA-262 does not have, or cannot be said, with its place.
pub(crate) fn parse(pattern: &str) -> Result<Expr, String> {
    let mut reader = Reader { rest: pattern.chars(), depth: 0, any_case: false, any_line: false };
    let whole = reader.alternatives();
    let whole = whole.and_then(|node| match reader.rest.next() {
        None => Ok(node),
        Some(_) => Err("there is no group to close"),
    });
    let at = pattern.chars().count() - reader.rest.count();
    whole.map_err(|why| format!("up to character {at}: {why}"))
}

struct Reader<'p> {
    rest: Chars<'p>,
    depth: usize,
    /// Whether letters mean those of the other case, too.
    any_case: bool,
    /// Whether a dot takes line ends.
    any_line: bool,
}

type Read<T> = Result<T, &'static str>;

impl Reader<'_> {
    fn eat(&mut self, text: &str) -> bool {
        let after = self.rest.as_str().strip_prefix(text);
        after.inspect(|after| self.rest = after.chars()).is_some()
    }

    /// What stands before a character, which is taken, too.
    fn until(&mut self, end: char) -> Read<&str> {
        let (text, after) = self.rest.as_str().split_once(end).ok_or("something is not closed")?;
        self.rest = after.chars();
        Ok(text)
    }

    /// All to the end of the group.
    fn alternatives(&mut self) -> Read<Expr> {
        let mut ways = Vec::new();
        loop {
            let mut line = Vec::new();
            while !matches!(self.rest.as_str().chars().next(), None | Some('|' | ')')) {
                line.push(self.term()?);
            }
            ways.push(Expr::concat(line));
            if !self.eat("|") {
                return Ok(Expr::any(ways));
            }
        }
    }

    fn term(&mut self) -> Read<Expr> {
        if self.count()?.is_some() {
            return Err("there is nothing to repeat");
        }
        let atom = match self.rest.next().ok_or("it ends too soon")? {
            '^' => Expr::Look(Look::Start),
            '$' => Expr::Look(Look::End),
            '(' => self.group()?,
            '\\' if self.eat("b") => Expr::Look(Look::Boundary(true)),
            '\\' if self.eat("B") => Expr::Look(Look::Boundary(false)),
            first => {
                let class = match first {
                    '\\' => self.escape()?,
                    '[' => self.class()?,
                    '.' if self.any_line => class(&[('\0', char::MAX)]),
                    '.' => not(&LINE_ENDS),
                    c => class(&[(c, c)]),
                };
                Expr::class(&self.cased(class))
            }
        };
        let Some((least, most)) = self.count()? else { return Ok(atom) };
        // Which of its matches is found first is the same to a schema.
        self.eat("?");
        match self.count()? {
            None => Ok(atom.times(least, most)),
            Some(_) => Err("ECMA-262 has no quantifier of a quantifier: put a group around the first"),
        }
    }

    /// A quantifier, if one stands here.
    fn count(&mut self) -> Read<Option<(u32, Option<u32>)>> {
        for (sign, count) in [("*", (0, None)), ("+", (1, None)), ("?", (0, Some(1)))] {
            if self.eat(sign) {
                return Ok(Some(count));
            }
        }
        let braces = self.rest.as_str().strip_prefix('{').and_then(|text| text.split_once('}'));
        let Some((inner, after)) = braces else { return Ok(None) };
        let (least, most) = inner.split_once(',').unwrap_or((inner, inner));
        if least.is_empty() || !least.bytes().chain(most.bytes()).all(|b| b.is_ascii_digit()) {
            return Ok(None);
        }
        self.rest = after.chars();
        let number = |text: &str| text.parse().map_err(|_| "a count is too large");
        let (least, most) = (number(least)?, if most.is_empty() { None } else { Some(number(most)?) });
        if most.is_some_and(|most| most < least) {
            return Err("a count ends before it begins");
        }
        Ok(Some((least, most)))
    }

    /// A group behind its `(`.
    fn group(&mut self) -> Read<Expr> {
        let flags = (self.any_case, self.any_line);
        let ahead = [("?=", true), ("?!", false)].into_iter().find(|(sign, _)| self.eat(sign));
        if self.eat("?<=") || self.eat("?<!") {
            return Err("what stands before a place cannot be looked at: leave it out");
        } else if self.eat("?<") || self.eat("?P<") {
            self.until('>')?;
        } else if self.eat("?") {
            self.flags()?;
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("groups are nested too deep");
        }
        let inner = self.alternatives()?;
        if !self.eat(")") {
            return Err("a group is not closed");
        }
        self.depth -= 1;
        (self.any_case, self.any_line) = flags;
        Ok(match ahead {
            Some((_, yes)) => Expr::Ahead(Box::new(inner), yes),
            None => inner,
        })
    }

    /// Flags of a group to their colon.
    fn flags(&mut self) -> Read<()> {
        let mut on = true;
        loop {
            match self.rest.next() {
                Some('i') => self.any_case = on,
                Some('s') => self.any_line = on,
                Some('-') => on = false,
                Some(':') => return Ok(()),
                Some(')') => {
                    return Err("ECMA-262 has no flags for what follows: write (?i: and the like around it");
                }
                _ => return Err("a group of this kind cannot be enforced"),
            }
        }
    }

    /// The characters that an escape means, behind its backslash.
    fn escape(&mut self) -> Read<ClassUnicode> {
        let sign = self.rest.next().ok_or("it ends in a lone backslash")?;
        let mut own = match sign {
            'd' | 'D' => Some(class(&[('0', '9')])),
            'w' | 'W' => Some(class(&WORD)),
            's' | 'S' => known(r"[\s\uFEFF--\u0085]"),
            'n' | 'r' | 't' | 'v' | 'f' => known(&format!("\\{sign}")),
            'x' | 'u' | 'p' | 'P' => {
                let digits = match sign {
                    _ if self.eat("{") => format!("{{{}}}", self.until('}')?),
                    'x' => self.rest.by_ref().take(2).collect(),
                    'u' => self.rest.by_ref().take(4).collect(),
                    _ => self.rest.by_ref().take(1).collect(),
                };
                known(&format!("\\{sign}{digits}"))
            }
            'c' => self.rest.next().filter(char::is_ascii_alphabetic).map(|letter| {
                let control = char::from(letter as u8 % 32);
                class(&[(control, control)])
            }),
            '0'..='9' | 'k' => return Err("a reference to a group cannot be enforced"),
            c if c.is_ascii_alphabetic() => return Err("ECMA-262 has no escape of this letter"),
            c => Some(class(&[(c, c)])),
        };
        if "DWS".contains(sign) {
            own.iter_mut().for_each(ClassUnicode::negate);
        }
        own.ok_or("no character is written so")
    }

    /// A class behind its `[`.
    fn class(&mut self) -> Read<ClassUnicode> {
        let is_others = self.eat("^");
        let mut all = ClassUnicode::empty();
        // First in a class, `]` is a character of it.
        while all.ranges().is_empty() || !self.eat("]") {
            let mut own = self.member()?;
            let ahead = self.rest.as_str().strip_prefix('-');
            // A range, unless the hyphen is the last character of the class.
            if ahead.is_some_and(|ahead| !ahead.starts_with(']')) && self.eat("-") {
                own = match (own.ranges(), self.member()?.ranges()) {
                    ([from], [to]) if from.start() == from.end() && to.start() == to.end() => {
                        if from.start() > to.start() {
                            return Err("a range of characters ends before it begins");
                        }
                        class(&[(from.start(), to.start())])
                    }
                    _ => return Err("a range of characters begins or ends with many"),
                };
            }
            all.union(&own);
        }
        all = self.cased(all);
        if is_others {
            all.negate();
        }
        Ok(all)
    }

    fn member(&mut self) -> Read<ClassUnicode> {
        match self.rest.next().ok_or("a class of characters is not closed")? {
            '\\' if self.eat("b") => Ok(class(&[('\x08', '\x08')])),
            '\\' => self.escape(),
            c => Ok(class(&[(c, c)])),
        }
    }

    fn cased(&self, mut class: ClassUnicode) -> ClassUnicode {
        if self.any_case {
            class.case_fold_simple();
        }
        class
    }
}

pub(super) const WORD: [(char, char); 4] = [('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
const LINE_ENDS: [(char, char); 3] = [('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')];

/// The characters of a class or an escape in the syntax that the engine has in common with ECMA-262.
fn known(text: &str) -> Option<ClassUnicode> {
    match Parser::new().parse(text).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        HirKind::Literal(text) => {
            let c = std::str::from_utf8(&text.0).ok()?.chars().next()?;
            Some(class(&[(c, c)]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn classes_hold_plain_characters() {
        let rows = [
            ("[a[b]]", r"[ab\[]]"),
            ("[a&&b]", "[&ab]"),
            ("[+--]", r"[+-\-]"),
            ("[--a]", r"[\--a]"),
            ("[a-]", r"[\-a]"),
            ("[^]a]", r"[^\]a]"),
            (r"[\]\d-]x[0-9]", r"[\-0-9\]]x\d"),
            (r"[\u0041-\u005a]", "[A-Z]"),
            (r"\x41\u00e9\u{1f600}", "Aé😀"),
            (r"\[a--b\]", r"\[a\-\-b\]"),
            (r"\\s\s", r"\\s[\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"),
            (r"[\Sx]", r"[^\s]"),
            ("(?i:aß)(?-i:a)", "[aA][ßẞ]a"),
            ("a{,2}{", r"a\{,2\}\{"),
        ];
        for (pattern, same) in rows {
            assert_eq!(parse(pattern).unwrap(), parse(same).unwrap(), "{pattern}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let rows = ["a\\", "(a", "a)", "[a", "a**", "*", "^*a{2}{3}", "a{3,2}", r"\y", r"[\w-a]", "[b-a]"];
        for pattern in rows.into_iter().chain([r"(a)\1", "(?<=a)b", "(?i)a", r"\ud83d", r"\p{Nothing}"]) {
            assert!(parse(pattern).is_err(), "{pattern}");
        }
    }
}
