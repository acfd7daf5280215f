//! Counts what the engine does, for the metrics.

use crate::metrics::{Gauges, Snapshot, Totals};
use crate::types::{End, Event, FinishReason, RequestId};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// At most this often a working engine sends a snapshot.
const EVERY: Duration = Duration::from_millis(250);

/// The engine's counters.
pub(super) struct Tally {
    pub(super) totals: Totals,
    sent: Instant,
    last: Snapshot,
    /// Output tokens of choices that ended, a mean in which later requests weigh more.
    length: Option<f64>,
    /// Of each unfinished request: choices that have not ended, and all of them.
    open: HashMap<RequestId, (u32, u32)>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Tally {
            totals: Totals::default(),
            sent: Instant::now(),
            last: Snapshot::default(),
            length: None,
            open: HashMap::new(),
        }
    }

    /// A request arrived with this many choices.
    pub(super) fn arrived(&mut self, request: RequestId, choices: u32) {
        self.open.insert(request, (choices, choices));
    }

    /// A choice told something; `arrival` and `last_token` are the choice's. When its last token was told is given back.
    pub(super) fn told(
        &mut self,
        event: &Event,
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
            self.measure(event, end);
            self.ended(event.request, end, now - arrival);
        }
        if new > 0 { Some(now) } else { last_token }
    }

    /// Learns an output's length. What was refused or failed, or whose client left, has none.
    fn measure(&mut self, event: &Event, end: &End) {
        let whole = matches!(end, End::Finished(FinishReason::Stop | FinishReason::Length));
        let Some((_, choices)) = self.open.get(&event.request).filter(|_| whole) else { return };
        let (length, share) = (f64::from(event.usage.completion), 0.05 / f64::from(*choices));
        self.length = Some(self.length.map_or(length, |mean| mean + share * (length - mean)));
    }

    fn ended(&mut self, request: RequestId, end: &End, took: Duration) {
        let Some((left, _)) = self.open.get_mut(&request) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        self.open.remove(&request);
        self.totals.end_to_end.observe(took.as_secs_f64());
        *match end {
            End::Finished(FinishReason::Stop) => &mut self.totals.requests_stop,
            End::Finished(FinishReason::Length) => &mut self.totals.requests_length,
            End::Finished(FinishReason::Cancelled) => &mut self.totals.requests_cancelled,
            End::Failed(_) => &mut self.totals.requests_failed,
        } += 1;
    }

    /// A request was refused before it began.
    pub(super) fn refused(&mut self, request: RequestId) {
        self.open.remove(&request);
        self.totals.requests_refused += 1;
    }

    /// Output tokens that a choice is likely to have; infinite where none has ended yet.
    pub(super) fn output_length(&self) -> f64 {
        self.length.unwrap_or(f64::INFINITY)
    }

    /// Requests that have not ended; 0 when nothing is left anywhere.
    pub(super) fn open(&self) -> usize {
        self.open.len()
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
        tally.told(&event, Instant::now(), None);
        tally.output_length()
    }

    #[test]
    fn what_did_not_end_by_itself_says_nothing_of_outputs() {
        let mut tally = Tally::new();
        tally.arrived(RequestId(1), 8);
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
            tally.arrived(RequestId(0), 1);
            told(&mut tally, 0, 100, End::Finished(FinishReason::Stop));
            tally.arrived(RequestId(1), choices);
            for _ in 0..choices {
                told(&mut tally, 1, 1, End::Finished(FinishReason::Length));
            }
            tally.output_length()
        };
        assert!((length(128) - length(1)).abs() < 0.2, "{} {}", length(128), length(1));
    }
}
