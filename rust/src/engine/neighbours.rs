//! Keeps sequences that decode in neighbouring slots.
//!
//! Engines that are not ragged compute only neighbouring slots in one pass. A slot that has no part in a step therefore splits the
//! step into two passes, each of which reads all weights. Such gaps are slots whose sequence has ended or is still waiting
//! for its prompt to be computed. So before each step, the sequence in the highest slot that decodes is moved into such a gap: its KV
//! is copied once, which takes less time than one more pass in every step.

use super::Engine;
use crate::exec::{Copying, ExecError};
use crate::sequence::Sequence;
use crate::types::Slot;

impl Engine {
    /// Moves sequences until those that decode are neighbours.
    pub(super) fn close_gaps(&mut self) -> Result<(), ExecError> {
        if self.caps.copying != Copying::Tokens {
            return Ok(());
        }
        let slot_of = |(index, s): (usize, &Sequence)| Some((s.slot?, index));
        let decoding = self.running.iter().enumerate().filter(|(_, s)| s.gap() == 1 && s.computed() > 0);
        let mut decoding: Vec<_> = decoding.filter_map(slot_of).collect();
        decoding.sort_unstable();
        while let Some(gap) = gap(&decoding) {
            let Some((last, index)) = decoding.pop() else { break };
            if !self.take_place(index, gap)? {
                break;
            }
            self.slots.forget(last);
            decoding.insert(decoding.partition_point(|(slot, _)| *slot < gap), (gap, index));
        }
        Ok(())
    }

    /// Moves a sequence to a slot. If another sequence waits there, that one is moved to an empty slot first. Returns false, and
    /// moves nothing, if no slot is empty.
    fn take_place(&mut self, index: usize, slot: Slot) -> Result<bool, ExecError> {
        if let Some(other) = self.running.iter().position(|s| s.slot == Some(slot)) {
            let empty = self.slots.spare(false).filter(|spare| self.slots.kept(*spare).1.is_empty());
            let Some(empty) = empty else { return Ok(false) };
            self.slots.take(empty);
            self.relocate(other, empty)?;
        } else {
            let refuge = self.slots.rescue(slot, None);
            self.rescue(slot, refuge, 0)?;
            self.slots.take(slot);
        }
        self.relocate(index, slot)?;
        Ok(true)
    }

    /// Moves a sequence and its KV to a slot that was taken for it.
    fn relocate(&mut self, index: usize, to: Slot) -> Result<(), ExecError> {
        let sequence = &mut self.running[index];
        let from = sequence.slot.replace(to).expect("a running sequence has a slot. This is a bug.");
        let computed = sequence.computed();
        self.copy(from, to, computed)?;
        self.truncate(from, 0)
    }
}

/// The first slot that is missing between the first and the last of sorted ones.
fn gap(slots: &[(Slot, usize)]) -> Option<Slot> {
    let (first, _) = slots.first()?;
    (first.0..).zip(slots).find(|(number, (slot, _))| *number != slot.0).map(|(number, _)| Slot(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_gap_is_found() {
        let sorted = |slots: &[u32]| slots.iter().map(|slot| (Slot(*slot), 0)).collect::<Vec<_>>();
        let of = |slots: &[u32]| gap(&sorted(slots)).map(|slot| slot.0);
        assert_eq!([of(&[]), of(&[5]), of(&[5, 6, 7])], [None; 3]);
        assert_eq!([of(&[5, 7]), of(&[0, 1, 4, 6])], [Some(6), Some(2)]);
    }
}
