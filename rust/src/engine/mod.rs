//! The step loop: admit, plan, draft, verify, commit.
//!
//! One thread owns everything here. Messages come in through a channel and go out through a sink; nothing is shared.

mod admit;
mod commit;
mod draft;
mod end;
mod messages;
mod tally;
mod waiting;

pub use messages::{Command, FromEngine, Report};

use crate::config::{Config, GrammarConfig};
use crate::error::{Error, panic_text};
use crate::exec::cost::{Cost, Work};
use crate::exec::open::{self, Opened};
use crate::exec::{Caps, Drafters, ExecError, Job, Target};
use crate::grammar::Compiler;
use crate::metrics::{self, Gauges};
use crate::request::Request;
use crate::sched::drafts::Drafts;
use crate::sched::slots::Slots;
use crate::sched::store::Store;
use crate::sched::{self, Bounds, Share};
use crate::sequence::Sequence;
use crate::types::{FinishReason, RequestId, Slot};
use crate::vocab::Vocab;
use crossbeam_channel::{Receiver, TryRecvError, after, bounded, never, select};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally::Tally;
use waiting::{Arrival, Seeds, Waiting};

/// Most logits of a step for the prompt's own tokens: 64 MiB.
const SCORED: u64 = 16 << 20;
/// How often an idle engine looks whether what it keeps has to make room for other processes.
const LOOK: Duration = Duration::from_secs(1);
/// Failed steps in a row after which the engine gives itself up.
const MOST_FAILURES: u32 = 3;

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
    let opened = match catch_unwind(AssertUnwindSafe(|| open::open(target, config, &tell))) {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => {
            sink(FromEngine::Failed(error));
            return;
        }
        Err(panic) => {
            let why = format!("opening failed: {}", panic_text(panic.as_ref()));
            sink(FromEngine::Failed(Error::Executor(why)));
            return;
        }
    };
    let info = opened.info.clone();
    match Engine::new(opened, config) {
        Err(error) => {
            sink(FromEngine::Failed(error));
        }
        Ok(mut engine) => {
            if sink(FromEngine::Ready(Box::new(info))) {
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
    seeds: Seeds,
    tally: Tally,
    report: Report,
    store: Store,
    age: u64,
    failures: u32,
    /// What the last drafting took.
    drafting: Duration,
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
        let complete = config.grammar.complete && !caps.draws;
        let grammar = GrammarConfig { complete, ..config.grammar.clone() };
        let compiler = Compiler::new(vocab.clone(), &grammar, max_running, wake)?;
        let host_bytes = admit::host_bytes(config, &caps);
        Ok(Engine {
            slots: Slots::new(caps.slots, caps.copying),
            drafts: Drafts::new(caps.ragged, &drafters.probed()),
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
            seeds: Seeds::new(config.engine.seed),
            tally: Tally::new(),
            report: Report::default(),
            store: Store::new(host_bytes),
            age: 0,
            failures: 0,
            drafting: Duration::ZERO,
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
        self.tally.arrived(id, request.spec().n);
        let spec = request.spec();
        let compiling = spec.grammar.as_ref().map(|g| self.compiler.compile(g, spec.client));
        let seed = spec.sampling.seed.unwrap_or_else(|| self.seeds.next());
        self.waiting.push(Arrival {
            id,
            request: Arc::new(request),
            arrived: Instant::now(),
            seed,
            compiling,
        });
    }

    fn cancel(&mut self, id: RequestId) {
        let (arrival, sequences) = self.waiting.remove(id);
        if let Some(arrival) = arrival {
            self.end_arrival(&arrival, &Ok(FinishReason::Cancelled));
        }
        for sequence in sequences {
            self.end_sequence(sequence, Ok(FinishReason::Cancelled));
        }
        for i in (0..self.running.len()).rev().filter(|i| self.running[*i].request == id).collect::<Vec<_>>()
        {
            let sequence = self.running.remove(i);
            self.end_sequence(sequence, Ok(FinishReason::Cancelled));
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
        let jobs = self.jobs();
        self.busy = !jobs.is_empty();
        self.evict_to_fit(draft::drafted(&jobs))?;
        let done = self.target.run(jobs)?;
        if !done.passes.is_empty() {
            self.failures = 0;
        }
        self.learn(&done);
        self.commit(done.outcomes)?;
        self.keep_shared()
    }

    /// The jobs of a step, with their drafts.
    fn jobs(&mut self) -> Vec<Job> {
        let begin = Instant::now();
        let shares = self.plan();
        let mut jobs: Vec<Job> =
            shares.iter().map(|share| self.running[share.index].job(share.count)).collect();
        self.draft(&shares, &mut jobs);
        self.drafted(&jobs, begin.elapsed());
        jobs
    }

    /// Counts what drafting for these jobs took.
    fn drafted(&mut self, jobs: &[Job], took: Duration) {
        self.drafting = took;
        let sequences = jobs.iter().filter(|job| job.tokens.len() == 1).count() as u32;
        if sequences > 0 && !self.drafters.is_empty() {
            self.tally.totals.draft[metrics::size(sequences)].observe(took.as_secs_f64());
        }
    }

    fn plan(&mut self) -> Vec<Share> {
        let decoding = self.running.iter().filter(|s| s.gap() == 1);
        let held: u64 = decoding.clone().map(|s| u64::from(s.known())).sum();
        let beside = Work::of_step(decoding.count() as u32, held);
        let long = self.running.iter().filter(|s| s.gap() > 1);
        let depth = long.map(|s| u64::from(s.computed())).max().unwrap_or(0);
        let limit = Duration::from_millis(u64::from(self.config.engine.max_step_ms));
        let bounds = Bounds {
            tokens: self.step_tokens(),
            chunk_tokens: self.cost.chunk_tokens(beside, depth, limit),
            scored_tokens: (self.caps.max_logits.min(SCORED) / self.caps.n_vocab as u64).max(1) as u32,
            chunked: self.config.enable_chunked_context && !self.caps.keeps_prompts,
        };
        let shares = sched::plan(&self.running, &bounds);
        self.tally.totals.computed_tokens += shares.iter().map(|s| u64::from(s.count)).sum::<u64>();
        shares
    }

    /// Most tokens that a step computes.
    fn step_tokens(&self) -> u32 {
        if self.caps.keeps_prompts {
            return self.caps.max_step_tokens;
        }
        self.config.max_num_tokens.min(self.caps.max_step_tokens)
    }

    /// Sends the report, if there is news. False: nobody listens.
    fn tell(&mut self, sink: &mut dyn FnMut(FromEngine) -> bool) -> bool {
        let idle = self.running.is_empty() && (self.waiting.is_empty() || !self.busy);
        let compiled = self.compiler.stats();
        self.tally.totals.grammar_cache_hits = compiled.hits;
        self.tally.totals.grammar_cache_misses = compiled.misses;
        compiled.durations.iter().for_each(|took| self.tally.totals.compile.observe(took.as_secs_f64()));
        let models = &self.drafters.models;
        let gauges = Gauges {
            waiting: self.waiting.requests() as u64,
            running: self.running.len() as u64,
            kv_used: self.running.iter().map(|s| u64::from(s.known())).sum(),
            kv_total: self.caps.kv_total,
            kv_kept: self.kept_tokens(),
            grammar_cache_entries: compiled.entries,
            draft_kv_used: models.iter().map(|(_, drafter)| drafter.held()).sum(),
            drafters_failed: models.iter().filter(|(_, drafter)| drafter.failed()).count() as u64,
        };
        self.report.metrics = self.tally.snapshot(gauges, idle);
        let report = std::mem::take(&mut self.report);
        if report.events.is_empty() && report.admitted.is_empty() && report.metrics.is_none() {
            return true;
        }
        sink(FromEngine::Report(report))
    }

    /// Requests that have not ended, sequences, and bytes of KV that wait for one: all 0 when nothing leaks.
    pub fn holds(&self) -> (usize, usize, u64) {
        (self.tally.open(), self.running.len(), self.store.owned_bytes())
    }
}
