//! The step loop, and the plain messages that go in and out of it.

use crate::error::Error;
use crate::exec::Promise;
use crate::metrics::Snapshot;
use crate::request::{Limits, Request};
use crate::types::{Event, RequestId};
use serde::{Deserialize, Serialize};

/// What the engine is told.
#[derive(Debug, Serialize, Deserialize)]
pub enum Command {
    /// A new request.
    Submit(RequestId, Box<Request>),
    /// End a request; unknown ids are ignored. Its choices end with `FinishReason::Cancelled`.
    Cancel(RequestId),
    /// Leave the loop now; running and waiting requests get `Error::Closed`.
    Close,
}

/// What the engine says; one message per step at most.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Requests that left the waiting line since the last report.
    pub admitted: Vec<RequestId>,
    /// News of choices, at most one event per choice.
    pub events: Vec<Event>,
    /// Totals since the engine's start; sent a few times a second while it works, and whenever it falls idle.
    pub metrics: Option<Box<Snapshot>>,
}

/// Facts of an opened engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// What requests are checked against.
    pub limits: Limits,
    /// Sequences that can run at the same time: `max_batch_size`, or fewer where the slots are fewer.
    pub max_running: u32,
    /// KV tokens of all slots together.
    pub kv_tokens: u64,
    /// The promise found by the probe.
    pub promise: Promise,
    /// One line about the engine for the start-up log (layout, KV type, threads, probe).
    pub summary: String,
    /// The model's own chat template, if its file carries one.
    pub chat_template: Option<String>,
}

/// What a starting engine says first, and then reports.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromEngine {
    /// Opened; sent once.
    Ready(Box<Info>),
    /// Cannot be opened; nothing follows.
    Failed(Error),
    /// News.
    Report(Report),
}
