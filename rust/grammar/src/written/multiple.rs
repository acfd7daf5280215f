//! Multiples of a number, as automata that count remainders.

use super::decimal::{Decimal, End, gcd, power};
use llguidance::derivre::RegexAst;
use serde_json::{Value, json};

/// A 64-bit float holds all whole numbers up to this one.
const EXACT: i128 = 1 << 53;

/// Texts of multiples, or (false) of other numbers, among others.
pub(super) fn condition(d: Decimal, yes: bool) -> RegexAst {
    if yes { of(d, Some(d.scale)) } else { RegexAst::Not(Box::new(of(d, None))) }
}

/// Texts of all multiples, with so many decimals at most, and of nothing else that looks like a number without exponent.
fn of(d: Decimal, most: Option<u32>) -> RegexAst {
    let zeros = |least: u32, taken: u32| match most {
        Some(most) => format!("0{{{least},{}}}", least.max(most - taken)),
        None => format!("0{{{least},}}"),
    };
    let written = |(step, scale): (i128, u32)| {
        let rest = if scale == 0 { format!(r"(?:\.{})?", zeros(1, 0)) } else { zeros(0, scale) };
        let digits = match u32::try_from(step) {
            Ok(1) if scale > 0 => RegexAst::Regex(format!(r"[0-9]+\.[0-9]{{{scale}}}")),
            step => RegexAst::MultipleOf(step.unwrap_or(u32::MAX), scale),
        };
        RegexAst::Concat(vec![digits, RegexAst::Regex(rest)])
    };
    let ways = steps(d).map(written).collect();
    RegexAst::Concat(vec![RegexAst::Regex("-?".to_owned()), RegexAst::Or(ways)])
}

/// The least common multiples of `d` and 1, 1/10, … as digits at so many decimals: what is written with so many is a multiple
/// of `d` where it is one of these.
fn steps(d: Decimal) -> impl Iterator<Item = (i128, u32)> {
    (0..=d.scale).map(move |scale| (d.digits / gcd(d.digits, power(d.scale - scale)), scale))
}

/// The multiples of one number between two ends, as alternatives of a rule in Lark: llguidance's own schemas of this type
/// (`integer` or `number`), with each number of decimals in turn. None where those cannot say it.
pub(crate) fn in_lark(by: Decimal, (low, high): (End, End), kind: &str) -> Option<String> {
    let ends = [(low, "minimum", "exclusiveMinimum"), (high, "maximum", "exclusiveMaximum")];
    if !ends.iter().filter_map(|(end, ..)| *end).all(|(n, _)| n.digits.abs() <= EXACT) {
        return None;
    }
    let number = |n: Decimal| serde_json::from_str::<Value>(&n.text()).unwrap_or_default();
    let written = |(step, scale)| {
        let mut schema = json!({"type": kind, "x-guidance": {"whitespace_pattern": ""}});
        schema["multipleOf"] = number(Decimal::new(step, scale));
        for (end, own, key) in ends {
            if let Some((n, is_own)) = end {
                schema[if is_own { own } else { key }] = number(n);
            }
        }
        format!("%json {schema}")
    };
    Some(steps(by).map(written).collect::<Vec<_>>().join(" | "))
}

#[cfg(test)]
mod tests {
    use super::super::decimal::divides;
    use super::*;
    use llguidance::derivre::RegexBuilder;

    #[test]
    fn they_are_told_however_they_are_written() {
        for by in [
            Decimal::new(3, 0),
            Decimal::new(5, 1),
            Decimal::new(15, 2),
            Decimal::new(1, 2),
            Decimal::new(4, 2),
        ] {
            let mut builder = RegexBuilder::new();
            let rx = builder.mk(&of(by, None)).unwrap();
            let mut rx = builder.into_regex(rx);
            for n in (-400..400).flat_map(|digits| [0, 1, 2, 3].map(|scale| Decimal::new(digits, scale))) {
                let zeros = if n.is_whole() { ".00" } else { "00" };
                for text in [n.text(), format!("{}{zeros}", n.text())] {
                    assert_eq!(rx.is_match(&text), divides(by, n), "{text} by {by:?}");
                }
            }
        }
    }
}
