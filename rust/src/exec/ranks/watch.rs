//! The watchdog: something that has to come from ranks, and does not.
//!
//! Progress is a pass that begins or ends, a piece of one (`beats`), or time in which a rank of this machine computes: a
//! long prompt on a slow machine makes progress, a rank that is stopped does not. While one rank is stopped the others
//! wait for it without computing.

use super::{HUNG, Ranks, exit_now, worker};
use crate::exec::{Caps, ExecError, Forward, Rows, Run};
use crate::types::Slot;
use rustix::process::{Pid, Signal, kill_process};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What an engine does on ranks, seen from the watchdog.
#[derive(Debug, Default)]
pub(super) struct Watch {
    begun: AtomicU64,
    ended: AtomicU64,
    pub(super) beats: Arc<AtomicU64>,
}

/// Held while something has to come from ranks.
pub struct Busy(Arc<Watch>);

impl Busy {
    pub(super) fn new(watch: &Arc<Watch>) -> Busy {
        watch.begun.fetch_add(1, Ordering::Relaxed);
        Busy(watch.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Watches until `closing`. Where nothing moves for `bound` the ranks are killed and the process ends.
///
/// # Errors
/// There is no thread left.
pub(super) fn start(
    watch: &Arc<Watch>,
    closing: &Arc<AtomicBool>,
    ranks: Vec<(usize, Pid)>,
    bound: Duration,
) -> std::io::Result<()> {
    let (watch, closing) = (watch.clone(), closing.clone());
    let look = move || {
        let seen = || {
            let (begun, ended) = (watch.begun.load(Ordering::Relaxed), watch.ended.load(Ordering::Relaxed));
            let ticks: u64 = ranks.iter().filter_map(|(_, pid)| worker::computed(*pid)).sum();
            (begun != ended, (begun, ended, watch.beats.load(Ordering::Relaxed), ticks))
        };
        let mut patience = Patience::new(bound, Instant::now());
        while !closing.load(Ordering::Relaxed) {
            let (busy, progress) = seen();
            if patience.is_over(busy, progress, Instant::now()) {
                end(&ranks, &closing, bound);
            }
            std::thread::sleep((bound / 8).min(Duration::from_secs(1)));
        }
    };
    std::thread::Builder::new().name("watchdog".into()).spawn(look).map(drop)
}

fn end(ranks: &[(usize, Pid)], closing: &AtomicBool, bound: Duration) -> ! {
    let stopped = ranks.iter().filter(|(_, pid)| worker::is_stopped(*pid));
    let who: Vec<_> = stopped.map(|(rank, pid)| format!("; rank {rank} ({pid}) is stopped")).collect();
    log::error!(
        "ranks have not moved for {} s{}: the engine ends with them",
        bound.as_secs_f64(),
        who.join("")
    );
    // Whoever waits for a rank would otherwise say that it was lost.
    closing.store(true, Ordering::Relaxed);
    for (_, pid) in ranks {
        // One that is gone meanwhile needs no signal.
        let _ = kill_process(*pid, Signal::KILL);
    }
    exit_now(HUNG)
}

/// How long nothing has moved.
struct Patience<P> {
    bound: Duration,
    last: Instant,
    progress: Option<P>,
}

impl<P: PartialEq> Patience<P> {
    fn new(bound: Duration, now: Instant) -> Self {
        Patience { bound, last: now, progress: None }
    }

    fn is_over(&mut self, busy: bool, progress: P, now: Instant) -> bool {
        if !busy || self.progress.as_ref() != Some(&progress) {
            (self.progress, self.last) = (Some(progress), now);
        }
        now - self.last > self.bound
    }
}

/// An engine whose work is watched.
pub(super) struct Watched {
    pub(super) forward: Box<dyn Forward>,
    /// Whether slots are saved when they are asked for.
    pub(super) saves: bool,
    // Last: what lies on ranks is freed before they end.
    pub(super) ranks: Arc<Ranks>,
}

impl Forward for Watched {
    fn caps(&self) -> &Caps {
        self.forward.caps()
    }

    fn forward(&mut self, runs: &[Run<'_>]) -> Result<Rows<'_>, ExecError> {
        let _busy = self.ranks.busy();
        self.forward.forward(runs)
    }

    fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        let _busy = self.ranks.busy();
        self.forward.truncate(slot, keep)
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        let _busy = self.ranks.busy();
        self.forward.copy(from, to, len)
    }

    fn passes(&self, runs: &[(Slot, u32)]) -> Vec<u32> {
        self.forward.passes(runs)
    }

    fn floor(&self, slot: Slot) -> u32 {
        self.forward.floor(slot)
    }

    fn save(&mut self, slot: Slot) -> Option<Vec<u8>> {
        let _busy = self.ranks.busy();
        self.saves.then(|| self.forward.save(slot))?
    }

    fn restore(&mut self, slot: Slot, kv: &[u8]) -> bool {
        let _busy = self.ranks.busy();
        self.forward.restore(slot, kv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_should_move_and_does_not_hangs() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut patience = Patience::new(Duration::from_secs(10), begin);
        assert!(!patience.is_over(false, 0, at(100)), "nothing to do");
        assert!(!patience.is_over(true, 1, at(200)), "it has just begun");
        assert!((0..1000).all(|n| !patience.is_over(true, 2 + n, at(200 + 9 * n))), "a long prompt moves");
        assert!(!patience.is_over(true, 1001, at(9200)));
        assert!(patience.is_over(true, 1001, at(9211)));
    }
}
