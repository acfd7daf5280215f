//! The thread that lives an engine's lives, one after the other.

use super::OpenVocab;
use super::backoff::Series;
use super::shared::Shared;
use super::state::{Known, Phase, State};
use crate::config::{Config, KvPlan};
use crate::engine::FromEngine;
use crate::error::{Error, Result};
use crate::exec::Info;
use crate::process::{Line, Transport};
use crossbeam_channel::unbounded;
use std::sync::Arc;
use std::time::Instant;

/// What to open, and how.
pub(crate) struct Plan {
    pub(crate) target: String,
    pub(crate) config: Config,
    pub(crate) transport: Transport,
    pub(crate) vocab: OpenVocab,
    pub(crate) series: Series,
}

/// What became of one life.
#[derive(Default)]
struct Life {
    ready: Option<Instant>,
    useful: bool,
    /// Where KV lives.
    plan: Option<KvPlan>,
    /// Why it cannot be opened, in the engine's own words.
    refusal: Option<String>,
}

/// Runs engines until the handle is closed or the engine is given up.
pub(crate) fn run(shared: &Shared, mut plan: Plan) {
    loop {
        let (engine, inbox) = unbounded();
        if !shared.change(|state| state.begin(engine)) {
            break;
        }
        let mut life = Life::default();
        let mut sink = |message| hear(shared, &plan, &mut life, message);
        let hang_up = || shared.change(State::hang_up);
        let line = Line { inbox, sink: &mut sink, hang_up: &hang_up };
        let end = plan.transport.live(&plan.target, &plan.config, line);
        hang_up();
        // Free memory is another one at the next start; requests that wait were checked against this plan.
        plan.config.plan = plan.config.plan.or(life.plan);
        if !after(shared, &mut plan, &life, end) {
            break;
        }
    }
    shared.finish();
}

/// Takes in one message; false = this life has to end.
fn hear(shared: &Shared, plan: &Plan, life: &mut Life, message: FromEngine) -> bool {
    match message {
        FromEngine::Report(report) => {
            life.useful |= report.events.iter().any(|e| e.end.is_some());
            shared.change(|state| state.hear(report));
        }
        FromEngine::Opening(doing) => shared.turn(|state| state.opening(doing)),
        FromEngine::Failed(error) => life.refusal = Some(error.to_string()),
        FromEngine::Ready(info) => match get_known(shared, plan, *info) {
            Ok(known) => {
                life.plan = known.info.plan;
                life.ready = Some(Instant::now());
                shared.turn(|state| state.ready(known));
            }
            Err(error) => life.refusal = Some(error.to_string()),
        },
    }
    life.refusal.is_none()
}

/// The facts of an engine that is ready, with its tokenizer.
fn get_known(shared: &Shared, plan: &Plan, info: Info) -> Result<Arc<Known>> {
    let before = shared.read(State::known).ok();
    match before {
        // Requests that wait were checked against the old limits, and encoded with the old tokenizer.
        Some(known) if known.info.limits != info.limits => Err(Error::Executor(format!(
            "{} is another model now: restart the server to serve it",
            plan.target
        ))),
        Some(known) => Ok(Arc::new(Known { info, vocab: known.vocab.clone() })),
        None => (plan.vocab)(&plan.target, &info).map(|vocab| Arc::new(Known { info, vocab })),
    }
}

/// Decides what follows a life, and waits before the next one; false = none follows.
fn after(shared: &Shared, plan: &mut Plan, life: &Life, end: Result<String, String>) -> bool {
    let first = shared.read(State::known).is_err();
    let why = why(plan, life, end, first);
    let pause = match life.ready {
        Some(ready) => Some(plan.series.after_life(ready.elapsed(), life.useful)),
        None if first => None,
        None => plan.series.after_start(),
    };
    if !shared.turn(|state| state.lost(&why, pause.is_some())) {
        // The first failure is told to whoever starts the engine.
        if !first && shared.read(|state| state.phase().0) == Phase::Failed {
            log::error!("{why}");
        }
        return false;
    }
    let pause = pause.unwrap_or_default();
    log::warn!("{why}; it is started again in {} ms", pause.as_millis());
    shared.sleep(pause)
}

/// One line about how a life ended.
fn why(plan: &Plan, life: &Life, end: Result<String, String>, first: bool) -> String {
    match (&life.refusal, end, life.ready) {
        (Some(refusal), ..) => refusal.clone(),
        (None, Ok(end), None) if first => {
            format!(
                "{end} while it opened {}: its files are damaged or this machine cannot run it",
                plan.target
            )
        }
        (None, Ok(end) | Err(end), _) => end,
    }
}
