//! The step loop: admit, plan, draft, verify, commit.
//!
//! One thread owns everything here. Messages come in through a channel and go out through a sink; nothing is shared.

mod admit;
mod commit;
mod draft;
mod neighbours;
mod tally;
mod waiting;

use crate::config::{Config, GrammarConfig};
use crate::error::{Error, caught, panic_text};
use crate::exec::cost::{Cost, Work};
use crate::exec::open::{self, Opened};
use crate::exec::{Caps, Drafters, ExecError, Info, Job, Target};
use crate::grammar::Compiler;
use crate::metrics::{self, Gauges, Snapshot};
use crate::request::Request;
use crate::sampler::seed_of;
use crate::sched::drafts::Drafts;
use crate::sched::slots::Slots;
use crate::sched::store::Store;
use crate::sched::{self, Bounds, Turn};
use crate::sequence::Sequence;
use crate::types::{End, Event, FinishReason, RequestId, Slot};
use crate::vocab::Vocab;
use crossbeam_channel::{Receiver, TryRecvError, after, bounded, never, select};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally::Tally;
use waiting::{Arrival, Waiting};

/// Most logits of a step for the prompt's own tokens: 64 MiB.
const SCORED: u64 = 16 << 20;
/// How often an idle engine looks whether what it keeps has to make room for other processes.
const LOOK: Duration = Duration::from_secs(1);
/// Failed steps in a row after which the engine gives itself up.
const MOST_FAILURES: u32 = 3;

/// What the engine is told, over a channel or a socket.
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

/// Opens the engine for `target`, says Opening as often as there is something to say and then Ready or Failed, and runs until
/// [`Command::Close`], until the sender of `inbox` is gone, or until `sink` says that nobody listens (false).
pub fn serve(
    target: &str,
    config: &Config,
    inbox: Receiver<Command>,
    sink: &mut dyn FnMut(FromEngine) -> bool,
) {
    let told = RefCell::new(&mut *sink);
    let tell = |doing| {
        // Where nobody listens any more, Ready will tell.
        let _ = (told.borrow_mut())(FromEngine::Opening(doing));
    };
    let opened = caught("opening", || open::open(target, config, &tell));
    let engine = opened.and_then(|opened| Ok((Box::new(opened.info.clone()), Engine::new(opened, config)?)));
    match engine {
        Err(error) => _ = sink(FromEngine::Failed(error)),
        Ok((info, mut engine)) => {
            if sink(FromEngine::Ready(info)) {
                engine.run(&inbox, sink);
            }
        }
    }
}

/// Everything that one engine thread owns.
pub struct Engine {
    target: Box<dyn Target>,
    drafters: Drafters,
    vocab: Arc<Vocab>,
    compiler: Compiler,
    config: Config,
    caps: Caps,
    max_running: usize,
    waiting: Waiting,
    /// Oldest first.
    running: Vec<Sequence>,
    slots: Slots,
    /// Of the target's passes.
    cost: Cost,
    drafts: Drafts,
    /// Seeds that were drawn for requests without one.
    seeds: u64,
    tally: Tally,
    store: Store,
    age: u64,
    /// Whose prompt comes first in the next step with several.
    turn: Turn,
    failures: u32,
    /// The last step did something: there may be more to do at once.
    busy: bool,
    /// Rings where a compilation has ended.
    bell: Receiver<()>,
    /// A slot could not be emptied: nothing that it holds can be trusted.
    broken: bool,
    closing: bool,
}

impl Engine {
    /// An engine that holds nothing.
    ///
    /// # Errors
    /// Where the vocabulary does not suit the grammar compiler.
    pub fn new(opened: Opened, config: &Config) -> Result<Self, Error> {
        let Opened { target, drafters, vocab, info } = opened;
        let (ring, bell) = bounded(1);
        // A bell that has not been heard yet need not ring again.
        let wake = Arc::new(move || {
            let _ = ring.try_send(());
        });
        let max_running = info.max_running as usize;
        let caps = target.caps().clone();
        let complete = config.grammar.complete && caps.completes;
        let grammar = GrammarConfig { complete, ..config.grammar.clone() };
        let compiler = Compiler::new(vocab.clone(), &grammar, max_running, wake)?;
        let store = Store::new(admit::host_bytes(config, &caps), caps.stateful || !caps.prefix_reuse);
        Ok(Engine {
            slots: Slots::new(caps.slots, caps.copying),
            drafts: Drafts::new(caps.ragged, &drafters.models),
            cost: Cost::new(&caps.probed),
            target,
            drafters,
            vocab,
            compiler,
            config: config.clone(),
            caps,
            max_running,
            waiting: Waiting::default(),
            running: Vec::new(),
            seeds: 0,
            tally: Tally::new(),
            store,
            age: 0,
            turn: Turn::Shortest,
            failures: 0,
            busy: false,
            bell,
            broken: false,
            closing: false,
        })
    }

    /// Steps until told to leave; see [`serve`].
    pub fn run(&mut self, inbox: &Receiver<Command>, sink: &mut dyn FnMut(FromEngine) -> bool) {
        while self.listen(inbox) {
            self.guarded_step();
            if !self.tell(sink) || self.broken || self.failures >= MOST_FAILURES {
                return;
            }
        }
        self.end_all(&Error::Closed("the engine is shutting down".into()), true);
        self.tell(sink);
    }

    /// Takes the commands that wait. Where there is nothing to do, waits for one, for the bell, or until it is time to look at memory.
    /// False: leave.
    fn listen(&mut self, inbox: &Receiver<Command>) -> bool {
        if !self.busy {
            let look = if self.shares_memory() && self.kept_tokens() > 0 { after(LOOK) } else { never() };
            let command = select! {
                recv(inbox) -> command => Some(command),
                recv(self.bell) -> _ => None,
                recv(look) -> _ => None,
            };
            match command {
                Some(Ok(command)) => self.obey(command),
                Some(Err(_)) => return false,
                None => {}
            }
        }
        loop {
            match inbox.try_recv() {
                Ok(command) => self.obey(command),
                Err(TryRecvError::Empty) => return !self.closing,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(id, request) => self.arrive(id, *request),
            Command::Cancel(id) => self.cancel(id),
            Command::Close => self.closing = true,
        }
    }

    fn arrive(&mut self, id: RequestId, request: Request) {
        let spec = request.spec();
        self.tally.open.insert(id, (spec.n, spec.n));
        let compiling = spec.grammar.as_ref().map(|g| self.compiler.compile(g, spec.client));
        let seed = spec.sampling.seed.unwrap_or_else(|| self.seed());
        let (request, arrived) = (Arc::new(request), Instant::now());
        self.waiting.push(Arrival { id, request, arrived, seed, compiled: None }, compiling);
    }

    /// A seed for a request that has none: from the configured one, or a number that no other request is likely to have, from
    /// the standard library's per-process random keys.
    fn seed(&mut self) -> u64 {
        self.seeds += 1;
        let drawn = || RandomState::new().build_hasher().finish();
        self.config.engine.seed.map_or_else(drawn, |seed| seed_of(seed, self.seeds))
    }

    fn cancel(&mut self, id: RequestId) {
        let end = End::Finished(FinishReason::Cancelled);
        let (arrival, mut sequences) = self.waiting.remove(id);
        if let Some(arrival) = arrival {
            self.end_arrival(&arrival, &end);
        }
        sequences.extend(self.running.extract_if(.., |sequence| sequence.request == id));
        for sequence in sequences {
            self.tally.told(sequence.last_event(end.clone()), sequence.arrival, sequence.last_token);
            self.vacate(sequence, true);
        }
    }

    /// A failing step ends the running sequences, not the engine.
    fn guarded_step(&mut self) {
        let failed = match catch_unwind(AssertUnwindSafe(|| self.step())) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.0,
            Err(panic) => panic_text(panic.as_ref()).to_owned(),
        };
        log::error!("engine step failed: {failed}");
        self.failures += 1;
        // What waits has room now.
        self.busy = true;
        self.end_all(&Error::Executor(format!("the engine failed: {failed}")), false);
        for slot in (0..self.caps.slots).map(Slot) {
            self.drafters.each().for_each(|drafter| drafter.keep(slot, 0));
        }
        self.broken |= self.target.reset().is_err();
        self.slots = Slots::new(self.caps.slots, self.caps.copying);
    }

    fn step(&mut self) -> Result<(), ExecError> {
        self.admit()?;
        self.make_room()?;
        self.close_gaps()?;
        let begin = Instant::now();
        let mut jobs = self.plan()?;
        let drafted = self.draft(&mut jobs);
        let drafting = begin.elapsed();
        let decoding = jobs.iter().filter(|(_, job)| job.tokens.len() == 1).count() as u32;
        if decoding > 0 && !self.drafters.sources.is_empty() {
            self.tally.totals.draft[metrics::size(decoding)].observe(drafting.as_secs_f64());
        }
        self.busy = !jobs.is_empty();
        self.evict_to_fit(drafted)?;
        let done = self.target.run(jobs.into_iter().map(|(_, job)| job).collect())?;
        if !done.passes.is_empty() {
            self.failures = 0;
        }
        self.learn(&done, drafting);
        self.commit(done.outcomes);
        self.keep_marked()
    }

    /// The step's jobs, which have no drafts yet, each with the index of its sequence.
    fn plan(&mut self) -> Result<Vec<(usize, Job)>, ExecError> {
        let decoding = self.running.iter().filter(|s| s.gap() == 1);
        let held: u64 = decoding.clone().map(|s| u64::from(s.known())).sum();
        let beside = Work::of_step(decoding.count() as u32, held);
        let long = self.running.iter().filter(|s| s.gap() > 1);
        let prompts = long.clone().count();
        let depth = long.map(|s| u64::from(s.computed())).max().unwrap_or(0);
        let limit = Duration::from_millis(u64::from(self.config.engine.max_step_ms));
        let bounds = Bounds {
            tokens: self.step_tokens(),
            chunk_tokens: self.cost.chunk_tokens(beside, depth, limit),
            scored_rows: (self.caps.max_logits.min(SCORED) / self.caps.n_vocab as u64).max(1) as u32,
            chunked: self.config.enable_chunked_context && !self.caps.keeps_prompts,
            pass_tokens: if self.caps.ragged { 0 } else { self.cost.tokens_of_a_pass() },
        };
        let mut shares = sched::plan(&self.running, &bounds, self.turn);
        while self.borrow_any(&shares)? {
            shares = sched::plan(&self.running, &bounds, self.turn);
        }
        if prompts > 1 {
            self.turn = self.turn.next();
        }
        Ok(shares.into_iter().map(|(index, count)| (index, self.running[index].job(count))).collect())
    }

    /// Most tokens that a step computes.
    fn step_tokens(&self) -> u32 {
        let most = self.caps.max_step_tokens;
        if self.caps.keeps_prompts { most } else { most.min(self.config.max_num_tokens) }
    }

    /// Sends the report, if there is news. False: nobody listens.
    fn tell(&mut self, sink: &mut dyn FnMut(FromEngine) -> bool) -> bool {
        let waiting = self.waiting.requests();
        let none = waiting == 0 && self.waiting.admitted.is_empty();
        let idle = self.running.is_empty() && (none || !self.busy);
        let compiled = self.compiler.stats();
        let totals = &mut self.tally.totals;
        (totals.grammar_cache_hits, totals.grammar_cache_misses) = (compiled.hits, compiled.misses);
        compiled.durations.iter().for_each(|took| totals.compile.observe(took.as_secs_f64()));
        let memory = self.target.kv().memory();
        totals.kv_returned_tokens = memory.returned;
        let models = &self.drafters.models;
        let gauges = Gauges {
            waiting: waiting as u64,
            running: self.running.len() as u64,
            kv_used: self.running.iter().map(|s| u64::from(s.known())).sum(),
            kv_total: self.caps.kv_total,
            kv_kept: self.kept_tokens(),
            kv_resident: memory.resident,
            grammar_cache_entries: compiled.entries,
            draft_kv_used: models.iter().map(|(_, drafter)| drafter.held()).sum(),
            drafters_failed: models.iter().filter(|(_, drafter)| drafter.failed()).count() as u64,
        };
        let metrics = self.tally.snapshot(gauges, idle);
        let report = Report { metrics, ..std::mem::take(&mut self.tally.report) };
        let nothing = report.events.is_empty() && report.admitted.is_empty() && report.metrics.is_none();
        nothing || sink(FromEngine::Report(report))
    }

    /// Requests that have not ended, sequences, and bytes of KV that wait for one: all 0 when nothing leaks.
    pub fn holds(&self) -> (usize, usize, u64) {
        (self.tally.open.len(), self.running.len(), self.store.owned_bytes())
    }
}
