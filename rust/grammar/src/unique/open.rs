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
    /// The keys of the object so far, or the items of the array where they must differ. Each is kept as written and as compared, and
    /// they are sorted by the first.
    pub(super) seen: Arc<Vec<(Vec<u8>, String)>>,
}

impl Open {
    /// What has been there and begins as what is being read, of the text so far: what is left of that.
    pub(super) fn alike<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let written = self.begin.and_then(|begin| text.get(begin..));
        written.map(|written| self.begin_with(written)).into_iter().flatten()
    }

    /// What has been there and begins with these bytes: what is left of that.
    fn begin_with<'a>(&'a self, written: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let behind = &self.seen[self.seen.partition_point(|(item, _)| &item[..] < written)..];
        behind.iter().map_while(move |(item, _)| item.strip_prefix(written))
    }

    /// Whether an earlier key or item begins with these bytes.
    pub(super) fn has_begun(&self, written: &[u8]) -> bool {
        self.begin_with(written).next().is_some()
    }

    /// Remembers an item or a key; false where it has been there.
    pub(super) fn remember(&mut self, written: Vec<u8>, compared: String) -> bool {
        let is_new = self.seen.iter().all(|(_, seen)| *seen != compared);
        if is_new {
            let at = self.seen.partition_point(|(item, _)| *item < written);
            Arc::make_mut(&mut self.seen).insert(at, (written, compared));
        }
        is_new
    }
}
