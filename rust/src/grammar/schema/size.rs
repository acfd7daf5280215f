//! Caps on what schemas make together: parts that hold of the same value are multiplied out by the compiler.

use super::arena::{Arena, Id, Target};
use super::caps::{MAX_BRANCHES, MAX_DIVISORS, MAX_OPTIONAL, coefficient, optional};
use super::refuse;
use crate::error::Result;
use serde_json::{Map, Value};

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
    arena: &'a Arena<'a>,
    known: Vec<Option<Size>>,
}

/// Refuses what would be too big once multiplied out; the sum of the divisors. `reached`: the schemas that are used.
pub(super) fn check(arena: &Arena<'_>, reached: &[Id]) -> Result<f64> {
    let mut sizes = Sizes { arena, known: vec![None; arena.ids().len()] };
    let mut divisors = 0.0;
    for id in reached {
        let (size, pointer) = (sizes.of(*id), &arena[*id].pointer);
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
    fn of(&mut self, id: Id) -> Size {
        if let Some(size) = self.known[id] {
            return size;
        }
        // Where a schema leads back to itself, it adds nothing the second time.
        self.known[id] = Some(NOTHING);
        let size = self.arena[id].map().map_or(NOTHING, |map| self.measure(id, map));
        self.known[id] = Some(size);
        size
    }

    fn measure(&mut self, id: Id, map: &Map<String, Value>) -> Size {
        let arena = self.arena;
        let own = map.get("multipleOf").map_or(1.0, coefficient);
        let mut size = Size {
            optional: optional(map),
            branches: 1,
            divisor: own,
            divisors: if own > 1.0 { own } else { 0.0 },
        };
        for (_, part) in arena.inside(id, "allOf") {
            size = size.and(self.of(*part));
        }
        if let Some(Target::Here(target)) = arena[id].reference {
            size = size.and(self.of(target));
        }
        for key in ["anyOf", "oneOf"] {
            let sum = arena.inside(id, key).iter().map(|(_, part)| self.of(*part)).reduce(Size::or);
            size = sum.map_or(size, |sum| size.and(sum));
        }
        size
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
