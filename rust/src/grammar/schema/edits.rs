//! Changes to a schema, collected while it is read and applied together.

use serde_json::{Map, Value};

/// One change of the schema object at a pointer.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// Leave the keyword out.
    Drop(&'static str),
    /// Another name for the keyword, at its place.
    Rename(String, String),
    /// Another value for the keyword.
    Set(String, Value),
    /// The keywords stand together, where the first of them stood.
    Gather(&'static [&'static str]),
    /// Strings match this pattern, too.
    Match(String),
    /// `oneOf` becomes an `anyOf` within `allOf`, since the schema has an `anyOf` of its own.
    OneOfWithin,
}

impl Change {
    pub(super) fn rename(from: &str, to: &str) -> Self {
        Change::Rename(from.to_owned(), to.to_owned())
    }
}

/// A change and where.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    pub(super) pointer: String,
    pub(super) change: Change,
}

/// The schema with all changes made, the deepest first so that pointers stay right.
pub(super) fn apply(schema: Map<String, Value>, mut edits: Vec<Edit>) -> Map<String, Value> {
    edits.sort_by_key(|e| std::cmp::Reverse(e.pointer.matches('/').count()));
    let mut root = Value::Object(schema);
    for edit in edits {
        if let Some(Value::Object(map)) = root.pointer_mut(&edit.pointer) {
            change(map, edit.change);
        }
    }
    match root {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn change(map: &mut Map<String, Value>, change: Change) {
    match change {
        Change::Drop(key) => {
            map.shift_remove(key);
        }
        Change::Rename(from, to) => {
            *map = std::mem::take(map)
                .into_iter()
                .map(|(k, v)| (if k == from { to.clone() } else { k }, v))
                .collect();
        }
        Change::Set(key, value) => {
            map.insert(key, value);
        }
        Change::Gather(keys) => gather(map, keys),
        Change::Match(pattern) if map.contains_key("pattern") => also(map, "pattern", Value::from(pattern)),
        Change::Match(pattern) => {
            map.insert("pattern".to_owned(), Value::from(pattern));
        }
        Change::OneOfWithin => {
            if let Some(list) = map.shift_remove("oneOf") {
                also(map, "anyOf", list);
            }
        }
    }
}

/// Adds a part to `allOf` that has one keyword.
fn also(map: &mut Map<String, Value>, keyword: &str, value: Value) {
    let part = Value::Object(Map::from_iter([(keyword.to_owned(), value)]));
    match map.get_mut("allOf") {
        Some(Value::Array(all)) => all.push(part),
        _ => {
            map.insert("allOf".to_owned(), Value::Array(vec![part]));
        }
    }
}

fn gather(map: &mut Map<String, Value>, keys: &[&str]) {
    let mut old = std::mem::take(map);
    let order: Vec<String> = old.keys().cloned().collect();
    for key in order {
        let group: &[&str] = if keys.contains(&key.as_str()) { keys } else { &[] };
        for k in std::iter::once(key.as_str()).chain(group.iter().copied()) {
            if let Some(v) = old.remove(k) {
                map.insert(k.to_owned(), v);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_keep_the_order_of_the_rest() {
        let schema =
            json!({"a": 1, "items": [], "anyOf": [{"uniqueItems": false, "x": 1}], "additionalItems": false});
        let edits = vec![
            Edit { pointer: String::new(), change: Change::Gather(&["items", "additionalItems"]) },
            Edit { pointer: String::new(), change: Change::rename("anyOf", "oneOf") },
            Edit { pointer: "/anyOf/0".into(), change: Change::Drop("uniqueItems") },
        ];
        let Value::Object(map) = schema else { panic!() };
        let out = Value::Object(apply(map, edits)).to_string();
        assert_eq!(out, r#"{"a":1,"items":[],"additionalItems":false,"oneOf":[{"x":1}]}"#);
    }
}
