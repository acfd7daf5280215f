//! The plain messages that go into the engine and out of it, over a channel or a socket.

use crate::error::Error;
use crate::exec::Info;
use crate::metrics::Snapshot;
use crate::request::Request;
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

/// What a starting engine says first, and then reports.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromEngine {
    /// What it is doing before it is opened.
    Opening(String),
    /// Opened; sent once.
    Ready(Box<Info>),
    /// Cannot be opened; nothing follows.
    Failed(Error),
    /// News.
    Report(Report),
}
