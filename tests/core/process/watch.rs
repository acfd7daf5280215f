//! Waiting for things to happen, with an end.

use llgtrt::error::Error;
use llgtrt::handle::{Handle, Phase};
use llgtrt::types::{End, Event, FinishReason, RequestId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Nothing here takes as long on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until this holds.
pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for this phase and returns its line.
pub(super) fn until_phase(handle: &Handle, phase: Phase) -> String {
    until(&format!("it is {}; now {:?}", phase.name(), handle.state()), || handle.state().0 == phase);
    handle.state().1
}

/// Waits until the engine is ready and returns the id of its process.
pub(super) fn until_ready(handle: &Handle) -> u32 {
    until_phase(handle, Phase::Ready).parse().unwrap()
}

/// Whether the handle's descriptor is readable now.
pub(super) fn is_readable(handle: &Handle) -> bool {
    poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1
}

/// All that a choice has said.
#[derive(Default, Debug)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) tokens: usize,
    pub(super) end: Option<End>,
}

/// What the choices have said, and how they ended.
#[derive(Default)]
pub(super) struct Watch(pub(super) BTreeMap<(RequestId, u32), Said>);

impl Watch {
    /// Drains the handle once.
    pub(super) fn drain(&mut self, handle: &Handle) {
        for Event { request, choice, text, tokens, end, .. } in handle.drain() {
            let said = self.0.entry((request, choice)).or_default();
            assert!(said.end.is_none(), "{request:?} speaks after its end");
            said.text.push_str(&text);
            said.tokens += tokens.len();
            said.end = end;
        }
    }

    /// Drains until all choices of these requests have ended. `n` is the same for all.
    pub(super) fn until_ended(&mut self, handle: &Handle, requests: &[RequestId], n: u32) {
        until(&format!("{requests:?} have ended"), || {
            self.drain(handle);
            requests.iter().all(|id| (0..n).all(|choice| self.end(*id, choice).is_some()))
        });
    }

    /// Drains until each of these requests has said something.
    pub(super) fn until_speaking(&mut self, handle: &Handle, requests: &[RequestId]) {
        until(&format!("{requests:?} speak"), || {
            self.drain(handle);
            requests.iter().all(|id| self.0.get(&(*id, 0)).is_some_and(|said| !said.text.is_empty()))
        });
    }

    pub(super) fn end(&self, request: RequestId, choice: u32) -> Option<&End> {
        self.0.get(&(request, choice)).and_then(|said| said.end.as_ref())
    }

    /// The text of a choice that ended by its length.
    pub(super) fn text(&self, request: RequestId, choice: u32) -> &str {
        assert_eq!(self.end(request, choice), Some(&End::Finished(FinishReason::Length)));
        &self.0[&(request, choice)].text
    }

    /// The message of an executor error.
    pub(super) fn executor_error(&self, request: RequestId) -> &str {
        match self.end(request, 0) {
            Some(End::Failed(Error::Executor(why))) => why,
            other => panic!("{request:?} ended as {other:?}"),
        }
    }
}
