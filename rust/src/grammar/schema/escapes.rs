//! Which backslash escapes strings may use.
//!
//! With `u` allowed, llguidance lets strings hold `\u00XX` for control characters, which have no other form. But it then
//! takes free keys in any spelling, so that `"\u0061"` passes for another name than `"a"` and escapes what holds for it.
//! So `u` is allowed only where a schema leaves no key free.

use super::keywords::{IN_PLACE, Types};
use super::refuse;
use crate::error::Result;
use serde_json::{Map, Value};

const WITHOUT_U: &str = "nrbtf\\\"";
const WITH_U: &str = "nrbtf\\\"u";

/// What the schemas seen so far need and allow.
#[derive(Debug, Default)]
pub(super) struct Escapes {
    free_keys: bool,
    /// Pointer and keyword of a constant that cannot be written without `u`.
    needs: Option<(String, &'static str)>,
}

impl Escapes {
    /// Takes a schema into account.
    pub(super) fn see(&mut self, at: &str, map: &Map<String, Value>, types: Types) {
        self.free_keys |= has_free_keys(map, types);
        for keyword in ["const", "enum"] {
            let values = match map.get(keyword) {
                Some(Value::Array(list)) if keyword == "enum" => list.as_slice(),
                Some(value) => std::slice::from_ref(value),
                None => continue,
            };
            if !values.is_empty() && values.iter().all(needs_u) {
                self.needs.get_or_insert_with(|| (at.to_owned(), keyword));
            }
        }
    }

    /// The letters that may follow a backslash.
    ///
    /// # Errors
    /// Where a constant needs `u` and free keys forbid it.
    pub(super) fn letters(self) -> Result<&'static str> {
        match self.needs {
            Some((at, keyword)) if self.free_keys => {
                let why = "a control character in a constant cannot be written where objects may have other keys \
                           than those named: set additionalProperties to false";
                Err(refuse(&at, keyword, why))
            }
            _ => Ok(if self.free_keys { WITHOUT_U } else { WITH_U }),
        }
    }
}

fn has_free_keys(map: &Map<String, Value>, types: Types) -> bool {
    let values = map.get("const").map(std::slice::from_ref);
    let values = values.or_else(|| map.get("enum").and_then(Value::as_array).map(Vec::as_slice));
    let values =
        values.map_or(Types::ALL, |v| v.iter().fold(Types::NONE, |t, v| Types(t.0 | Types::of_value(v).0)));
    let constant = map.contains_key("const") || map.contains_key("enum");
    // Parts that hold of the same value are looked at by themselves.
    let parts = map.keys().any(|k| IN_PLACE.contains(&k.as_str()));
    let own = ["properties", "patternProperties", "additionalProperties", "required"];
    let judged_elsewhere = (parts || constant) && !own.iter().any(|k| map.contains_key(*k));
    let closed = map.get("additionalProperties") == Some(&Value::Bool(false));
    // A name with a control character can be spelled in two ways, and a pattern could match the other one.
    let spelled_twice = || {
        let names = map.get("properties").and_then(Value::as_object).into_iter().flatten();
        map.contains_key("patternProperties")
            && names.into_iter().any(|(k, _)| needs_u(&Value::from(k.as_str())))
    };
    types.and(values).meets(Types::OBJECT) && !judged_elsewhere && (!closed || spelled_twice())
}

/// Whether a string somewhere in the value has a character that only `\u` can write.
fn needs_u(value: &Value) -> bool {
    match value {
        Value::String(s) => s.chars().any(|c| {
            matches!(c, '\0'..='\x1f' | '\x7f') && !matches!(c, '\n' | '\r' | '\t' | '\x08' | '\x0c')
        }),
        Value::Array(list) => list.iter().any(needs_u),
        Value::Object(map) => map.values().any(needs_u),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn letters(schemas: &[Value]) -> Result<&'static str> {
        let mut escapes = Escapes::default();
        for schema in schemas {
            let map = schema.as_object().unwrap();
            escapes.see("", map, Types::of(map).unwrap());
        }
        escapes.letters()
    }

    #[test]
    fn free_keys_forbid_u() {
        assert_eq!(letters(&[json!({"type": "string"})]), Ok(WITH_U));
        assert_eq!(
            letters(&[json!({"properties": {}, "additionalProperties": false}), json!({"$ref": "#"})]),
            Ok(WITH_U)
        );
        for open in [
            json!({}),
            json!({"type": "object"}),
            json!({"properties": {}, "anyOf": [{}]}),
            json!({"items": {}}),
        ] {
            assert_eq!(letters(&[open]), Ok(WITHOUT_U));
        }
    }

    #[test]
    fn constants_that_need_u_are_not_lost() {
        assert_eq!(letters(&[json!({"const": "a\u{0}b"})]), Ok(WITH_U));
        assert!(letters(&[json!({"const": ["\u{1}"]}), json!({"type": "object"})]).is_err());
    }
}
