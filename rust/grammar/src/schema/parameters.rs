//! How the arguments of a function are written one by one.

use super::keywords::Types;
use crate::error::{Error, Result};
use crate::spec::{JsonType, Parameters as Spec};
use crate::vocab::Vocab;
use std::collections::{BTreeMap, BTreeSet};

/// How the arguments of one function are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameters<'a> {
    pub(crate) spec: &'a Spec,
    /// The types of arguments that are strings or something else ([`crate::spec::Tool::types`]).
    pub(crate) types: &'a BTreeMap<String, BTreeSet<JsonType>>,
    pub(crate) vocab: &'a Vocab,
}

impl Parameters<'_> {
    /// The types other than strings that a parameter may have.
    pub(super) fn types_of(&self, name: &str) -> Types {
        let types = self.types.get(name).into_iter().flatten();
        types.fold(Types::NONE, |all, one| Types(all.0 | of_json(*one).0))
    }
}

/// The text between a name and a value of this type.
///
/// # Errors
/// If the format has none.
pub(super) fn between(spec: &Spec, of: JsonType) -> Result<&str> {
    let missing = || Error::invalid("calls.parameters.between", format!("has no text for {of:?}"));
    spec.between.get(&of).map(String::as_str).ok_or_else(missing)
}

fn of_json(one: JsonType) -> Types {
    match one {
        JsonType::Null => Types::NULL,
        JsonType::Boolean => Types::BOOLEAN,
        JsonType::Number => Types::NUMBER,
        JsonType::String => Types::STRING,
        JsonType::Array => Types::ARRAY,
        JsonType::Object => Types::OBJECT,
    }
}
