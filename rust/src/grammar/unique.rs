//! What no grammar can say: that no two items of an array are equal.
//!
//! A [`Shape`] says where in a JSON text such arrays are. A [`Filter`] reads the text beside the matcher and remembers the items of
//! each array that is open. It removes the tokens from a mask that would complete an equal item. Where an item is not a
//! string of any text, it also looks ahead, and removes a token behind which all ways lead to an equal item.

mod scan;

use super::mask::Mask;
use crate::types::Token;
use crate::vocab::Vocab;
use scan::{Scan, Taken};
use std::collections::HashMap;
use std::sync::Arc;

/// The number of a place in a shape.
pub(super) type Place = usize;

/// Where the arrays are whose items must differ. The first place is the whole text.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    pub(super) places: Vec<Inside>,
}

/// What is inside the values of a place. None: nothing there has to differ.
#[derive(Debug, Clone, Default)]
pub(super) struct Inside {
    /// The items of an array must differ; and whether there may be too few values for that.
    pub(super) unique: Option<Scarce>,
    /// The first items of an array, and those behind them.
    pub(super) items: Vec<Option<Place>>,
    pub(super) rest: Option<Place>,
    /// The values of keys by their names, and of other keys.
    pub(super) keys: HashMap<String, Option<Place>>,
    pub(super) others: Option<Place>,
}

/// Whether the values of items may run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scarce {
    No,
    Perhaps,
}

/// What all texts of a constraint have in common.
pub(super) struct Rules {
    shape: Arc<Shape>,
    vocab: Arc<Vocab>,
    /// Tokens with a quotation mark: in a string, no other completes an item.
    quotes: Mask,
}

impl Rules {
    pub(super) fn new(shape: Shape, vocab: &Arc<Vocab>) -> Self {
        let quotes = (0..vocab.len() as Token).filter(|t| vocab.bytes(*t).contains(&b'"'));
        let quotes = Mask::of(quotes, vocab.len());
        Rules { shape: Arc::new(shape), vocab: Arc::clone(vocab), quotes }
    }
}

/// A matcher that walks ahead, as far as the filter needs one.
pub(super) trait Ahead {
    /// What may come next; None where that cannot be told.
    fn mask(&mut self) -> Option<Mask>;
    /// Walks over a token; false where it is refused.
    fn push(&mut self, token: Token) -> bool;
    /// Takes the last token back.
    fn pop(&mut self);
}

/// The text so far.
#[derive(Clone)]
pub(super) struct Filter {
    rules: Arc<Rules>,
    scan: Scan,
}

impl Filter {
    pub(super) fn new(rules: &Arc<Rules>) -> Self {
        Filter { rules: Arc::clone(rules), scan: Scan::new(Arc::clone(&rules.shape)) }
    }

    /// Whether items have been there that must not come again.
    pub(super) fn remembers(&self) -> bool {
        self.scan.remembers()
    }

    /// The text with this token; None where that completes an item that has been there.
    pub(super) fn after(&self, token: Token) -> Option<Filter> {
        let mut next = self.clone();
        (next.scan.feed(self.rules.vocab.bytes(token)) != Taken::Again).then_some(next)
    }

    /// Takes out of the mask of this place what would complete an item again, or could only lead to that.
    pub(super) fn apply(&self, mask: &mut Mask, ahead: &mut dyn Ahead) {
        if !self.scan.remembers() {
            return;
        }
        let suspects: Vec<Token> = mask.iter().filter(|token| self.is_suspect(*token)).collect();
        for token in suspects {
            mask.set(token, self.allows(token, ahead));
        }
    }

    /// Whether a token of the matcher's mask may come.
    pub(super) fn allows(&self, token: Token, ahead: &mut dyn Ahead) -> bool {
        let mut next = self.scan.clone();
        match next.feed(self.rules.vocab.bytes(token)) {
            Taken::Again => false,
            Taken::Hot if next.is_scarce() => self.leads_out(&next, token, ahead),
            Taken::Hot | Taken::Cold => true,
        }
    }

    /// Whether the token may complete an item or lead on to one that has been there.
    fn is_suspect(&self, token: Token) -> bool {
        let in_string = self.scan.in_string();
        !in_string || self.rules.quotes.allows(token) || self.scan.goes_on(self.rules.vocab.bytes(token))
    }

    /// Whether behind this token the item can still become one that has not been there.
    fn leads_out(&self, scan: &Scan, token: Token, ahead: &mut dyn Ahead) -> bool {
        if !ahead.push(token) {
            return true;
        }
        let found = self.has_way(scan, ahead);
        ahead.pop();
        found
    }

    fn has_way(&self, scan: &Scan, ahead: &mut dyn Ahead) -> bool {
        let Some(mask) = ahead.mask() else { return true };
        let mut hot = Vec::new();
        for token in mask.iter() {
            let mut next = scan.clone();
            match next.feed(self.rules.vocab.bytes(token)) {
                Taken::Again => {}
                Taken::Cold => return true,
                Taken::Hot => hot.push((token, next)),
            }
        }
        hot.into_iter().any(|(token, next)| self.leads_out(&next, token, ahead))
    }
}
