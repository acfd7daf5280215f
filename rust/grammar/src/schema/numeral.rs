//! How numbers are written: expressions for the texts of numbers within bounds.

use crate::sets::number::Cell;
use crate::written::decimal::{Decimal, End, power};
use crate::written::expr::Expr;
use std::sync::LazyLock;

/// Ends of the whole numbers that readers have 64 bits for.
const LEAST: i128 = i64::MIN as i128;
const MOST: i128 = i64::MAX as i128;
/// A number as readers with 64-bit floats have it: they tell 15 to 17 digits apart, and end at 10^308.
const FLOAT: &str =
    r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,16})?(?:[eE][+-]?(?:[01]?[0-9]{1,2}|2[0-8]?[0-9]))?";
/// One with as many digits, without exponent.
const SPELLED: &str = r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,16})?";
/// 0, however it is written.
const ZERO: &str = r"0(?:\.0+)?(?:[eE][+-]?[0-9]+)?";
/// One without exponent: with one, its size could not be told from its digits.
const PLAIN: &str = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?";
const UNSIGNED: &str = r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?";
const ANY_FRACTION: &str = r"(?:\.[0-9]+)?";

/// Whole numbers of 64 bits. 0 has no sign, since where items must differ it would pass for another number.
pub(super) fn any_whole() -> &'static str {
    static ALL: LazyLock<String> = LazyLock::new(|| whole(Some(LEAST), Some(MOST)));
    &ALL
}

/// Any number.
pub(super) fn any() -> &'static str {
    static ALL: LazyLock<String> = LazyLock::new(|| format!("{FLOAT}|{}", any_whole()));
    &ALL
}

/// The same without sign.
fn any_positive() -> &'static str {
    static ALL: LazyLock<String> =
        LazyLock::new(|| format!("{}|{}", FLOAT.trim_start_matches("-?"), unsigned(0, Some(MOST))));
    &ALL
}

/// At most 15 digits, which readers with 64-bit floats tell from whole numbers and from multiples.
const SHORT: &str =
    r"-?(?:[0-9]{1,12}(?:\.[0-9]{1,3})?|[0-9]{1,9}(?:\.[0-9]{1,6})?|[0-9]{1,3}(?:\.[0-9]{1,12})?)";

/// Whole numbers that 64-bit floats hold, so that readers find the same multiples among them.
const SHORT_WHOLE: &str = "-?[0-9]{1,15}";

/// Numbers without exponent of at most 15 digits: what lies between bounds of so many digits does so for readers, too, whose
/// 64-bit floats are next to these numbers.
pub(super) fn told_apart() -> &'static str {
    static ALL: LazyLock<String> = LazyLock::new(|| {
        let some = (0..14).map(|more| format!(r"[1-9][0-9]{{{more}}}(?:\.[0-9]{{1,{}}})?", 14 - more));
        let some = some.collect::<Vec<_>>().join("|");
        format!(r"-?(?:0(?:\.[0-9]{{1,15}})?|{some}|[1-9][0-9]{{14}})")
    });
    &ALL
}

/// Which texts a cell is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Whole,
    /// Whole numbers and others.
    Any,
    /// Only numbers that are not whole.
    Fraction,
}

/// The numbers between the ends of the cell.
pub(super) fn terminal(cell: &Cell, style: Style) -> Expr {
    if let Some(n) = cell.single() {
        return Expr::Text(n.text());
    }
    let regex = |text: &str| Expr::Regex(text.to_owned());
    let mut parts = match style {
        Style::Whole if cell.is_all() => vec![regex(any_whole())],
        // One expression tells where the text must end; a conjunction leaves that to be found out.
        Style::Whole => {
            let end = |end: End| end.map(|(n, _)| n.floor());
            let (low, high) = (end(cell.low), end(cell.high));
            // An end that is missing is that of 64 bits, unless the other end lies beyond it.
            let low = low.or(high.is_none_or(|high| high >= LEAST).then_some(LEAST));
            vec![Expr::Regex(whole(low, high.or(low.is_none_or(|low| low <= MOST).then_some(MOST))))]
        }
        Style::Any if cell.is_all() => vec![regex(any())],
        Style::Any if is_from_zero(cell) => {
            let positive = regex(any_positive());
            let is_own = cell.low.is_none_or(|(_, own)| own);
            return if is_own { positive } else { Expr::All(vec![positive, regex(ZERO).not()]) };
        }
        Style::Any => vec![regex(plain(cell, has_own_ends(cell) && cell.by.is_empty()))],
        Style::Fraction => vec![regex(plain(cell, false)), Expr::Not(Box::new(regex(r"-?[0-9]+(?:\.0+)?")))],
    };
    if excludes(cell, style) {
        parts.push(regex(SHORT));
    } else if style == Style::Whole && !cell.by.is_empty() && has_short_ends(cell) {
        parts.push(regex(SHORT_WHOLE));
    }
    if style != Style::Whole {
        parts.extend(cell.low.map(|(low, own)| Expr::Regex(from(low, own))));
        parts.extend(cell.high.map(|(high, own)| Expr::Regex(up_to(high, own))));
    }
    Expr::All(parts)
}

/// Whether the numbers are those that are greater than 0, or 0 as well: their sign tells, whatever the exponent.
fn is_from_zero(cell: &Cell) -> bool {
    cell.low.is_some_and(|(n, _)| n.digits == 0) && cell.high.is_none() && cell.by.is_empty()
}

/// Whether the ends are among the numbers. Rounding takes no number beyond such an end.
fn has_own_ends(cell: &Cell) -> bool {
    [cell.low, cell.high].iter().all(|end| end.is_none_or(|(_, own)| own))
}

/// Numbers without exponent: as many digits as readers tell apart, or (`may_round`) take in, where the ends have no more.
fn plain(cell: &Cell, may_round: bool) -> &'static str {
    match has_short_ends(cell) {
        true if may_round => SPELLED,
        true => told_apart(),
        false => PLAIN,
    }
}

/// Whether the ends have no more digits than 64-bit floats tell apart.
fn has_short_ends(cell: &Cell) -> bool {
    let most = Decimal::new(power(14), 0);
    [cell.low, cell.high]
        .iter()
        .all(|end| end.is_none_or(|(n, _)| opposite(most) < n && n < most && n.scale < 15))
}

/// Whether numbers close to those of the cell are none of them, and there is room between its ends for such as are not close.
fn excludes(cell: &Cell, style: Style) -> bool {
    let far = Decimal::new(1_000_000_000, 0);
    let [low, high] = [cell.low, cell.high].map(|end| end.map(|(n, _)| n));
    let is_near = low.is_none_or(|n| n < far) && high.is_none_or(|n| opposite(far) < n);
    // Multiples of one number are up to 10,000 apart.
    let room = if cell.by.iter().any(|(_, yes)| *yes) { 20_000 } else { 1 };
    let is_wide = low.zip(high).is_none_or(|(low, high)| high.floor() - low.floor() > room);
    is_near && is_wide && (style == Style::Fraction || cell.by.iter().any(|(_, yes)| !yes))
}

/// Whole numbers from one to another.
fn whole(low: Option<i128>, high: Option<i128>) -> String {
    let negative = low.is_none_or(|n| n < 0).then(|| {
        let least = high.map_or(1, |n| (-n).max(1));
        format!("-(?:{})", unsigned(least, low.map(|n| -n)))
    });
    let others = high.is_none_or(|n| n >= 0).then(|| unsigned(low.map_or(0, |n| n.max(0)), high));
    negative.into_iter().chain(others).collect::<Vec<_>>().join("|")
}

/// The same without sign.
fn unsigned(low: i128, high: Option<i128>) -> String {
    let width = |n: i128| n.to_string().len() as u32;
    let last = width(high.unwrap_or(low));
    let of_width = |width: u32| {
        let least = if width == 1 { 0 } else { power(width - 1) };
        let most = power(width) - 1;
        between(&low.max(least).to_string(), &high.map_or(most, |n| n.min(most)).to_string())
    };
    let longer = high.is_none().then(|| format!("[1-9][0-9]{{{last},}}"));
    (width(low)..=last).map(of_width).chain(longer).collect::<Vec<_>>().join("|")
}

/// From one to another of as many digits.
fn between(low: &str, high: &str) -> String {
    let (least, most) = ("0".repeat(low.len()), "9".repeat(low.len()));
    if low == least && high == most {
        return format!("[0-9]{{{}}}", low.len());
    }
    let (a, b) = (low.as_bytes()[0] - b'0', high.as_bytes()[0] - b'0');
    if a == b {
        return format!("{a}(?:{})", between(&low[1..], &high[1..]));
    }
    let any = format!("[0-9]{{{}}}", low.len() - 1);
    let ends = [(a, between(&low[1..], &most[1..])), (b, between(&least[1..], &high[1..]))];
    // First digits behind which any others may stand.
    let (from, to) = (a + u8::from(ends[0].1 != any), b - u8::from(ends[1].1 != any));
    let others = ends.iter().filter(|(_, rest)| *rest != any);
    let mut ways: Vec<String> = others.map(|(first, rest)| format!("{first}(?:{rest})")).collect();
    if from <= to {
        ways.push(format!("[{from}-{to}]{any}"));
    }
    ways.join("|")
}

fn opposite(n: Decimal) -> Decimal {
    Decimal { digits: -n.digits, scale: n.scale }
}

fn from(low: Decimal, own: bool) -> String {
    if low.digits >= 0 {
        at_least(low, own)
    } else {
        format!("{UNSIGNED}|-(?:{})", at_most(opposite(low), own))
    }
}

fn up_to(high: Decimal, own: bool) -> String {
    match high.digits {
        n if n > 0 || (n == 0 && own) => format!("-{UNSIGNED}|{}", at_most(high, own)),
        _ => format!("-(?:{})", at_least(opposite(high), own)),
    }
}

/// Numbers without sign from this one on: with a greater whole part, or with a greater digit after the same ones. Like
/// [`at_most`], it is for texts that are numbers: others may match.
fn at_least(n: Decimal, own: bool) -> String {
    let (whole, fraction) = n.texts();
    let mut ways = vec![format!("(?:{}){ANY_FRACTION}", unsigned(n.floor() + 1, None))];
    for (at, digit) in digits(&fraction).filter(|(_, digit)| *digit < 9) {
        ways.push(format!(r"{whole}\.{}[{}-9][0-9]*", &fraction[..at], digit + 1));
    }
    ways.push(match own {
        true if fraction.is_empty() => format!("{whole}{ANY_FRACTION}"),
        true => format!(r"{whole}\.{fraction}[0-9]*"),
        false => format!(r"{whole}\.{fraction}[0-9]*[1-9][0-9]*"),
    });
    ways.join("|")
}

/// Numbers without sign up to this one.
fn at_most(n: Decimal, own: bool) -> String {
    let (whole, fraction) = n.texts();
    let mut ways = Vec::new();
    if n.floor() > 0 {
        ways.push(format!("(?:{}){ANY_FRACTION}", unsigned(0, Some(n.floor() - 1))));
    }
    if own || !n.is_whole() {
        ways.push(whole.clone());
    }
    for (at, digit) in digits(&fraction) {
        let head = format!(r"{whole}\.{}", &fraction[..at]);
        ways.extend((digit > 0).then(|| format!("{head}[0-{}][0-9]*", digit - 1)));
        ways.push(head);
    }
    if own {
        ways.push(format!(r"{whole}\.{fraction}0*"));
    }
    ways.join("|")
}

fn digits(text: &str) -> impl Iterator<Item = (usize, u8)> + '_ {
    text.bytes().map(|b| b - b'0').enumerate()
}

#[cfg(test)]
mod tests {
    use super::*;
    use llguidance::derivre::Regex;

    #[test]
    fn bounds_hold_for_every_way_to_write_a_number() {
        let numbers: Vec<Decimal> =
            [-1000, -999, -105, -10, -9, -1, 0, 1, 5, 9, 10, 95, 100, 105, 999, 1000, 12345]
                .iter()
                .flat_map(|n| (0..=3).map(|scale| Decimal::new(*n, scale)))
                .collect();
        for bound in &numbers {
            for own in [true, false] {
                let mut low = Regex::new(&format!("(?:{PLAIN})")).unwrap();
                let mut at_least = Regex::new(&from(*bound, own)).unwrap();
                let mut at_most = Regex::new(&up_to(*bound, own)).unwrap();
                for n in &numbers {
                    let zeros = if n.is_whole() { ".00" } else { "00" };
                    for text in [n.text(), format!("{}{zeros}", n.text())] {
                        assert!(low.is_match(&text));
                        assert_eq!(
                            at_least.is_match(&text),
                            n > bound || (own && n == bound),
                            "{text} from {bound:?}"
                        );
                        assert_eq!(
                            at_most.is_match(&text),
                            n < bound || (own && n == bound),
                            "{text} to {bound:?}"
                        );
                    }
                }
            }
        }
        assert!(!Regex::new(&up_to(Decimal::new(0, 0), false)).unwrap().is_match("-0"));
    }

    #[test]
    fn whole_numbers_between_bounds() {
        let numbers = [-1000, -999, -21, -10, -9, -1, 0, 1, 5, 9, 10, 12, 95, 100, 105, 999, 1000, 12345];
        let ends: Vec<Option<i128>> = numbers.iter().copied().map(Some).chain([None]).collect();
        for low in &ends {
            for high in ends.iter().filter(|high| low.zip(**high).is_none_or(|(a, b)| a <= b)) {
                let mut rx = Regex::new(&whole(*low, *high)).unwrap();
                for n in numbers {
                    let within = low.is_none_or(|a| a <= n) && high.is_none_or(|b| n <= b);
                    assert_eq!(rx.is_match(&n.to_string()), within, "{n} in {low:?}..{high:?}");
                }
            }
        }
    }
}
