//! Metrics over all the lives of an engine.

use crate::metrics::{Gauges, Snapshot, Totals};
use serde::Serialize;

/// What the engines of a handle have done, and what the present one holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Summed over all lives; what an engine did after its last report before it died is missing.
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// Engines that were lost and started again.
    pub restarts: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Meter {
    before: Totals,
    now: Snapshot,
    restarts: u64,
}

impl Meter {
    /// Takes in a report of the present engine.
    pub(crate) fn hear(&mut self, now: Snapshot) {
        self.now = now;
    }

    /// The engine is gone, and this many requests failed with it.
    pub(crate) fn engine_gone(&mut self, failed: u64) {
        self.before.add(&self.now.totals);
        self.before.requests_failed += failed;
        let gauges = Gauges { kv_total: self.now.gauges.kv_total, ..Gauges::default() };
        self.now = Snapshot { gauges, ..Snapshot::default() };
    }

    /// The engine will be started again.
    pub(crate) fn restarted(&mut self) {
        self.restarts += 1;
    }

    /// All there is to know; `waiting` requests where no engine counts them.
    pub(crate) fn read(&self, waiting: Option<u64>) -> Metrics {
        let mut snapshot = self.now.clone();
        snapshot.totals.add(&self.before);
        snapshot.gauges.waiting = waiting.unwrap_or(snapshot.gauges.waiting);
        Metrics { snapshot, restarts: self.restarts }
    }
}
