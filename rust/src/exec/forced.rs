//! Drafts from the grammar: where its mask has one token, that token comes next whatever the model says.
//!
//! Such drafts are always kept. They cost no mask either: every mask that is looked at here is one that verifying needs.
//! The masks of llguidance have one token wherever the text is forced and the tokenizer cuts it in one way.

use super::helpers::Helpers;
use super::{Ask, Draft, Drafter};
use crate::error::Result;
use crate::grammar::Grammar;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Proposes forced tokens.
#[derive(Debug)]
pub struct Forced {
    /// Width of a row of logits, in tokens.
    width: usize,
    helpers: Arc<Helpers>,
}

impl Forced {
    /// A drafter for a target whose rows have `width` tokens.
    pub fn new(width: usize, helpers: Arc<Helpers>) -> Self {
        Forced { width, helpers }
    }

    fn propose_one(&self, ask: &mut Ask<'_>) {
        let Some(grammar) = ask.grammar.as_deref_mut().filter(|_| ask.draft.tokens.is_empty()) else {
            return;
        };
        let mut draft = Draft::default();
        // What fails here, verifying meets again, and says so.
        let walked = catch_unwind(AssertUnwindSafe(|| self.walk(grammar, ask.want, &mut draft)));
        if matches!(walked, Ok(Ok(()))) {
            (ask.draft.tokens, ask.draft.masks) = (draft.tokens, draft.masks);
        }
    }

    /// Walks from the committed state until a mask has a choice. A walk that fails leaves what came before it.
    fn walk(&self, grammar: &mut Grammar, want: u32, draft: &mut Draft) -> Result<()> {
        let mut cursor = grammar.cursor();
        while !cursor.is_ended() {
            let mask = cursor.mask()?.widened(self.width);
            let forced = mask.single();
            draft.masks.push(mask);
            let Some(token) = forced.filter(|_| draft.tokens.len() < want as usize) else { break };
            // False for an end token: nothing comes after it, so it need not be drafted.
            if !cursor.push(token)? {
                break;
            }
            draft.tokens.push(token);
        }
        Ok(())
    }
}

impl Drafter for Forced {
    fn propose(&mut self, asks: &mut [Ask<'_>]) {
        let masked = |ask: &&Ask<'_>| ask.grammar.as_ref().is_some_and(|grammar| !grammar.is_dormant());
        let tokens = asks.iter().filter(masked).count() * self.width;
        self.helpers.each(tokens, asks.iter_mut(), &mut Vec::new(), |ask, ()| self.propose_one(ask));
    }
}
