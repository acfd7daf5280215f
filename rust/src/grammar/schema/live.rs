//! Finds schemas that no finite JSON satisfies because they need themselves.
//!
//! llguidance compiles a list whose every node requires a next one, and a model that enters it never gets out.

use super::arena::{Arena, Id, Target};
use super::keywords::Types;
use crate::error::Result;
use serde_json::{Map, Value};

/// Of these schemas, those with a `$ref` that nothing finite satisfies.
///
/// # Errors
/// Where the budget is spent.
pub(super) fn dead_references(arena: &Arena<'_>, reached: &[Id]) -> Result<Vec<Id>> {
    // The least fixed point: a schema lives once what it needs lives. What is not in the list is taken to live.
    let mut dead = vec![false; arena.ids().len()];
    reached.iter().for_each(|id| dead[*id] = true);
    let mut settled = false;
    while !std::mem::replace(&mut settled, true) {
        // Backwards, since a schema comes before those that it needs.
        for id in reached.iter().rev() {
            if dead[*id] && is_live(arena, *id, &|other| !dead[other])? {
                dead[*id] = false;
                settled = false;
            }
        }
    }
    let has_ref = |id: &Id| arena[*id].map().is_some_and(|map| map.contains_key("$ref"));
    Ok(reached.iter().copied().filter(|id| dead[*id]).filter(has_ref).collect())
}

fn is_live(arena: &Arena<'_>, id: Id, lives: &dyn Fn(Id) -> bool) -> Result<bool> {
    let map = match arena[id].value {
        Value::Object(map) => map,
        Value::Bool(b) => return Ok(*b),
        _ => return Ok(true),
    };
    arena.budget.spend(1 + arena[id].inner.iter().map(|(_, inside)| inside.len()).sum::<usize>())?;
    let parts = |key: &str| arena.inside(id, key).iter().map(|(_, part)| lives(*part)).collect::<Vec<_>>();
    let (all, any, one) = (parts("allOf"), parts("anyOf"), parts("oneOf"));
    let some = |parts: &[bool]| parts.is_empty() || parts.contains(&true);
    if matches!(arena[id].reference, Some(Target::Here(target)) if !lives(target)) {
        return Ok(false);
    }
    if all.contains(&false) || !some(&any) || !some(&one) {
        return Ok(false);
    }
    let types = Types::of(map).unwrap_or(Types::ALL);
    if types == Types::OBJECT {
        let required = map.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        arena.budget.spend(required.len())?;
        let mut needed =
            required.iter().filter_map(Value::as_str).filter_map(|name| arena.property(id, name));
        return Ok(needed.all(lives));
    }
    Ok(types != Types::ARRAY || array_lives(arena, id, map, lives))
}

fn array_lives(arena: &Arena<'_>, id: Id, map: &Map<String, Value>, lives: &dyn Fn(Id) -> bool) -> bool {
    let least = map.get("minItems").and_then(Value::as_f64).unwrap_or(0.0);
    let listed = map.contains_key("prefixItems") || map.get("items").is_some_and(Value::is_array);
    least < 1.0 || listed || arena.inside(id, "items").iter().all(|(_, items)| lives(*items))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::budget::Budget;
    use serde_json::json;

    fn dead(root: &Value, reached: &[&str]) -> Vec<String> {
        let budget = Budget::of_a_test();
        let arena = Arena::new(root, &budget).unwrap();
        let reached: Vec<Id> =
            arena.ids().filter(|id| reached.contains(&arena[*id].pointer.as_str())).collect();
        dead_references(&arena, &reached).unwrap().into_iter().map(|id| arena[id].pointer.clone()).collect()
    }

    #[test]
    fn what_needs_itself_is_dead() {
        assert_eq!(dead(&json!({"$ref": "#"}), &[""]), [""]);
        let list = json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]});
        assert_eq!(dead(&list, &["", "/properties/next"]), ["/properties/next"]);
    }

    #[test]
    fn recursion_that_can_stop_lives() {
        let tree = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert!(dead(&tree, &["", "/properties/next"]).is_empty());
        let list =
            json!({"type": "array", "minItems": 1, "items": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}});
        assert!(dead(&list, &["", "/items", "/items/anyOf/0", "/items/anyOf/1"]).is_empty());
    }
    /// A chain in which each schema needs the one before it, beside a list that never ends.
    fn against_the_order(links: usize) -> Value {
        let link = |i: usize| match i {
            0 => json!({}),
            _ => json!({"type": "object", "required": ["n"],
                "properties": {"n": {"$ref": format!("#/properties/p{}", i - 1)}}}),
        };
        let mut properties: Map<String, Value> = (0..links).map(|i| (format!("p{i}"), link(i))).collect();
        properties.insert("dead".into(), json!({"$ref": "#/properties/dead"}));
        json!({ "properties": properties })
    }

    #[test]
    fn the_order_of_schemas_does_not_matter_and_work_has_an_end() {
        let all = |root: &Value, budget: &Budget| {
            let arena = Arena::new(root, budget).unwrap();
            let dead = dead_references(&arena, &arena.ids().collect::<Vec<_>>());
            dead.map(|ids| ids.into_iter().map(|id| arena[id].pointer.clone()).collect::<Vec<_>>())
        };
        assert_eq!(all(&against_the_order(60), &Budget::of_a_test()), Ok(vec!["/properties/dead".into()]));
        assert!(all(&against_the_order(3_000), &Budget::of_a_test()).is_err());
    }
}
