//! Events on their way out, at most one per choice: what waits is bounded by the text, however slow its reader.

use crate::types::{Event, RequestId};
use ahash::AHashMap;

/// Merged events, in the order in which their choices first had news.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    events: Vec<Event>,
    places: AHashMap<(RequestId, u32), usize>,
}

impl Outbox {
    /// Adds news of a choice to what already waits of it.
    pub(crate) fn push(&mut self, event: Event) {
        match self.places.entry((event.request, event.choice)) {
            std::collections::hash_map::Entry::Occupied(place) => self.events[*place.get()].merge(event),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(self.events.len());
                self.events.push(event);
            }
        }
    }

    /// Takes all that waits.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        self.places.clear();
        std::mem::take(&mut self.events)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}
