//! What llguidance 1.9.1 knows of JSON Schema, and which keywords have no effect where they stand.

use serde_json::{Map, Value};

/// JSON Schema drafts, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    D4,
    D6,
    D7,
    D2019,
    D2020,
}

impl Draft {
    /// The draft that a schema names, else the one around it; an unknown name counts as the newest.
    pub(super) fn of(schema: &Value, around: Draft) -> Draft {
        let Some(name) = schema.get("$schema").and_then(Value::as_str) else { return around };
        match name.trim_end_matches('#') {
            "http://json-schema.org/draft-04/schema" => Draft::D4,
            "http://json-schema.org/draft-06/schema" => Draft::D6,
            "http://json-schema.org/draft-07/schema" => Draft::D7,
            "https://json-schema.org/draft/2019-09/schema" => Draft::D2019,
            _ => Draft::D2020,
        }
    }

    /// Whether the keyword exists in this draft; elsewhere it has no effect.
    pub(super) fn knows(self, keyword: &str) -> bool {
        match keyword {
            "const" | "contains" | "propertyNames" => self >= Draft::D6,
            "if" | "then" | "else" => self >= Draft::D7,
            "$recursiveAnchor"
            | "$recursiveRef"
            | "dependentRequired"
            | "dependentSchemas"
            | "maxContains"
            | "minContains"
            | "prefixItems"
            | "unevaluatedItems"
            | "unevaluatedProperties" => self >= Draft::D2019,
            "$dynamicAnchor" | "$dynamicRef" => self == Draft::D2020,
            _ => true,
        }
    }
}

/// Keywords that restrict and that llguidance does not implement.
pub(super) const UNIMPLEMENTED: [&str; 18] = [
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "uniqueItems",
    "propertyNames",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
];

/// Formats that are enforced.
pub(super) const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];

/// Keywords with schemas inside that llguidance implements.
pub(super) const WALKED: [&str; 9] = [
    "allOf",
    "anyOf",
    "oneOf",
    "prefixItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "items",
    "additionalItems",
];
/// Keywords that apply to the value itself.
pub(super) const IN_PLACE: [&str; 4] = ["allOf", "anyOf", "oneOf", "$ref"];

/// A set of JSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(pub(super) u8);

impl Types {
    pub(super) const NULL: Types = Types(1);
    pub(super) const BOOLEAN: Types = Types(2);
    pub(super) const INTEGER: Types = Types(4);
    /// Numbers that are not integers.
    pub(super) const FRACTION: Types = Types(8);
    pub(super) const NUMBER: Types = Types(4 | 8);
    pub(super) const STRING: Types = Types(16);
    pub(super) const ARRAY: Types = Types(32);
    pub(super) const OBJECT: Types = Types(64);
    pub(super) const ALL: Types = Types(127);
    pub(super) const NONE: Types = Types(0);

    /// The type of that name.
    pub(super) fn named(name: &str) -> Option<Types> {
        Some(match name {
            "null" => Types::NULL,
            "boolean" => Types::BOOLEAN,
            "integer" => Types::INTEGER,
            "number" => Types::NUMBER,
            "string" => Types::STRING,
            "array" => Types::ARRAY,
            "object" => Types::OBJECT,
            _ => return None,
        })
    }

    /// The schema's own `type`; all types where there is none, None where it names no type.
    pub(super) fn of(schema: &Map<String, Value>) -> Option<Types> {
        match schema.get("type") {
            None => Some(Types::ALL),
            Some(Value::String(name)) => Types::named(name),
            Some(Value::Array(names)) => {
                names.iter().try_fold(Types::NONE, |set, n| Some(Types(set.0 | Types::named(n.as_str()?)?.0)))
            }
            Some(_) => None,
        }
    }

    /// The type of a value.
    pub(super) fn of_value(value: &Value) -> Types {
        match value {
            Value::Null => Types::NULL,
            Value::Bool(_) => Types::BOOLEAN,
            Value::Number(n) if n.is_f64() && n.as_f64().is_none_or(|f| f.fract() != 0.0) => Types::FRACTION,
            Value::Number(_) => Types::INTEGER,
            Value::String(_) => Types::STRING,
            Value::Array(_) => Types::ARRAY,
            Value::Object(_) => Types::OBJECT,
        }
    }

    /// The types in both.
    pub(super) fn and(self, other: Types) -> Types {
        Types(self.0 & other.0)
    }

    /// Whether they share a type.
    pub(super) fn meets(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }
}

/// Whether the schema accepts everything and says nothing.
pub(super) fn accepts_all(schema: &Value) -> bool {
    match schema {
        Value::Bool(b) => *b,
        Value::Object(map) => map.keys().all(|k| matches!(k.as_str(), "title" | "description" | "$comment")),
        _ => false,
    }
}

/// Whether an unimplemented keyword has no effect in this schema, so that it can be left out.
pub(super) fn has_no_effect(keyword: &str, schema: &Map<String, Value>, types: Types) -> bool {
    let Some(value) = schema.get(keyword) else { return true };
    let (array, object) = (types.meets(Types::ARRAY), types.meets(Types::OBJECT));
    match keyword {
        "uniqueItems" => !array || *value == Value::Bool(false) || at_most_one(schema.get("maxItems")),
        "contains" => !array || (is_zero(schema.get("minContains")) && !schema.contains_key("maxContains")),
        "minContains" | "maxContains" => {
            !schema.contains_key("contains") || has_no_effect("contains", schema, types)
        }
        "propertyNames" => !object || accepts_all(value) || accepts_strings(value),
        "dependencies" | "dependentRequired" | "dependentSchemas" => {
            !object || value.as_object().is_some_and(|m| m.values().all(|v| accepts_all(v) || is_empty(v)))
        }
        "unevaluatedProperties" => {
            !object || accepts_all(value) || schema.contains_key("additionalProperties")
        }
        "unevaluatedItems" => {
            !array || accepts_all(value) || schema.get("items").is_some_and(|i| !i.is_array())
        }
        "not" => *value == Value::Bool(false),
        "if" => !schema.contains_key("then") && !schema.contains_key("else"),
        "then" | "else" => !schema.contains_key("if") || accepts_all(value),
        "$recursiveAnchor" => *value == Value::Bool(false),
        _ => false,
    }
}

fn at_most_one(v: Option<&Value>) -> bool {
    v.and_then(Value::as_f64).is_some_and(|n| n <= 1.0)
}

fn is_zero(v: Option<&Value>) -> bool {
    v.and_then(Value::as_f64) == Some(0.0)
}

fn is_empty(v: &Value) -> bool {
    v.as_array().is_some_and(Vec::is_empty)
}

/// A schema that restricts the type only, and admits strings.
fn accepts_strings(schema: &Value) -> bool {
    schema.as_object().is_some_and(|m| {
        m.keys().all(|k| matches!(k.as_str(), "type" | "title" | "description" | "$comment"))
            && Types::of(m).is_some_and(|t| t.meets(Types::STRING))
    })
}

/// A step of a JSON pointer, escaped.
pub(super) fn step(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}
