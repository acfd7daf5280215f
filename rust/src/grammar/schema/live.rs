//! Finds schemas that no finite JSON satisfies because they need themselves.
//!
//! llguidance compiles a list whose every node requires a next one, and a model that enters it never gets out.

use super::keywords::{Types, step};
use super::refs::{Refs, Target};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Passes over the schemas before giving up; two are the rule.
const MAX_PASSES: usize = 20;

/// Of the schemas at these pointers, those with a `$ref` that nothing finite satisfies.
pub(super) fn dead_references(root: &Value, refs: &Refs<'_>, reached: &[String]) -> Vec<String> {
    // The least fixed point: a schema lives once what it needs lives. What is not in the list is taken to live.
    let mut dead: HashSet<&str> = reached.iter().map(String::as_str).collect();
    for _ in 0..MAX_PASSES {
        let before = dead.len();
        // Backwards, since a schema comes before those that it needs.
        for pointer in reached.iter().rev() {
            if dead.contains(pointer.as_str()) && is_live(root, refs, pointer, &|p| !dead.contains(p)) {
                dead.remove(pointer.as_str());
            }
        }
        if dead.len() == before {
            let has_ref = |p: &&String| root.pointer(p).and_then(|s| s.get("$ref")).is_some();
            return reached.iter().filter(|p| dead.contains(p.as_str())).filter(has_ref).cloned().collect();
        }
    }
    // Not settled: nothing is proved.
    Vec::new()
}

fn is_live(root: &Value, refs: &Refs<'_>, at: &str, lives: &dyn Fn(&str) -> bool) -> bool {
    let map = match root.pointer(at) {
        Some(Value::Object(map)) => map,
        Some(Value::Bool(b)) => return *b,
        _ => return true,
    };
    let parts = |key: &str| {
        let here = step(at, key);
        (0..map.get(key).and_then(Value::as_array).map_or(0, Vec::len)).map(move |i| format!("{here}/{i}"))
    };
    if let Some(text) = map.get("$ref").and_then(Value::as_str)
        && let Target::Here(target) = refs.resolve(at, text)
        && !lives(&target)
    {
        return false;
    }
    let any = |key: &str| parts(key).next().is_none() || parts(key).any(|p| lives(&p));
    if !parts("allOf").all(|p| lives(&p)) || !any("anyOf") || !any("oneOf") {
        return false;
    }
    let types = Types::of(map).unwrap_or(Types::ALL);
    if types == Types::OBJECT {
        return object_lives(map, at, lives);
    }
    types != Types::ARRAY || array_lives(map, at, lives)
}

fn object_lives(map: &Map<String, Value>, at: &str, lives: &dyn Fn(&str) -> bool) -> bool {
    let properties = step(at, "properties");
    let known = |name: &str| map.get("properties").and_then(|p| p.get(name)).is_some();
    let mut required =
        map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    required.all(|name| !known(name) || lives(&step(&properties, name)))
}

fn array_lives(map: &Map<String, Value>, at: &str, lives: &dyn Fn(&str) -> bool) -> bool {
    let least = map.get("minItems").and_then(Value::as_f64).unwrap_or(0.0);
    let listed = map.contains_key("prefixItems") || map.get("items").is_some_and(Value::is_array);
    least < 1.0 || listed || !map.contains_key("items") || lives(&step(at, "items"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dead(root: &Value, reached: &[&str]) -> Vec<String> {
        let reached: Vec<String> = reached.iter().map(|p| (*p).to_owned()).collect();
        dead_references(root, &Refs::new(root), &reached)
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
