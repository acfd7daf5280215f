//! KV slots and the prefixes they keep.
//!
//! A slot is busy (a running sequence's), kept (KV of a finished one, for reuse) or empty. Engines with separate cells per
//! slot need more passes where idle slots lie between busy ones (see `exec::llama`). So a new sequence takes the lowest idle
//! slot, and what that keeps is moved: to the highest empty slot, or in the place of what was used longest ago. A copy takes a
//! thousandth of the time in which the tokens were computed.

use super::Scope;
use crate::exec::Copying;
use crate::types::{Slot, Token};
use std::cmp::Reverse;
use std::time::Instant;

/// Fewest tokens of a prefix that is worth saving when its slot is needed. Engines that copy whole slots only compute shorter
/// prefixes again, too, rather than copy them.
pub(crate) const WORTH_COPYING: usize = 32;

#[derive(Debug, Clone, Default)]
struct Place {
    /// Kept tokens; of a busy slot nothing is remembered here.
    kept: Vec<Token>,
    /// Fewest of them that the slot can be cut to.
    floor: u32,
    /// Several texts begin with the kept tokens: a new sequence gets a copy of them, and the slot keeps them.
    shared: bool,
    /// They are a part of a prompt, and no other request has begun with it yet.
    part: bool,
    /// Of the kept tokens.
    scope: Scope,
    busy: bool,
    /// When it was last used.
    stamp: Option<Instant>,
}

impl Place {
    /// Its turn to make room: what is empty first, then parts of prompts, and of equal ones what was used longest ago.
    fn turn(&self) -> (bool, bool, Option<Instant>) {
        let kept = !self.kept.is_empty();
        (kept, !self.part, self.stamp.filter(|_| kept))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) slot: Slot,
    /// Tokens that it has already after `reuse`.
    pub(crate) computed: u32,
    pub(crate) reuse: Reuse,
    /// First move what the slot keeps to this idle slot, whatever that keeps.
    pub(crate) rescue: Option<Slot>,
    /// So many tokens are another's, too, whose slot cannot be cut to them; 0: none are. Whoever comes next may want them.
    pub(crate) shared: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Holding<'a> {
    pub(crate) slot: Slot,
    pub(crate) tokens: &'a [Token],
    /// Fewest of them that it can be cut to.
    pub(crate) floor: u32,
}

/// Where a sequence's first KV comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// The slot itself, truncated.
    InPlace,
    /// A copy of another slot's prefix.
    Copy(Slot),
    /// The same, of an idle slot that is emptied then: the sequence goes on with most of what it keeps.
    Move(Slot),
}

pub(crate) struct Slots {
    places: Vec<Place>,
    copying: Copying,
}

impl Slots {
    pub(crate) fn new(count: u32, copying: Copying) -> Self {
        Slots { places: vec![Place::default(); count as usize], copying }
    }

    /// KV tokens of kept prefixes.
    pub(crate) fn kept_tokens(&self) -> u64 {
        self.places.iter().map(|p| p.kept.len() as u64).sum()
    }

    /// What an idle slot keeps, and whose it is.
    pub(crate) fn kept(&self, slot: Slot) -> (Scope, &[Token]) {
        let place = &self.places[slot.index()];
        (place.scope, &place.kept)
    }

    /// Whether a pass computes neighbouring slots only.
    fn has_neighbours(&self) -> bool {
        matches!(self.copying, Copying::Slots | Copying::Tokens)
    }

    fn idle(&self) -> impl Iterator<Item = (Slot, &Place)> {
        (0..).map(Slot).zip(&self.places).filter(|(_, place)| !place.busy)
    }

    /// Chooses for a sequence with these known tokens; `running` are the busy slots and what they hold.
    ///
    /// `reuse`: prefixes of this scope are; None: nothing but what `running` holds. None where every slot is busy.
    pub(crate) fn choose(
        &self,
        tokens: &[Token],
        running: &[Holding<'_>],
        reuse: Option<Scope>,
    ) -> Option<Placement> {
        let fresh = self.best_idle()?;
        let kept = self.idle().filter(|(_, place)| reuse == Some(place.scope));
        let kept = kept.map(|(slot, place)| Holding { slot, tokens: &place.kept, floor: place.floor });
        let (mut length, mut from, mut shared) = (0, fresh, 0);
        for Holding { slot, tokens: held, floor } in kept.chain(running.iter().copied()) {
            // The last token is always computed: its row is wanted.
            let n = common(tokens, held).min(tokens.len() - 1);
            if n < floor as usize {
                shared = shared.max(n);
            } else if n > length || (n == length && slot < from && n > 0) {
                (length, from) = (n, slot);
            }
        }
        let shared = if shared >= length + WORTH_COPYING { shared as u32 } else { 0 };
        let of = &self.places[from.index()];
        // Nearly all prompts of a chat template begin alike: a few tokens in common are no reason to give up a whole kept
        // conversation.
        let goes_on = length > 0 && !of.busy && !of.shared && length * 2 >= of.kept.len();
        let in_place = length > 0 && (from == fresh || (goes_on && !self.has_neighbours()));
        let least = match self.copying {
            Copying::Never => usize::MAX,
            Copying::Slots => WORTH_COPYING,
            Copying::Tokens | Copying::Shares => 1,
        };
        let (slot, reuse, length) = match in_place {
            true => (from, Reuse::InPlace, length),
            false if length < least => (fresh, Reuse::InPlace, 0),
            false => (fresh, if goes_on { Reuse::Move(from) } else { Reuse::Copy(from) }, length),
        };
        let rescue = if in_place && goes_on { None } else { self.rescue(slot, (length > 0).then_some(from)) };
        Some(Placement { slot, computed: length as u32, reuse, rescue, shared })
    }

    /// The idle slot for a new sequence: the lowest; where prefixes don't move or slots may be anywhere, an empty one, then
    /// the least recently used.
    fn best_idle(&self) -> Option<Slot> {
        let rank = |(slot, place): &(Slot, &Place)| ((!self.has_neighbours()).then(|| place.turn()), *slot);
        self.idle().min_by_key(rank).map(|(slot, _)| slot)
    }

    /// Where what `fresh` keeps may go if it is worth that: the highest empty slot, else the least recently used of those that were used
    /// longer ago than it. `wanted` is left as it is.
    pub(crate) fn rescue(&self, fresh: Slot, wanted: Option<Slot>) -> Option<Slot> {
        let given_up = &self.places[fresh.index()];
        if self.copying == Copying::Never || given_up.kept.len() < WORTH_COPYING {
            return None;
        }
        let is_older = |place: &Place| place.turn() < given_up.turn();
        self.spare_of(|slot, place| is_older(place) && slot != fresh && Some(slot) != wanted)
    }

    /// The idle slot for something more to keep: the highest empty one, else the next to make room. None: all are busy, or,
    /// for a `part` of a prompt, keep something better.
    pub(crate) fn spare(&self, part: bool) -> Option<Slot> {
        self.spare_of(|_, place| !part || place.part || place.kept.is_empty())
    }

    fn spare_of(&self, may: impl Fn(Slot, &Place) -> bool) -> Option<Slot> {
        let rank = |(slot, place): &(Slot, &Place)| (place.turn(), Reverse(*slot));
        self.idle().filter(|(slot, place)| may(*slot, place)).min_by_key(rank).map(|(slot, _)| slot)
    }

    /// The slot is a running sequence's now.
    pub(crate) fn take(&mut self, slot: Slot) {
        let place = &mut self.places[slot.index()];
        *place = Place { busy: true, stamp: Some(Instant::now()), ..Place::default() };
    }

    /// A slot becomes idle; it keeps these tokens (none: it is empty), and can be cut to no fewer than `floor`.
    pub(crate) fn leave(&mut self, slot: Slot, scope: Scope, kept: Vec<Token>, floor: u32) {
        let stamp = Some(Instant::now());
        self.places[slot.index()] = Place { kept, floor, scope, stamp, ..Place::default() };
    }

    /// What the slot keeps is copied for each request that begins with it. `part`: none has yet.
    pub(crate) fn share(&mut self, slot: Slot, part: bool) {
        let place = &mut self.places[slot.index()];
        (place.shared, place.part) = (true, part);
    }

    /// A sequence has begun with a copy of what the slot keeps.
    pub(crate) fn used(&mut self, slot: Slot) {
        let place = &mut self.places[slot.index()];
        if place.shared {
            (place.part, place.stamp) = (false, Some(Instant::now()));
        }
    }

    /// Whether the idle slot keeps a part of a prompt that nothing else has begun with.
    pub(crate) fn keeps_part(&self, slot: Slot) -> bool {
        self.places[slot.index()].part
    }

    /// Kept tokens of `from` are in the idle slot `to` now, too; `from` is about to be taken.
    pub(crate) fn moved(&mut self, from: Slot, to: Slot) {
        self.places.swap(from.index(), to.index());
    }

    /// The slot whose prefix is the next to make room, and when that was used.
    pub(crate) fn oldest(&self) -> Option<(Slot, Instant)> {
        let kept = self.idle().filter(|(_, place)| !place.kept.is_empty());
        kept.min_by_key(|(_, place)| place.turn()).and_then(|(slot, place)| Some((slot, place.stamp?)))
    }

    /// The slot is idle and keeps nothing.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.places[slot.index()] = Place::default();
    }
}

/// Length of the common prefix.
pub(crate) fn common(a: &[Token], b: &[Token]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: Scope = (1, 0);

    fn tokens(n: usize) -> Vec<Token> {
        (0..n as Token).collect()
    }

    fn whole(slot: Slot, tokens: &[Token]) -> Holding<'_> {
        Holding { slot, tokens, floor: 0 }
    }

    #[test]
    fn what_cannot_be_cut_so_far_is_not_reused_but_told() {
        let mut slots = Slots::new(4, Copying::Slots);
        slots.leave(Slot(0), MINE, tokens(200), 150);
        let shared = |slots: &Slots, n: usize| {
            let p = slots.choose(&[tokens(n), vec![900; 60]].concat(), &[], Some(MINE)).unwrap();
            (p.computed, p.shared)
        };
        assert_eq!([149, 150, 20].map(|n| shared(&slots, n)), [(0, 149), (150, 0), (0, 0)]);
        // Once it is kept apart, it is found.
        slots.leave(Slot(3), MINE, tokens(140), 140);
        slots.share(Slot(3), false);
        assert_eq!([149, 139].map(|n| shared(&slots, n)), [(140, 0), (0, 139)]);
        let p = slots.choose(&[tokens(140), vec![900; 9]].concat(), &[], Some(MINE)).unwrap();
        assert_eq!((p.slot, p.reuse, p.rescue), (Slot(0), Reuse::Copy(Slot(3)), Some(Slot(2))));
        let running = tokens(300);
        let held = Holding { slot: Slot(1), tokens: &running, floor: 300 };
        let p = Slots::new(4, Copying::Slots).choose(&tokens(250), &[held], None).unwrap();
        assert_eq!((p.computed, p.shared), (0, 249));
        assert_eq!(slots.spare(false), Some(Slot(2)));
    }

    #[test]
    fn the_longest_kept_prefix_goes_on_in_the_lowest_slot() {
        let mut slots = Slots::new(4, Copying::Slots);
        slots.leave(Slot(1), MINE, tokens(50), 0);
        slots.leave(Slot(2), MINE, tokens(80), 0);
        let p = slots.choose(&tokens(100), &[], Some(MINE)).unwrap();
        assert_eq!(
            p,
            Placement { slot: Slot(0), computed: 80, reuse: Reuse::Move(Slot(2)), rescue: None, shared: 0 }
        );
        slots.leave(Slot(0), MINE, tokens(90), 0);
        let p = slots.choose(&tokens(100), &[], Some(MINE)).unwrap();
        assert_eq!(
            p,
            Placement { slot: Slot(0), computed: 90, reuse: Reuse::InPlace, rescue: None, shared: 0 }
        );
    }

    #[test]
    fn a_few_tokens_in_common_leave_a_kept_prefix_alone() {
        let other = [tokens(3), vec![900; 40]].concat();
        let cases = [
            (Copying::Slots, Slot(0), Reuse::InPlace, Some(Slot(3))),
            (Copying::Shares, Slot(1), Reuse::Copy(Slot(0)), None),
            (Copying::Never, Slot(1), Reuse::InPlace, None),
        ];
        for (copying, slot, reuse, rescue) in cases {
            let mut slots = Slots::new(4, copying);
            slots.leave(Slot(0), MINE, tokens(80), 0);
            let p = slots.choose(&other, &[], Some(MINE)).unwrap();
            assert_eq!((p.slot, p.reuse, p.rescue), (slot, reuse, rescue));
        }
    }

    #[test]
    fn a_running_prefix_is_copied_and_the_last_token_left() {
        let mut slots = Slots::new(4, Copying::Slots);
        slots.take(Slot(0));
        let p = slots.choose(&tokens(50), &[whole(Slot(0), &tokens(60))], None).unwrap();
        assert_eq!(
            p,
            Placement { slot: Slot(1), computed: 49, reuse: Reuse::Copy(Slot(0)), rescue: None, shared: 0 }
        );
    }

    #[test]
    fn without_copies_a_prefix_is_used_in_place_or_computed_again() {
        let mut slots = Slots::new(4, Copying::Never);
        slots.leave(Slot(2), MINE, tokens(50), 0);
        let p = slots.choose(&tokens(60), &[], Some(MINE)).unwrap();
        assert_eq!(
            p,
            Placement { slot: Slot(2), computed: 50, reuse: Reuse::InPlace, rescue: None, shared: 0 }
        );
        slots.take(Slot(2));
        let p = slots.choose(&tokens(60), &[whole(Slot(2), &tokens(50))], Some(MINE)).unwrap();
        assert_eq!(
            p,
            Placement { slot: Slot(0), computed: 0, reuse: Reuse::InPlace, rescue: None, shared: 0 }
        );
    }

    #[test]
    fn the_lowest_slot_is_taken_and_what_was_kept_there_is_rescued() {
        let mut slots = Slots::new(8, Copying::Slots);
        for s in [0, 1, 3] {
            slots.take(Slot(s));
        }
        slots.leave(Slot(2), MINE, tokens(64), 0);
        let p = slots.choose(&[9; 10], &[], Some(MINE)).unwrap();
        assert_eq!(
            p,
            Placement { slot: Slot(2), computed: 0, reuse: Reuse::InPlace, rescue: Some(Slot(7)), shared: 0 }
        );
    }

    #[test]
    fn a_few_tokens_in_common_do_not_end_what_was_kept_in_the_best_slot() {
        let mut slots = Slots::new(8, Copying::Slots);
        for s in [0, 1, 3] {
            slots.take(Slot(s));
        }
        slots.leave(Slot(2), MINE, tokens(64), 0);
        for (common, rescue) in [(1, Some(Slot(7))), (31, Some(Slot(7))), (32, None)] {
            let p = slots.choose(&[tokens(common), vec![900; 9]].concat(), &[], Some(MINE)).unwrap();
            let computed = common as u32;
            assert_eq!(p, Placement { slot: Slot(2), computed, reuse: Reuse::InPlace, rescue, shared: 0 });
        }
    }

    #[test]
    fn a_rescued_prefix_takes_the_place_of_the_least_recently_used() {
        let mut slots = Slots::new(5, Copying::Slots);
        for s in [0, 2] {
            slots.take(Slot(s));
        }
        for s in [4, 3, 1] {
            slots.leave(Slot(s), MINE, tokens(64), 0);
        }
        let p = slots.choose(&[9; 10], &[], Some(MINE)).unwrap();
        assert_eq!((p.slot, p.rescue), (Slot(1), Some(Slot(4))));
        // What the new sequence begins with is not given up for it.
        slots.leave(Slot(4), MINE, [vec![9; 40], tokens(200)].concat(), 0);
        for s in [3, 1] {
            slots.leave(Slot(s), MINE, tokens(64), 0);
        }
        let p = slots.choose(&[9; 50], &[], Some(MINE)).unwrap();
        assert_eq!((p.slot, p.reuse, p.rescue), (Slot(1), Reuse::Copy(Slot(4)), Some(Slot(3))));
        // Of a conversation that goes on, nothing stays behind.
        let p = slots.choose(&[vec![9; 40], tokens(200), vec![7]].concat(), &[], Some(MINE)).unwrap();
        assert_eq!((p.slot, p.computed, p.reuse), (Slot(1), 240, Reuse::Move(Slot(4))));
    }

    #[test]
    fn without_reuse_and_for_others_kept_prefixes_are_ignored() {
        let mut slots = Slots::new(2, Copying::Slots);
        slots.leave(Slot(1), MINE, tokens(50), 0);
        for reuse in [None, Some((2, 0)), Some((1, 7))] {
            let p = slots.choose(&tokens(60), &[], reuse).unwrap();
            assert_eq!((p.computed, p.reuse), (0, Reuse::InPlace));
        }
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut slots = Slots::new(3, Copying::Slots);
        slots.leave(Slot(2), MINE, tokens(5), 0);
        slots.leave(Slot(0), MINE, tokens(6), 0);
        for oldest in [Slot(2), Slot(0)] {
            assert_eq!(slots.oldest().map(|(slot, _)| slot), Some(oldest));
            slots.forget(oldest);
        }
        assert_eq!(slots.oldest(), None);
    }
}
