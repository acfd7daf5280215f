//! What waits: requests whose grammar is being compiled, sequences that wait for room, preempted ones.

use crate::error::Error;
use crate::grammar::{CompileHandle, Compiled};
use crate::request::Request;
use crate::sampler::seed_of;
use crate::sched::line::Line;
use crate::sequence::Sequence;
use crate::types::RequestId;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

/// A request that has not been admitted.
pub(super) struct Arrival {
    pub(super) id: RequestId,
    pub(super) request: Arc<Request>,
    pub(super) arrived: Instant,
    /// Its own seed, or one drawn for it.
    pub(super) seed: u64,
    /// Its compilation; None where it has no constraint.
    pub(super) compiling: Option<CompileHandle>,
}

/// What waits. Of what is equally urgent, preempted sequences come first, then siblings of admitted ones, then arrivals.
#[derive(Default)]
pub(super) struct Waiting {
    /// Preempted sequences, the most urgent first, then the oldest.
    pub(super) preempted: VecDeque<Sequence>,
    /// Further choices of admitted requests, the most urgent first: they begin where their first one's prompt is computed.
    pub(super) siblings: VecDeque<Sequence>,
    /// Requests with their grammar: the most urgent first, then each API key in its turn, each one's in the order in which
    /// their grammars were ready.
    pub(super) ready: Line<(Arrival, Option<Compiled>)>,
    arrivals: Vec<Arrival>,
}

impl Waiting {
    /// Queues an arrival; without a constraint it is ready at once.
    pub(super) fn push(&mut self, arrival: Arrival) {
        if arrival.compiling.is_none() {
            self.enter(arrival, None);
        } else {
            self.arrivals.push(arrival);
        }
    }

    fn enter(&mut self, arrival: Arrival, compiled: Option<Compiled>) {
        let spec = arrival.request.spec();
        self.ready.push(spec.priority, spec.client, (arrival, compiled));
    }

    /// The priority of the next request; the least urgent where none is ready.
    pub(super) fn priority(&self) -> i64 {
        self.ready.front().map_or(i64::MAX, |(arrival, _)| arrival.request.spec().priority)
    }

    /// Has a preempted sequence wait, before those that are less urgent or younger.
    pub(super) fn preempt(&mut self, sequence: Sequence) {
        let rank = |sequence: &Sequence| (sequence.priority(), sequence.age);
        let at = self.preempted.partition_point(|other| rank(other) < rank(&sequence));
        self.preempted.insert(at, sequence);
    }

    /// Has a further choice of an admitted request wait, behind those that are as urgent.
    pub(super) fn follow(&mut self, sibling: Sequence) {
        let at = self.siblings.partition_point(|other| other.priority() <= sibling.priority());
        self.siblings.insert(at, sibling);
    }

    /// Requests that wait, those being compiled included.
    pub(super) fn requests(&self) -> usize {
        self.arrivals.len() + self.ready.len()
    }

    /// Whether nothing at all waits.
    pub(super) fn is_empty(&self) -> bool {
        self.requests() == 0 && self.preempted.is_empty() && self.siblings.is_empty()
    }

    /// Moves the compiled ones to the ready line, keeping the order of arrival among them; gives back the refused.
    pub(super) fn poll(&mut self) -> Vec<(Arrival, Error)> {
        let mut refused = Vec::new();
        for mut arrival in std::mem::take(&mut self.arrivals) {
            match arrival.compiling.as_mut().and_then(CompileHandle::poll) {
                None => self.arrivals.push(arrival),
                Some(Ok(compiled)) => match compiled.fits(arrival.request.max_tokens()) {
                    Ok(()) => self.enter(arrival, Some(compiled)),
                    Err(error) => refused.push((arrival, error)),
                },
                Some(Err(error)) => refused.push((arrival, error)),
            }
        }
        refused
    }

    /// Takes a waiting request out; its sequences, if it was admitted before, are given back.
    pub(super) fn remove(&mut self, id: RequestId) -> (Option<Arrival>, Vec<Sequence>) {
        let compiling = self.arrivals.iter().position(|a| a.id == id);
        let arrival = match compiling {
            Some(i) => Some(self.arrivals.remove(i)),
            None => self.ready.remove(|(a, _)| a.id == id).map(|(a, _)| a),
        };
        let mut sequences = Vec::new();
        for line in [&mut self.preempted, &mut self.siblings] {
            let (out, keep): (Vec<_>, Vec<_>) = line.drain(..).partition(|s| s.request == id);
            sequences.extend(out);
            line.extend(keep);
        }
        (arrival, sequences)
    }

    /// Empties the line.
    pub(super) fn drain(&mut self) -> (Vec<Arrival>, Vec<Sequence>) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.extend(self.ready.drain().map(|(a, _)| a));
        let sequences = self.preempted.drain(..).chain(self.siblings.drain(..)).collect();
        (arrivals, sequences)
    }
}

/// Draws seeds for requests that have none.
#[derive(Debug)]
pub(super) struct Seeds {
    seed: Option<u64>,
    drawn: u64,
}

impl Seeds {
    /// From the configured seed, if there is one.
    pub(super) fn new(seed: Option<u64>) -> Self {
        Seeds { seed, drawn: 0 }
    }

    /// The next request's seed: without a configured one, a number that no other request is likely to have, from the
    /// standard library's per-process random keys.
    pub(super) fn next(&mut self) -> u64 {
        self.drawn += 1;
        self.seed.map_or_else(|| RandomState::new().build_hasher().finish(), |seed| seed_of(seed, self.drawn))
    }
}
