//! A constraint in llguidance's own terms, for engines that enforce it by themselves.

use llguidance::api::TopLevelGrammar;

/// What a compiled constraint was made from, ready for another llguidance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guide {
    /// A JSON schema, our options in it.
    Json(String),
    /// A Lark grammar.
    Lark(String),
}

impl Guide {
    /// That of a grammar; None where it has several parts.
    pub(super) fn of(grammar: &TopLevelGrammar) -> Option<Guide> {
        let [part] = grammar.grammars.as_slice() else { return None };
        match (&part.json_schema, &part.lark_grammar) {
            (Some(schema), None) => Some(Guide::Json(schema.to_string())),
            (None, Some(lark)) => Some(Guide::Lark(lark.clone())),
            _ => None,
        }
    }
}
