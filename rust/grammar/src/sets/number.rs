//! Sets of numbers: intervals with exact decimal ends, and what divides the numbers in them.
//!
//! Integers and other numbers are kept apart, as the types `integer` and `number` do.

use super::bits::{Bits, bits, has, is_within};
use crate::written::decimal::{Decimal, End, aligned, divides, gcd, multiple, power};
use std::collections::{BTreeMap, BTreeSet};

/// So many multiples are looked at for one that is none of something else.
const MAX_STEPS: i128 = 10_000;

/// Most combinations of divisors by which an interval is split.
const MOST_PARTS: usize = 1_000;

/// An interval, what divides the numbers in it (true), and what doesn't.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Cell {
    pub(crate) low: End,
    pub(crate) high: End,
    pub(crate) by: Vec<(Decimal, bool)>,
}

/// Which numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Whole,
    /// Numbers that are not integers.
    Fraction,
}

impl Cell {
    pub(crate) fn point(n: Decimal) -> Self {
        Cell { low: Some((n, true)), high: Some((n, true)), by: Vec::new() }
    }

    /// The one number in it.
    pub(crate) fn single(&self) -> Option<Decimal> {
        match (self.low, self.high) {
            (Some((a, true)), Some((b, true))) if a == b && self.by.is_empty() => Some(a),
            _ => None,
        }
    }

    pub(crate) fn is_all(&self) -> bool {
        *self == Cell::default()
    }

    /// Whether the number is between the ends, which belong to the cell.
    pub(crate) fn spans(&self, n: Decimal) -> bool {
        self.low.is_none_or(|(low, _)| low <= n) && self.high.is_none_or(|(high, _)| n <= high)
    }

    /// Whether the number keeps the conditions.
    fn keeps(&self, n: Decimal) -> bool {
        self.by.iter().all(|(d, yes)| divides(*d, n) == *yes)
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
        if !self.by.is_empty() {
            let first = self.low.and_then(|(n, own)| self.nearest(n, own, 1, kind));
            let last = self.high.and_then(|(n, own)| self.nearest(n, own, -1, kind));
            if first.zip(last).is_some_and(|(first, last)| first > last) {
                return None;
            }
            if kind == Kind::Whole {
                self.low = first.map(|n| (n, true)).or(self.low);
                self.high = last.map(|n| (n, true)).or(self.high);
            }
        }
        match (self.low, self.high) {
            (Some((n, true)), Some((m, true))) if n == m => self.keeps(n).then(|| Cell::point(n)),
            _ => Some(self),
        }
    }

    /// The number nearest to this one, upwards or downwards, that keeps the conditions; None where it is not soon found.
    fn nearest(&self, n: Decimal, own: bool, way: i128, kind: Kind) -> Option<Decimal> {
        let step = match (self.by.first(), kind) {
            (Some((d, true)), _) => *d,
            (_, Kind::Whole) => Decimal::new(1, 0),
            _ => return None,
        };
        let (digits, size, _) = aligned(n, step)?;
        let mut times = digits.div_euclid(size);
        if way > 0 && (digits % size != 0 || !own) || way < 0 && digits % size == 0 && !own {
            times += way;
        }
        let number = |i: i128| Some(Decimal::new((times + way * i).checked_mul(step.digits)?, step.scale));
        let is_kept = |n: &Decimal| (kind == Kind::Whole || !n.is_whole()) && self.keeps(*n);
        (0..MAX_STEPS).map_while(number).find(is_kept)
    }

    /// The least common multiple of what divides the numbers and what doesn't, in digits: an automaton has as many states.
    pub(crate) fn states(&self) -> i128 {
        let multiple = |a: i128, d: &(Decimal, bool)| (a / gcd(a, d.0.digits)).saturating_mul(d.0.digits);
        self.by.iter().fold(1, multiple)
    }

    fn and(&self, other: &Cell) -> Cell {
        let low = [self.low, other.low].into_iter().flatten().max_by_key(|(n, own)| (*n, !own));
        let high = [self.high, other.high].into_iter().flatten().min();
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

/// The conditions in one form, at most one of them positive; None where nothing satisfies them.
fn divisors(by: &[(Decimal, bool)], kind: Kind) -> Option<Vec<(Decimal, bool)>> {
    let (mut common, mut not): (Option<Decimal>, BTreeSet<Decimal>) = (None, BTreeSet::new());
    for &(d, yes) in by {
        // All whole numbers are multiples of 1, and no others are multiples of a whole number.
        let whole = Decimal::new(d.digits / gcd(d.digits, power(d.scale)), 0);
        let (d, is_settled) = match kind {
            Kind::Whole => (whole, whole.digits == 1),
            Kind::Fraction => (d, d.is_whole()),
        };
        match yes {
            _ if is_settled && yes == (kind == Kind::Whole) => {}
            _ if is_settled => return None,
            true => common = Some(common.map_or(Some(d), |c| multiple(c, d))?),
            false => not.extend([d]),
        }
    }
    if common.is_some_and(|c| not.iter().any(|d| divides(*d, c))) {
        return None;
    }
    Some(common.map(|c| (c, true)).into_iter().chain(not.into_iter().map(|d| (d, false))).collect())
}

/// A set of numbers of one kind.
pub(crate) type Cells = Vec<Cell>;

/// All of them.
pub(crate) fn everything() -> Cells {
    vec![Cell::default()]
}

/// The set in one form.
pub(crate) fn tidy(cells: Cells, kind: Kind) -> Cells {
    let mut cells: Cells = cells.into_iter().filter_map(|c| c.tidied(kind)).collect();
    let ends = |c: &Cell| (c.low.map(|(n, own)| (n, !own)), c.high.map_or((1, None), |h| (0, Some(h))));
    cells.sort_by_key(|c| (c.by.len(), ends(c)));
    cells.dedup();
    let mut out: Cells = Vec::new();
    for cell in cells {
        match out.last_mut() {
            Some(last) if last.by.is_empty() && cell.by.is_empty() && touches(last, &cell, kind) => {
                last.high = last.high.zip(cell.high).map(|(a, b)| a.max(b));
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

pub(crate) fn and(a: &Cells, b: &Cells, kind: Kind) -> Cells {
    if a.len() == 1 && a[0].is_all() {
        return b.clone();
    }
    let pairs = a.iter().flat_map(|x| b.iter().map(move |y| x.and(y)));
    tidy(pairs.collect(), kind)
}

pub(crate) fn or(a: &Cells, b: &Cells, kind: Kind) -> Cells {
    tidy(a.iter().chain(b).cloned().collect(), kind)
}

pub(crate) fn not(a: &Cells, kind: Kind) -> Cells {
    // What lies between intervals that are in order is read off; only conditions on divisors are multiplied out.
    let (plain, by): (Cells, Cells) = a.iter().cloned().partition(|c| c.by.is_empty());
    let (mut gaps, mut low) = (Vec::new(), None);
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

/// The numbers of the first set by the sets that they are in. Each class is in the sets of its bits; its numbers that are in more
/// sets are in another class, too. None where too many combinations of divisors tell them apart.
pub(crate) fn split(sets: &[&Cells], kind: Kind) -> Option<Vec<(Cells, Bits)>> {
    // A place between numbers: before one, or (true) behind it.
    let low = |cell: &Cell| cell.low.map(|(n, own)| (n, !own));
    let places = sets.iter().copied().flatten().flat_map(|cell| [low(cell), cell.high]);
    let places: BTreeSet<(Decimal, bool)> = places.flatten().collect();
    let places: Vec<_> = [None].into_iter().chain(places.into_iter().map(Some)).chain([None]).collect();
    let mut rows = BTreeMap::<Bits, Cells>::new();
    for (from, to) in places.iter().copied().zip(places[1..].iter().copied()) {
        let is_over =
            |cell: &&Cell| low(cell) <= from && cell.high.is_none_or(|high| to.is_some_and(|to| to <= high));
        let over = |set: &Cells| -> Cells {
            // Cells without divisors come first, in order: at most one of them is over the interval.
            let (plain, by) = set.split_at(set.partition_point(|cell| cell.by.is_empty()));
            let last = plain[..plain.partition_point(|cell| low(cell) <= from)].last();
            last.into_iter().chain(by).filter(is_over).cloned().collect()
        };
        let over: Vec<Cells> = sets.iter().map(|set| over(set)).collect();
        let divisors: BTreeSet<Decimal> =
            over.iter().flatten().flat_map(|c| &c.by).map(|(d, _)| *d).collect();
        let mut parts = vec![Cell { low: from.map(|(n, behind)| (n, !behind)), high: to, by: Vec::new() }];
        for d in divisors {
            let both = |part: Cell| {
                [true, false].map(|yes| Cell { by: [&part.by[..], &[(d, yes)]].concat(), ..part.clone() })
            };
            parts =
                parts.into_iter().flat_map(both).filter(|part| part.clone().tidied(kind).is_some()).collect();
            if parts.len() > MOST_PARTS {
                return None;
            }
        }
        for part in parts {
            let keeps = |cell: &Cell| cell.by.iter().all(|condition| part.by.contains(condition));
            let row = bits(over.iter().map(|cells| cells.iter().any(keeps)));
            rows.entry(row).or_default().extend(part.clone().tidied(kind));
        }
    }
    let all = |row: &Bits| {
        let more = rows.iter().filter(|(other, _)| is_within(row, other));
        tidy(more.flat_map(|(_, cells)| cells).cloned().collect(), kind)
    };
    let classes = rows.iter().filter(|(row, cells)| has(row, 0) && !cells.is_empty());
    Some(classes.map(|(row, _)| (all(row), row.clone())).collect())
}

/// Numbers that are looked at for each that may be listed.
const LOOKED_AT: usize = 64;

/// The numbers one by one, where there are at most so many.
pub(crate) fn listed(cells: &[Cell], kind: Kind, most: usize) -> Option<Vec<Decimal>> {
    let mut list = Vec::new();
    for cell in cells {
        match (cell.single(), cell.low, cell.high) {
            (Some(n), ..) => list.push(n),
            (_, Some((low, _)), Some((high, _))) if kind == Kind::Whole => {
                let step = cell.by.first().filter(|(_, yes)| *yes).map_or(1, |(d, _)| d.digits);
                let size = usize::try_from(step).ok()?;
                // Conditions may leave few of many.
                if (high.digits - low.digits) / step > (LOOKED_AT * most) as i128 {
                    return None;
                }
                let all = (low.digits..=high.digits).step_by(size).map(|n| Decimal::new(n, 0));
                list.extend(all.filter(|n| cell.keeps(*n)).take(most + 1));
            }
            _ => return None,
        }
    }
    (list.len() <= most).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

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
