//! Decimal numbers, exactly, and what divides them.

use serde_json::Number;
use std::cmp::Ordering;

/// More digits than this before or after the decimal point are not computed with.
const MAX_DIGITS: u32 = 36;

/// Why a number is refused.
pub(crate) const TOO_LONG: &str = "has more digits than can be computed with: round it";

/// `digits` / 10^`scale`, with the smallest scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Decimal {
    pub(crate) digits: i128,
    pub(crate) scale: u32,
}

/// An end of an interval, and whether it belongs to it.
pub(crate) type End = Option<(Decimal, bool)>;

pub(crate) fn power(n: u32) -> i128 {
    10i128.pow(n)
}

impl Decimal {
    pub(crate) fn new(mut digits: i128, mut scale: u32) -> Self {
        while scale > 0 && digits % 10 == 0 {
            digits /= 10;
            scale -= 1;
        }
        Decimal { digits, scale }
    }

    /// The number exactly; None where it has too many digits.
    pub(crate) fn parse(number: &Number) -> Option<Self> {
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

    pub(crate) fn is_whole(self) -> bool {
        self.scale == 0
    }

    pub(crate) fn floor(self) -> i128 {
        self.digits.div_euclid(power(self.scale))
    }

    pub(crate) fn ceil(self) -> i128 {
        self.floor() + i128::from(!self.is_whole())
    }

    /// The digits before and after the decimal point of the number without its sign.
    pub(crate) fn texts(self) -> (String, String) {
        let (digits, one) = (self.digits.unsigned_abs(), power(self.scale).unsigned_abs());
        let fraction = match self.scale {
            0 => String::new(),
            width => format!("{:0width$}", digits % one, width = width as usize),
        };
        ((digits / one).to_string(), fraction)
    }

    pub(crate) fn text(self) -> String {
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

pub(crate) fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The digits of both at one scale, and the scale; None where they are too many.
pub(crate) fn aligned(a: Decimal, b: Decimal) -> Option<(i128, i128, u32)> {
    let scale = a.scale.max(b.scale);
    let digits = |n: Decimal| n.digits.checked_mul(power(scale - n.scale));
    Some((digits(a)?, digits(b)?, scale))
}

/// Whether `n` is a multiple of `d`.
pub(crate) fn divides(d: Decimal, n: Decimal) -> bool {
    aligned(n, d).is_some_and(|(n, d, _)| n % d == 0)
}

/// The least common multiple; None where it is too big to tell apart from nothing.
pub(crate) fn multiple(a: Decimal, b: Decimal) -> Option<Decimal> {
    let (a, b, scale) = aligned(a, b)?;
    Some(Decimal::new((a / gcd(a, b)).checked_mul(b)?, scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn decimal(text: &str) -> Decimal {
        let value: Value = serde_json::from_str(text).unwrap();
        Decimal::parse(value.as_number().unwrap()).unwrap()
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal("-1.50"), Decimal { digits: -15, scale: 1 });
        assert_eq!(decimal("1e3").text(), "1000");
        assert_eq!(decimal("25e-4").text(), "0.0025");
        assert!(Decimal::parse(json!(1e300).as_number().unwrap()).is_none());
        assert!(decimal("-1.5") < decimal("-1.25") && decimal("0.1") < decimal("0.25"));
    }
}
