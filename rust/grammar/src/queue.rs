//! The compiler's queue, cache and threads, owned by one thread that never compiles itself.

use super::GrammarSpec;
use super::budget::{Budget, too_slow};
use super::build::Builder;
use super::counters::Counters;
use super::sections::Plan;
use super::workers::{Worker, Workers};
use crate::error::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// The client of requests that come without an API key: all of them, where the server has none.
const NOBODY: u64 = 0;

/// Bytes of a grammar for each byte of its source, but for the states of its texts.
const BYTES_PER_BYTE: u64 = 16;

/// All grammars in the cache are measured when so many have come: of thousands, that takes longer than to compile one.
const MEASURED_EACH: u64 = 16;

/// What a compilation ends in; shared by everybody who asked for it.
pub(super) type Outcome = Result<Arc<Plan>>;

/// Who waits for a compilation.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) id: u64,
    pub(super) client: u64,
    pub(super) reply: Sender<Outcome>,
}

#[derive(Debug)]
pub(super) enum Message {
    Compile(GrammarSpec, Waiter),
    GiveUp(u64),
    /// `late`: refused for want of time, or because nobody waited: the next who asks may fare better.
    Done {
        spec: GrammarSpec,
        outcome: Outcome,
        late: bool,
        took: Duration,
    },
    Close,
}

struct Work {
    waiters: Vec<Waiter>,
    running: Option<Running>,
}

/// A compilation that has a thread.
struct Running {
    /// Whom it is charged to.
    client: u64,
    until: Instant,
    /// Its thread gives up where it can: our own passes look at this, the compiler behind them does not.
    cancelled: Arc<AtomicBool>,
    /// Its waiters were refused; another may have its place.
    overdue: bool,
    worker: Worker,
}

struct Cached {
    outcome: Outcome,
    /// Its size when it was last measured. It grows with each new parser state that a text reaches.
    bytes: u64,
    used: u64,
}

/// The state of the queue.
pub(super) struct Queue {
    pub(super) builder: Arc<Builder>,
    pub(super) threads: usize,
    pub(super) cache_bytes: u64,
    pub(super) time: Duration,
    pub(super) counters: Arc<Counters>,
    pub(super) wake: Arc<dyn Fn() + Send + Sync>,
    pub(super) sender: Sender<Message>,
    work: HashMap<GrammarSpec, Work>,
    line: VecDeque<GrammarSpec>,
    idle: Workers,
    cache: HashMap<GrammarSpec, Cached>,
    clock: u64,
    /// How many outcomes have been kept.
    kept: u64,
}

/// What the queue is made from.
pub(super) struct Parts {
    pub(super) builder: Arc<Builder>,
    pub(super) threads: usize,
    pub(super) cache_bytes: u64,
    /// That a compilation may take.
    pub(super) time: Duration,
    pub(super) counters: Arc<Counters>,
    pub(super) wake: Arc<dyn Fn() + Send + Sync>,
}

impl Queue {
    pub(super) fn new(parts: Parts, sender: Sender<Message>) -> Self {
        let Parts { builder, threads, cache_bytes, time, counters, wake } = parts;
        Queue {
            builder,
            threads,
            cache_bytes,
            time,
            counters,
            wake,
            sender,
            work: HashMap::new(),
            line: VecDeque::new(),
            idle: Workers::default(),
            cache: HashMap::new(),
            clock: 0,
            kept: 0,
        }
    }

    /// Serves messages until the compiler is closed.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let message = match self.next_deadline() {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => messages.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match message {
                Ok(Message::Compile(spec, waiter)) => self.ask(spec, waiter),
                Ok(Message::GiveUp(id)) => self.give_up(id),
                Ok(Message::Done { spec, outcome, late, took }) => self.done(spec, outcome, late, took),
                Err(RecvTimeoutError::Timeout) => {
                    self.idle.end_idle();
                    self.refuse_overdue();
                }
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => return,
            }
            self.start();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let running = self.work.values().filter_map(|work| work.running.as_ref());
        let ends = running.filter(|running| !running.overdue).map(|running| running.until);
        ends.chain(self.idle.next_end()).min()
    }

    /// Answers those whose compilation has taken too long. Its thread goes on where it cannot be stopped, and what it
    /// comes to is kept for later.
    fn refuse_overdue(&mut self) {
        let now = Instant::now();
        for work in self.work.values_mut() {
            let Some(running) = work.running.as_mut().filter(|r| !r.overdue && r.until <= now) else {
                continue;
            };
            running.overdue = true;
            running.cancelled.store(true, Relaxed);
            answer(&mut work.waiters, &Err(too_slow()));
        }
        (self.wake)();
    }

    fn ask(&mut self, spec: GrammarSpec, waiter: Waiter) {
        self.clock += 1;
        if let Some(hit) = self.cache.get_mut(&spec) {
            hit.used = self.clock;
            hit.bytes = bytes(&spec, &hit.outcome);
            self.counters.hits.fetch_add(1, Relaxed);
            // A waiter that has gone away needs no answer.
            let _ = waiter.reply.send(hit.outcome.clone());
            (self.wake)();
            return self.shrink();
        }
        self.counters.misses.fetch_add(1, Relaxed);
        match self.work.get_mut(&spec) {
            Some(Work { running: Some(Running { overdue: true, .. }), .. }) => {
                answer(&mut vec![waiter], &Err(too_slow()));
                (self.wake)();
            }
            Some(work) => work.waiters.push(waiter),
            None => {
                self.line.push_back(spec.clone());
                self.work.insert(spec, Work { waiters: vec![waiter], running: None });
            }
        }
    }

    fn give_up(&mut self, id: u64) {
        for work in self.work.values_mut() {
            work.waiters.retain(|w| w.id != id);
            if let Some(running) = work.running.as_ref().filter(|_| work.waiters.is_empty()) {
                running.cancelled.store(true, Relaxed);
            }
        }
        let work = &mut self.work;
        self.line.retain(|spec| {
            let wanted = work.get(spec).is_some_and(|w| !w.waiters.is_empty());
            if !wanted {
                work.remove(spec);
            }
            wanted
        });
    }

    /// Starts compilations while threads are free.
    fn start(&mut self) {
        loop {
            let running = self.work.values().filter_map(|work| work.running.as_ref());
            let busy = Busy::new(self.threads, running.map(|r| (r.client, r.overdue)));
            let next = self.line.iter().enumerate().find_map(|(i, spec)| {
                let mut clients = self.work.get(spec)?.waiters.iter().map(|w| w.client);
                Some((i, clients.find(|client| busy.admits(*client))?))
            });
            let Some((i, client)) = next else { return };
            let Some(spec) = self.line.remove(i) else { return };
            self.hand_out(spec, client);
        }
    }

    fn hand_out(&mut self, spec: GrammarSpec, client: u64) {
        let Some(work) = self.work.get_mut(&spec) else { return };
        let (cancelled, time) = (Arc::<AtomicBool>::default(), self.time);
        let until = Instant::now() + time;
        let (builder, sender) = (Arc::clone(&self.builder), self.sender.clone());
        let (job, stop) = (spec.clone(), Arc::clone(&cancelled));
        let compile = move || {
            let start = Instant::now();
            let budget = Budget::new((builder.steps(), time), stop);
            let outcome = catch_unwind(AssertUnwindSafe(|| builder.build(&job, &budget).map(Arc::new)))
                .unwrap_or_else(|_| Err(Error::grammar("", "grammar", "the compilation failed inside")));
            let late = outcome.is_err() && budget.is_over();
            // The queue has gone away only where the compiler has: nobody waits.
            let _ = sender.send(Message::Done { spec: job, outcome, late, took: start.elapsed() });
        };
        match self.idle.give(Box::new(compile)) {
            Ok(worker) => {
                work.running = Some(Running { client, until, cancelled, overdue: false, worker });
            }
            Err(e) => {
                let outcome = Err(Error::Executor(format!("no thread for a grammar: {e}")));
                self.finish(&spec, &outcome);
            }
        }
    }

    fn done(&mut self, spec: GrammarSpec, outcome: Outcome, late: bool, took: Duration) {
        self.counters.took(took);
        let Some(work) = self.work.get_mut(&spec) else { return };
        let Some(Running { worker, until, .. }) = work.running.take() else { return };
        self.idle.rest(worker);
        if late && !work.waiters.is_empty() && until > Instant::now() {
            // Somebody has come after the last one left.
            return self.line.push_back(spec);
        }
        if !late {
            self.keep(spec.clone(), outcome.clone());
        }
        self.finish(&spec, &outcome);
    }

    fn finish(&mut self, spec: &GrammarSpec, outcome: &Outcome) {
        if let Some(mut work) = self.work.remove(spec) {
            answer(&mut work.waiters, outcome);
        }
        (self.wake)();
    }

    fn keep(&mut self, spec: GrammarSpec, outcome: Outcome) {
        self.clock += 1;
        let size = bytes(&spec, &outcome);
        self.cache.insert(spec, Cached { outcome, bytes: size, used: self.clock });
        self.kept += 1;
        if self.kept.is_multiple_of(MEASURED_EACH) {
            self.cache.iter_mut().for_each(|(spec, cached)| cached.bytes = bytes(spec, &cached.outcome));
        }
        self.shrink();
    }

    /// Drops the entries that were used longest ago until the others fit into the cache.
    fn shrink(&mut self) {
        let mut left: u64 = self.cache.values().map(|cached| cached.bytes).sum();
        while left > self.cache_bytes {
            let oldest = self.cache.iter().min_by_key(|(_, c)| c.used).map(|(s, _)| s.clone());
            let Some(gone) = oldest.and_then(|s| self.cache.remove(&s)) else { break };
            left -= gone.bytes;
        }
        self.counters.entries.store(self.cache.len() as u64, Relaxed);
    }
}

/// Who has the threads. One client may have half of them, those without a key all. Overdue compilations take no thread of
/// others: as many as a client's share are put up with, and more leave it less.
struct Busy {
    threads: usize,
    /// Of each client: compilations in time, and overdue ones.
    clients: HashMap<u64, (usize, usize)>,
}

impl Busy {
    fn new(threads: usize, running: impl Iterator<Item = (u64, bool)>) -> Self {
        let mut clients: HashMap<u64, (usize, usize)> = HashMap::new();
        for (client, overdue) in running {
            let (in_time, late) = clients.entry(client).or_default();
            *(if overdue { late } else { in_time }) += 1;
        }
        Busy { threads, clients }
    }

    fn admits(&self, client: u64) -> bool {
        let share = if client == NOBODY { self.threads } else { (self.threads / 2).max(1) };
        let (in_time, overdue) = self.clients.get(&client).copied().unwrap_or_default();
        let all: usize = self.clients.values().map(|(in_time, _)| in_time).sum();
        all < self.threads && in_time + overdue.saturating_sub(share) < share
    }
}

fn answer(waiters: &mut Vec<Waiter>, outcome: &Outcome) {
    for waiter in waiters.drain(..) {
        // A waiter that has gone away needs no answer.
        let _ = waiter.reply.send(outcome.clone());
    }
}

/// Memory that a cached grammar takes, about.
fn bytes(spec: &GrammarSpec, outcome: &Outcome) -> u64 {
    let source = spec.bytes() as u64;
    match outcome {
        Ok(plan) => (64 << 10) + source * BYTES_PER_BYTE + plan.bytes() as u64,
        Err(_) => 512 + source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_client_left_overdue_is_its_own_loss() {
        let busy = |overdue: usize, in_time: usize| {
            let late = (0..overdue).map(|_| (1, true));
            Busy::new(4, late.chain((0..in_time).map(|_| (1, false))))
        };
        // Its share is two threads, and two overdue ones are put up with.
        assert!(busy(2, 1).admits(1) && !busy(2, 2).admits(1));
        assert!(busy(3, 0).admits(1) && !busy(3, 1).admits(1) && !busy(4, 0).admits(1));
        assert!(busy(100, 2).admits(2) && busy(100, 2).admits(NOBODY));
    }

    #[test]
    fn no_more_compile_in_time_than_there_are_threads() {
        let busy = |keys: &[u64]| Busy::new(2, keys.iter().map(|key| (*key, false)));
        assert!(busy(&[1]).admits(2) && !busy(&[1]).admits(1) && !busy(&[1, 2]).admits(3));
        assert!(busy(&[NOBODY]).admits(NOBODY) && !busy(&[NOBODY; 2]).admits(1));
    }
}
