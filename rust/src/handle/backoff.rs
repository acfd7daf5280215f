//! How long to wait before an engine is started again.

use std::time::Duration;

/// Doubling pauses between starts, and when to give up.
#[derive(Debug, Clone)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// An engine that has been ready for this long, or has brought a request to its end, was no part of a series.
    pub calm: Duration,
    /// Starts in a row that do not get ready before the engine is given up.
    pub starts: u32,
    next: Duration,
    unready: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        let first = Duration::from_millis(100);
        let longest = Duration::from_secs(10);
        Backoff { first, longest, calm: Duration::from_secs(30), starts: 5, next: first, unready: 0 }
    }
}

impl Backoff {
    /// An engine that was ready for `up` is gone. `useful`: it has brought a request to its end.
    pub(crate) fn after_life(&mut self, up: Duration, useful: bool) -> Duration {
        self.unready = 0;
        if useful || up >= self.calm {
            self.next = self.first;
        }
        self.pause()
    }

    /// An engine is gone that did not get ready; none = give up.
    pub(crate) fn after_start(&mut self) -> Option<Duration> {
        self.unready += 1;
        (self.unready < self.starts).then(|| self.pause())
    }

    fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }
}
