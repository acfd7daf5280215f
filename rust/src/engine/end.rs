//! How choices end, and what is told of it.

use super::Engine;
use super::waiting::Arrival;
use crate::error::Error;
use crate::sequence::Sequence;
use crate::types::{End, Event, FinishReason, Usage};

impl Engine {
    /// Ends everything that runs, and all that waits too if `waiting`.
    pub(super) fn end_all(&mut self, error: &Error, waiting: bool) {
        let running = std::mem::take(&mut self.running);
        // What was admitted before counts as running: part of its answer may have been sent.
        let preempted = std::mem::take(&mut self.waiting.preempted);
        let siblings = std::mem::take(&mut self.waiting.siblings);
        for sequence in running.into_iter().chain(preempted).chain(siblings) {
            self.disown(&sequence);
            self.report_end(&sequence, Err(error.clone()));
        }
        if waiting {
            for arrival in self.waiting.drain().0 {
                self.end_arrival(&arrival, &Err(error.clone()));
            }
        }
    }

    pub(super) fn end_arrival(&mut self, arrival: &Arrival, end: &Result<FinishReason, Error>) {
        let prompt = arrival.request.spec().prompt.len() as u32;
        for choice in 0..arrival.request.spec().n {
            let end = match end {
                Ok(reason) => End::Finished(*reason),
                Err(error) => End::Failed(error.clone()),
            };
            let usage = Usage { prompt, ..Usage::default() };
            let event = Event { end: Some(end), ..Event::silent(arrival.id, choice, usage) };
            self.tally.told(&event, arrival.arrived, None);
            self.report.events.push(event);
        }
    }

    pub(super) fn end_sequence(&mut self, sequence: Sequence, end: Result<FinishReason, Error>) {
        let failed = end.is_err();
        self.report_end(&sequence, end);
        self.vacate(sequence, !failed);
    }

    /// News of a choice that has news in this step already is merged into it.
    pub(super) fn report_end(&mut self, sequence: &Sequence, end: Result<FinishReason, Error>) {
        let event = sequence.last_event(end);
        self.tally.told(&event, sequence.arrival, sequence.last_token);
        let same = |e: &&mut Event| (e.request, e.choice) == (event.request, event.choice);
        match self.report.events.iter_mut().find(same) {
            Some(earlier) => earlier.merge(event),
            None => self.report.events.push(event),
        }
    }
}
