//! Caps on what schemas make together: parts that hold of the same value are multiplied out by the compiler.

use super::caps::{MAX_BRANCHES, MAX_DIVISORS, MAX_OPTIONAL, coefficient, optional};
use super::keywords::{inner, step};
use super::refs::{Refs, Target};
use super::refuse;
use crate::error::Result;
use serde_json::Value;
use std::collections::HashMap;

/// What a schema and all that holds of the same value amount to.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Optional properties of one object, its parts put together.
    optional: usize,
    /// Alternatives that a parser row holds side by side.
    branches: usize,
    /// The number by which divisibility is tested.
    divisor: f64,
    /// The sum of such numbers over the alternatives.
    divisors: f64,
}

const NOTHING: Size = Size { optional: 0, branches: 1, divisor: 1.0, divisors: 0.0 };

struct Sizes<'a> {
    root: &'a Value,
    refs: &'a Refs<'a>,
    known: HashMap<String, Size>,
}

/// Refuses what would be too big once multiplied out; the sum of the divisors. `reached`: pointers of the schemas that are
/// used.
pub(super) fn check(root: &Value, refs: &Refs<'_>, reached: &[String]) -> Result<f64> {
    let mut sizes = Sizes { root, refs, known: HashMap::new() };
    let mut divisors = 0.0;
    for pointer in reached {
        let size = sizes.of(pointer);
        let refuse = |keyword: &str, why: String| Err(refuse(pointer, keyword, why));
        if size.optional > MAX_OPTIONAL {
            return refuse(
                "properties",
                format!("more than {MAX_OPTIONAL} optional properties, all parts together"),
            );
        }
        if size.branches > MAX_BRANCHES {
            return refuse("anyOf", format!("more than {MAX_BRANCHES} alternatives, nested ones included"));
        }
        if size.divisor > MAX_DIVISORS {
            return refuse("multipleOf", format!("divisors that multiply to more than {MAX_DIVISORS}"));
        }
        if !is_part(pointer) {
            divisors += size.divisors;
        }
        if divisors > MAX_DIVISORS {
            return refuse(
                "multipleOf",
                format!("the digits of all divisors sum up to more than {MAX_DIVISORS}"),
            );
        }
    }
    Ok(divisors)
}

/// Whether the schema only adds to the one around it.
fn is_part(pointer: &str) -> bool {
    let mut steps = pointer.rsplit('/').skip(1);
    matches!(steps.next(), Some("allOf" | "anyOf" | "oneOf"))
}

impl Sizes<'_> {
    fn of(&mut self, pointer: &str) -> Size {
        if let Some(size) = self.known.get(pointer) {
            return *size;
        }
        // Where a schema leads back to itself, it adds nothing the second time.
        self.known.insert(pointer.to_owned(), NOTHING);
        let size = self.measure(pointer).unwrap_or(NOTHING);
        self.known.insert(pointer.to_owned(), size);
        size
    }

    fn measure(&mut self, pointer: &str) -> Option<Size> {
        let map = self.root.pointer(pointer)?.as_object()?;
        let own = map.get("multipleOf").map_or(1.0, coefficient);
        let mut size = Size {
            optional: optional(map),
            branches: 1,
            divisor: own,
            divisors: if own > 1.0 { own } else { 0.0 },
        };
        let all = step(pointer, "allOf");
        let mut together: Vec<String> = inner(pointer, map)
            .into_iter()
            .map(|(p, _)| p)
            .filter(|p| p.starts_with(&format!("{all}/")))
            .collect();
        if let Some(text) = map.get("$ref").and_then(Value::as_str)
            && let Target::Here(target) = self.refs.resolve(pointer, text)
        {
            together.push(target);
        }
        for part in together {
            size = size.and(self.of(&part));
        }
        for key in ["anyOf", "oneOf"] {
            let count = map.get(key).and_then(Value::as_array).map_or(0, Vec::len);
            let sum = (0..count).map(|i| self.of(&format!("{pointer}/{key}/{i}"))).reduce(Size::or);
            size = sum.map_or(size, |sum| size.and(sum));
        }
        Some(size)
    }
}

impl Size {
    fn and(self, other: Size) -> Size {
        Size {
            optional: self.optional + other.optional,
            branches: self.branches.max(other.branches),
            divisor: self.divisor * other.divisor,
            divisors: match (self.divisors, other.divisors) {
                (a, b) if a > 0.0 && b > 0.0 => a * b,
                (a, b) => a + b,
            },
        }
    }

    fn or(self, other: Size) -> Size {
        Size {
            optional: self.optional.max(other.optional),
            branches: self.branches + other.branches,
            divisor: self.divisor.max(other.divisor),
            divisors: self.divisors + other.divisors,
        }
    }
}
