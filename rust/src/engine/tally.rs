//! What the engine tells: news of choices, and counts for the metrics.

use super::Report;
use crate::metrics::{Gauges, Snapshot, Totals};
use crate::types::{End, Event, FinishReason, RequestId};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// At most this often a working engine sends a snapshot.
const EVERY: Duration = Duration::from_millis(250);

/// News and counters.
pub(super) struct Tally {
    pub(super) totals: Totals,
    /// What the next message says.
    pub(super) report: Report,
    sent: Instant,
    last: Snapshot,
    /// Output tokens that a choice is likely to have, a mean in which later requests weigh more; infinite where none has
    /// ended yet.
    pub(super) length: f64,
    /// Of each unfinished request: choices that have not ended, and all of them.
    pub(super) open: HashMap<RequestId, (u32, u32)>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Tally {
            totals: Totals::default(),
            report: Report::default(),
            sent: Instant::now(),
            last: Snapshot::default(),
            length: f64::INFINITY,
            open: HashMap::new(),
        }
    }

    /// Reports news of a choice, merged into what it has in this step already; `arrival` and `last_token` are the choice's. When
    /// its last token was told is given back.
    pub(super) fn told(
        &mut self,
        event: Event,
        arrival: Instant,
        last_token: Option<Instant>,
    ) -> Option<Instant> {
        let now = Instant::now();
        let new = event.tokens.len() as u64;
        if new > 0 {
            self.totals.generated_tokens += new;
            match last_token {
                None => self.totals.time_to_first_token.observe((now - arrival).as_secs_f64()),
                Some(last) => self.totals.inter_token.observe_n((now - last).as_secs_f64() / new as f64, new),
            }
        }
        if let Some(end) = &event.end {
            self.totals.choices_shortened += u64::from(event.usage.shortened);
            self.ended(&event, end, now - arrival);
        }
        let same = |e: &&mut Event| (e.request, e.choice) == (event.request, event.choice);
        match self.report.events.iter_mut().find(same) {
            Some(earlier) => earlier.merge(event),
            None => self.report.events.push(event),
        }
        if new > 0 { Some(now) } else { last_token }
    }

    /// What was refused or failed, or whose client left, says nothing of the length of outputs.
    fn ended(&mut self, event: &Event, end: &End, took: Duration) {
        let Some((left, choices)) = self.open.get_mut(&event.request) else { return };
        if matches!(end, End::Finished(FinishReason::Stop | FinishReason::Length)) {
            let (length, share) = (f64::from(event.usage.completion), 0.05 / f64::from(*choices));
            let mean = if self.length.is_finite() { self.length } else { length };
            self.length = mean + share * (length - mean);
        }
        *left -= 1;
        if *left > 0 {
            return;
        }
        self.open.remove(&event.request);
        self.totals.end_to_end.observe(took.as_secs_f64());
        *match end {
            End::Finished(FinishReason::Stop) => &mut self.totals.requests_stop,
            End::Finished(FinishReason::Length) => &mut self.totals.requests_length,
            End::Finished(FinishReason::Cancelled) => &mut self.totals.requests_cancelled,
            End::Failed(_) => &mut self.totals.requests_failed,
        } += 1;
    }

    /// A snapshot if it is time for one, or if the engine falls idle with news.
    pub(super) fn snapshot(&mut self, gauges: Gauges, idle: bool) -> Option<Box<Snapshot>> {
        let now = Instant::now();
        if !idle && now - self.sent < EVERY {
            return None;
        }
        let snapshot = Snapshot { totals: self.totals.clone(), gauges };
        if snapshot == self.last {
            return None;
        }
        self.sent = now;
        self.last = snapshot.clone();
        Some(Box::new(snapshot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::types::Usage;

    fn told(tally: &mut Tally, request: u64, completion: u32, end: End) -> f64 {
        let usage = Usage { completion, ..Usage::default() };
        let event = Event { end: Some(end), ..Event::silent(RequestId(request), 0, usage) };
        tally.told(event, Instant::now(), None);
        tally.length
    }

    #[test]
    fn what_did_not_end_by_itself_says_nothing_of_outputs() {
        let mut tally = Tally::new();
        tally.open.insert(RequestId(1), (8, 8));
        for (completion, end) in [
            (0, End::Failed(Error::Closed(String::new()))),
            (0, End::Finished(FinishReason::Cancelled)),
            (3, End::Finished(FinishReason::Cancelled)),
        ] {
            assert_eq!(told(&mut tally, 1, completion, end), f64::INFINITY);
        }
        assert_eq!(told(&mut tally, 1, 100, End::Finished(FinishReason::Stop)), 100.0);
        assert_eq!(told(&mut tally, 1, 1, End::Finished(FinishReason::Cancelled)), 100.0);
    }

    #[test]
    fn a_request_with_many_choices_weighs_no_more_than_another() {
        let length = |choices: u32| {
            let mut tally = Tally::new();
            tally.open.insert(RequestId(0), (1, 1));
            told(&mut tally, 0, 100, End::Finished(FinishReason::Stop));
            tally.open.insert(RequestId(1), (choices, choices));
            for _ in 0..choices {
                told(&mut tally, 1, 1, End::Finished(FinishReason::Length));
            }
            tally.length
        };
        assert!((length(128) - length(1)).abs() < 0.2, "{} {}", length(128), length(1));
    }
}
