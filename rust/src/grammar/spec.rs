//! What a client may ask the output to be.

use serde::{Deserialize, Serialize};

/// A constraint on the output. Texts are passed as the client wrote them: key order is output order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrammarSpec {
    /// Any JSON object.
    JsonObject,
    /// JSON that the schema (JSON text) accepts.
    JsonSchema(String),
    /// The whole output matches this regular expression.
    Regex(String),
    /// A Lark grammar in llguidance's dialect.
    LarkGrammar(String),
    /// A grammar in GBNF, or in EBNF of its kind, in which no rule refers to itself.
    Gbnf(String),
    /// An llguidance grammar list (JSON text) or Lark.
    Llguidance(String),
    /// One of these texts.
    Choice(Vec<String>),
}
