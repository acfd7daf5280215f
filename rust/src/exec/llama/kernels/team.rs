//! Threads that share the work of a pass, piece by piece.
//!
//! ggml computes a graph on one thread here, which hands the heavy nodes out: their pieces are taken from a counter, by that
//! thread and by its helpers. ggml's own threads would have to arrive at a barrier after each node, even where there was
//! nothing left to do for them: one without a core then holds all others up, some hundred times in a pass. A helper without
//! a core delays the one piece that it has begun. Which thread computes a piece changes no bit of it.
//!
//! Threads that wait spin for some microseconds and sleep then, so that an idle server takes no time.
//!
//! On a busy machine the scheduler would preempt a helper in the middle of a piece, and the whole pass would wait for it for
//! milliseconds. So a helper yields its core between two pieces, more often than the scheduler's tick (1 to 10 ms).

use super::ffi::slice;
use crate::exec::cores;
use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Rounds of waiting, about a tenth of a millisecond, after which a thread sleeps: longer than what lies between two nodes.
const ROUNDS: u32 = 4096;
/// A helper yields its core after this time.
const TURN: Duration = Duration::from_micros(200);
/// [`Shared::state`] has so many bits for the next piece, and as many for the number of pieces.
const BITS: u32 = 20;
const MASK: u64 = (1 << BITS) - 1;

/// A piece of a job, and the number of the thread that computes it, below [`Team::size`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) index: usize,
    pub(super) thread: usize,
}

type Work<'a> = &'a (dyn Fn(Piece) + Sync);

struct Shared {
    /// From the top: a job's number, its pieces, the next piece. All in one, so that no piece of another job is taken.
    state: AtomicU64,
    /// Pieces of the job that are not computed.
    left: AtomicUsize,
    /// A `Work` that lives as long as pieces are left.
    work: AtomicPtr<Work<'static>>,
    /// Helpers that sleep, or are about to.
    sleeping: Vec<AtomicBool>,
    sleepers: AtomicUsize,
    /// Who hands out, and whether it sleeps.
    leader: Mutex<Option<Thread>>,
    leader_sleeps: AtomicBool,
    over: AtomicBool,
}

/// A thread that hands out, and its helpers.
pub struct Team {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    /// A job is being computed.
    busy: AtomicBool,
}

thread_local! {
    static TEAM: Cell<*const Team> = const { Cell::new(ptr::null()) };
}

impl Team {
    /// A team of so many threads, the one that hands out included. Helpers are bound to processors of these memory nodes in
    /// turns, the first of which is left to the thread that hands out.
    ///
    /// # Errors
    /// Where threads cannot be started.
    pub fn new(threads: u32, nodes: &[Vec<usize>]) -> io::Result<Team> {
        let count = threads.max(1) as usize - 1;
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            left: AtomicUsize::new(0),
            work: AtomicPtr::new(ptr::null_mut()),
            sleeping: (0..count).map(|_| AtomicBool::new(false)).collect(),
            sleepers: AtomicUsize::new(0),
            leader: Mutex::new(None),
            leader_sleeps: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let mut team = Team { shared, helpers: Vec::new(), busy: AtomicBool::new(false) };
        for number in 0..count {
            let shared = Arc::clone(&team.shared);
            let helper = thread::Builder::new().name(format!("helper {number}"));
            let node = nodes.get((number + 1) % nodes.len().max(1)).cloned();
            team.helpers.push(helper.spawn(move || {
                node.iter().for_each(|node| cores::bind(node));
                shared.help(number);
            })?);
        }
        Ok(team)
    }

    /// Threads.
    pub fn size(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Calls `compute`, in which nodes that this thread computes are handed out to the team.
    pub fn during<T>(&self, compute: impl FnOnce() -> T) -> T {
        slice();
        *self.shared.leader.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        let before = TEAM.replace(self);
        let computed = compute();
        TEAM.set(before);
        computed
    }

    /// Computes so many pieces, fewer than 2^20.
    pub(super) fn run(&self, pieces: usize, work: Work<'_>) {
        let alone = self.helpers.is_empty() || pieces < 2 || pieces as u64 > MASK;
        if alone || self.busy.swap(true, Ordering::Acquire) {
            (0..pieces).for_each(|index| work(Piece { index, thread: 0 }));
            return;
        }
        let shared = &*self.shared;
        shared.work.store(ptr::from_ref(&work).cast_mut().cast(), Ordering::Relaxed);
        shared.left.store(pieces, Ordering::Relaxed);
        let job = (shared.state.load(Ordering::Relaxed) >> (2 * BITS)).wrapping_add(1);
        shared.state.store(job << (2 * BITS) | (pieces as u64) << BITS, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
        while shared.compute_one(0) {}
        shared.wait_for_all();
        self.busy.store(false, Ordering::Release);
    }

    /// Jobs that were handed out so far, each with one wait for all.
    #[cfg(test)]
    pub(super) fn jobs(&self) -> u64 {
        self.shared.state.load(Ordering::Relaxed) >> (2 * BITS)
    }

    fn wake(&self) {
        for (helper, sleeps) in self.helpers.iter().zip(&self.shared.sleeping) {
            if sleeps.swap(false, Ordering::SeqCst) {
                helper.thread().unpark();
            }
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper never panics: a panic ends the process.
            let _ = helper.join();
        }
    }
}

/// Hands `with` the team of this thread, if there is one.
pub(super) fn current<T>(with: impl FnOnce(&Team) -> T) -> Option<T> {
    let team = TEAM.get();
    // SAFETY: `during` has set it, and holds the team until it takes it back.
    (!team.is_null()).then(|| with(unsafe { &*team }))
}

impl Shared {
    /// Takes a piece and computes it; false: there is none.
    fn compute_one(&self, thread: usize) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let (next, pieces) = (state & MASK, state >> BITS & MASK);
            if next >= pieces {
                return false;
            }
            let taken =
                self.state.compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Acquire);
            if let Err(now) = taken {
                state = now;
                continue;
            }
            // A piece that is taken and not computed keeps the job, and its work, alive.
            let work = self.work.load(Ordering::Relaxed);
            // A panic must not leave the leader waiting; it would end the process in ggml's code, too.
            let fatal = AbortOnDrop;
            // SAFETY: `run` has stored it, and waits for this piece.
            unsafe { (*work)(Piece { index: next as usize, thread }) };
            std::mem::forget(fatal);
            if self.left.fetch_sub(1, Ordering::SeqCst) == 1
                && self.leader_sleeps.swap(false, Ordering::SeqCst)
            {
                let leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
                leader.iter().for_each(Thread::unpark);
            }
            return true;
        }
    }

    fn wait_for_all(&self) {
        for _ in 0..ROUNDS {
            if self.left.load(Ordering::Acquire) == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        loop {
            self.leader_sleeps.store(true, Ordering::SeqCst);
            if self.left.load(Ordering::SeqCst) == 0 {
                self.leader_sleeps.store(false, Ordering::SeqCst);
                return;
            }
            thread::park();
        }
    }

    /// A helper's life.
    fn help(&self, number: usize) {
        slice();
        let (mut waited, mut begun) = (0, Instant::now());
        while !self.over.load(Ordering::Relaxed) {
            if self.compute_one(number + 1) {
                waited = 0;
                if begun.elapsed() >= TURN {
                    thread::yield_now();
                    begun = Instant::now();
                }
            } else if waited < ROUNDS {
                waited += 1;
                std::hint::spin_loop();
            } else {
                self.sleep(number);
                waited = 0;
            }
        }
    }

    /// Sleeps until there is a job.
    fn sleep(&self, number: usize) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.sleeping[number].store(true, Ordering::SeqCst);
        let state = self.state.load(Ordering::SeqCst);
        if (state & MASK) >= (state >> BITS & MASK) && !self.over.load(Ordering::SeqCst) {
            thread::park();
        }
        self.sleeping[number].store(false, Ordering::SeqCst);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

struct AbortOnDrop;

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs of all sizes, on many more threads than there are cores: each piece once, and none of another job.
    #[test]
    fn every_piece_is_computed_once() {
        for threads in [1, 2, 3, 64] {
            let team = Team::new(threads, &[]).unwrap();
            team.during(|| {
                for job in 0..400usize {
                    let pieces = job * 7 % 130;
                    let counts: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
                    let work = |piece: Piece| {
                        assert!(piece.thread < threads as usize);
                        counts[piece.index].fetch_add(job + 1, Ordering::Relaxed);
                    };
                    team.run(pieces, &work);
                    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == job + 1));
                    if job % 50 == 0 {
                        // Long enough for helpers to sleep.
                        thread::sleep(std::time::Duration::from_millis(3));
                    }
                }
            });
        }
    }

    #[test]
    fn a_piece_may_take_long() {
        let team = Team::new(3, &[]).unwrap();
        let done = AtomicUsize::new(0);
        team.during(|| {
            team.run(5, &|piece| {
                thread::sleep(std::time::Duration::from_millis(if piece.index == 3 { 30 } else { 1 }));
                done.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(done.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_job_within_a_job_is_computed_by_its_thread() {
        let team = Team::new(4, &[]).unwrap();
        let done = AtomicUsize::new(0);
        team.run(8, &|_| {
            team.run(4, &|_| {
                done.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(done.load(Ordering::Relaxed), 32);
        assert!(current(|_| ()).is_none());
    }
}
