//! An engine of which every misbehaviour can be ordered.

use crossbeam_channel::{Receiver, TryRecvError};
use llgtrt::config::{Config, KvHome, KvPlan};
use llgtrt::engine::{Command, FromEngine, Report};
use llgtrt::error::Error;
use llgtrt::exec::{Info, Promise};
use llgtrt::metrics::Snapshot;
use llgtrt::request::{Limits, Request, RequestSpec};
use llgtrt::types::{End, Event, FinishReason, RequestId, Usage};
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// Choices that run at the same time.
pub(super) const RUNNING: usize = 16;

/// What becomes of a request is the first token of its prompt.
#[derive(Clone, Copy)]
pub(super) enum Does {
    /// Emits `a` and its position until `max_tokens`.
    Stream = 1,
    /// Kills the engine before it is admitted, as a grammar might while it is compiled.
    AbortWaiting = 2,
    /// Kills the engine when it runs.
    AbortRunning = 3,
    /// Stops the engine's thread for a minute.
    Hang = 4,
    /// Panics.
    Panic = 5,
}

/// A request for `tokens` tokens in each of `n` choices.
pub(super) fn ask(does: Does, n: u32, tokens: u32) -> RequestSpec {
    let json = format!(r#"{{"prompt": [{}], "n": {n}, "max_tokens": {tokens}}}"#, does as u32);
    serde_json::from_str(&json).unwrap()
}

/// The engine. Targets: `fake` serves, `refuse` says that it can't be opened, `abort` dies while it is opened, `slow`
/// takes a minute to open, `unless:FILE` dies while it is opened where FILE exists. A step takes `max_step_ms` or, with
/// 250, the default, 1 ms.
pub(super) fn serve(
    target: &str,
    config: &Config,
    inbox: Receiver<Command>,
    sink: &mut dyn FnMut(FromEngine) -> bool,
) {
    match target.split_once(':').unwrap_or((target, "")) {
        ("refuse", _) => {
            sink(FromEngine::Failed(Error::invalid("target", "holds no model")));
            return;
        }
        ("abort", _) => std::process::abort(),
        ("slow", _) => {
            sink(FromEngine::Opening("reading slowly".into()));
            std::thread::sleep(Duration::from_secs(60));
        }
        ("unless", file) if Path::new(file).exists() => std::process::abort(),
        _ => {}
    }
    if sink(FromEngine::Ready(Box::new(info(config)))) {
        let step = Duration::from_millis(if config.engine.max_step_ms == 250 { 1 } else { 0 });
        Engine { step, ..Engine::default() }.run(&inbox, sink);
    }
}

/// The summary is the engine's process id, which is also what it plans KV for.
fn info(config: &Config) -> Info {
    let id = std::process::id();
    let plan = KvPlan { home: KvHome::Pool, sequences: 1, cells: id, per_slot: id, total: id.into() };
    Info {
        limits: Limits {
            n_vocab: 268,
            context: 1 << 20,
            max_prompt: u32::MAX,
            default_output: u32::MAX,
            faults: true,
            lacks: Default::default(),
        },
        max_running: RUNNING as u32,
        kv_tokens: config.plan.unwrap_or(plan).total,
        threads: 1,
        plan: Some(config.plan.unwrap_or(plan)),
        promise: Promise::BitIdentical,
        summary: id.to_string(),
        weights: 1,
        eog: vec![266, 267],
        bos: None,
        begin: None,
        chat_template: None,
        tool_use_template: None,
        rag_template: None,
    }
}

#[derive(Default)]
struct Engine {
    step: Duration,
    waiting: VecDeque<(RequestId, Box<Request>)>,
    running: Vec<(RequestId, u32, u32)>,
    done: Vec<Event>,
    metrics: Snapshot,
    /// What the last admitted request does once it is reported as admitted.
    armed: u32,
}

impl Engine {
    fn run(&mut self, inbox: &Receiver<Command>, sink: &mut dyn FnMut(FromEngine) -> bool) {
        while self.listen(inbox) {
            misbehave(std::mem::take(&mut self.armed));
            let mut report = Report { admitted: self.admit(), ..Report::default() };
            report.events = self.advance();
            self.metrics.totals.steps += 1;
            report.metrics = Some(Box::new(self.metrics.clone()));
            if !sink(FromEngine::Report(report)) {
                return;
            }
            std::thread::sleep(self.step);
        }
        let closed = End::Failed(Error::Closed("closed".into()));
        let events = self.running.iter().map(|(id, choice, _)| event(*id, *choice, Some(closed.clone())));
        sink(FromEngine::Report(Report { events: events.collect(), ..Report::default() }));
    }

    fn listen(&mut self, inbox: &Receiver<Command>) -> bool {
        loop {
            let idle = self.waiting.is_empty() && self.running.is_empty() && self.done.is_empty();
            let command =
                if idle { inbox.recv().map_err(|_| TryRecvError::Disconnected) } else { inbox.try_recv() };
            match command {
                Ok(Command::Submit(id, request)) => self.waiting.push_back((id, request)),
                Ok(Command::Cancel(id)) => self.cancel(id),
                Ok(Command::Close) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn cancel(&mut self, id: RequestId) {
        let of_waiting = self.waiting.iter().filter(|(w, _)| *w == id);
        let mut choices: Vec<u32> = of_waiting.flat_map(|(_, r)| 0..r.spec().n).collect();
        choices.extend(self.running.iter().filter(|(r, ..)| *r == id).map(|(_, choice, _)| choice));
        self.waiting.retain(|(w, _)| *w != id);
        self.running.retain(|(r, ..)| *r != id);
        let end = End::Finished(FinishReason::Cancelled);
        self.done.extend(choices.into_iter().map(|choice| event(id, choice, Some(end.clone()))));
    }

    fn admit(&mut self) -> Vec<RequestId> {
        let mut admitted = Vec::new();
        while let Some((id, request)) = self.waiting.front() {
            let does = request.spec().prompt[0];
            if does == Does::AbortWaiting as u32 {
                std::process::abort();
            }
            if self.running.len() + request.spec().n as usize > RUNNING {
                break;
            }
            admitted.push(*id);
            self.running.extend((0..request.spec().n).map(|choice| (*id, choice, request.max_tokens())));
            self.waiting.pop_front();
            self.armed = self.armed.max(does);
        }
        admitted
    }

    fn advance(&mut self) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.done);
        for (id, choice, left) in &mut self.running {
            *left -= 1;
            let end = (*left == 0).then_some(End::Finished(FinishReason::Length));
            events.push(Event { text: "a".into(), tokens: vec![*left], ..event(*id, *choice, end) });
        }
        self.running.retain(|(.., left)| *left > 0);
        events
    }
}

fn misbehave(does: u32) {
    match does {
        _ if does == Does::AbortRunning as u32 => std::process::abort(),
        _ if does == Does::Hang as u32 => std::thread::sleep(Duration::from_secs(60)),
        // Past the panic hook: what it prints would look like a failed test's.
        _ if does == Does::Panic as u32 => std::panic::resume_unwind(Box::new("as ordered")),
        _ => {}
    }
}

fn event(request: RequestId, choice: u32, end: Option<End>) -> Event {
    let usage = Usage { prompt: 1, ..Usage::default() };
    Event { end, ..Event::silent(request, choice, usage) }
}
