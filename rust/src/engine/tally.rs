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
    /// Output tokens of choices that ended, a mean in which later ones weigh more.
    length: Option<f64>,
    /// Choices of each unfinished request that have not ended.
    open: HashMap<RequestId, u32>,
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
        self.open.insert(request, choices);
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
            // What ended before its first token was refused, or its client left: that is no output's length.
            if event.usage.completion > 0 {
                let length = f64::from(event.usage.completion);
                self.length = Some(self.length.map_or(length, |mean| mean + 0.05 * (length - mean)));
            }
            self.ended(event.request, end, now - arrival);
        }
        if new > 0 { Some(now) } else { last_token }
    }

    fn ended(&mut self, request: RequestId, end: &End, took: Duration) {
        let Some(left) = self.open.get_mut(&request) else { return };
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

    #[test]
    fn what_never_began_says_nothing_of_outputs() {
        let mut tally = Tally::new();
        let mut told = |completion: u32, end: End| {
            let usage = Usage { completion, ..Usage::default() };
            let (text, tokens, logprobs) = (String::new(), Vec::new(), Vec::new());
            let prompt_logprobs = Vec::new();
            let end = Some(end);
            let event = Event {
                request: RequestId(1),
                choice: 0,
                text,
                tokens,
                logprobs,
                prompt_logprobs,
                usage,
                end,
            };
            tally.told(&event, Instant::now(), None);
            tally.output_length()
        };
        assert_eq!(told(0, End::Failed(Error::Closed(String::new()))), f64::INFINITY);
        assert_eq!(told(0, End::Finished(FinishReason::Cancelled)), f64::INFINITY);
        assert_eq!(told(100, End::Finished(FinishReason::Stop)), 100.0);
        assert_eq!(told(0, End::Finished(FinishReason::Cancelled)), 100.0);
    }
}
