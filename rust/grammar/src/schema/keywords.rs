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

    /// What to do with a schema of a draft whose keywords mean something else.
    pub(super) fn too_old(schema: &Value) -> Option<&'static str> {
        let name = schema.get("$schema")?.as_str()?;
        let (_, draft) = name.split_once("://json-schema.org/draft-0")?;
        let is_old = ["0/", "1/", "2/", "3/"].iter().any(|old| draft.starts_with(old));
        is_old.then_some(
            "drafts before 4 are not read: write \"required\" as a list of names, \"extends\" as \"allOf\", \"disallow\" as \
             \"not\" and \"divisibleBy\" as \"multipleOf\", and leave \"$schema\" out",
        )
    }

    /// Whether the keyword exists in this draft; elsewhere it has no effect.
    pub(super) fn knows(self, keyword: &str) -> bool {
        match keyword {
            "const" | "contains" | "propertyNames" => self >= Draft::D6,
            "if" | "then" | "else" => self >= Draft::D7,
            "$recursiveAnchor" | "$recursiveRef" => self >= Draft::D2019,
            "dependentRequired" | "dependentSchemas" => self >= Draft::D2019,
            "maxContains" | "minContains" | "prefixItems" => self >= Draft::D2019,
            "unevaluatedItems" | "unevaluatedProperties" => self >= Draft::D2019,
            "$dynamicAnchor" | "$dynamicRef" => self >= Draft::D2020,
            "nullable" => self == Draft::OpenApi,
            _ => true,
        }
    }
}

/// A set of JSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

    /// The schema's own `type` and `nullable`: all types where there is no type, None where it names none.
    pub(super) fn of(schema: &Map<String, Value>, draft: Draft) -> Option<Types> {
        let own = match schema.get("type") {
            None => Types::ALL,
            Some(Value::String(name)) => Types::named(name)?,
            Some(Value::Array(names)) => names
                .iter()
                .try_fold(Types::NONE, |set, n| Some(Types(set.0 | Types::named(n.as_str()?)?.0)))?,
            Some(_) => return None,
        };
        let nullable = draft.knows("nullable") && schema.get("nullable") == Some(&Value::Bool(true));
        Some(if nullable { Types(own.0 | Types::NULL.0) } else { own })
    }

    /// Whether they share a type.
    pub(super) fn meets(self, other: Types) -> bool {
        self.0 & other.0 != 0
    }
}

/// How schemas stand inside a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// One.
    One,
    /// In a list.
    List,
    /// One, or a list of them.
    Items,
    /// By name.
    Named,
    /// There are none.
    Nothing,
}

/// How schemas stand inside this keyword.
pub(super) fn inside(keyword: &str) -> Inside {
    match keyword {
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Inside::List,
        "items" => Inside::Items,
        "properties" | "patternProperties" | "$defs" | "definitions" => Inside::Named,
        "dependentSchemas" | "dependencies" => Inside::Named,
        "not" | "if" | "then" | "else" | "contains" | "propertyNames" => Inside::One,
        "additionalProperties" | "additionalItems" | "unevaluatedProperties" | "unevaluatedItems" => {
            Inside::One
        }
        _ => Inside::Nothing,
    }
}

/// The types that the keyword is about; none where it is about all of them, or says nothing by itself.
pub(super) fn types_of(keyword: &str) -> Types {
    match keyword {
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => Types::NUMBER,
        "minLength" | "maxLength" | "pattern" | "format" => Types::STRING,
        "minItems" | "maxItems" | "uniqueItems" | "contains" => Types::ARRAY,
        "items" | "prefixItems" | "additionalItems" => Types::ARRAY,
        "minProperties" | "maxProperties" | "required" | "propertyNames" => Types::OBJECT,
        "properties" | "patternProperties" | "additionalProperties" => Types::OBJECT,
        "dependentRequired" | "dependentSchemas" | "dependencies" => Types::OBJECT,
        _ => Types::NONE,
    }
}

/// What a keyword's value must be, where it is something else.
pub(super) fn misfit(keyword: &str, value: &Value) -> Option<&'static str> {
    let is_list_of_names = |value: &Value| value.as_array().is_some_and(|l| l.iter().all(Value::is_string));
    let is_schema = value.is_object() || value.is_boolean();
    let (fits, must) = match inside(keyword) {
        Inside::One => (is_schema, "must be a schema: an object, true or false"),
        Inside::List => (value.is_array(), "must be a list of schemas"),
        Inside::Items => (is_schema || value.is_array(), "must be a schema"),
        Inside::Named => (value.is_object(), "must be an object with a schema for each name"),
        Inside::Nothing => match keyword {
            "required" if value.is_boolean() => (
                false,
                "is true or false only in draft 3: write the names into the \"required\" list of the object around it",
            ),
            "required" => (is_list_of_names(value), "must be a list of names"),
            "dependentRequired" => {
                let fits = value.as_object().is_some_and(|map| map.values().all(is_list_of_names));
                (fits, "must be an object with a list of names for each name")
            }
            "uniqueItems" | "nullable" => (value.is_boolean(), "must be true or false"),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minContains" | "maxContains"
            | "minProperties" | "maxProperties" => {
                let fits = value.as_f64().is_some_and(|n| n >= 0.0 && n.fract() == 0.0);
                (fits, "must be a whole number from 0 on")
            }
            "minimum" | "maximum" | "multipleOf" => (value.is_number(), "must be a number"),
            "exclusiveMinimum" | "exclusiveMaximum" => {
                (value.is_number() || value.is_boolean(), "must be a number")
            }
            "enum" => (value.is_array(), "must be a list of values"),
            "pattern" | "format" | "$ref" => (value.is_string(), "must be a text"),
            _ => (true, ""),
        },
    };
    (!fits).then_some(must)
}

/// The type that was probably meant by a name that is none.
pub(super) fn meant(name: &str) -> Option<&'static str> {
    const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
    let name = name.to_lowercase();
    Some(match name.as_str() {
        "none" | "nil" | "nonetype" => "null",
        "bool" => "boolean",
        "int" | "long" | "int32" | "int64" => "integer",
        "float" | "double" | "decimal" => "number",
        "str" | "text" => "string",
        "list" | "tuple" | "set" => "array",
        "dict" | "map" | "struct" | "record" => "object",
        _ => return TYPES.into_iter().find(|known| *known == name),
    })
}

/// A step of a JSON pointer, escaped.
pub(super) fn step(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}
