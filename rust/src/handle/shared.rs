//! The state behind its lock, and how others notice that it has changed.

use super::state::{Phase, State};
use crate::types::Event;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What handles and supervisor share.
pub(crate) struct Shared {
    state: Mutex<Guarded>,
    /// The phase or `finished` has changed.
    turned: Condvar,
    /// Readable while `signalled`.
    wake: OwnedFd,
}

/// What the one lock guards.
pub(crate) struct Guarded {
    pub(crate) state: State,
    signalled: bool,
    finished: bool,
}

impl Shared {
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(state: State) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let state = Mutex::new(Guarded { state, signalled: false, finished: false });
        Ok(Shared { state, turned: Condvar::new(), wake })
    }

    /// Looks at the state.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock().state)
    }

    /// Changes the state, and wakes whoever polls if that made events.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut guarded = self.lock();
        let result = change(&mut guarded.state);
        if guarded.state.has_news() {
            self.signal(&mut guarded);
        }
        result
    }

    /// Changes the phase, and wakes whoever polls or waits.
    pub(crate) fn turn<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut guarded = self.lock();
        let result = change(&mut guarded.state);
        self.signal(&mut guarded);
        self.turned.notify_all();
        result
    }

    /// Takes the events that wait, and resets the descriptor.
    pub(crate) fn drain(&self) -> Vec<Event> {
        let mut guarded = self.lock();
        if std::mem::take(&mut guarded.signalled) {
            // Never blocks, and cannot fail: it was written to.
            let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        }
        guarded.state.drain()
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Waits before a new start; false = the handle was closed meanwhile.
    pub(crate) fn sleep(&self, pause: Duration) -> bool {
        let closed = |g: &Guarded| g.state.phase().0 == Phase::Closed;
        !closed(&self.wait(pause, closed))
    }

    /// No life follows.
    pub(crate) fn finish(&self) {
        self.lock().finished = true;
        self.turned.notify_all();
    }

    /// Waits until nothing of the engine is left; false = it took longer than `most`.
    pub(crate) fn wait_finished(&self, most: Duration) -> bool {
        self.wait(most, |g| g.finished).finished
    }

    fn wait(&self, most: Duration, done: impl Fn(&Guarded) -> bool) -> MutexGuard<'_, Guarded> {
        let end = Instant::now() + most;
        let mut guarded = self.lock();
        while !done(&guarded) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            guarded = self.turned.wait_timeout(guarded, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        guarded
    }

    fn signal(&self, guarded: &mut Guarded) {
        if !std::mem::replace(&mut guarded.signalled, true) {
            // Never blocks, and cannot fail: the counter was 0.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Guarded> {
        // The state is plain data, and no change panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
