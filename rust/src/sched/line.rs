//! Who is next: the most urgent, and among equally urgent ones each client in its turn.
//!
//! A client that has queued a thousand requests delays another's single one by no more than one of its own.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// What waits, each with a priority (lower first) and the client that it is from.
#[derive(Debug)]
pub struct Line<T> {
    lanes: BTreeMap<i64, Lane<T>>,
}

/// What is equally urgent.
#[derive(Debug)]
struct Lane<T> {
    /// Clients that wait, the next one first.
    turns: VecDeque<u64>,
    queues: HashMap<u64, VecDeque<T>>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line { lanes: BTreeMap::new() }
    }
}

impl<T> Line<T> {
    /// Adds one behind those of its client.
    pub fn push(&mut self, priority: i64, client: u64, item: T) {
        let empty = || Lane { turns: VecDeque::new(), queues: HashMap::new() };
        let lane = self.lanes.entry(priority).or_insert_with(empty);
        let queue = lane.queues.entry(client).or_default();
        if queue.is_empty() {
            lane.turns.push_back(client);
        }
        queue.push_back(item);
    }

    /// The next one.
    pub fn front(&self) -> Option<&T> {
        let lane = self.lanes.values().next()?;
        lane.queues[lane.turns.front()?].front()
    }

    /// Takes the next one out; then it is the next client's turn.
    pub fn pop(&mut self) -> Option<T> {
        let mut entry = self.lanes.first_entry()?;
        let lane = entry.get_mut();
        let client = lane.turns.pop_front()?;
        let queue = lane.queues.get_mut(&client)?;
        let item = queue.pop_front();
        if queue.is_empty() {
            lane.queues.remove(&client);
        } else {
            lane.turns.push_back(client);
        }
        if lane.turns.is_empty() {
            entry.remove();
        }
        item
    }

    /// Takes the first out for which `wanted` holds, whoever's turn it is.
    pub fn remove(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut queues = self.lanes.values_mut().flat_map(|lane| lane.queues.values_mut());
        let removed = queues.find_map(|queue| queue.remove(queue.iter().position(&wanted)?));
        for lane in self.lanes.values_mut() {
            lane.queues.retain(|_, queue| !queue.is_empty());
            lane.turns.retain(|client| lane.queues.contains_key(client));
        }
        self.lanes.retain(|_, lane| !lane.turns.is_empty());
        removed
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.lanes.values().flat_map(|lane| lane.queues.values()).map(VecDeque::len).sum()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Takes all out, in their order.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.pop())
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

    #[test]
    fn clients_take_turns_and_keep_their_order() {
        let mut line = line(&[(0, 1, "a"), (0, 1, "b"), (0, 1, "c"), (0, 2, "x"), (0, 3, "y"), (0, 3, "z")]);
        assert_eq!((line.len(), line.front()), (6, Some(&"a")));
        assert_eq!(line.drain().collect::<String>(), "axybzc");
        assert!(line.is_empty() && line.front().is_none());
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
        assert_eq!(line.drain().collect::<String>(), "abc");
    }

    #[test]
    fn whoever_leaves_gives_up_its_turn() {
        let mut line = line(&[(0, 1, "a"), (0, 2, "b"), (0, 2, "c"), (1, 4, "d")]);
        assert_eq!(line.remove(|item| *item == "a"), Some("a"));
        assert_eq!(line.remove(|item| *item == "d"), Some("d"));
        assert_eq!(line.remove(|item| *item == "d"), None);
        line.push(0, 1, "e");
        assert_eq!((line.len(), line.drain().collect::<String>()), (3, "bec".to_owned()));
    }
}
