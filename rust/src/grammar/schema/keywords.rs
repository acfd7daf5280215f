//! Drafts, types and pointers.
//!
//! Schemas of an OpenAPI document are a draft of their own: those of 2020-12, with `nullable` of OpenAPI 3.0, and with
//! `discriminator` as what tells the branches apart (OpenAPI Specification 3.0.3 and 3.1.1, "Discriminator Object").

use serde_json::{Map, Value};

/// JSON Schema drafts, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    D4,
    D6,
    D7,
    D2019,
    D2020,
    OpenApi,
}

impl Draft {
    /// The draft that a schema names, else the one around it; an unknown name counts as the newest.
    pub(super) fn of(schema: &Value, around: Draft) -> Draft {
        if schema.get("openapi").is_some_and(Value::is_string)
            || schema.pointer("/components/schemas").is_some()
        {
            return Draft::OpenApi;
        }
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
            "$dynamicAnchor" | "$dynamicRef" => self >= Draft::D2020,
            "nullable" => self == Draft::OpenApi,
            _ => true,
        }
    }
}

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

    /// These and null.
    pub(super) fn and_null(self) -> Types {
        Types(self.0 | Types::NULL.0)
    }

    /// Whether they share a type.
    pub(super) fn meets(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }
}

/// A step of a JSON pointer, escaped.
pub(super) fn step(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}
