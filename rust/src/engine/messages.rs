//! The plain messages that go into the engine and out of it, over a channel or a socket.

use crate::error::Error;
use crate::exec::Promise;
use crate::metrics::Snapshot;
use crate::request::{Limits, Request};
use crate::types::{Event, RequestId, Token};
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
    /// One line about the engine: model, layout, KV type, threads. The same at every start of the same model and
    /// configuration.
    pub summary: String,
    /// A hash of samples of the model's file: another one for other weights.
    pub weights: u64,
    /// End-of-generation ids of the model and of generation_config, ascending.
    pub eog: Vec<Token>,
    /// The token to put before a prompt that comes as text, if the model wants one.
    pub bos: Option<Token>,
    /// The model's begin-of-sequence token, which templates may write.
    pub begin: Option<Token>,
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
