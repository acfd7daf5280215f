//! A constraint in llguidance's own terms, for engines that enforce it by themselves.

use llguidance::api::TopLevelGrammar;

/// The Lark text that a compiled constraint was made from, ready for another llguidance; None where it has several parts.
pub(super) fn of(grammar: &TopLevelGrammar) -> Option<String> {
    let [part] = grammar.grammars.as_slice() else { return None };
    part.lark_grammar.clone().filter(|_| part.json_schema.is_none())
}
