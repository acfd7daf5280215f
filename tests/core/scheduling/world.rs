//! Drives an engine from a test: submits requests in an order, collects what comes.

use super::oracle::Oracle;
use crossbeam_channel::{Receiver, Sender, unbounded};
use llgtrt::config::{Config, DraftSource};
use llgtrt::engine::{Command, Engine, FromEngine};
use llgtrt::exec::open::{Opened, open_toy};
use llgtrt::exec::toy::{Toy, ToyConfig, ToyFault};
use llgtrt::exec::{Caps, Drafter, Drafters, ExecError, Forward, Kv, Rows, Run};
use llgtrt::metrics::Snapshot;
use llgtrt::request::{Limits, Request, RequestSpec};
use llgtrt::types::{End, Event, RequestId, Slot};
use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::Duration;

/// The engine of one test; without drafts, where nothing else is said.
#[derive(Clone)]
pub struct World {
    pub toy: ToyConfig,
    pub config: Config,
    pub fault: Option<ToyFault>,
    /// Drafts instead of the configured sources.
    pub oracle: Option<Oracle>,
}

impl Default for World {
    fn default() -> Self {
        let mut config = Config::default();
        config.speculative.sources = Some(Vec::new());
        World { toy: ToyConfig::default(), config, fault: None, oracle: None }
    }
}

/// Folder of an MLP speculator with random weights for the weightless engine.
pub fn speculator() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/core/speculator/untied-plain").into()
}

/// A weightless engine that calls `before` with the runs of a pass, then computes them.
pub struct Observed<F> {
    pub toy: Toy,
    pub before: F,
}

impl<F: FnMut(&[Run<'_>]) + Send> Forward for Observed<F> {
    fn caps(&self) -> &Caps {
        self.toy.caps()
    }

    fn forward(&mut self, runs: &[Run<'_>]) -> Result<Rows<'_>, ExecError> {
        (self.before)(runs);
        self.toy.forward(runs)
    }

    fn took(&self) -> Option<Duration> {
        self.toy.took()
    }
}

impl<F> Kv for Observed<F> {
    fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        self.toy.truncate(slot, keep)
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        self.toy.copy(from, to, len)
    }
}

/// What came, merged per choice.
#[derive(Default)]
pub struct Answers {
    pub choices: BTreeMap<(usize, u32), Event>,
    pub snapshot: Snapshot,
}

/// A running engine.
pub struct Live {
    pub commands: Sender<Command>,
    pub messages: Receiver<FromEngine>,
    info: llgtrt::exec::Info,
    engine: JoinHandle<(usize, usize, u64)>,
}

impl World {
    /// Starts the engine on a thread of its own; it ends when `Live` is dropped.
    pub fn start(&self) -> Live {
        let mut opened = open_toy(self.toy.clone(), &self.config, self.fault).unwrap();
        if let Some(oracle) = &self.oracle {
            let models: Vec<(DraftSource, Box<dyn Drafter>)> =
                vec![(DraftSource::MlpSpeculator, Box::new(oracle.clone()))];
            opened.drafters = Drafters { sources: vec![DraftSource::MlpSpeculator], ahead: None, models };
        }
        start(opened, &self.config)
    }

    /// As [`Live::run`], on a fresh engine.
    pub fn run(&self, requests: &[RequestSpec], order: &[usize], pause: usize) -> Answers {
        self.start().run(requests, order, pause)
    }

    /// One request alone.
    pub fn alone(&self, request: &RequestSpec) -> BTreeMap<u32, Event> {
        let answers = self.run(std::slice::from_ref(request), &[0], 0);
        answers.choices.into_iter().map(|((_, choice), event)| (choice, event)).collect()
    }
}

/// Runs any engine on a thread of its own; it ends when `Live` is dropped.
pub fn start(opened: Opened, config: &Config) -> Live {
    let info = opened.info.clone();
    let config = config.clone();
    let (commands, inbox) = unbounded();
    let (out, messages) = unbounded();
    let engine = std::thread::spawn(move || {
        let mut engine = Engine::new(opened, &config).unwrap();
        engine.run(&inbox, &mut |m| out.send(m).is_ok());
        engine.holds()
    });
    Live { commands, messages, info, engine }
}

/// The command that submits a request whose id is `index`.
pub fn submission(index: usize, spec: &RequestSpec, limits: &Limits) -> Command {
    Command::Submit(RequestId(index as u64), Box::new(Request::new(spec.clone(), limits).unwrap()))
}

impl Live {
    /// Sends a request whose id is `index`.
    pub fn submit(&self, index: usize, spec: &RequestSpec) {
        self.commands.send(submission(index, spec, &self.info.limits)).unwrap();
    }

    /// Ends the engine; what it held in the end, as [`Engine::holds`] says it.
    pub fn close(self) -> (usize, usize, u64) {
        drop(self.commands);
        self.engine.join().unwrap()
    }

    /// Submits the requests in `order` (indices), a new one whenever `pause` further messages have come.
    pub fn run(&self, requests: &[RequestSpec], order: &[usize], pause: usize) -> Answers {
        self.run_cancelling(requests, order, pause, &[])
    }

    /// The same; each of those in `cancelled` is cancelled just before the next one is submitted.
    pub fn run_cancelling(
        &self,
        requests: &[RequestSpec],
        order: &[usize],
        pause: usize,
        cancelled: &[usize],
    ) -> Answers {
        let mut answers = Answers::default();
        let mut expected = 0;
        for index in order {
            self.submit(*index, &requests[*index]);
            expected += requests[*index].n as usize;
            for _ in 0..pause {
                if let Ok(message) = self.messages.try_recv() {
                    answers.take(message);
                }
            }
            if cancelled.contains(index) {
                self.commands.send(Command::Cancel(RequestId(*index as u64))).unwrap();
            }
        }
        while answers.lags(expected) {
            answers.take(self.messages.recv().unwrap());
        }
        answers
    }

    /// Takes messages until every one of `expected` choices has ended and the engine says that it is idle.
    pub fn finish(&self, expected: usize) -> Answers {
        self.finish_after(Answers::default(), expected)
    }

    /// The same, where some messages have been taken.
    pub fn finish_after(&self, mut answers: Answers, expected: usize) -> Answers {
        while answers.lags(expected) {
            answers.take(self.messages.recv().unwrap());
        }
        answers
    }
}

impl Answers {
    /// Merges a message in.
    pub fn take(&mut self, message: FromEngine) {
        let FromEngine::Report(report) = message else { return };
        for event in report.events {
            let key = (event.request.0 as usize, event.choice);
            match self.choices.get_mut(&key) {
                Some(earlier) => {
                    assert!(earlier.end.is_none(), "news after the end of {key:?}");
                    earlier.merge(event);
                }
                None => {
                    self.choices.insert(key, event);
                }
            }
        }
        if let Some(snapshot) = report.metrics {
            self.snapshot = *snapshot;
            let totals = &self.snapshot.totals;
            let fates: Vec<_> = totals.drafting.sources.values().collect();
            for f in &fates {
                assert_eq!(f.drafted, f.accepted + f.target + f.grammar + f.stop + f.unverified, "{f:?}");
            }
            assert_eq!(totals.accepted_tokens, fates.iter().map(|f| f.accepted).sum::<u64>());
            assert!(totals.drafted_tokens >= fates.iter().map(|f| f.drafted).sum::<u64>());
        }
    }

    fn ended(&self) -> usize {
        self.choices.values().filter(|e| e.end.is_some()).count()
    }

    fn lags(&self, expected: usize) -> bool {
        let gauges = &self.snapshot.gauges;
        self.ended() < expected || gauges.running + gauges.waiting > 0
    }
}

/// What must not depend on anything but the request: text, tokens, log-probabilities, what a decision is told, end, counts.
pub fn essence(event: &Event) -> (String, Vec<u32>, String, Option<End>, [u32; 2]) {
    // How far a prompt or a path was told of that failed at its end depends on how it was cut.
    let failed = matches!(event.end, Some(End::Failed(_)));
    let of_prompt =
        if failed { String::new() } else { format!("{:?} {:?}", event.prompt_logprobs, event.successors) };
    let logprobs = format!("{:?} {of_prompt}", event.logprobs);
    (
        event.text.clone(),
        event.tokens.clone(),
        logprobs,
        event.end.clone(),
        [event.usage.completion, event.usage.reasoning],
    )
}
