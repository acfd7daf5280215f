//! Sources of drafts, as the scheduler sees them.

use super::ahead::Ahead;
use super::cost::Work;
use super::earlier::OutputGroup;
use super::{Draft, Round};
use crate::config::DraftSource;
use crate::grammar::Grammar;
use crate::sampler::Sampler;
use crate::types::{Slot, Token};
use std::time::Duration;

/// What a drafter is asked for one sequence.
#[derive(Debug)]
pub struct Ask<'a> {
    /// Where the target holds its KV; a drafter that holds something for it may use the same number.
    pub slot: Slot,
    /// The number of the sequence: no other has it.
    pub age: u64,
    /// From whose earlier outputs it may draft.
    pub group: OutputGroup,
    /// All known tokens of the sequence, prompt and output, of which its job computes the last.
    pub known: &'a [Token],
    /// What earlier sources drafted after `known`. The drafter adds to its tokens, and to its masks where it has them.
    pub draft: &'a mut Draft,
    /// Tokens of the prompt; the others of `known` are output.
    pub prompt: u32,
    /// What the client expects as output.
    pub prediction: &'a [Token],
    /// Its grammar, in which `known` is committed.
    pub grammar: Option<&'a mut Grammar>,
    /// Its sampler, which has taken the output in `known`.
    pub sampler: &'a Sampler,
    /// Most tokens that it may add; at least 1.
    pub want: u32,
    /// Which sources its client lets draft, by their numbers.
    pub allows: [bool; DraftSource::ALL.len()],
    /// Number of tokens that a model drew for this ask, one pass each. Tokens that the grammar forces or proposes need none.
    pub drawn: u32,
    /// Set by a drafter that is not ready yet: it is still closing a long gap, or waits for a hidden state.
    pub late: bool,
}

impl Ask<'_> {
    /// The work of what was drawn for these, but for those that are late.
    pub fn work(asks: &[Ask<'_>]) -> Work {
        asks.iter().filter(|ask| !ask.late).fold(Work::default(), |work, ask| {
            let rows = f64::from(ask.drawn);
            let cells = rows * ask.known.len() as f64;
            Work { passes: work.passes.max(rows), rows: work.rows + rows, cells: work.cells + cells, ..work }
        })
    }
}

/// A source of drafts. What it proposes may be anything: the target verifies it.
///
/// A drafter may hold something per slot. `keep` and `copy` tell it what happens to the slot on the target.
pub trait Drafter: Send {
    /// Adds to each ask's draft, or leaves it as it is. Grammars are as before afterwards.
    fn propose(&mut self, asks: &mut [Ask<'_>]);
    /// The slot keeps its first `len` tokens; with 0 nothing of it is held any more.
    fn keep(&mut self, _slot: Slot, _len: u32) {}
    /// The empty slot `to` now holds the first `len` tokens of `from`.
    fn copy(&mut self, _from: Slot, _to: Slot, _len: u32) {}
    /// Seconds, about, that it needs once before it can draft after `known`, 0 where that is not known yet; None where
    /// it is ready.
    fn delay(&mut self, _slot: Slot, _known: &[Token]) -> Option<f64> {
        None
    }
    /// Rows and seconds of passes that a probe at start measured; see [`Cost::new`](super::cost::Cost::new).
    fn probed(&self) -> &[(u32, f64)] {
        &[]
    }
    /// Time spent on prompts and other long gaps that begin in them, since this was asked last: once for a sequence, while
    /// a gap that grows where other sources draft is a part of what drafting takes.
    fn caught_up(&mut self) -> Duration {
        Duration::ZERO
    }
    /// Tokens behind the known ones that it can draft for at most, those of earlier sources included.
    fn reach(&self) -> u32 {
        u32::MAX
    }
    /// Whether it drafts from the target's hidden states.
    fn wants_hidden(&self) -> bool {
        false
    }
    /// What the target computed for a slot: the slot keeps so many tokens, and there may be a hidden state.
    fn observe(&mut self, round: &Round) {
        self.keep(round.job.slot, round.computed);
    }
    /// Tokens held over all slots; a hidden state counts as one.
    fn held(&self) -> u64 {
        0
    }
    /// Whether it failed and proposes nothing any more.
    fn failed(&self) -> bool {
        false
    }
}

/// All that drafts for a target.
#[derive(Default)]
pub struct Drafters {
    /// The sources that are asked; empty where nothing is drafted at all.
    pub sources: Vec<DraftSource>,
    /// What needs no model; None where nothing is to be drafted.
    pub ahead: Option<Ahead>,
    /// Models, in the order in which they are asked.
    pub models: Vec<(DraftSource, Box<dyn Drafter>)>,
}

impl Drafters {
    /// The models.
    pub fn each(&mut self) -> impl Iterator<Item = &mut Box<dyn Drafter>> {
        self.models.iter_mut().map(|(_, drafter)| drafter)
    }
}
