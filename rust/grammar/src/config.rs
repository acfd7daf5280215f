//! The group `grammar` of `runtime.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Constraints: how they are enforced, and their limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GrammarConfig {
    /// Whether `format` restricts strings.
    pub formats: Formats,
    /// What to do with an unknown `format`.
    pub unknown_format: UnknownFormat,
    /// Schemas that requests may refer to: files by their URI. The metaschemas of the drafts are built in.
    pub documents: BTreeMap<String, String>,
    /// Order of the keys of an object.
    pub key_order: KeyOrder,
    /// White space between the tokens of JSON.
    pub whitespace: Whitespace,
    /// Whether objects with `properties` may have keys that the schema does not mention.
    pub undeclared_keys: UndeclaredKeys,
    /// Whether the server may allow less than a schema if it cannot be expressed in full; false = refuse such schemas.
    pub narrow: bool,
    /// Whether constrained outputs are completed within `max_tokens`: a token is allowed only if the output can still be
    /// completed after it.
    pub complete: bool,
    /// Longest JSON schema in bytes.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub max_schema_bytes: usize,
    /// Longest Lark grammar or regular expression in bytes.
    #[schemars(range(min = 1, max = 131_072))]
    pub max_lark_bytes: usize,
    /// Threads that compile grammars; 0 = half of the cores, at least 2.
    #[schemars(range(min = 0, max = 512))]
    pub compile_threads: u32,
    /// Seconds that a compilation may take.
    #[schemars(range(max = 600), extend("exclusiveMinimum" = 0))]
    pub compile_seconds: f64,
    /// Steps that a compilation may take: schemas visited, and parts of them compared. They are the same on every machine,
    /// about three million per second.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub compile_steps: u64,
    /// MiB of compiled grammars kept.
    #[schemars(range(min = 0, max = 1_048_576))]
    pub cache_megabytes: u64,
}

impl Default for GrammarConfig {
    fn default() -> Self {
        GrammarConfig {
            formats: Formats::Enforce,
            unknown_format: UnknownFormat::Ignore,
            documents: BTreeMap::new(),
            key_order: KeyOrder::Required,
            whitespace: Whitespace::Natural,
            undeclared_keys: UndeclaredKeys::Never,
            narrow: true,
            complete: true,
            max_schema_bytes: 512 * 1024,
            max_lark_bytes: 64 * 1024,
            compile_threads: 0,
            compile_seconds: 2.0,
            compile_steps: 3_500_000,
            cache_megabytes: 256,
        }
    }
}

/// Order of the keys of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrder {
    /// Required keys in the order of the schema, others anywhere between them.
    Required,
    /// Those that the schema describes in its order, then others.
    Schema,
    /// As the model writes them, each once.
    Any,
}

/// White space between the tokens of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Whitespace {
    /// As models write it: none, a space, or a line break with up to 40 spaces or 10 tabs. Before the text at most a space.
    Natural,
    /// None.
    Compact,
}

/// Whether objects have keys of which their schema says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UndeclaredKeys {
    /// None where the schema has `properties`, as other engines have it, unless it says `additionalProperties: true`.
    Never,
    /// Any, as the letter of JSON Schema has it.
    Schema,
}

/// Whether `format` restricts strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Formats {
    /// What its specification says.
    Enforce,
    /// Nothing: it is an annotation, as JSON Schema's drafts from 2019-09 on have it by default.
    Annotate,
}

/// What to do with an unknown `format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFormat {
    /// Refuse the schema.
    Refuse,
    /// Ignore the keyword.
    Ignore,
}
