//! Sets of numbers: intervals with exact decimal ends, and what divides the numbers in them.
//!
//! Integers and other numbers are kept apart, as the types `integer` and `number` do.

use serde_json::Number;
use std::cmp::Ordering;

/// More digits than this before or after the decimal point are not computed with.
const MAX_DIGITS: u32 = 36;

/// Why a number is refused.
pub(super) const TOO_LONG: &str = "has more digits than can be computed with: round it";

/// `digits` / 10^`scale`, with the smallest scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    pub(super) digits: i128,
    pub(super) scale: u32,
}

fn power(n: u32) -> i128 {
    10i128.pow(n)
}

impl Decimal {
    pub(super) fn new(mut digits: i128, mut scale: u32) -> Self {
        while scale > 0 && digits % 10 == 0 {
            digits /= 10;
            scale -= 1;
        }
        Decimal { digits, scale }
    }

    /// The number exactly; None where it has too many digits.
    pub(super) fn parse(number: &Number) -> Option<Self> {
        let text = number.to_string();
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent = exponent.trim_start_matches('+').parse::<i64>().ok()?;
        let mut scale = fraction.len() as i64 - exponent;
        let mut digits = format!("{whole}{fraction}").parse::<i128>().ok()?;
        while digits != 0 && digits % 10 == 0 {
            digits /= 10;
            scale -= 1;
        }
        if digits == 0 {
            return Some(Decimal::new(0, 0));
        }
        if !(-i64::from(MAX_DIGITS)..=i64::from(MAX_DIGITS)).contains(&scale) {
            return None;
        }
        let up = if scale < 0 { power(scale.unsigned_abs() as u32) } else { 1 };
        let found = Decimal::new(digits.checked_mul(up)?, scale.max(0) as u32);
        (found.floor().unsigned_abs() <= power(MAX_DIGITS).unsigned_abs()).then_some(found)
    }

    pub(super) fn is_whole(self) -> bool {
        self.scale == 0
    }

    pub(super) fn floor(self) -> i128 {
        self.digits.div_euclid(power(self.scale))
    }

    fn ceil(self) -> i128 {
        self.floor() + i128::from(!self.is_whole())
    }

    /// The digits before and after the decimal point of the number without its sign.
    pub(super) fn texts(self) -> (String, String) {
        let (digits, one) = (self.digits.unsigned_abs(), power(self.scale).unsigned_abs());
        let fraction = match self.scale {
            0 => String::new(),
            width => format!("{:0width$}", digits % one, width = width as usize),
        };
        ((digits / one).to_string(), fraction)
    }

    pub(super) fn text(self) -> String {
        let (whole, fraction) = self.texts();
        let sign = if self.digits < 0 { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{fraction}")
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let scale = self.scale.max(other.scale);
        let rest = |n: &Decimal| n.digits.rem_euclid(power(n.scale)) * power(scale - n.scale);
        self.floor().cmp(&other.floor()).then_with(|| rest(self).cmp(&rest(other)))
    }
}

/// An end of an interval, and whether it belongs to it.
pub(super) type End = Option<(Decimal, bool)>;

/// An interval, what divides the numbers in it (true), and what doesn't.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Cell {
    pub(super) low: End,
    pub(super) high: End,
    pub(super) by: Vec<(Decimal, bool)>,
}

/// Which numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Whole,
    /// Numbers that are not integers.
    Fraction,
}

impl Cell {
    pub(super) fn point(n: Decimal) -> Self {
        Cell { low: Some((n, true)), high: Some((n, true)), by: Vec::new() }
    }

    /// The one number in it.
    pub(super) fn single(&self) -> Option<Decimal> {
        match (self.low, self.high) {
            (Some((a, true)), Some((b, true))) if a == b && self.by.is_empty() => Some(a),
            _ => None,
        }
    }

    pub(super) fn is_all(&self) -> bool {
        *self == Cell::default()
    }

    /// The same numbers in the one form of it; None where there are none.
    fn tidied(mut self, kind: Kind) -> Option<Cell> {
        if kind == Kind::Whole {
            let up = |(n, own): (Decimal, bool)| n.ceil() + i128::from(n.is_whole() && !own);
            let down = |(n, own): (Decimal, bool)| n.floor() - i128::from(n.is_whole() && !own);
            self.low = self.low.map(|end| (Decimal::new(up(end), 0), true));
            self.high = self.high.map(|end| (Decimal::new(down(end), 0), true));
        }
        if let (Some((low, a)), Some((high, b))) = (self.low, self.high) {
            let point = low == high && !(a && b && (kind == Kind::Whole || !low.is_whole()));
            if low > high || point {
                return None;
            }
        }
        self.by = divisors(&self.by, kind)?;
        if let (Some((n, _)), false) = (self.single_end(), self.by.is_empty()) {
            let holds = self.by.iter().all(|(d, yes)| divides(*d, n) == *yes);
            return holds.then(|| Cell::point(n));
        }
        Some(self)
    }

    fn single_end(&self) -> End {
        self.low.filter(|_| self.low == self.high)
    }

    fn and(&self, other: &Cell) -> Cell {
        let low = match (self.low, other.low) {
            (Some(a), Some(b)) if (b.0, !b.1) > (a.0, !a.1) => Some(b),
            (a, b) => a.or(b),
        };
        let high = match (self.high, other.high) {
            (Some(a), Some(b)) if b < a => Some(b),
            (a, b) => a.or(b),
        };
        let by = self.by.iter().chain(&other.by).copied().collect();
        Cell { low, high, by }
    }

    /// All numbers outside.
    fn outside(&self) -> Vec<Cell> {
        let below = self.low.map(|(n, own)| Cell { high: Some((n, !own)), ..Cell::default() });
        let above = self.high.map(|(n, own)| Cell { low: Some((n, !own)), ..Cell::default() });
        let by = self.by.iter().map(|(d, yes)| Cell { by: vec![(*d, !yes)], ..Cell::default() });
        below.into_iter().chain(above).chain(by).collect()
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether `n` is a multiple of `d`.
pub(super) fn divides(d: Decimal, n: Decimal) -> bool {
    let scale = d.scale.max(n.scale);
    let whole = |n: Decimal| n.digits.checked_mul(power(scale - n.scale));
    whole(n).zip(whole(d)).is_some_and(|(n, d)| n % d == 0)
}

/// The conditions in one form, at most one of them positive; None where nothing satisfies them.
fn divisors(by: &[(Decimal, bool)], kind: Kind) -> Option<Vec<(Decimal, bool)>> {
    let (mut common, mut not): (Option<Decimal>, Vec<Decimal>) = (None, Vec::new());
    for &(d, yes) in by {
        let d = match kind {
            Kind::Whole => Decimal::new(d.digits / gcd(d.digits, power(d.scale)), 0),
            Kind::Fraction => d,
        };
        let (always, never) = match kind {
            Kind::Whole => (d.digits == 1, false),
            Kind::Fraction => (false, d.is_whole()),
        };
        match yes {
            _ if always && yes || never && !yes => {}
            _ if always || never => return None,
            true => common = Some(common.map_or(Some(d), |c| multiple(c, d))?),
            false => not.push(d),
        }
    }
    if common.is_some_and(|c| not.iter().any(|d| divides(*d, c))) {
        return None;
    }
    not.sort();
    not.dedup();
    Some(common.map(|c| (c, true)).into_iter().chain(not.into_iter().map(|d| (d, false))).collect())
}

/// The least common multiple; None where it is too big to tell apart from nothing.
fn multiple(a: Decimal, b: Decimal) -> Option<Decimal> {
    let scale = a.scale.max(b.scale);
    let (a, b) =
        (a.digits.checked_mul(power(scale - a.scale))?, b.digits.checked_mul(power(scale - b.scale))?);
    Some(Decimal::new((a / gcd(a, b)).checked_mul(b)?, scale))
}

/// A set of numbers of one kind.
pub(super) type Cells = Vec<Cell>;

/// All of them.
pub(super) fn everything() -> Cells {
    vec![Cell::default()]
}

/// The set in one form.
pub(super) fn tidy(cells: Cells, kind: Kind) -> Cells {
    let mut cells: Cells = cells.into_iter().filter_map(|c| c.tidied(kind)).collect();
    let ends = |c: &Cell| (c.low.map(|(n, own)| (n, !own)), c.high.map_or((1, None), |h| (0, Some(h))));
    cells.sort_by_key(|c| (c.by.len(), ends(c)));
    cells.dedup();
    let mut out: Cells = Vec::new();
    for cell in cells {
        match out.last_mut() {
            Some(last) if last.by.is_empty() && cell.by.is_empty() && touches(last, &cell, kind) => {
                last.high = match (last.high, cell.high) {
                    (Some(a), Some(b)) => Some(a.max(b)),
                    _ => None,
                };
            }
            _ => out.push(cell),
        }
    }
    out
}

/// Whether no number of the kind is between the two; `b` does not begin before `a`.
fn touches(a: &Cell, b: &Cell, kind: Kind) -> bool {
    let (Some((high, x)), Some((low, y))) = (a.high, b.low) else { return true };
    // An integer that is missing between fractions is not missed.
    let joined = x || y || (kind == Kind::Fraction && low.is_whole());
    low < high || (low == high && joined) || (kind == Kind::Whole && low.digits == high.digits + 1)
}

pub(super) fn and(a: &Cells, b: &Cells, kind: Kind) -> Cells {
    if a.len() == 1 && a[0].is_all() {
        return b.clone();
    }
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| x.and(y)));
    tidy(pairs.collect(), kind)
}

pub(super) fn or(a: &Cells, b: &Cells, kind: Kind) -> Cells {
    tidy(a.iter().chain(b).cloned().collect(), kind)
}

pub(super) fn not(a: &Cells, kind: Kind) -> Cells {
    // What lies between intervals that are in order is read off; only conditions on divisors are multiplied out.
    let (plain, by): (Cells, Cells) = a.iter().cloned().partition(|c| c.by.is_empty());
    let mut gaps = Vec::new();
    let mut low = None;
    for cell in &plain {
        if let Some((n, own)) = cell.low {
            gaps.push(Cell { low, high: Some((n, !own)), by: Vec::new() });
        }
        low = cell.high.map(|(n, own)| (n, !own));
    }
    if low.is_some() || plain.is_empty() {
        gaps.push(Cell { low, high: None, by: Vec::new() });
    }
    by.iter().fold(tidy(gaps, kind), |rest, cell| and(&rest, &tidy(cell.outside(), kind), kind))
}

/// The numbers one by one, where there are at most so many.
pub(super) fn listed(cells: &Cells, kind: Kind, most: usize) -> Option<Vec<Decimal>> {
    let mut list = Vec::new();
    for cell in cells {
        match (cell.single(), cell.low, cell.high) {
            (Some(n), ..) => list.push(n),
            (_, Some((low, _)), Some((high, _))) if kind == Kind::Whole && cell.by.is_empty() => {
                let ends = low.digits..=high.digits;
                list.extend(ends.take(most + 1).map(|n| Decimal::new(n, 0)));
            }
            _ => return None,
        }
    }
    (list.len() <= most).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decimal(text: &str) -> Decimal {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        Decimal::parse(value.as_number().unwrap()).unwrap()
    }

    fn holds(cells: &Cells, n: Decimal) -> bool {
        let within = |c: &Cell| {
            let low = c.low.is_none_or(|(l, own)| l < n || (own && l == n));
            let high = c.high.is_none_or(|(h, own)| n < h || (own && n == h));
            low && high && c.by.iter().all(|(d, yes)| divides(*d, n) == *yes)
        };
        cells.iter().any(within)
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal("-1.50"), Decimal { digits: -15, scale: 1 });
        assert_eq!(decimal("1e3").text(), "1000");
        assert_eq!(decimal("25e-4").text(), "0.0025");
        assert!(Decimal::parse(json!(1e300).as_number().unwrap()).is_none());
        assert!(decimal("-1.5") < decimal("-1.25") && decimal("0.1") < decimal("0.25"));
    }

    #[test]
    fn and_or_not_agree_with_membership() {
        let cell = |low: &str, high: &str, by: &[(&str, bool)]| Cell {
            low: Some((decimal(low), true)),
            high: Some((decimal(high), false)),
            by: by.iter().map(|(d, yes)| (decimal(d), *yes)).collect(),
        };
        let sets = [
            vec![cell("1", "7.5", &[])],
            vec![cell("-2", "3", &[("1.5", true)]), Cell::point(decimal("4"))],
            vec![cell("0", "9", &[("2", false)])],
            everything(),
            Vec::new(),
        ];
        for kind in [Kind::Whole, Kind::Fraction] {
            let sets: Vec<Cells> = sets.iter().cloned().map(|s| tidy(s, kind)).collect();
            let numbers =
                (-30..100).map(|n| Decimal::new(n, 1)).filter(|n| n.is_whole() == (kind == Kind::Whole));
            for n in numbers {
                for a in &sets {
                    assert_eq!(holds(&not(a, kind), n), !holds(a, n), "not {a:?} at {n:?}");
                    for b in &sets {
                        assert_eq!(
                            holds(&and(a, b, kind), n),
                            holds(a, n) && holds(b, n),
                            "{a:?} {b:?} {n:?}"
                        );
                        assert_eq!(
                            holds(&or(a, b, kind), n),
                            holds(a, n) || holds(b, n),
                            "{a:?} {b:?} {n:?}"
                        );
                    }
                }
            }
        }
    }
}
