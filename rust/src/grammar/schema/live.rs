//! Finds schemas that no finite JSON satisfies because they need themselves.
//!
//! llguidance compiles a list whose every node requires a next one, and a model that enters it never gets out.

use super::arena::{Arena, Id, Target};
use super::keywords::Types;
use serde_json::{Map, Value};

/// Passes over the schemas before giving up; two are the rule.
const MAX_PASSES: usize = 20;

/// Of these schemas, those with a `$ref` that nothing finite satisfies.
pub(super) fn dead_references(arena: &Arena<'_>, reached: &[Id]) -> Vec<Id> {
    // The least fixed point: a schema lives once what it needs lives. What is not in the list is taken to live.
    let mut dead = vec![false; arena.ids().len()];
    reached.iter().for_each(|id| dead[*id] = true);
    for _ in 0..MAX_PASSES {
        let mut settled = true;
        // Backwards, since a schema comes before those that it needs.
        for id in reached.iter().rev() {
            if dead[*id] && is_live(arena, *id, &|other| !dead[other]) {
                dead[*id] = false;
                settled = false;
            }
        }
        if settled {
            let has_ref = |id: &Id| arena[*id].map().is_some_and(|map| map.contains_key("$ref"));
            return reached.iter().copied().filter(|id| dead[*id]).filter(has_ref).collect();
        }
    }
    // Not settled: nothing is proved.
    Vec::new()
}

fn is_live(arena: &Arena<'_>, id: Id, lives: &dyn Fn(Id) -> bool) -> bool {
    let map = match arena[id].value {
        Value::Object(map) => map,
        Value::Bool(b) => return *b,
        _ => return true,
    };
    let parts = |key: &str| arena.inside(id, key).iter().map(|(_, part)| lives(*part)).collect::<Vec<_>>();
    let (all, any, one) = (parts("allOf"), parts("anyOf"), parts("oneOf"));
    let some = |parts: &[bool]| parts.is_empty() || parts.contains(&true);
    if matches!(arena[id].reference, Some(Target::Here(target)) if !lives(target)) {
        return false;
    }
    if all.contains(&false) || !some(&any) || !some(&one) {
        return false;
    }
    let types = Types::of(map).unwrap_or(Types::ALL);
    if types == Types::OBJECT {
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut needed = required.filter_map(Value::as_str).filter_map(|name| arena.property(id, name));
        return needed.all(lives);
    }
    types != Types::ARRAY || array_lives(arena, id, map, lives)
}

fn array_lives(arena: &Arena<'_>, id: Id, map: &Map<String, Value>, lives: &dyn Fn(Id) -> bool) -> bool {
    let least = map.get("minItems").and_then(Value::as_f64).unwrap_or(0.0);
    let listed = map.contains_key("prefixItems") || map.get("items").is_some_and(Value::is_array);
    least < 1.0 || listed || arena.inside(id, "items").iter().all(|(_, items)| lives(*items))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dead(root: &Value, reached: &[&str]) -> Vec<String> {
        let arena = Arena::new(root).unwrap();
        let reached: Vec<Id> =
            arena.ids().filter(|id| reached.contains(&arena[*id].pointer.as_str())).collect();
        dead_references(&arena, &reached).into_iter().map(|id| arena[id].pointer.clone()).collect()
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
}
