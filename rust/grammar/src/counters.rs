//! What the metrics know of compilations.

use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Compilation times kept until somebody drains them; more are dropped.
const DURATIONS: usize = 4096;

/// Counters that the queue's thread writes.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) entries: AtomicU64,
    durations: SyncSender<Duration>,
}

impl Counters {
    /// All 0, and where the wall times of compilations come out.
    pub(super) fn new() -> (Self, Receiver<Duration>) {
        let (durations, out) = sync_channel(DURATIONS);
        let zero = AtomicU64::default;
        (Counters { hits: zero(), misses: zero(), entries: zero(), durations }, out)
    }

    pub(super) fn took(&self, took: Duration) {
        // Full: nobody reads the metrics; a lost sample is all there is to lose.
        let _ = self.durations.try_send(took);
    }
}
