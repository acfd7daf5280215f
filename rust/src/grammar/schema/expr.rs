//! What terminals are: regular expressions closed under and, or and not.

use super::decimal::Decimal;
use super::spelling::quoted;

/// The number of a terminal.
pub(super) type Terminal = usize;

/// A terminal's texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Expr {
    /// Matches of a regular expression, as it stands between the slashes of Lark.
    Regex(String),
    /// One text.
    Text(String),
    /// Another terminal's.
    Of(Terminal),
    /// All others.
    Not(Box<Expr>),
    /// What all of them have.
    All(Vec<Expr>),
    /// What any of them has.
    Any(Vec<Expr>),
    /// Those that keep conditions on what divides them (true) and what doesn't, among texts of numbers.
    Multiples(Box<Expr>, Vec<(Decimal, bool)>),
}

impl Expr {
    /// The same where so many terminals come before its own.
    pub(super) fn shift(&mut self, terminals: usize) {
        match self {
            Expr::Regex(_) | Expr::Text(_) => {}
            Expr::Of(terminal) => *terminal += terminals,
            Expr::Not(inner) | Expr::Multiples(inner, _) => inner.shift(terminals),
            Expr::All(parts) | Expr::Any(parts) => parts.iter_mut().for_each(|part| part.shift(terminals)),
        }
    }

    /// The shortest of its texts, where they are listed.
    pub(super) fn shortest<'a>(&'a self, terminals: &'a [Expr]) -> Option<&'a str> {
        match self {
            Expr::Text(text) => Some(text),
            Expr::Of(terminal) => terminals[*terminal].shortest(terminals),
            Expr::Any(parts) => {
                let all = parts.iter().map(|part| part.shortest(terminals)).collect::<Option<Vec<_>>>();
                all?.into_iter().min_by_key(|text| text.len())
            }
            _ => None,
        }
    }

    /// As Lark reads it.
    pub(super) fn lark(&self) -> String {
        let joined = |parts: &[Expr], by: &str| parts.iter().map(Expr::within).collect::<Vec<_>>().join(by);
        match self {
            Expr::Regex(rx) => format!("/{rx}/"),
            Expr::Text(text) => quoted(text),
            Expr::Of(terminal) => format!("T{terminal}"),
            Expr::Not(inner) => format!("~{}", inner.within()),
            Expr::All(parts) => joined(parts, " & "),
            Expr::Any(parts) => joined(parts, " | "),
            Expr::Multiples(..) => unreachable!("Lark has a rule for it. This is a bug."),
        }
    }

    /// The same as a part of another one.
    fn within(&self) -> String {
        match self {
            Expr::All(_) | Expr::Any(_) => format!("({})", self.lark()),
            _ => self.lark(),
        }
    }
}
