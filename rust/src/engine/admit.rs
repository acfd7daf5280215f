//! Who may run: admission, placement into slots, preemption, and giving slots up.

use super::Engine;
use super::waiting::Arrival;
use crate::config::{Config, ReuseScope};
use crate::exec::{Caps, Copying, ExecError, memory};
use crate::sched::Scope;
use crate::sched::slots::{Holding, Placement, Reuse, WORTH_COPYING, common};
use crate::sched::store::{Found, Wanted};
use crate::sequence::Sequence;
use crate::types::{End, Slot};
use std::cmp::Reverse;

/// Tokens between two copies of a prompt's state, on engines that have one. A request with the same beginning continues from the
/// last copy.
const PART: u32 = 256;

impl Engine {
    /// Admits what has room, in its order; what lacks the room is not overtaken.
    pub(super) fn admit(&mut self) -> Result<(), ExecError> {
        for (arrival, error) in self.waiting.poll() {
            self.tally.open.remove(&arrival.id);
            self.tally.totals.requests_refused += 1;
            self.tally.report.admitted.push(arrival.id);
            self.end_arrival(&arrival, &End::Failed(error));
        }
        loop {
            let arrival = self.waiting.ready.front().map(|arrival| &arrival.request);
            let urgency = arrival.map_or(i64::MAX, |request| request.spec().priority);
            let may_begin = |s: &Sequence| s.priority() <= urgency && self.may_begin(s);
            let admitted = self.waiting.admitted.iter().position(may_begin);
            let needed = match (admitted, arrival) {
                (Some(index), _) => self.needed(&self.waiting.admitted[index]),
                (None, Some(request)) => {
                    let most = if self.config.guaranteed_no_evict { request.max_tokens() } else { 1 };
                    request.spec().prompt.len() as u64 + u64::from(most)
                }
                (None, None) => return Ok(()),
            };
            let used: u64 = self.running.iter().map(|s| self.needed(s)).sum();
            let place = self.running.len() < self.max_running && self.slots.spare(false).is_some();
            if !place || used + needed > self.caps.kv_total {
                return Ok(());
            } else if let Some(index) = admitted {
                let sequence = self.waiting.admitted.remove(index);
                self.place(sequence)?;
            } else if let Some(arrival) = self.waiting.ready.pop() {
                self.begin(arrival)?;
            }
        }
    }

    /// A further choice starts once its request's first one has the prompt, or is gone; what was preempted goes on.
    fn may_begin(&self, sequence: &Sequence) -> bool {
        let first = || self.running.iter().find(|s| s.request == sequence.request);
        sequence.age > 0 || first().is_none_or(|s| s.computed() + 1 >= s.prompt_len())
    }

    /// KV tokens that the running sequences need, now or (guaranteed_no_evict) ever.
    fn needed(&self, sequence: &Sequence) -> u64 {
        u64::from(if self.config.guaranteed_no_evict { sequence.most() } else { sequence.holds() })
    }

    /// KV tokens that the running sequences hold once their next token is known.
    pub(super) fn held(&self) -> u64 {
        self.running.iter().map(|s| u64::from(s.holds())).sum()
    }

    /// Makes the sequences of a request and places the first.
    fn begin(&mut self, arrival: Arrival) -> Result<(), ExecError> {
        let Arrival { id, request, arrived, seed, compiled } = arrival;
        self.tally.report.admitted.push(id);
        self.tally.totals.queue.observe(arrived.elapsed().as_secs_f64());
        self.tally.totals.prompt_tokens += request.spec().prompt.len() as u64;
        let choice = |choice| {
            let mut sequence =
                Sequence::new((id, choice), request.clone(), self.vocab.clone(), seed, arrived);
            sequence.constrain(compiled.clone());
            sequence
        };
        let first = choice(0);
        (1..request.spec().n).map(choice).for_each(|sequence| self.waiting.wait(sequence));
        self.place(first)
    }

    /// Runs a sequence; where that fails it is among the running all the same, to be ended with them.
    fn place(&mut self, mut sequence: Sequence) -> Result<(), ExecError> {
        let placed = self.find_slot(&mut sequence);
        self.age += 1;
        if sequence.age == 0 {
            sequence.age = self.age;
            // A further choice's prompt was cached exactly as far as its first one's.
            let first = self.running.iter().find(|s| s.request == sequence.request).map(|s| s.cached);
            let own = if sequence.choice == 0 { sequence.computed() } else { 0 };
            sequence.cached = first.unwrap_or(own);
            self.tally.totals.cached_tokens += u64::from(sequence.cached);
        }
        let at = self.running.partition_point(|s| s.age < sequence.age);
        self.running.insert(at, sequence);
        placed?;
        self.evict_to_fit(0)
    }

    /// Whose KV the sequence may share.
    fn scope(&self, sequence: &Sequence) -> Scope {
        let (client, salt) = sequence.scope();
        (if self.config.kv_cache_reuse_scope == ReuseScope::All { 0 } else { client }, salt)
    }

    /// Whether KV of one request may serve another.
    pub(super) fn reuses(&self) -> bool {
        self.config.enable_kv_cache_reuse && self.caps.prefix_reuse
    }

    /// Gives a sequence its slot, with whatever KV can be reused.
    fn find_slot(&mut self, sequence: &mut Sequence) -> Result<(), ExecError> {
        let lenders = self.running.iter().filter(|s| self.lends(s, sequence));
        let held: Vec<_> = lenders.map(|lender| self.holding(lender)).collect();
        let reuse = (self.reuses() && !sequence.scores()).then(|| self.scope(sequence));
        let placement = self.slots.choose(sequence.shareable(), &held, reuse);
        let Placement { slot, computed, reuse: source, rescue, shared } =
            placement.expect("there was an idle slot. This is a bug.");
        let stored = self.stored(sequence, computed);
        let stays = source == Reuse::InPlace && stored.is_none();
        self.rescue(slot, rescue, if stays { computed } else { 0 })?;
        let computed = match stored {
            Some(_) => self.restore(sequence, slot)?,
            None => self.prepare(source, slot, computed)?,
        };
        if let (None, Reuse::Copy(from)) = (stored, source) {
            self.slots.used(from);
        }
        self.slots.take(slot);
        sequence.place(slot, computed);
        sequence.marks.clear();
        if reuse.is_some() {
            // Of a slot with a state nothing else is left of the prompt once its answer begins.
            let end = if self.caps.stateful { sequence.prompt_len() - 1 } else { 0 };
            let parts = (PART..end).step_by(PART as usize).map(|part| (part, true));
            let marks = [(end, false), (shared, false)].into_iter().chain(parts);
            sequence.marks.extend(marks.filter(|(mark, _)| *mark >= computed + WORTH_COPYING as u32));
            sequence.marks.sort_by_key(|(mark, _)| Reverse(*mark));
            sequence.marks.dedup_by_key(|(mark, _)| *mark);
        }
        Ok(())
    }

    /// Saves what an idle slot keeps before a sequence takes the slot. It is moved to `refuge`, or stored if there is none. The sequence
    /// itself goes on with `stays` of the kept tokens.
    pub(super) fn rescue(&mut self, slot: Slot, refuge: Option<Slot>, stays: u32) -> Result<(), ExecError> {
        // Where a move takes a pass, or where another prefix would have to be stored first, the store is as good a refuge.
        let is_free = |slot: &Slot| self.shares_memory() && self.slots.kept(*slot).1.is_empty();
        if let Some(refuge) = refuge.filter(|refuge| !self.store.enabled() || is_free(refuge)) {
            self.copy(slot, refuge, self.slots.kept(slot).1.len() as u32)?;
            self.slots.moved(slot, refuge);
        } else {
            self.stash(slot, stays);
        }
        Ok(())
    }

    fn holding<'a>(&self, sequence: &'a Sequence) -> Holding<'a> {
        let slot = sequence.slot.expect("a running sequence has a slot. This is a bug.");
        let tokens = &sequence.tokens()[..sequence.computed().min(sequence.known()) as usize];
        Holding { slot, tokens, floor: self.target.kv().floor(slot) }
    }

    /// Keeps apart what running sequences have in common with others, or may have, once they hold just that: where a slot
    /// cannot be cut to it later.
    pub(super) fn keep_marked(&mut self) -> Result<(), ExecError> {
        for index in 0..self.running.len() {
            let sequence = &mut self.running[index];
            let (Some(from), computed) = (sequence.slot, sequence.computed()) else { continue };
            let Some((len, part)) = sequence.marks.pop_if(|(mark, _)| *mark == computed) else { continue };
            let Some(to) = self.slots.spare(part) else { continue };
            let sequence = &self.running[index];
            let (scope, tokens) = (self.scope(sequence), sequence.tokens()[..len as usize].to_vec());
            self.copy(from, to, len)?;
            self.slots.leave(to, scope, tokens, self.target.kv().floor(to));
            self.slots.share(to, part);
        }
        Ok(())
    }

    /// Stored KV that begins the sequence and is worth copying where `computed` tokens need not be.
    fn stored(&self, sequence: &Sequence, computed: u32) -> Option<Found> {
        let wanted = Wanted {
            tokens: sequence.shareable(),
            owner: (sequence.request, sequence.choice),
            others: self.reuses().then(|| self.scope(sequence)),
        };
        let least = |found: &Found| if found.own { 1 } else { WORTH_COPYING as u32 };
        let found = self.store.find(wanted).filter(|_| !sequence.scores());
        found.filter(|found| found.len >= computed + least(found))
    }

    /// Stores what an idle slot keeps where that is more than the `stays` tokens that a sequence goes on with.
    fn stash(&mut self, slot: Slot, stays: u32) {
        let (scope, kept) = self.slots.kept(slot);
        let lost = kept.len().saturating_sub(stays as usize);
        let worth = lost >= WORTH_COPYING && lost > stays as usize;
        if !self.store.enabled() || !worth || self.slots.keeps_part(slot) || self.store.has(scope, kept) {
            return;
        }
        if let Some(kv) = self.target.kv_mut().save(slot) {
            self.store.put((scope, kept.to_vec()), kv, None);
        }
    }

    /// What was stored for a sequence that ends may serve others, or goes.
    pub(super) fn disown(&mut self, sequence: &Sequence) {
        let others = self.reuses();
        self.store.disown((sequence.request, sequence.choice), others);
        self.remember(sequence);
    }

    /// Puts stored KV into a slot; returns how many tokens it holds.
    fn restore(&mut self, sequence: &Sequence, slot: Slot) -> Result<u32, ExecError> {
        self.truncate(slot, 0)?;
        // Stored meanwhile was what the slot kept, in whose favour the found one may be gone.
        let Some(found) = self.stored(sequence, 0) else { return Ok(0) };
        if !self.target.kv_mut().restore(slot, self.store.read(found)) {
            log::warn!("stored KV could not be restored; it is computed again");
            return Ok(0);
        }
        if found.len < found.holds {
            self.truncate(slot, found.len)?;
        }
        Ok(found.len)
    }

    /// Whether KV of a running sequence may be copied for another.
    fn lends(&self, from: &Sequence, to: &Sequence) -> bool {
        let shared = self.config.enable_kv_cache_reuse && self.scope(from) == self.scope(to);
        let allowed = shared || from.request == to.request;
        allowed && self.caps.copying != Copying::Never && !to.scores()
    }

    /// Before the prompts of a step are computed: copies to them what other running sequences have already computed of the same
    /// beginning. Returns whether anything was copied.
    pub(super) fn borrow_any(&mut self, shares: &[(usize, u32)]) -> Result<bool, ExecError> {
        let mut borrowed = false;
        if self.caps.copying == Copying::Tokens {
            for (index, _) in shares.iter().filter(|(_, count)| *count > 1) {
                borrowed |= self.borrow(*index)?;
            }
        }
        Ok(borrowed)
    }

    fn borrow(&mut self, index: usize) -> Result<bool, ExecError> {
        let sequence = &self.running[index];
        let (to, computed) = (sequence.slot, sequence.computed());
        let lenders = self.running.iter().filter(|s| s.slot != to && self.lends(s, sequence));
        let found = lenders.filter_map(|lender| {
            let Holding { slot, tokens, floor } = self.holding(lender);
            let wanted = sequence.shareable();
            let len = common(&wanted[..wanted.len() - 1], tokens) as u32;
            (len > computed && len >= floor).then_some((len, slot))
        });
        let (Some((len, from)), Some(to)) = (found.max_by_key(|(len, _)| *len), to) else { return Ok(false) };
        self.copy(from, to, len)?;
        let sequence = &mut self.running[index];
        sequence.place(to, len);
        sequence.marks.retain(|(mark, _)| *mark > len);
        // What was preempted computes its prompt again.
        let new = len.min(sequence.prompt_len() - 1).saturating_sub(computed.max(sequence.cached));
        sequence.cached += new;
        self.tally.totals.cached_tokens += u64::from(new);
        Ok(true)
    }

    /// Puts the first KV tokens into the slot; returns how many it holds.
    fn prepare(&mut self, reuse: Reuse, slot: Slot, len: u32) -> Result<u32, ExecError> {
        let (Reuse::Copy(from) | Reuse::Move(from)) = reuse else {
            self.truncate(slot, len)?;
            return Ok(len);
        };
        self.copy(from, slot, len)?;
        if reuse == Reuse::Move(from) {
            self.truncate(from, 0)?;
            self.slots.forget(from);
        }
        Ok(len)
    }

    /// Preempts the least urgent, and of those the youngest, until every sequence can grow by one token.
    pub(super) fn make_room(&mut self) -> Result<(), ExecError> {
        while self.held() > self.caps.kv_total && self.running.len() > 1 {
            // Of equal ones the last.
            let last = (0..self.running.len()).max_by_key(|i| self.running[*i].priority());
            let sequence = self.running.remove(last.expect("more than one runs. This is a bug."));
            self.preempt(sequence)?;
        }
        self.evict_to_fit(0)
    }

    fn preempt(&mut self, mut sequence: Sequence) -> Result<(), ExecError> {
        self.tally.totals.preemptions += 1;
        let computed = sequence.computed() as usize;
        let slot = sequence.unplace().expect("a running sequence has a slot. This is a bug.");
        if self.store.enabled()
            && !self.shares_memory()
            && computed > 0
            && !sequence.scores()
            && let Some(kv) = self.target.kv_mut().save(slot)
        {
            let owner = (sequence.request, sequence.choice);
            let text = (self.scope(&sequence), sequence.tokens()[..computed].to_vec());
            self.store.put(text, kv, Some(owner));
        }
        // It waits before its slot is emptied: where that fails it is ended with the others.
        self.waiting.wait(sequence);
        self.truncate(slot, 0)?;
        self.slots.forget(slot);
        Ok(())
    }

    /// Whether what is stored takes of the memory that KV may take.
    pub(super) fn shares_memory(&self) -> bool {
        self.caps.token_bytes > 0
    }

    /// KV tokens of kept prefixes: in slots, and stored where that takes of the same memory.
    pub(super) fn kept_tokens(&self) -> u64 {
        self.slots.kept_tokens() + self.store.bytes().checked_div(self.caps.token_bytes).unwrap_or(0)
    }

    /// Forgets kept prefixes until they, the running sequences and so many tokens of drafts fit together, and while memory is
    /// short.
    pub(super) fn evict_to_fit(&mut self, drafted: u64) -> Result<(), ExecError> {
        let running = drafted + self.held();
        while self.kept_tokens() > 0
            && (running + self.kept_tokens() > self.caps.kv_total || self.target.kv_mut().short_of_memory())
        {
            let oldest = self.slots.oldest();
            if self.shares_memory() && self.store.drop_oldest(oldest.map(|(_, used)| used)) {
                continue;
            }
            let Some((slot, _)) = oldest else { break };
            if !self.shares_memory() {
                self.stash(slot, 0);
            }
            self.truncate(slot, 0)?;
            self.slots.forget(slot);
        }
        Ok(())
    }

    /// Keeps the first `keep` tokens of a slot, on the target and in the drafters; with 0 it is empty.
    pub(super) fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        self.drafters.each().for_each(|drafter| drafter.keep(slot, keep));
        self.target.kv_mut().truncate(slot, keep)
    }

    /// Makes `to` hold the first `len` tokens of `from`.
    pub(super) fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        self.truncate(to, 0)?;
        self.target.kv_mut().copy(from, to, len)?;
        self.drafters.each().for_each(|drafter| drafter.copy(from, to, len));
        Ok(())
    }

    /// Takes the slot of a sequence that ended; its KV is kept if it may be reused.
    pub(super) fn vacate(&mut self, mut sequence: Sequence, healthy: bool) {
        self.disown(&sequence);
        // KV may be ahead of the tokens: where a stop string cut an accepted run.
        let keep = sequence.computed().min(sequence.known());
        let Some(slot) = sequence.unplace() else { return };
        // All paths of a decision start with the same prompt: to keep it once is enough.
        let worth = !sequence.decides() || sequence.choice == 0;
        let reused = healthy && worth && self.reuses() && keep >= self.target.kv().floor(slot);
        let keep = if reused { keep } else { 0 };
        if let Err(error) = self.truncate(slot, keep) {
            log::error!("slot {} could not be given up: {error}", slot.0);
            self.broken = true;
        }
        let tokens = sequence.tokens()[..keep as usize].to_vec();
        self.slots.leave(slot, self.scope(&sequence), tokens, self.target.kv().floor(slot));
    }
}

/// Bytes of host memory for KV that no slot holds.
pub(super) fn host_bytes(config: &Config, caps: &Caps) -> u64 {
    const MIB: u64 = 1 << 20;
    match config.kv_cache_host_memory_megabytes {
        Some(megabytes) => megabytes * MIB,
        None if caps.token_bytes > 0 || caps.keeps_prompts => 0,
        None => {
            let bytes = memory::available() / 4;
            let mib = bytes / MIB;
            log::info!(
                "up to {mib} MiB of host memory keep the KV of prefixes (kv_cache_host_memory_megabytes)"
            );
            bytes
        }
    }
}
