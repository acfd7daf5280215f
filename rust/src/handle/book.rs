//! Which requests are unfinished, what becomes of them when the engine is gone, and their merged events.

use super::outbox::Outbox;
use crate::engine::Report;
use crate::error::Error;
use crate::request::Request;
use crate::types::{End, Event, FinishReason, RequestId, Usage};
use std::collections::{BTreeMap, HashMap};

/// Engines that a waiting request is given to. One more would let a request whose grammar kills the engine while it
/// is compiled do so for ever.
const TRIES: u32 = 2;

/// The unfinished requests, in the order of their arrival, and the events that wait to be drained.
#[derive(Debug, Default)]
pub(crate) struct Book {
    entries: BTreeMap<RequestId, Entry>,
    outbox: Outbox,
}

#[derive(Debug)]
struct Entry {
    /// The last counts of each choice; none once it has ended.
    open: Vec<Option<Usage>>,
    /// The API key's number.
    client: u64,
    /// The request, while the engine has not begun it: it can be sent to another engine.
    waiting: Option<Box<Request>>,
    /// Engines it was given to.
    tries: u32,
    /// To be ended, not sent again, where its engine dies before it has read the cancellation.
    cancelled: bool,
}

impl Entry {
    /// Whether it ends with its engine.
    fn is_lost(&self) -> bool {
        self.cancelled || self.waiting.is_none() || self.tries >= TRIES
    }
}

impl Book {
    /// Enters a request.
    pub(crate) fn add(&mut self, id: RequestId, request: Box<Request>) {
        let open = vec![Some(Usage::default()); request.spec().n as usize];
        let client = request.spec().client;
        self.entries.insert(id, Entry { open, client, waiting: Some(request), tries: 0, cancelled: false });
    }

    /// Counts a waiting request as given to an engine, and returns what to give.
    pub(crate) fn send(&mut self, id: RequestId) -> Option<Box<Request>> {
        let entry = self.entries.get_mut(&id)?;
        let request = entry.waiting.clone()?;
        entry.tries += 1;
        Some(request)
    }

    /// Requests that no engine has begun, in the order of their arrival.
    pub(crate) fn waiting(&self) -> Vec<RequestId> {
        self.entries.iter().filter(|(_, e)| e.waiting.is_some()).map(|(id, _)| *id).collect()
    }

    /// Choices of each client that have not ended.
    pub(crate) fn open_choices(&self) -> HashMap<u64, u64> {
        let mut choices = HashMap::new();
        for entry in self.entries.values() {
            *choices.entry(entry.client).or_default() += entry.open.iter().flatten().count() as u64;
        }
        choices
    }

    /// Takes in an engine's report.
    pub(crate) fn hear(&mut self, report: Report) {
        for id in report.admitted {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.waiting = None;
            }
        }
        for event in report.events {
            self.post(event);
        }
    }

    /// Notes that a request is to be cancelled. True where the engine has to be told.
    pub(crate) fn cancel(&mut self, id: RequestId, engine_listens: bool) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        entry.cancelled = true;
        if entry.tries == 0 || !engine_listens {
            self.end(id, &End::Finished(FinishReason::Cancelled));
            return false;
        }
        true
    }

    /// The engine is gone. Ends what it had begun and what has been tried often enough; the rest goes on waiting.
    /// Returns the number of requests that failed.
    pub(crate) fn engine_gone(&mut self, why: &str) -> u64 {
        let failed = End::Failed(Error::Executor(why.to_owned()));
        let cancelled = End::Finished(FinishReason::Cancelled);
        let lost = self.entries.iter().filter(|(_, entry)| entry.is_lost());
        let lost: Vec<_> = lost.map(|(id, entry)| (*id, entry.cancelled)).collect();
        for (id, by_client) in &lost {
            self.end(*id, if *by_client { &cancelled } else { &failed });
        }
        lost.iter().filter(|(_, by_client)| !by_client).count() as u64
    }

    /// Ends everything with this error. Returns the number of requests.
    pub(crate) fn fail_all(&mut self, error: &Error) -> u64 {
        let ids: Vec<_> = self.entries.keys().copied().collect();
        for id in &ids {
            self.end(*id, &End::Failed(error.clone()));
        }
        ids.len() as u64
    }

    /// Takes the events that wait.
    pub(crate) fn drain(&mut self) -> Vec<Event> {
        self.outbox.take()
    }

    /// Whether events wait.
    pub(crate) fn has_news(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Ends all open choices of a request.
    fn end(&mut self, request: RequestId, end: &End) {
        let Some(entry) = self.entries.remove(&request) else { return };
        for (choice, usage) in (0..).zip(entry.open) {
            let Some(usage) = usage else { continue };
            let end = Some(end.clone());
            self.outbox.push(Event { end, ..Event::silent(request, choice, usage) });
        }
    }

    /// Passes on news of an open choice. News of others is late: they were ended here.
    fn post(&mut self, event: Event) {
        let Some(entry) = self.entries.get_mut(&event.request) else { return };
        let Some(open) = entry.open.get_mut(event.choice as usize).filter(|open| open.is_some()) else {
            return;
        };
        *open = event.end.is_none().then_some(event.usage);
        entry.waiting = None;
        if entry.open.iter().all(Option::is_none) {
            self.entries.remove(&event.request);
        }
        self.outbox.push(event);
    }
}
