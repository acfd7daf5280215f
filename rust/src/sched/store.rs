//! KV in host memory: of prefixes that no slot keeps any more, and of preempted sequences.
//!
//! Copying KV back takes a hundredth of computing it. What was not used for the longest time goes first.

use super::Scope;
use super::slots::common;
use crate::types::{RequestId, Token};
use std::time::Instant;

/// A choice of a request.
pub(crate) type Owner = (RequestId, u32);

struct Entry {
    scope: Scope,
    tokens: Vec<Token>,
    kv: Vec<u8>,
    /// The preempted sequence that waits for it.
    owner: Option<Owner>,
    /// When it was last used.
    stamp: Instant,
}

impl Entry {
    fn bytes(&self) -> u64 {
        (self.kv.len() + size_of_val(&self.tokens[..])) as u64
    }

    /// Whether it can stand in for an entry of these tokens.
    fn serves(&self, scope: Scope, tokens: &[Token], whole: bool) -> bool {
        let same = if whole { self.tokens == tokens } else { self.tokens.starts_with(tokens) };
        self.scope == scope && same
    }
}

/// Stored KV, up to a number of bytes.
pub(crate) struct Store {
    limit: u64,
    /// Entries serve whole: KV cannot be truncated.
    whole: bool,
    entries: Vec<Entry>,
}

/// What a sequence may take from a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// All tokens of the sequence; the last one is always computed.
    pub(crate) tokens: &'a [Token],
    pub(crate) owner: Owner,
    /// Entries of this scope, too, though they were stored for others.
    pub(crate) others: Option<Scope>,
}

/// Stored KV that begins a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    entry: usize,
    /// Tokens that it holds.
    pub(crate) holds: u32,
    /// Tokens that begin the sequence.
    pub(crate) len: u32,
    /// It was stored for this sequence.
    pub(crate) own: bool,
}

impl Store {
    /// An empty store for so many bytes; 0: it stays empty.
    pub(crate) fn new(limit: u64, whole: bool) -> Self {
        Store { limit, whole, entries: Vec::new() }
    }

    pub(crate) fn enabled(&self) -> bool {
        self.limit > 0
    }

    /// Bytes that are kept for sequences that wait.
    pub(crate) fn owned_bytes(&self) -> u64 {
        self.entries.iter().filter(|e| e.owner.is_some()).map(Entry::bytes).sum()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.entries.iter().map(Entry::bytes).sum()
    }

    /// Whether KV that begins with these tokens is stored; then that counts as a use.
    pub(crate) fn has(&mut self, scope: Scope, tokens: &[Token]) -> bool {
        let found = self.entries.iter_mut().find(|e| e.serves(scope, tokens, self.whole));
        found.map(|entry| entry.stamp = Instant::now()).is_some()
    }

    /// Stores the KV of these tokens. It takes the place of what it serves as well as, and then of what was used longest ago.
    pub(crate) fn put(&mut self, (scope, tokens): (Scope, Vec<Token>), kv: Vec<u8>, owner: Option<Owner>) {
        let entry = Entry { scope, tokens, kv, owner, stamp: Instant::now() };
        if entry.bytes() > self.limit {
            return;
        }
        let replaced = |e: &Entry| match e.owner {
            Some(_) => e.owner == owner,
            None => entry.serves(e.scope, &e.tokens, self.whole),
        };
        self.entries.retain(|e| !replaced(e));
        while self.bytes() + entry.bytes() > self.limit && self.drop_oldest(None) {}
        self.entries.push(entry);
    }

    /// Drops what was used longest ago, if that was before some time; false: it did not.
    pub(crate) fn drop_oldest(&mut self, before: Option<Instant>) -> bool {
        let older = |i: &usize| before.is_none_or(|before| self.entries[*i].stamp < before);
        let oldest = (0..self.entries.len()).filter(older).min_by_key(|i| self.entries[*i].stamp);
        oldest.map(|oldest| self.entries.swap_remove(oldest)).is_some()
    }

    /// The KV that holds most of a sequence's beginning.
    pub(crate) fn find(&self, wanted: Wanted<'_>) -> Option<Found> {
        let Wanted { tokens, owner, others } = wanted;
        let known = &tokens[..tokens.len().saturating_sub(1)];
        let all = self.entries.iter().enumerate().map(|(entry, e)| Found {
            entry,
            holds: e.tokens.len() as u32,
            len: common(known, &e.tokens) as u32,
            own: e.owner == Some(owner),
        });
        let may = |f: &Found| f.own || others == Some(self.entries[f.entry].scope);
        let fit = all.filter(|f| f.len > 0 && may(f) && (!self.whole || f.len == f.holds));
        fit.max_by_key(|f| (f.len, std::cmp::Reverse(f.entry)))
    }

    pub(crate) fn read(&mut self, found: Found) -> &[u8] {
        let entry = &mut self.entries[found.entry];
        entry.stamp = Instant::now();
        &entry.kv
    }

    /// A sequence needs its KV no more: it stays as a prefix for others (`keep`), or goes.
    pub(crate) fn disown(&mut self, owner: Owner, keep: bool) {
        self.entries.retain(|e| keep || e.owner != Some(owner));
        for entry in self.entries.iter_mut().filter(|e| e.owner == Some(owner)) {
            entry.owner = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: Scope = (1, 0);

    fn wanted(tokens: &[Token]) -> Wanted<'_> {
        Wanted { tokens, owner: (RequestId(1), 0), others: Some(MINE) }
    }

    fn kv(n: u8) -> Vec<u8> {
        vec![n; 60]
    }

    #[test]
    fn the_longest_beginning_is_found_without_the_last_token() {
        let mut store = Store::new(1000, false);
        store.put((MINE, vec![1, 2, 3]), kv(1), None);
        store.put((MINE, vec![1, 2, 4, 5, 6]), kv(2), None);
        let found = store.find(wanted(&[1, 2, 4, 5, 9])).unwrap();
        assert_eq!((found.len, found.holds, found.own), (4, 5, false));
        assert_eq!(store.read(found), kv(2));
        assert_eq!(store.find(wanted(&[1, 2, 3])).unwrap().len, 2);
        assert_eq!(store.find(wanted(&[7, 2, 3])), None);
    }

    #[test]
    fn what_cannot_be_truncated_serves_whole_and_shorter_prefixes_stay_beside_it() {
        let mut store = Store::new(1000, true);
        store.put((MINE, vec![1, 2, 3]), kv(1), None);
        store.put((MINE, vec![1, 2, 3, 5, 6]), kv(2), None);
        assert_eq!(store.find(wanted(&[1, 2, 3, 4])).unwrap().len, 3);
        assert_eq!(store.find(wanted(&[1, 2, 4, 5, 6])), None);
        assert!(store.has(MINE, &[1, 2, 3]) && !store.has(MINE, &[1, 2, 3, 5]));
        store.put((MINE, vec![1, 2, 3]), kv(1), None);
        assert_eq!(store.bytes(), 2 * 60 + 8 * 4);
    }

    #[test]
    fn longer_prefixes_take_the_place_of_shorter_ones() {
        let mut store = Store::new(1000, false);
        store.put((MINE, vec![1, 2]), kv(1), None);
        store.put((MINE, vec![1, 2, 3]), kv(2), None);
        assert_eq!(store.bytes(), 60 + 12);
        assert!(store.has(MINE, &[1, 2]) && !store.has(MINE, &[1, 2, 3, 4]));
    }

    #[test]
    fn the_least_recently_used_makes_room_and_the_limit_holds() {
        let mut store = Store::new(3 * 64, false);
        for token in 1..=3 {
            store.put((MINE, vec![token]), kv(0), None);
        }
        assert!(store.has(MINE, &[1]));
        store.put((MINE, vec![4]), kv(0), None);
        assert!(
            store.has(MINE, &[1]) && !store.has(MINE, &[2]) && store.has(MINE, &[3]) && store.has(MINE, &[4])
        );
        store.put((MINE, vec![5]), vec![0; 1000], None);
        assert!(!store.has(MINE, &[5]) && store.bytes() == 3 * 64);
        let mut none = Store::new(0, false);
        none.put((MINE, vec![1]), kv(0), None);
        assert!(!none.enabled() && none.bytes() == 0);
    }

    #[test]
    fn what_waits_for_its_owner_is_its_own() {
        let mut store = Store::new(1000, false);
        let (one, two) = ((RequestId(1), 0), (RequestId(2), 0));
        store.put((MINE, vec![1, 2, 3]), kv(1), Some(two));
        assert_eq!(store.find(Wanted { others: None, ..wanted(&[1, 2, 3, 4]) }), None);
        let own = Wanted { owner: two, others: None, ..wanted(&[1, 2, 3, 4]) };
        assert!(store.find(own).unwrap().own && store.owned_bytes() == 72);
        store.disown(one, false);
        store.disown(two, true);
        assert_eq!((store.owned_bytes(), store.bytes()), (0, 72));
        store.put((MINE, vec![9]), kv(1), Some(two));
        store.disown(two, false);
        assert_eq!(store.bytes(), 72);
    }

    #[test]
    fn each_scope_has_its_own() {
        let mut store = Store::new(1000, false);
        store.put((MINE, vec![1, 2, 3]), kv(1), None);
        store.put(((1, 7), vec![1, 2, 3, 4]), kv(2), None);
        assert!(store.has(MINE, &[1, 2, 3]) && !store.has(MINE, &[1, 2, 3, 4]) && !store.has((2, 0), &[1]));
        let of =
            |scope| store.find(Wanted { others: Some(scope), ..wanted(&[1, 2, 3, 4, 5]) }).map(|f| f.len);
        assert_eq!([of(MINE), of((1, 7)), of((2, 0))], [Some(3), Some(4), None]);
    }
}
