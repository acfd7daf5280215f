//! Rank processes: a model is split over the devices of several processes, which compute their shares of every pass.
//!
//! The engine's process starts the ranks of this machine, waits until they listen, and ends with them: a rank that dies
//! or hangs ends the engine's process, whose supervisor starts both again. A rank ends when its standard input does or its
//! parent dies, so that none outlives the engine, whatever ended it. Ranks that run elsewhere are only looked at.

mod ffi;
mod remote;
pub mod serve;
mod spread;
mod table;
mod watch;
mod worker;

pub(crate) use ffi::exit_now;
pub use table::Shard;
pub use watch::Busy;
pub(crate) use worker::ending;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::exec::Forward;
use spread::{Place, Spread};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use watch::{Watch, Watched};
use worker::Worker;

/// Exit code of an engine's process that has lost a rank.
pub(crate) const LOST: i32 = 3;
/// Exit code of an engine's process in which a pass made no progress.
pub(crate) const HUNG: i32 = 4;

/// The library ends the process where it meets a dead rank; whoever watches that rank knows more and is given so long to
/// say it.
#[cfg(feature = "llama")]
pub(crate) fn end_as_lost() -> ! {
    std::thread::sleep(Duration::from_millis(300));
    exit_now(LOST)
}

/// A model that lies on ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The target.
    Target,
    /// The draft model.
    Draft,
}

/// The ranks of one engine, all of them listening. Dropped after everything that lies on them.
pub struct Ranks {
    spread: Spread,
    /// Where each of them listens.
    endpoints: Vec<String>,
    /// Those of this machine, by their place among all.
    workers: Vec<(usize, Worker)>,
    watch: Arc<Watch>,
    closing: Arc<AtomicBool>,
}

impl Ranks {
    /// Starts the ranks that the configuration asks for, and waits until they listen; None where it asks for none.
    /// `gpus`: how many this machine has; `threads`: to be shared out among the ranks.
    ///
    /// # Errors
    /// `Invalid` naming the key where there are no such devices or a rank of another machine does not answer;
    /// `Executor` where one of this machine does not start.
    pub fn start(config: &Config, gpus: u32, threads: u32) -> Result<Option<Arc<Ranks>>> {
        let drafts = config.speculative.draft_model().is_some();
        if !config.parallel.has_ranks(drafts) {
            return Ok(None);
        }
        let spread = spread::spread(&config.parallel, gpus, drafts)?;
        let closing = Arc::new(AtomicBool::new(false));
        let mut ranks =
            Ranks { endpoints: Vec::new(), workers: Vec::new(), watch: Arc::default(), closing, spread };
        ranks.reach(&config.parallel.program, threads)?;
        let pids = ranks.workers.iter().map(|(rank, worker)| (*rank, worker.pid())).collect();
        let bound = Duration::from_secs_f64(config.parallel.hang_seconds);
        watch::start(&ranks.watch, &ranks.closing, pids, bound).map_err(cannot_start)?;
        Ok(Some(Arc::new(ranks)))
    }

    /// Starts those of this machine, all at once, and looks at the others.
    fn reach(&mut self, program: &[String], threads: u32) -> Result<()> {
        let places = self.spread.places.clone();
        let local = places.iter().filter(|place| !matches!(place, Place::Remote(_))).count() as u32;
        let share = threads.checked_div(local).unwrap_or(0).max(1);
        for (rank, place) in places.iter().enumerate() {
            if let Some(gpu) = place.gpu() {
                let worker = Worker::start(rank, program, (share, gpu), &self.closing)?;
                self.workers.push((rank, worker));
            }
        }
        let mut workers = self.workers.iter_mut();
        for place in places {
            self.endpoints.push(match place {
                Place::Remote(endpoint) => {
                    remote::check(&endpoint)?;
                    endpoint
                }
                Place::Cpu | Place::Gpu(_) => {
                    workers.next().expect("one was started for each. This is a bug.").1.wait_ready()?
                }
            });
        }
        if local < self.endpoints.len() as u32 {
            log::warn!("parallel.rank_endpoints: what goes to ranks is neither authenticated nor encrypted");
        }
        Ok(())
    }

    /// Endpoints of the ranks that a model is on; none where it lies in the engine's own process.
    pub fn endpoints(&self, role: Role) -> Vec<String> {
        self.spread.of(role).iter().map(|rank| self.endpoints[*rank].clone()).collect()
    }

    /// Whether a model is on ranks whose memory is not this machine's.
    pub fn own_memory(&self, role: Role) -> bool {
        self.spread.of(role).iter().any(|rank| self.spread.places[*rank] != Place::Cpu)
    }

    /// From now until it is dropped something has to come from ranks.
    pub fn busy(&self) -> Busy {
        Busy::new(&self.watch)
    }

    /// Grows with every piece of a pass.
    pub fn beats(&self) -> Arc<AtomicU64> {
        self.watch.beats.clone()
    }

    /// The same engine, watched while it works, and the ranks held until it is gone; `saves`: whether it may save slots.
    pub fn watched(self: &Arc<Self>, forward: Box<dyn Forward>, saves: bool) -> Box<dyn Forward> {
        Box::new(Watched { forward, saves, ranks: self.clone() })
    }

    /// What lies where, in lines. `memory`: free and total bytes of a rank of another machine.
    pub fn table(&self, shards: &[(Role, Shard)], memory: &dyn Fn(&str) -> Option<(u64, u64)>) -> String {
        let rows = self.endpoints.iter().enumerate().map(|(rank, endpoint)| {
            let worker = self.workers.iter().find(|(of, _)| *of == rank).map(|(_, worker)| worker);
            let shard = |role: Role| {
                let shard = shards.iter().find(|(of, _)| *of == role).map(|(_, shard)| shard);
                let on = self.spread.of(role);
                shard.filter(|_| on.contains(&rank)).map(|shard| shard.part(on.len()))
            };
            let room = match worker {
                Some(worker) => worker.memory().map(table::resident),
                None => memory(endpoint).map(table::free),
            };
            table::Row {
                rank,
                device: self.spread.places[rank].device(endpoint, worker.map(Worker::threads)),
                target: shard(Role::Target),
                draft: shard(Role::Draft),
                memory: room,
            }
        });
        table::print(rows)
    }

    /// One clause: how many ranks, and threads of each.
    pub fn summary(&self, role: Role) -> Option<String> {
        let on = self.spread.of(role);
        let threads = |rank: &usize| self.workers.iter().find(|(of, _)| of == rank).map(|(_, w)| w.threads());
        let each = match on.iter().filter_map(threads).max() {
            None => String::new(),
            Some(1) => " of 1 thread".to_owned(),
            Some(n) => format!(" of {n} threads"),
        };
        (!on.is_empty()).then(|| format!("{} rank{}{each}", on.len(), if on.len() == 1 { "" } else { "s" }))
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
    }
}

fn cannot_start(error: std::io::Error) -> Error {
    Error::Executor(format!("cannot watch ranks: {error}"))
}
