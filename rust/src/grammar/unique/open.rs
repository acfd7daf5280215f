//! An array or object that is open, and what has been there in it.

use super::Place;
use std::sync::Arc;

/// An array or object that is open.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) place: Option<Place>,
    pub(super) is_array: bool,
    /// Items, or pairs, before this one.
    pub(super) count: usize,
    /// Where the value that is being read begins, or the key; None behind it.
    pub(super) begin: Option<usize>,
    /// The place of that value.
    pub(super) inner: Option<Place>,
    /// The keys that have been there, or the items where they must differ.
    pub(super) seen: Arc<Vec<Item>>,
}

/// An item or a key that has been there: as written, and as compared.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) written: Vec<u8>,
    pub(super) compared: String,
}

impl Open {
    /// What has been there and begins as what is being read, of the text so far: what is left of that.
    pub(super) fn alike<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let written = self.begin.and_then(|begin| text.get(begin..));
        let rest = move |item: &'a Item| item.written.strip_prefix(written?);
        self.seen.iter().filter_map(rest)
    }

    /// Remembers an item or a key; false where it has been there.
    pub(super) fn remember(&mut self, written: Vec<u8>, compared: String) -> bool {
        if self.seen.iter().any(|item| item.compared == compared) {
            return false;
        }
        Arc::make_mut(&mut self.seen).push(Item { written, compared });
        true
    }
}
