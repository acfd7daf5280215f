//! A context as the seam's `Forward`.

use super::context::{CELL_BLOCK, Context, DecodeError};
use super::gaps;
use crate::exec::memory::{self, Watch};
use crate::exec::{Caps, ExecError, Forward, Kv, Rows, Run, one_pass};
use crate::types::Slot;

/// Part of the memory that is free at start which other processes may need at any time.
const RESERVE: u64 = 20;

/// Bytes of a saved state that come once, at most for most models.
const HEAD: u64 = 8192;

/// llama.cpp with a fixed number of slots.
pub(super) struct Llama {
    context: Context,
    caps: Caps,
    /// One pool: partial copies, any order, no gaps to fill.
    shared: bool,
    /// Rows that cost as much as a pass: gaps with fewer are filled.
    rows_of_a_pass: f64,
    /// KV tokens of each slot.
    held: Vec<u32>,
    /// Cells of each slot that may take memory, from the first.
    taken: Vec<u32>,
    /// Cells of each slot, from the first, that are gone in layers with a window.
    gone: Vec<u32>,
    /// Cells that a layer with a window reads before a token, and tokens that can be taken back: see [`Context::window`] and
    /// [`Context::rollback`].
    window: Option<u32>,
    rollback: u32,
    /// Tokens of each slot with a state that can be taken back before its next pass; None: some were.
    back: Vec<Option<u32>>,
    /// Copies whose data moves at the next decode.
    copying: bool,
    memory: Watch,
    // Of the batch at hand, kept to be used again: index of each run's first token; slots that fill a gap.
    starts: Vec<usize>,
    filled: Vec<u32>,
}

impl Llama {
    pub(super) fn new(context: Context, caps: Caps, shared: bool, rows_of_a_pass: f64) -> Self {
        let held = vec![0; caps.slots as usize];
        Llama {
            window: context.window(),
            rollback: context.rollback(),
            context,
            caps,
            shared,
            rows_of_a_pass,
            taken: held.clone(),
            gone: held.clone(),
            back: vec![Some(0); held.len()],
            held,
            copying: false,
            memory: Watch::new(memory::available() / RESERVE),
            starts: Vec::new(),
            filled: Vec::new(),
        }
    }

    fn held(&self, slot: Slot) -> Result<u32, ExecError> {
        self.held.get(slot.index()).copied().ok_or_else(|| failed(format!("no slot {}", slot.0)))
    }

    /// Refuses what the library would abort on or, worse, accept.
    fn check(&self, runs: &[Run<'_>]) -> Result<(), ExecError> {
        if runs.is_empty() {
            return Err(failed("no runs"));
        }
        let tokens: usize = runs.iter().map(|r| r.tokens.len()).sum();
        if tokens > self.caps.max_step_tokens as usize {
            return Err(failed(format!(
                "{tokens} tokens in a step of at most {}",
                self.caps.max_step_tokens
            )));
        }
        if !runs.is_sorted_by(|a, b| a.slot < b.slot) {
            return Err(failed("runs out of order, or two for one slot"));
        }
        runs.iter().try_for_each(|run| self.check_run(run))
    }

    fn check_run(&self, run: &Run<'_>) -> Result<(), ExecError> {
        let (slot, held, n) = (run.slot.0, self.held(run.slot)?, run.tokens.len());
        if n == 0 || run.outputs as usize > n {
            return Err(failed(format!("slot {slot}: {n} tokens, {} outputs", run.outputs)));
        }
        if run.start != held {
            return Err(failed(format!("slot {slot}: a run from {} after {held} tokens", run.start)));
        }
        if held as usize + n > self.caps.kv_per_slot as usize {
            return Err(failed(format!(
                "slot {slot}: {n} tokens after {held} pass {}",
                self.caps.kv_per_slot
            )));
        }
        match run.tokens.iter().find(|&&t| t as usize >= self.caps.n_vocab) {
            Some(t) => {
                Err(failed(format!("slot {slot}: token {t} of a vocabulary of {}", self.caps.n_vocab)))
            }
            None => Ok(()),
        }
    }

    /// Lays the runs out as a batch.
    fn fill_batch(&mut self, runs: &[Run<'_>]) {
        self.context.clear();
        self.starts.clear();
        self.filled.clear();
        let tokens: usize = runs.iter().map(|r| r.tokens.len()).sum();
        let mut room = self.context.n_batch() - tokens;
        let filled = self.gaps(&Vec::from_iter(runs.iter().map(|run| (run.slot.0, run.tokens.len() as u32))));
        for (i, run) in runs.iter().enumerate() {
            if i > 0 && filled.get(i - 1) == Some(&true) {
                room -= self.fill_gap(&runs[i - 1], run, room);
            }
            self.starts.push(self.context.pushed());
            let quiet = run.tokens.len() - run.outputs as usize;
            for (j, &token) in (0u32..).zip(run.tokens) {
                self.push(token, run.start + j, run.slot.0, j as usize >= quiet);
            }
        }
    }

    fn push(&mut self, token: u32, position: u32, slot: u32, output: bool) {
        let taken = &mut self.taken[slot as usize];
        *taken = (*taken).max(position + 1);
        self.context
            .push(token, position, slot, output)
            .expect("`check` has seen every token. This is a bug.");
    }

    /// For each of these slots and tokens but the last, whether the gap after it is filled; empty where none is.
    fn gaps(&self, runs: &[(u32, u32)]) -> Vec<bool> {
        if self.shared || !runs.windows(2).any(|pair| pair[0].0 + 1 < pair[1].0) {
            return Vec::new();
        }
        // Some models have no positions beyond the context, however many cells there are.
        let most = self.caps.kv_per_slot;
        gaps::filled(runs, self.rows_of_a_pass, |slot, n| self.held[slot as usize] + n <= most)
    }

    /// Gives the slots between two runs of one length as many tokens at their end, if the batch has room for these; they
    /// go again after the pass. Gives back the number of tokens.
    fn fill_gap(&mut self, before: &Run<'_>, after: &Run<'_>, room: usize) -> usize {
        let n = before.tokens.len();
        let gap = before.slot.0 + 1..after.slot.0;
        let tokens = gap.len() * n;
        if tokens > room {
            return 0;
        }
        for slot in gap {
            let end = self.held[slot as usize];
            for position in (end..).take(n) {
                self.push(0, position, slot, false);
            }
            self.filled.push(slot);
        }
        tokens
    }

    /// Computes the batch, and takes out again what filled gaps; after an error, what `runs` left.
    fn decode(&mut self, runs: &[Run<'_>]) -> Result<(), ExecError> {
        let result = self.context.decode();
        // Whatever the outcome, the library moves copies first.
        self.copying &= matches!(result, Err(DecodeError::Refused(_)));
        for i in 0..self.filled.len() {
            self.cut(self.filled[i], self.held[self.filled[i] as usize])?;
        }
        let Err(error) = result else { return Ok(()) };
        for run in runs {
            self.cut(run.slot.0, run.start).map_err(|e| failed(format!("{error}; then {e}")))?;
        }
        Err(failed(error.to_string()))
    }

    /// Gives back what memory the slot does not need for so many tokens, where that is a block of cells at least: a few
    /// drafts that are refused will be drafted again.
    fn give_back(&mut self, slot: Slot, keep: u32) {
        let taken = &mut self.taken[slot.index()];
        if keep == 0 || *taken >= keep + CELL_BLOCK {
            self.context.give_back(slot.0, &(keep..*taken));
            *taken = keep;
        }
    }

    /// Gives back what has left the window of a slot, a block of cells at a time. One more stays, so that refused drafts and an
    /// answer's last tokens can be cut off.
    fn move_window(&mut self, slot: Slot) {
        let Some(window) = self.window else { return };
        let gone = self.held[slot.index()].saturating_sub(window + CELL_BLOCK) / CELL_BLOCK * CELL_BLOCK;
        if gone > self.gone[slot.index()] {
            self.context.move_window(slot.0, gone);
            self.gone[slot.index()] = gone;
        }
    }

    /// Makes the slot hold `keep` tokens, and looks whether it does.
    fn cut(&mut self, slot: u32, keep: u32) -> Result<(), ExecError> {
        let removed = self.context.remove(slot, keep);
        let held = self.context.last(slot).map_or(0, |last| last + 1);
        let first = self.context.first(slot).unwrap_or(0);
        // A state has the last position only.
        if !removed || held != keep || (first != 0 && !self.caps.stateful) {
            return Err(failed(format!("slot {slot} holds {first}..{held} after a cut to {keep} tokens")));
        }
        Ok(())
    }

    /// Moves the data of copies now, which only a decode does: one token at the end of a slot with room.
    fn settle(&mut self) -> Option<()> {
        if !self.copying {
            return Some(());
        }
        let slot = (0..self.caps.slots).find(|&s| self.held[s as usize] < self.caps.kv_per_slot)?;
        let end = self.held[slot as usize];
        self.context.clear();
        self.push(0, end, slot, false);
        let decoded = self.context.decode();
        self.copying = decoded.is_err();
        self.cut(slot, end).ok()?;
        decoded.ok()
    }
}

impl Forward for Llama {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn forward(&mut self, runs: &[Run<'_>]) -> Result<Rows<'_>, ExecError> {
        self.check(runs)?;
        self.fill_batch(runs);
        self.context.want_hidden(runs.iter().any(|r| r.hidden));
        self.decode(runs)?;
        for run in runs {
            self.held[run.slot.index()] += u32::try_from(run.tokens.len()).expect("checked. This is a bug.");
            self.move_window(run.slot);
            let before = run.tokens.len() as u32 - 1;
            self.back[run.slot.index()] = Some(before.min(self.rollback));
        }
        let mut rows = Rows::default();
        for (run, &start) in runs.iter().zip(&self.starts) {
            let end = start + run.tokens.len();
            for index in end - run.outputs as usize..end {
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
        if keep >= held {
            let wrong = || failed(format!("slot {}: {keep} of {held} tokens", slot.0));
            return (keep == held).then_some(()).ok_or_else(wrong);
        }
        if keep > 0 && !self.caps.prefix_reuse && !self.caps.stateful {
            return Err(failed("this model cannot be truncated"));
        }
        let back = self.back[slot.index()].unwrap_or(0);
        if keep > 0 && keep + back < self.floor(slot) {
            return Err(failed(format!("slot {} cannot be cut to {keep} tokens", slot.0)));
        }
        self.cut(slot.0, keep)?;
        self.held[slot.index()] = keep;
        self.back[slot.index()] = if keep == 0 { Some(0) } else { None };
        self.gone[slot.index()] = if keep == 0 { 0 } else { self.gone[slot.index()] };
        self.give_back(slot, keep);
        Ok(())
    }

    fn copy(&mut self, from: Slot, to: Slot, len: u32) -> Result<(), ExecError> {
        let (source, target) = (self.held(from)?, self.held(to)?);
        if from == to || target != 0 || len > source {
            return Err(failed(format!(
                "{len} of {source} tokens from slot {} to {}: {target}",
                from.0, to.0
            )));
        }
        if len == 0 {
            return Ok(());
        }
        if len < self.floor(from) {
            return Err(failed(format!("{len} of {source} tokens of slot {} cannot be copied", from.0)));
        }
        let gone = self.gone[from.index()];
        if !self.context.copy(from.0, to.0, len, gone) {
            return Err(failed(format!("slot {} cannot be copied to {}", from.0, to.0)));
        }
        self.copying |= self.context.copies_later();
        self.cut(to.0, len)?;
        self.held[to.index()] = len;
        self.taken[to.index()] = len;
        self.gone[to.index()] = gone;
        self.back[to.index()] = Some(0);
        Ok(())
    }

    fn floor(&self, slot: Slot) -> u32 {
        match self.gone[slot.index()] {
            // A state that was taken back is the slot's alone until it is computed with.
            0 if self.caps.stateful => self.held[slot.index()] + u32::from(self.back[slot.index()].is_none()),
            0 => 0,
            gone => gone + self.window.unwrap_or(0),
        }
    }

    fn short_of_memory(&mut self) -> bool {
        self.caps.token_bytes > 0 && self.memory.is_short()
    }

    fn passes(&self, runs: &[(Slot, u32)]) -> Vec<u32> {
        if self.shared {
            return one_pass(runs);
        }
        let runs: Vec<_> = runs.iter().map(|(slot, tokens)| (slot.0, *tokens)).collect();
        gaps::passes(&runs, &self.gaps(&runs))
    }

    fn save(&mut self, slot: Slot) -> Option<Vec<u8>> {
        // Cells that are gone would take room, and read as zeros elsewhere.
        let held = self.held(slot).ok().filter(|&held| held > 0 && self.gone[slot.index()] == 0)?;
        self.settle()?;
        let likely = HEAD + u64::from(held) * self.caps.token_bytes;
        self.context.state(slot.0, usize::try_from(likely).ok()?)
    }

    fn restore(&mut self, slot: Slot, kv: &[u8]) -> bool {
        // A copy that is still to be made would write over what is restored, or read it.
        if !matches!(self.held(slot), Ok(0)) || self.settle().is_none() {
            return false;
        }
        let held = match self.context.set_state(slot.0, kv) {
            true => self.context.last(slot.0).map_or(0, |last| last + 1),
            false => 0,
        };
        let whole = held > 0 && held <= self.caps.kv_per_slot && self.cut(slot.0, held).is_ok();
        if whole {
            self.held[slot.index()] = held;
            self.taken[slot.index()] = held;
            self.back[slot.index()] = Some(0);
        } else {
            self.context.remove(slot.0, 0);
        }
        whole
    }
}

fn failed(why: impl Into<String>) -> ExecError {
    ExecError(format!("llama.cpp: {}", why.into()))
}
