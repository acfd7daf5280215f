//! What waits: requests whose grammar is being compiled, requests that are ready, sequences that were admitted.

use crate::error::Error;
use crate::grammar::{CompileHandle, Compiled};
use crate::request::Request;
use crate::sequence::Sequence;
use crate::types::RequestId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request that has not been admitted.
pub(super) struct Arrival {
    pub(super) id: RequestId,
    pub(super) request: Arc<Request>,
    pub(super) arrived: Instant,
    /// Its own seed, or one drawn for it.
    pub(super) seed: u64,
    /// Its constraint, once that is compiled, and the time from its arrival until then.
    pub(super) compiled: Option<(Compiled, Duration)>,
}

/// What waits. Of what is equally urgent, sequences come before arrivals.
#[derive(Default)]
pub(super) struct Waiting {
    /// Sequences of admitted requests, the most urgent first: then preempted ones, the oldest first, and behind these further
    /// choices, which begin where their first one's prompt is computed.
    pub(super) admitted: Vec<Sequence>,
    /// Requests with their grammar: the most urgent first, then each API key in its turn, each one's in the order in which
    /// their grammars were ready.
    pub(super) ready: Line<Arrival>,
    compiling: Vec<(CompileHandle, Arrival)>,
}

impl Waiting {
    /// Queues an arrival; without a constraint it is ready at once.
    pub(super) fn push(&mut self, arrival: Arrival, compiling: Option<CompileHandle>) {
        match compiling {
            Some(handle) => self.compiling.push((handle, arrival)),
            None => self.enter(arrival),
        }
    }

    fn enter(&mut self, arrival: Arrival) {
        let spec = arrival.request.spec();
        self.ready.push(spec.priority, spec.client, arrival);
    }

    /// Has a preempted sequence or a further choice (which has no age yet) wait.
    pub(super) fn wait(&mut self, sequence: Sequence) {
        let rank = |sequence: &Sequence| (sequence.priority(), sequence.age == 0, sequence.age);
        let at = self.admitted.partition_point(|other| rank(other) <= rank(&sequence));
        self.admitted.insert(at, sequence);
    }

    /// Requests that wait, those being compiled included.
    pub(super) fn requests(&self) -> usize {
        self.compiling.len() + self.ready.count()
    }

    /// Lines up what is compiled, in the order of arrival; gives back the refused.
    pub(super) fn poll(&mut self) -> Vec<(Arrival, Error)> {
        let mut refused = Vec::new();
        for (mut handle, arrival) in std::mem::take(&mut self.compiling) {
            let fits = |compiled: Compiled| match arrival.request.spec().decide {
                // A decision generates nothing.
                Some(_) => Ok(compiled),
                None => compiled.fits(arrival.request.max_tokens()).map(|()| compiled),
            };
            match handle.poll().map(|compiled| compiled.and_then(fits)) {
                None => self.compiling.push((handle, arrival)),
                Some(Ok(compiled)) => {
                    let compiled = Some((compiled, arrival.arrived.elapsed()));
                    self.enter(Arrival { compiled, ..arrival });
                }
                Some(Err(error)) => refused.push((arrival, error)),
            }
        }
        refused
    }

    /// Takes a waiting request out; its sequences, if it was admitted before, are given back.
    pub(super) fn remove(&mut self, id: RequestId) -> (Option<Arrival>, Vec<Sequence>) {
        let compiling = self.compiling.extract_if(.., |(_, arrival)| arrival.id == id).next();
        let ready = || self.ready.remove(|arrival| arrival.id == id);
        let arrival = compiling.map(|(_, arrival)| arrival).or_else(ready);
        (arrival, self.admitted.extract_if(.., |sequence| sequence.request == id).collect())
    }

    /// Takes out what was not admitted.
    pub(super) fn drain(&mut self) -> Vec<Arrival> {
        let compiling = std::mem::take(&mut self.compiling).into_iter().map(|(_, arrival)| arrival);
        compiling.chain(std::iter::from_fn(|| self.ready.pop())).collect()
    }
}

/// Who is next: the most urgent (lower priorities first), and among equally urgent ones each client in its turn. A client with
/// a thousand queued requests delays a single request of another client by at most one of its own.
pub(super) struct Line<T> {
    /// Of each priority the clients that wait, the next one first, each with what it has queued.
    lanes: BTreeMap<i64, VecDeque<(u64, VecDeque<T>)>>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line { lanes: BTreeMap::new() }
    }
}

impl<T> Line<T> {
    /// Adds one behind those of its client.
    pub(super) fn push(&mut self, priority: i64, client: u64, item: T) {
        let lane = self.lanes.entry(priority).or_default();
        match lane.iter_mut().find(|(other, _)| *other == client) {
            Some((_, queue)) => queue.push_back(item),
            None => lane.push_back((client, VecDeque::from([item]))),
        }
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.lanes.values().next()?.front()?.1.front()
    }

    /// Takes the next one out; then it is the next client's turn.
    pub(super) fn pop(&mut self) -> Option<T> {
        let mut lane = self.lanes.first_entry()?;
        let (client, mut queue) = lane.get_mut().pop_front()?;
        let item = queue.pop_front();
        if !queue.is_empty() {
            lane.get_mut().push_back((client, queue));
        } else if lane.get().is_empty() {
            lane.remove();
        }
        item
    }

    /// Takes the first out for which `wanted` holds, whoever's turn it is.
    pub(super) fn remove(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut queues = self.lanes.values_mut().flatten();
        let removed = queues.find_map(|(_, queue)| queue.remove(queue.iter().position(&wanted)?));
        self.lanes.retain(|_, lane| {
            lane.retain(|(_, queue)| !queue.is_empty());
            !lane.is_empty()
        });
        removed
    }

    pub(super) fn count(&self) -> usize {
        self.lanes.values().flatten().map(|(_, queue)| queue.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(items: &[(i64, u64, &'static str)]) -> Line<&'static str> {
        let mut line = Line::default();
        items.iter().for_each(|(priority, client, item)| line.push(*priority, *client, *item));
        line
    }

    fn drained(line: &mut Line<&'static str>) -> String {
        std::iter::from_fn(|| line.pop()).collect()
    }

    #[test]
    fn clients_take_turns_and_keep_their_order() {
        let mut line = line(&[(0, 1, "a"), (0, 1, "b"), (0, 1, "c"), (0, 2, "x"), (0, 3, "y"), (0, 3, "z")]);
        assert_eq!((line.count(), line.front()), (6, Some(&"a")));
        assert_eq!(drained(&mut line), "axybzc");
        assert_eq!((line.count(), line.front()), (0, None));
    }

    #[test]
    fn a_newcomer_waits_for_one_of_each_other_client() {
        let mut line = Line::default();
        (0..1000).for_each(|i| line.push(0, 1, i));
        line.pop();
        line.push(0, 2, 5000);
        assert_eq!((line.pop(), line.pop(), line.pop()), (Some(1), Some(5000), Some(2)));
    }

    #[test]
    fn the_urgent_come_first() {
        let mut line = line(&[(0, 1, "b"), (5, 2, "c"), (-3, 1, "a")]);
        assert_eq!(drained(&mut line), "abc");
    }

    #[test]
    fn whoever_leaves_gives_up_its_turn() {
        let mut line = line(&[(0, 1, "a"), (0, 2, "b"), (0, 2, "c"), (1, 4, "d")]);
        assert_eq!(line.remove(|item| *item == "a"), Some("a"));
        assert_eq!(line.remove(|item| *item == "d"), Some("d"));
        assert_eq!(line.remove(|item| *item == "d"), None);
        line.push(0, 1, "e");
        assert_eq!((line.count(), drained(&mut line)), (3, "bec".to_owned()));
    }
}
