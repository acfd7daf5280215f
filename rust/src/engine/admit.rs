//! Who may run: admission, placement into slots, preemption, and giving slots up.

use super::Engine;
use super::waiting::{Arrival, Waiting};
use crate::config::{Config, ReuseScope};
use crate::exec::{Caps, Copying, ExecError, memory};
use crate::grammar::Compiled;
use crate::sched::Scope;
use crate::sched::slots::{Holding, Reuse, WORTH_COPYING};
use crate::sched::store::{Found, Wanted};
use crate::sequence::Sequence;
use crate::types::Slot;

impl Engine {
    /// Admits what has room, in its order; what lacks the room is not overtaken.
    pub(super) fn admit(&mut self) -> Result<(), ExecError> {
        for (arrival, error) in self.waiting.poll() {
            self.tally.refused(arrival.id);
            self.report.admitted.push(arrival.id);
            self.end_arrival(&arrival, &Err(error));
        }
        loop {
            let Waiting { preempted, siblings, .. } = &self.waiting;
            let sibling = siblings.iter().position(|s| self.may_begin(s));
            let arrival = self.waiting.priority();
            let urgent = |sequence: &Sequence| sequence.priority() <= arrival;
            let before = |preempted: &&Sequence| {
                urgent(preempted) && sibling.is_none_or(|i| preempted.priority() <= siblings[i].priority())
            };
            if let Some(sequence) = preempted.front().filter(before) {
                if !self.fits(self.needed(sequence)) {
                    return Ok(());
                }
                let sequence = self.waiting.preempted.pop_front().expect("it was there. This is a bug.");
                self.place(sequence)?;
            } else if let Some(index) = sibling.filter(|i| urgent(&siblings[*i])) {
                if !self.fits(self.needed(&siblings[index])) {
                    return Ok(());
                }
                let sibling = self.waiting.siblings.remove(index).expect("it was there. This is a bug.");
                self.place(sibling)?;
            } else if self.next_fits() {
                let (arrival, compiled) = self.waiting.ready.pop().expect("it was there. This is a bug.");
                self.begin(&arrival, compiled.as_ref())?;
            } else {
                return Ok(());
            }
        }
    }

    /// A sibling starts once its request's first choice has the prompt, or is gone.
    fn may_begin(&self, sibling: &Sequence) -> bool {
        let first = self.running.iter().find(|s| s.request == sibling.request);
        first.is_none_or(|s| s.computed() + 1 >= s.prompt_len())
    }

    /// KV tokens that the running sequences need, now or (guaranteed_no_evict) ever.
    fn needed(&self, sequence: &Sequence) -> u64 {
        if self.config.guaranteed_no_evict { u64::from(sequence.most()) } else { u64::from(sequence.holds()) }
    }

    fn fits(&self, more: u64) -> bool {
        let used: u64 = self.running.iter().map(|s| self.needed(s)).sum();
        self.running.len() < self.max_running && self.slots.idle() > 0 && used + more <= self.caps.kv_total
    }

    fn next_fits(&self) -> bool {
        self.waiting.ready.front().is_some_and(|(arrival, _)| {
            let prompt = arrival.request.spec().prompt.len() as u64;
            let most = prompt + u64::from(arrival.request.max_tokens());
            self.fits(if self.config.guaranteed_no_evict { most } else { prompt + 1 })
        })
    }

    /// Makes the sequences of a request and places the first.
    fn begin(&mut self, arrival: &Arrival, compiled: Option<&Compiled>) -> Result<(), ExecError> {
        let seed = arrival.seed;
        self.report.admitted.push(arrival.id);
        self.tally.totals.queue.observe(arrival.arrived.elapsed().as_secs_f64());
        self.tally.totals.prompt_tokens += arrival.request.spec().prompt.len() as u64;
        let mut first = None;
        for choice in 0..arrival.request.spec().n {
            let id = (arrival.id, choice);
            let mut sequence =
                Sequence::new(id, arrival.request.clone(), self.vocab.clone(), seed, arrival.arrived);
            sequence.constrain(compiled.cloned());
            if choice == 0 {
                first = Some(sequence);
            } else {
                self.waiting.follow(sequence);
            }
        }
        self.place(first.expect("n is at least 1. This is a bug."))
    }

    /// Runs a sequence; where that fails it is among the running all the same, to be ended with them.
    fn place(&mut self, mut sequence: Sequence) -> Result<(), ExecError> {
        let placed = self.find_slot(&mut sequence);
        self.age += 1;
        if sequence.age == 0 {
            sequence.age = self.age;
            sequence.cached = self.cached_of(&sequence);
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
        match self.config.kv_cache_reuse_scope {
            ReuseScope::Key => (client, salt),
            ReuseScope::All => (0, salt),
        }
    }

    /// Whether KV of one request may serve another.
    pub(super) fn reuses(&self) -> bool {
        self.config.enable_kv_cache_reuse && self.caps.prefix_reuse
    }

    /// Gives a sequence its slot, with whatever KV can be reused.
    fn find_slot(&mut self, sequence: &mut Sequence) -> Result<(), ExecError> {
        let lenders = self.running.iter().filter(|s| self.lends(s, sequence));
        let held: Vec<Holding<'_>> = lenders.map(|lender| self.holding(lender)).collect();
        let reuse = (self.reuses() && !sequence.scores()).then(|| self.scope(sequence));
        let placement = self.slots.choose(sequence.tokens(), &held, reuse);
        let placement = placement.expect("fits() saw an idle slot. This is a bug.");
        let slot = placement.slot;
        let stored = self.stored(sequence, placement.computed);
        let refuge = placement.rescue.filter(|refuge| !self.store.enabled() || self.is_free_refuge(*refuge));
        if let Some(refuge) = refuge {
            self.truncate(refuge, 0)?;
            self.copy(slot, refuge, self.slots.kept(slot).1.len() as u32)?;
            self.slots.moved(slot, refuge);
        } else {
            let stays = placement.reuse == Reuse::InPlace && stored.is_none();
            self.stash(slot, if stays { placement.computed } else { 0 });
        }
        let computed = match stored {
            Some(_) => self.restore(sequence, slot)?,
            None => self.prepare(placement.reuse, slot, placement.computed)?,
        };
        self.slots.take(slot);
        sequence.place(slot, computed);
        // Of a slot with a state nothing else is left of the prompt once its answer begins.
        let end = sequence.prompt_len() - 1;
        let end = if self.caps.stateful && end >= computed + WORTH_COPYING as u32 { end } else { 0 };
        let shared = if placement.shared > computed { placement.shared } else { end };
        sequence.shared = if reuse.is_some() { shared } else { 0 };
        Ok(())
    }

    fn holding<'a>(&self, sequence: &'a Sequence) -> Holding<'a> {
        let slot = sequence.slot.expect("a running sequence has a slot. This is a bug.");
        let tokens = &sequence.tokens()[..sequence.computed().min(sequence.known()) as usize];
        Holding { slot, tokens, floor: self.target.kv().floor(slot) }
    }

    /// Keeps apart what running sequences have in common with others, once they hold just that: where a slot cannot be cut to
    /// it later.
    pub(super) fn keep_shared(&mut self) -> Result<(), ExecError> {
        for index in 0..self.running.len() {
            let sequence = &mut self.running[index];
            let (Some(from), true) = (sequence.slot, sequence.holds_shared()) else { continue };
            let len = std::mem::take(&mut sequence.shared);
            let (scope, tokens) =
                (self.scope(&self.running[index]), self.running[index].tokens()[..len as usize].to_vec());
            let Some(to) = self.slots.spare() else { continue };
            self.truncate(to, 0)?;
            self.copy(from, to, len)?;
            self.slots.leave(to, scope, tokens, self.target.kv().floor(to));
            self.slots.share(to);
        }
        Ok(())
    }

    /// Whether KV moves to this slot for the price of a copy: where that takes a pass, or where another prefix would have to
    /// be stored first, the store is as good a refuge.
    fn is_free_refuge(&self, slot: Slot) -> bool {
        self.shares_memory() && self.slots.kept(slot).1.is_empty()
    }

    /// Stored KV that begins the sequence and is worth copying where `computed` tokens need not be.
    fn stored(&self, sequence: &Sequence, computed: u32) -> Option<Found> {
        let wanted = Wanted {
            tokens: sequence.tokens(),
            owner: (sequence.request, sequence.choice),
            others: self.reuses().then(|| self.scope(sequence)),
            whole: self.caps.stateful || !self.caps.prefix_reuse,
        };
        if sequence.scores() {
            return None;
        }
        let least = |found: &Found| if found.own { 1 } else { WORTH_COPYING as u32 };
        self.store.find(wanted).filter(|found| found.len >= computed + least(found))
    }

    /// Stores what an idle slot keeps where that is more than the `stays` tokens that a sequence goes on with.
    fn stash(&mut self, slot: Slot, stays: u32) {
        let (scope, kept) = self.slots.kept(slot);
        let lost = kept.len().saturating_sub(stays as usize);
        let worth = lost >= WORTH_COPYING && lost > stays as usize;
        if !self.store.enabled() || !worth || self.store.has(scope, kept) {
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

    /// A sibling's prompt tokens were cached exactly as far as its first choice's.
    fn cached_of(&self, sequence: &Sequence) -> u32 {
        let first = self.running.iter().find(|s| s.request == sequence.request);
        match first {
            Some(first) => first.cached,
            None if sequence.choice == 0 => sequence.computed(),
            None => 0,
        }
    }

    /// Whether KV of a running sequence may be copied for another.
    fn lends(&self, from: &Sequence, to: &Sequence) -> bool {
        let shared = self.config.enable_kv_cache_reuse && self.scope(from) == self.scope(to);
        let allowed = shared || from.request == to.request;
        allowed && self.caps.copying != Copying::Never && !to.scores()
    }

    /// Puts the first KV tokens into the slot; returns how many it holds.
    fn prepare(&mut self, reuse: Reuse, slot: Slot, len: u32) -> Result<u32, ExecError> {
        match reuse {
            Reuse::InPlace => self.truncate(slot, len)?,
            Reuse::None => self.truncate(slot, 0)?,
            Reuse::Copy(from) | Reuse::Move(from) => {
                self.truncate(slot, 0)?;
                self.copy(from, slot, len)?;
                if matches!(reuse, Reuse::Move(_)) {
                    self.truncate(from, 0)?;
                    self.slots.forget(from);
                }
            }
        }
        Ok(if reuse == Reuse::None { 0 } else { len })
    }

    /// Preempts the least urgent, and of those the youngest, until every sequence can grow by one token.
    pub(super) fn make_room(&mut self) -> Result<(), ExecError> {
        let growth = |s: &Sequence| u64::from(s.holds());
        while self.running.iter().map(growth).sum::<u64>() > self.caps.kv_total && self.running.len() > 1 {
            // Of equal ones the last.
            let last = (0..self.running.len()).max_by_key(|i| self.running[*i].priority());
            let Some(last) = last else { break };
            let sequence = self.running.remove(last);
            self.preempt(sequence)?;
        }
        self.evict_to_fit(0)
    }

    fn preempt(&mut self, mut sequence: Sequence) -> Result<(), ExecError> {
        self.tally.totals.preemptions += 1;
        let slot = sequence.slot.expect("a running sequence has a slot. This is a bug.");
        let computed = sequence.computed() as usize;
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
        sequence.unplace();
        // It waits before its slot is emptied: where that fails it is ended with the others.
        self.waiting.preempt(sequence);
        self.truncate(slot, 0)?;
        self.slots.leave(slot, Scope::default(), Vec::new(), 0);
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
        let running = drafted + self.running.iter().map(|s| u64::from(s.holds())).sum::<u64>();
        loop {
            let kept = self.kept_tokens();
            if kept == 0 || (running + kept <= self.caps.kv_total && !self.target.kv_mut().short_of_memory())
            {
                return Ok(());
            }
            let oldest = self.slots.oldest();
            let stored = self.store.oldest().filter(|_| self.shares_memory());
            if stored.is_some_and(|stored| oldest.is_none_or(|(_, kept)| stored < kept)) {
                self.store.drop_oldest();
                continue;
            }
            let Some((slot, _)) = oldest else { return Ok(()) };
            if !self.shares_memory() {
                self.stash(slot, 0);
            }
            self.truncate(slot, 0)?;
            self.slots.forget(slot);
        }
    }

    /// Takes the slot of a sequence that ended; its KV is kept if it may be reused.
    pub(super) fn vacate(&mut self, mut sequence: Sequence, healthy: bool) {
        self.disown(&sequence);
        // KV may be ahead of the tokens: where a stop string cut an accepted run.
        let keep = sequence.computed().min(sequence.known());
        let Some(slot) = sequence.unplace() else { return };
        let kept = healthy && self.reuses() && keep > 0 && keep >= self.target.kv().floor(slot);
        if let Err(error) = self.truncate(slot, if kept { keep } else { 0 }) {
            log::error!("slot {} could not be given up: {error}", slot.0);
            self.broken = true;
        }
        let tokens = if kept { sequence.tokens()[..keep as usize].to_vec() } else { Vec::new() };
        self.slots.leave(slot, self.scope(&sequence), tokens, self.target.kv().floor(slot));
    }
}

/// Host memory for KV that no slot holds.
pub(super) fn host_bytes(config: &Config, caps: &Caps) -> u64 {
    const MIB: u64 = 1 << 20;
    match config.kv_cache_host_memory_megabytes {
        Some(megabytes) => megabytes * MIB,
        None if caps.token_bytes > 0 => 0,
        None => {
            let bytes = memory::available() / 4;
            log::info!(
                "up to {} MiB of host memory keep the KV of prefixes (kv_cache_host_memory_megabytes)",
                bytes / MIB
            );
            bytes
        }
    }
}
