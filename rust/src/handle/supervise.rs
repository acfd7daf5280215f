//! The thread that lives an engine's lives, one after the other.

use super::backoff::Series;
use super::shared::Shared;
use super::state::{Known, Phase, State};
use crate::config::{Config, KvPlan};
use crate::engine::FromEngine;
use crate::error::{Error, Result, panic_text};
use crate::exec::Info;
use crate::process::{Line, Transport};
use crate::vocab::Vocab;
use crossbeam_channel::unbounded;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// A tokenizer that is being opened.
type Opening = JoinHandle<Result<Arc<Vocab>>>;

/// What to open, and how.
pub(crate) struct Plan {
    pub(crate) target: String,
    pub(crate) config: Config,
    pub(crate) transport: Transport,
    /// The tokenizer, until the engine is ready for the first time.
    pub(crate) vocab: Option<Opening>,
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
        let mut sink = |message| hear(shared, (&plan.target, &mut plan.vocab), &mut life, message);
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
fn hear(
    shared: &Shared,
    opening: (&str, &mut Option<Opening>),
    life: &mut Life,
    message: FromEngine,
) -> bool {
    match message {
        FromEngine::Report(report) => {
            life.useful |= report.events.iter().any(|e| e.end.is_some());
            shared.change(|state| state.hear(report));
        }
        FromEngine::Opening(doing) => shared.turn(|state| state.opening(doing)),
        FromEngine::Failed(error) => life.refusal = Some(error.to_string()),
        FromEngine::Ready(info) => match get_known(shared, opening, *info) {
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
fn get_known(
    shared: &Shared,
    (target, opening): (&str, &mut Option<Opening>),
    info: Info,
) -> Result<Arc<Known>> {
    let other = || Error::Executor(format!("{target} is another model now: restart the server to serve it"));
    let vocab = match (shared.read(State::known), opening.take()) {
        // Requests that wait were checked against the old limits, and encoded with the old tokenizer.
        (Ok(known), _) if known.info.limits != info.limits => return Err(other()),
        (Ok(known), _) => known.vocab.clone(),
        (Err(_), Some(opening)) => opening.join().map_err(|panic| {
            Error::Executor(format!("opening the vocabulary failed: {}", panic_text(&*panic)))
        })??,
        (Err(closed), None) => return Err(closed),
    };
    if (vocab.len() as u32, vocab.eog()) != (info.limits.n_vocab, &info.eog) {
        return Err(other());
    }
    Ok(Arc::new(Known { info, vocab }))
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
