//! A context as the seam's `Forward`.

use super::context::{CELL_BLOCK, Context, DecodeError};
use super::gaps;
use crate::exec::{Caps, ExecError, Forward, Kv, KvMemory, Rows, Run, memory, one_pass};
use crate::types::Slot;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Part of the memory that is free at start which other processes may need at any time.
const RESERVE: u64 = 20;

/// Bytes of a saved state that come once, at most for most models.
const HEAD: u64 = 8192;

/// llama.cpp with a fixed number of slots. Where rows are `ragged`, that is one pool: partial copies, any order, no gaps to fill.
pub(super) struct Llama {
    pub(super) context: Context,
    pub(super) caps: Caps,
    /// Rows that cost as much as a pass: gaps with fewer are filled. 0 in a pool, where gaps cost nothing.
    rows_of_a_pass: f64,
    slots: Vec<Held>,
    /// Copies whose data moves at the next decode.
    copying: bool,
    memory: Watch,
    /// Tokens whose pages were returned.
    returned: u64,
    /// What a head reads of the last pass.
    features: Vec<f32>,
}

/// What a slot holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// KV tokens.
    tokens: u32,
    /// Cells that may take memory, from the first.
    taken: u32,
    /// Cells, from the first, that are gone in layers with a window.
    gone: u32,
    /// Tokens of a slot with a state that can be taken back before its next pass; None: some were.
    back: Option<u32>,
}

const EMPTY: Held = Held { tokens: 0, taken: 0, gone: 0, back: Some(0) };

/// Looks now and then whether memory is short.
struct Watch {
    /// It is short where less than this is left.
    least: u64,
    /// The last look, if there was enough.
    enough: Option<Instant>,
}

impl Watch {
    /// Time between two looks.
    const EVERY: Duration = Duration::from_secs(1);

    /// Whether it is short. While it is, every call looks: what was given back in between counts.
    fn is_short(&mut self) -> bool {
        if self.enough.is_none_or(|looked| looked.elapsed() >= Self::EVERY) {
            self.enough = (memory::available() >= self.least).then(Instant::now);
        }
        self.enough.is_none()
    }
}

impl Llama {
    pub(super) fn new(context: Context, caps: Caps, rows_of_a_pass: f64) -> Self {
        let slots = vec![EMPTY; caps.slots as usize];
        let memory = Watch { least: memory::available() / RESERVE, enough: Some(Instant::now()) };
        Llama {
            context,
            caps,
            rows_of_a_pass,
            slots,
            copying: false,
            memory,
            returned: 0,
            features: Vec::new(),
        }
    }

    fn held(&self, slot: Slot) -> Result<Held, ExecError> {
        self.slots.get(slot.index()).copied().ok_or_else(|| failed(format!("no slot {}", slot.0)))
    }

    /// Counts the tokens. Refuses what the library would abort on or, worse, accept.
    fn check(&self, runs: &[Run<'_>]) -> Result<usize, ExecError> {
        let all: usize = runs.iter().map(|run| run.tokens.len()).sum();
        let most = self.caps.max_step_tokens;
        if runs.is_empty() || all > most as usize {
            return Err(failed(format!("{all} tokens in a step of at most {most}")));
        }
        if !runs.is_sorted_by(|a, b| a.slot < b.slot) {
            return Err(failed("runs out of order, or two for one slot"));
        }
        for Run { slot, start, tokens, outputs, .. } in runs {
            let (held, n, most) = (self.held(*slot)?.tokens, tokens.len(), self.caps.kv_per_slot as usize);
            if *start != held || n == 0 || *outputs as usize > n || held as usize + n > most {
                let why = format!("{n} tokens from {start}, {outputs} outputs, after {held} of {most}");
                return Err(failed(format!("slot {}: {why}", slot.0)));
            }
            if let Some(unknown) = tokens.iter().find(|token| **token as usize >= self.caps.n_vocab) {
                return Err(failed(format!("slot {}: there is no token {unknown}", slot.0)));
            }
        }
        Ok(all)
    }

    /// Lays the runs out as a batch. Gives back the indices of each run's outputs, and the slots that fill gaps: they get as
    /// many tokens at their end as the runs beside them, if the batch has room for these, which go again after the pass.
    pub(super) fn fill_batch(
        &mut self,
        runs: &[Run<'_>],
    ) -> Result<(Vec<Range<usize>>, Vec<u32>), ExecError> {
        let mut room = self.context.n_batch() - self.check(runs)?;
        self.context.clear();
        let is_filled =
            self.gaps(&Vec::from_iter(runs.iter().map(|run| (run.slot.0, run.tokens.len() as u32))));
        let (mut outputs, mut filled) = (vec![0..0; runs.len()], Vec::new());
        let mut order: Vec<_> = runs.iter().enumerate().collect();
        if self.caps.even_drafts.is_some() {
            // Drafts come last: a later pass would move the states of other sequences, but not those to go back to.
            order.sort_by_key(|(_, run)| run.tokens.len());
        }
        for (i, run) in order {
            let n = run.tokens.len();
            let quiet = n - run.outputs as usize;
            for (j, &token) in (0u32..).zip(run.tokens) {
                self.push(token, run.start + j, run.slot.0, j as usize >= quiet);
            }
            let end = self.context.pushed();
            outputs[i] = end - run.outputs as usize..end;
            if is_filled.get(i) != Some(&true) {
                continue;
            }
            let gap = run.slot.0 + 1..runs[i + 1].slot.0;
            if let Some(left) = room.checked_sub(gap.len() * n) {
                room = left;
                for slot in gap {
                    let end = self.slots[slot as usize].tokens;
                    (end..).take(n).for_each(|position| self.push(0, position, slot, false));
                    filled.push(slot);
                }
            }
        }
        Ok((outputs, filled))
    }

    fn push(&mut self, token: u32, position: u32, slot: u32, output: bool) {
        let taken = &mut self.slots[slot as usize].taken;
        *taken = (*taken).max(position + 1);
        self.context.push(token, position, slot, output);
    }

    /// For each of these slots and tokens but the last, whether the gap after it is filled.
    fn gaps(&self, runs: &[(u32, u32)]) -> Vec<bool> {
        // Some models have no positions beyond the context, however many cells there are.
        let most = self.caps.kv_per_slot;
        gaps::filled(runs, self.rows_of_a_pass, |slot, n| self.slots[slot as usize].tokens + n <= most)
    }

    /// Computes the batch, and takes out again what filled gaps; after an error, what `runs` left.
    pub(super) fn decode(&mut self, runs: &[Run<'_>], filled: &[u32]) -> Result<(), ExecError> {
        let result = self.context.decode();
        // Whatever the outcome, the library moves copies first.
        self.copying &= matches!(result, Err(DecodeError::Refused(_)));
        filled.iter().try_for_each(|slot| self.cut(*slot, self.slots[*slot as usize].tokens))?;
        let Err(error) = result else { return Ok(()) };
        for run in runs {
            self.cut(run.slot.0, run.start).map_err(|e| failed(format!("{error}; then {e}")))?;
        }
        Err(failed(error.to_string()))
    }

    /// The slots hold what was computed.
    pub(super) fn grow(&mut self, runs: &[Run<'_>]) {
        for run in runs {
            let (held, n) = (&mut self.slots[run.slot.index()], run.tokens.len() as u32);
            held.tokens += n;
            held.back = Some((n - 1).min(self.context.rollback()));
            // What has left a window goes, a block of cells at a time. One more stays, so that refused drafts and an answer's
            // last tokens can be cut off.
            let Some(window) = self.context.pages.window() else { continue };
            let gone = held.tokens.saturating_sub(window + CELL_BLOCK) / CELL_BLOCK * CELL_BLOCK;
            if gone > held.gone {
                self.context.pages.move_window(run.slot.0, gone);
                held.gone = gone;
            }
        }
    }

    /// Reads what a head is made for at all tokens of the runs, whose outputs have these indices.
    fn read_features(&mut self, runs: &[Run<'_>], outputs: &[Range<usize>]) {
        self.features.clear();
        if self.context.is_tapped() {
            for (run, outputs) in runs.iter().zip(outputs) {
                self.context.features(outputs.end - run.tokens.len()..outputs.end, &mut self.features);
            }
        }
    }

    /// Makes the slot hold `keep` tokens, and looks whether it does.
    fn cut(&mut self, slot: u32, keep: u32) -> Result<(), ExecError> {
        let removed = self.context.remove(slot, keep);
        let held = self.context.held(slot);
        // A state has the last position only.
        if !removed || held.end != keep || (held.start != 0 && !self.caps.stateful) {
            return Err(failed(format!("slot {slot} holds {held:?} after a cut to {keep} tokens")));
        }
        Ok(())
    }

    /// Moves the data of copies now, which only a decode does: one token at the end of a slot with room.
    fn settle(&mut self) -> Result<(), ExecError> {
        if !self.copying {
            return Ok(());
        }
        let has_room = |held: &Held| held.tokens < self.caps.kv_per_slot;
        let slot = self.slots.iter().position(has_room).ok_or_else(|| failed("no slot has room"))?;
        self.context.clear();
        self.push(0, self.slots[slot].tokens, slot as u32, false);
        self.decode(&[], &[slot as u32])
    }
}

impl Forward for Llama {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn forward(&mut self, runs: &[Run<'_>]) -> Result<Rows<'_>, ExecError> {
        let (outputs, filled) = self.fill_batch(runs)?;
        self.context.want_hidden(runs.iter().any(|r| r.hidden));
        self.decode(runs, &filled)?;
        self.grow(runs);
        self.read_features(runs, &outputs);
        let mut rows = Rows { features: &self.features, ..Rows::default() };
        for (run, outputs) in runs.iter().zip(outputs) {
            for index in outputs {
                rows.logits.push(self.context.logits(index).ok_or_else(|| failed("no logits"))?);
                if run.hidden {
                    rows.hidden.push(self.context.hidden(index).ok_or_else(|| failed("no hidden state"))?);
                }
            }
        }
        Ok(rows)
    }
}

impl Kv for Llama {
    fn truncate(&mut self, slot: Slot, keep: u32) -> Result<(), ExecError> {
        let held = self.held(slot)?;
        if keep == held.tokens {
            return Ok(());
        }
        let floor = self.floor(slot).saturating_sub(held.back.unwrap_or(0));
        let truncates = self.caps.prefix_reuse || self.caps.stateful;
        if keep > held.tokens || (keep > 0 && (keep < floor || !truncates)) {
            let held = held.tokens;
            return Err(failed(format!("slot {}: {held} tokens cannot be cut to {keep}", slot.0)));
        }
        self.cut(slot.0, keep)?;
        let mut cut = Held { tokens: keep, back: None, ..held };
        // A few drafts that are refused will be drafted again: a block of cells at least is given back.
        if keep == 0 || held.taken >= keep + CELL_BLOCK {
            self.context.pages.give_back(slot.0, keep);
            cut.taken = keep;
            self.returned += u64::from(held.taken.saturating_sub(keep));
        }
        self.slots[slot.index()] = if keep == 0 { EMPTY } else { cut };
        Ok(())
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        let (Held { tokens: held, gone, .. }, filled) = (self.held(from)?, self.held(to)?.tokens > 0);
        let fits = from != to && !filled && len <= held;
        if fits && len == 0 {
            return Ok(());
        }
        if !fits || len < self.floor(from) || !self.context.copy(from.0, to.0, len, gone) {
            let (from, to) = (from.0, to.0);
            return Err(failed(format!("{len} of {held} tokens of slot {from} cannot be copied to {to}")));
        }
        self.copying |= !self.caps.ragged && self.context.pages.tensors.is_empty();
        self.cut(to.0, len)?;
        self.slots[to.index()] = Held { tokens: len, taken: len, gone, ..EMPTY };
        Ok(())
    }

    fn floor(&self, slot: Slot) -> u32 {
        let held = &self.slots[slot.index()];
        match held.gone {
            // A state that was taken back is the slot's alone until it is computed with.
            0 if self.caps.stateful => held.tokens + u32::from(held.back.is_none()),
            0 => 0,
            gone => gone + self.context.pages.window().unwrap_or(0),
        }
    }

    fn short_of_memory(&mut self) -> bool {
        self.caps.token_bytes > 0 && self.memory.is_short()
    }

    fn memory(&self) -> KvMemory {
        if self.context.pages.tensors.is_empty() {
            return KvMemory::default();
        }
        let resident = self.slots.iter().map(|held| u64::from(held.taken)).sum();
        KvMemory { resident, returned: self.returned }
    }

    fn passes(&self, runs: &[(Slot, u32)]) -> Vec<u32> {
        if self.caps.ragged {
            return one_pass(runs);
        }
        let runs: Vec<_> = runs.iter().map(|(slot, tokens)| (slot.0, *tokens)).collect();
        gaps::passes(&runs, &self.gaps(&runs))
    }

    fn save(&mut self, slot: Slot) -> Option<Vec<u8>> {
        // Cells that are gone would take room, and read as zeros elsewhere.
        let held = self.held(slot).ok().filter(|held| held.tokens > 0 && held.gone == 0)?;
        self.settle().ok()?;
        let likely = HEAD + u64::from(held.tokens) * self.caps.token_bytes;
        self.context.state(slot.0, usize::try_from(likely).ok()?)
    }

    fn restore(&mut self, slot: Slot, kv: &[u8]) -> bool {
        // A copy that is still to be made would write over what is restored, or read it.
        if !matches!(self.held(slot), Ok(Held { tokens: 0, .. })) || self.settle().is_err() {
            return false;
        }
        let tokens = if self.context.set_state(slot.0, kv) { self.context.held(slot.0).end } else { 0 };
        let whole = (1..=self.caps.kv_per_slot).contains(&tokens) && self.cut(slot.0, tokens).is_ok();
        if whole {
            self.slots[slot.index()] = Held { tokens, taken: tokens, ..EMPTY };
        } else {
            self.context.remove(slot.0, 0);
        }
        whole
    }
}

pub(super) fn failed(why: impl Into<String>) -> ExecError {
    ExecError(format!("llama.cpp: {}", why.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_looked_at_now_and_then() {
        let mut watch = Watch { least: u64::MAX, enough: Some(Instant::now()) };
        assert!(!watch.is_short(), "just looked");
        watch.enough = Instant::now().checked_sub(Watch::EVERY);
        assert!(watch.is_short());
        watch.least = 0;
        assert!(!watch.is_short(), "a look at once");
    }
}
