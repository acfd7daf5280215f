//! How long to wait before an engine is started again.

use std::time::Duration;

/// Pauses between starts, which double, and when to give up.
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
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(10),
            calm: Duration::from_secs(30),
            starts: 5,
        }
    }
}

/// Where a series of restarts stands.
pub(crate) struct Series {
    backoff: Backoff,
    next: Duration,
    unready: u32,
}

impl Series {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Series { next: backoff.first, backoff, unready: 0 }
    }

    /// The pause after an engine that was ready for `up`. `useful`: it has brought a request to its end.
    pub(crate) fn after_life(&mut self, up: Duration, useful: bool) -> Duration {
        self.unready = 0;
        if useful || up >= self.backoff.calm {
            self.next = self.backoff.first;
        }
        self.pause()
    }

    /// The pause after an engine that did not get ready; none = give up.
    pub(crate) fn after_start(&mut self) -> Option<Duration> {
        self.unready += 1;
        (self.unready < self.backoff.starts).then(|| self.pause())
    }

    fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.backoff.longest);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn series() -> Series {
        let backoff = Backoff { first: SECOND, longest: SECOND * 5, calm: SECOND * 30, starts: 3 };
        Series::new(backoff)
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut series = series();
        let pauses = [1, 2, 4, 5, 5].map(|seconds| SECOND * seconds);
        assert_eq!([(); 5].map(|()| series.after_life(SECOND, false)), pauses);
    }

    #[test]
    fn an_engine_that_was_of_use_begins_a_new_series() {
        let mut series = series();
        series.after_life(SECOND, false);
        assert_eq!(series.after_life(SECOND * 30, false), SECOND);
        assert_eq!(series.after_life(SECOND, false), SECOND * 2);
        assert_eq!(series.after_life(SECOND, true), SECOND);
    }

    #[test]
    fn starts_that_fail_in_a_row_end_it() {
        let mut series = series();
        assert_eq!(series.after_start(), Some(SECOND));
        assert_eq!(series.after_start(), Some(SECOND * 2));
        series.after_life(SECOND, true);
        assert_eq!(series.after_start(), Some(SECOND * 2));
        assert_eq!(series.after_start(), Some(SECOND * 4));
        assert_eq!(series.after_start(), None);
    }
}
