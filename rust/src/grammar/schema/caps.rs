//! Caps on schemas: llguidance bounds neither the time nor the stack of a compilation, and nothing stops one. Parts that
//! hold of the same value are multiplied out by it.

use super::arena::{Arena, Id, Target};
use super::refuse;
use crate::error::Result;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Deepest nesting of the JSON text.
const MAX_DEPTH: usize = 100;
/// Each optional property takes four items of a parser row, which holds 2,000: with more, generation dies at the first
/// key.
const MAX_OPTIONAL: usize = 450;
/// Each branch takes an item of the row.
const MAX_BRANCHES: usize = 1_500;
/// They are compared in pairs: 300 take 4.7 s.
const MAX_PATTERNS: usize = 50;
/// 40,000 take 0.23 s.
const MAX_ENUM: usize = 50_000;
/// Divisibility by n is an automaton of n states: 9,973 take 60 ms, a hundred of about 9,000 take 6.7 s.
pub(super) const MAX_DIVISORS: f64 = 10_000.0;

/// Refuses what is nested so deeply that to read it would take too much of the stack.
pub(super) fn check_depth(root: &Value) -> Result<()> {
    if depth(root) > MAX_DEPTH {
        return Err(refuse("", "schema", format!("nested deeper than {MAX_DEPTH}")));
    }
    Ok(())
}

/// Refuses what would take too long or too much to compile, whether it is used or not; [`together`] judges what is.
pub(super) fn each(arena: &Arena<'_>) -> Result<()> {
    let mut objects = arena.ids().filter_map(|id| Some((&arena[id].pointer, arena[id].map()?)));
    objects.try_for_each(|(pointer, map)| sizes(pointer, map))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn sizes(pointer: &str, map: &Map<String, Value>) -> Result<()> {
    let len = |key: &str| match map.get(key) {
        Some(Value::Array(list)) => list.len(),
        Some(Value::Object(map)) => map.len(),
        _ => 0,
    };
    let limits = [
        ("anyOf", MAX_BRANCHES),
        ("oneOf", MAX_BRANCHES),
        ("allOf", MAX_BRANCHES),
        ("enum", MAX_ENUM),
        ("patternProperties", MAX_PATTERNS),
    ];
    if let Some((key, most)) = limits.iter().find(|(key, most)| len(key) > *most) {
        return Err(refuse(pointer, key, format!("more than {most} entries")));
    }
    Ok(())
}

/// Properties of the schema that it does not require.
fn optional(map: &Map<String, Value>) -> usize {
    let Some(properties) = map.get("properties").and_then(Value::as_object) else { return 0 };
    let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: HashSet<_> = required.filter_map(Value::as_str).collect();
    properties.keys().filter(|name| !required.contains(name.as_str())).count()
}

/// The divisor without its decimal point, as the automaton counts it.
fn coefficient(divisor: &Value) -> f64 {
    let mut n = divisor.as_f64().unwrap_or(0.0).abs();
    let mut digits = 0;
    while n.fract() != 0.0 && digits < 17 {
        n *= 10.0;
        digits += 1;
    }
    n
}

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
///
/// # Errors
/// The first that is; where the budget is spent.
pub(super) fn together(arena: &Arena<'_>, reached: &[Id]) -> Result<f64> {
    let mut sizes = Sizes { arena, known: vec![None; arena.ids().len()] };
    let mut divisors = 0.0;
    for id in reached {
        arena.budget.spend(1)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::grammar::budget::Budget;
    use serde_json::json;

    fn check(schema: &Value) -> Result<()> {
        check_depth(schema)?;
        let budget = Budget::of_a_test();
        let arena = Arena::new(schema, &budget)?;
        each(&arena)?;
        // As if all of it were used.
        together(&arena, &arena.ids().collect::<Vec<_>>()).map(drop)
    }

    fn refused(schema: &Value) -> (String, String) {
        match check(schema) {
            Err(Error::Grammar { pointer, keyword, .. }) => (pointer, keyword),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_cap_is_refused_where_it_stands() {
        let many = |n: usize| (0..n).map(|i| (format!("p{i}"), json!({}))).collect::<Map<_, _>>();
        assert_eq!(
            refused(&json!({"items": {"properties": many(451)}})),
            ("/items".into(), "properties".into())
        );
        // What is required twice, or is no property, makes no other one required.
        let feigned = json!({"properties": many(451), "required": ["p0", "p0", "q"]});
        assert_eq!(check(&feigned), Ok(()));
        let feigned = json!({"properties": many(452), "required": ["p0", "p0", "q"]});
        assert_eq!(refused(&feigned).1, "properties");
        assert_eq!(refused(&json!({"patternProperties": many(51)})).1, "patternProperties");
        assert_eq!(refused(&json!({"anyOf": vec![json!({}); 1501]})).1, "anyOf");
        assert_eq!(refused(&json!({"enum": vec![json!(1); 50_001]})).1, "enum");
        assert_eq!(
            refused(&json!({"$defs": {"a": {"multipleOf": 100.003}}})),
            ("/$defs/a".into(), "multipleOf".into())
        );
        let deep = (0..101).fold(json!({}), |s, _| json!({ "items": s }));
        assert_eq!(refused(&deep).1, "schema");
    }

    #[test]
    fn what_is_within_the_caps_passes() {
        assert_eq!(check(&json!({"multipleOf": 0.01, "enum": vec![json!(1); 50_000]})), Ok(()));
    }
}
