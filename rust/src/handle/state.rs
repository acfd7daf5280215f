//! Everything behind the handle's one lock.

use super::book::Book;
use super::meter::{Meter, Metrics};
use crate::engine::{Command, Report};
use crate::error::{Error, Result};
use crate::exec::Info;
use crate::request::Request;
use crate::types::{Event, RequestId};
use crate::vocab::Vocab;
use crossbeam_channel::Sender;
use std::sync::Arc;

/// What the engine is doing, seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The first engine is being opened.
    Loading,
    /// It takes requests and works on them.
    Ready,
    /// It is gone and is being started again; requests wait.
    Restarting,
    /// It cannot be opened, or not any more.
    Failed,
    /// Closed by [`super::Handle::close`].
    Closed,
}

impl Phase {
    /// The phase's name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Loading => "loading",
            Phase::Ready => "ready",
            Phase::Restarting => "restarting",
            Phase::Failed => "failed",
            Phase::Closed => "closed",
        }
    }
}

/// Facts of the engine, from the first time that it is ready.
pub(crate) struct Known {
    pub(crate) info: Info,
    pub(crate) vocab: Arc<Vocab>,
}

/// What the handles, the supervisor and nobody else share.
pub(crate) struct State {
    phase: Phase,
    /// One line about the phase.
    why: String,
    /// What an engine that is being opened does.
    doing: Option<String>,
    known: Option<Arc<Known>>,
    /// To the engine of this life; none between lives.
    engine: Option<Sender<Command>>,
    book: Book,
    meter: Meter,
    next_id: u64,
    /// Most choices beyond the running ones; 0 = no bound.
    max_queue: u64,
}

impl State {
    pub(crate) fn new(why: String, max_queue: u32) -> Self {
        State {
            phase: Phase::Loading,
            why,
            doing: None,
            known: None,
            engine: None,
            book: Book::default(),
            meter: Meter::default(),
            next_id: 1,
            max_queue: max_queue.into(),
        }
    }

    /// The phase, and one line about it.
    pub(crate) fn phase(&self) -> (Phase, String) {
        let about = match (&self.doing, self.phase) {
            (None, _) => self.why.clone(),
            (Some(doing), Phase::Loading) => doing.clone(),
            (Some(doing), _) => format!("{}; {doing}", self.why),
        };
        (self.phase, about)
    }

    /// The engine's facts, which stay known while it is restarted.
    pub(crate) fn known(&self) -> Result<Arc<Known>> {
        self.known.clone().ok_or_else(|| self.absent())
    }

    /// Whether events wait.
    pub(crate) fn has_news(&self) -> bool {
        self.book.has_news()
    }

    pub(crate) fn drain(&mut self) -> Vec<Event> {
        self.book.drain()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let ready = self.phase == Phase::Ready;
        self.meter.read((!ready).then(|| self.book.waiting().len() as u64))
    }

    /// Enters a valid request and gives it to the engine, or keeps it until there is one.
    pub(crate) fn submit(&mut self, request: Request) -> Result<RequestId> {
        let known = self.known()?;
        if !matches!(self.phase, Phase::Ready | Phase::Restarting) {
            return Err(self.absent());
        }
        let mut open = self.book.open_choices();
        let waiting = open.values().sum::<u64>().saturating_sub(known.info.max_running.into());
        let own = *open.entry(request.spec().client).or_default();
        // One client that fills the queue shuts out itself: the others may have their shares of it all the same.
        if self.max_queue > 0 && waiting >= self.max_queue && own >= self.max_queue / open.len() as u64 {
            return Err(Error::Overloaded(format!("{waiting} choices are waiting: try again later")));
        }
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.book.add(id, Box::new(request));
        self.give(id);
        Ok(id)
    }

    pub(crate) fn cancel(&mut self, id: RequestId) {
        let listens = self.listening().is_some();
        if self.book.cancel(id, listens)
            && let Some(engine) = &self.engine
        {
            // An engine that has just died has nothing left to cancel.
            let _ = engine.send(Command::Cancel(id));
        }
    }

    /// A new life begins; false = it must not.
    pub(crate) fn begin(&mut self, engine: Sender<Command>) -> bool {
        let wanted = matches!(self.phase, Phase::Loading | Phase::Restarting);
        self.engine = wanted.then_some(engine);
        wanted
    }

    /// Takes in what is being done to open the engine.
    pub(crate) fn opening(&mut self, doing: String) {
        if matches!(self.phase, Phase::Loading | Phase::Restarting) {
            self.doing = Some(doing);
        }
    }

    /// The engine is ready: it gets all that waits.
    pub(crate) fn ready(&mut self, known: Arc<Known>) {
        if !matches!(self.phase, Phase::Loading | Phase::Restarting) {
            return;
        }
        self.phase = Phase::Ready;
        self.doing = None;
        self.why.clone_from(&known.info.summary);
        self.known = Some(known);
        for id in self.book.waiting() {
            self.give(id);
        }
    }

    pub(crate) fn hear(&mut self, mut report: Report) {
        if let Some(snapshot) = report.metrics.take() {
            self.meter.hear(*snapshot);
        }
        self.book.hear(report);
    }

    /// The engine says nothing more: commands wait for the next one.
    pub(crate) fn hang_up(&mut self) {
        self.engine = None;
    }

    /// The engine is gone, for `why`, and will be started again if `again`. False = no life follows: it will not, or
    /// the handle was closed.
    pub(crate) fn lost(&mut self, why: &str, again: bool) -> bool {
        if self.phase == Phase::Closed {
            return false;
        }
        self.doing = None;
        let mut failed = self.book.engine_gone(why);
        if again {
            self.meter.restarted();
            self.phase = Phase::Restarting;
        } else {
            failed += self.book.fail_all(&Error::Executor(why.to_owned()));
            self.phase = Phase::Failed;
        }
        self.meter.engine_gone(failed);
        why.clone_into(&mut self.why);
        again
    }

    /// Ends everything now. An engine that is not ready has nothing to tidy and is dropped without a word.
    pub(crate) fn close(&mut self) {
        if self.phase == Phase::Closed {
            return;
        }
        if let Some(engine) = self.listening() {
            let _ = engine.send(Command::Close);
        } else {
            self.engine = None;
        }
        self.doing = None;
        self.book.fail_all(&Error::Closed("the engine was closed".to_owned()));
        self.phase = Phase::Closed;
        "closed".clone_into(&mut self.why);
    }

    fn absent(&self) -> Error {
        Error::Closed(format!("the engine is {}: {}", self.phase.name(), self.phase().1))
    }

    fn give(&mut self, id: RequestId) {
        if self.listening().is_some()
            && let Some(engine) = &self.engine
            && let Some(request) = self.book.send(id)
        {
            // Where it has just died, the request is still entered as waiting.
            let _ = engine.send(Command::Submit(id, request));
        }
    }

    /// The engine, if it takes commands.
    fn listening(&self) -> Option<&Sender<Command>> {
        self.engine.as_ref().filter(|_| self.phase == Phase::Ready)
    }
}
