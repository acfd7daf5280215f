//! Whether an output of sections can still be completed.

use super::part::Part;
use super::room::{LONGEST, Way};
use super::sections::{At, Free, FreeStage, Place, Plan, Stage};
use crate::error::Result;
use crate::types::Token;
use std::sync::Arc;

impl Plan {
    /// Whether the output with this token can be completed by `left` more; true where that cannot be told.
    pub(super) fn fits(&self, at: &mut At, token: Token, left: usize) -> Result<bool> {
        if !self.complete || self.ends.eog.contains(&token) {
            return Ok(true);
        }
        if let Place::Free(free) = &at.place {
            let mut next = At { section: at.section, place: Place::Free(*free) };
            // A token that is refused is met by those who draw it.
            return Ok(!self.push(&mut next, token)? || self.way(&mut next, left) != Way::Longer);
        }
        // What follows the section is needed, too.
        let left = left.checked_sub(self.behind(at));
        let Place::Bound(part) = &mut at.place else { return Ok(true) };
        Ok(left.is_some_and(|left| part.fits(token, left)))
    }

    /// How the output can be completed by at most `most` tokens.
    pub(super) fn way(&self, at: &mut At, most: usize) -> Way {
        match (&mut at.place, &self.stages[at.section]) {
            (Place::Free(free), Stage::Free(stage)) => match self.out_of(stage, free) {
                Some((way, behind)) if way.len() + behind <= most => Way::Found(way),
                Some(_) => Way::Longer,
                None => Way::Unknown,
            },
            (Place::Bound(part), Stage::Bound { next, .. }) => match most.checked_sub(self.from(*next)) {
                Some(most) => part.way(None, most),
                None => Way::Longer,
            },
            _ => Way::Unknown,
        }
    }

    /// Tokens that complete the output from the beginning of each section; 0 where that cannot be told.
    pub(super) fn priced(mut self) -> Self {
        const NEVER: usize = usize::MAX / 2;
        let own = |stage: &Stage| match stage {
            Stage::Bound { pristine, .. } => match Part::new(Arc::clone(pristine)).way(None, LONGEST) {
                Way::Found(way) => way.len(),
                Way::Longer | Way::Unknown => 0,
            },
            Stage::Free(_) => 0,
        };
        let own: Vec<usize> = self.stages.iter().map(own).collect();
        self.least = vec![NEVER; self.stages.len()];
        for _ in 0..self.stages.len() {
            for (at, stage) in self.stages.iter().enumerate() {
                self.least[at] = match stage {
                    Stage::Bound { next, .. } => own[at] + self.from(*next),
                    Stage::Free(stage) => {
                        self.out_of(stage, &stage.begin()).map_or(NEVER, |(way, behind)| way.len() + behind)
                    }
                }
                .min(NEVER);
            }
        }
        self.least.iter_mut().filter(|least| **least == NEVER).for_each(|least| *least = 0);
        self
    }

    /// Tokens that complete an output; None where it is known without a walk that `enough` are, or nothing is known.
    pub(super) fn shortest(&self, enough: usize) -> Option<usize> {
        if let (Stage::Bound { pristine, next }, true) = (&self.stages[0], enough < usize::MAX) {
            let endings = pristine.endings.as_ref()?;
            let behind = self.from(*next);
            if endings.begin().least(endings).is_none_or(|least| least as usize + behind <= enough) {
                return None;
            }
        }
        let mut at = self.begin();
        let behind = self.behind(&at);
        match self.way(&mut at, usize::MAX) {
            Way::Found(way) => Some(way.len() + behind),
            Way::Longer | Way::Unknown => None,
        }
    }

    /// Tokens that complete the output behind a section.
    pub(super) fn behind(&self, at: &At) -> usize {
        match (&self.stages[at.section], &at.place) {
            (Stage::Bound { next, .. }, _) => self.from(*next),
            (Stage::Free(stage), Place::Free(free)) => {
                self.out_of(stage, free).map_or(0, |(_, behind)| behind)
            }
            _ => 0,
        }
    }

    /// Tokens that complete the output from the beginning of a section, if another follows.
    fn from(&self, section: Option<usize>) -> usize {
        section.map_or(0, |section| self.least[section])
    }

    /// The tokens that end a free section, and how many complete the output behind them. None where nothing does.
    fn out_of(&self, stage: &FreeStage, free: &Free) -> Option<(Vec<Token>, usize)> {
        if stage.may_end {
            return Some((Vec::new(), 0));
        }
        let triggers = stage.triggers.list().iter().enumerate();
        let ways = triggers.filter_map(|(i, trigger)| {
            let next = trigger.next?;
            let rest = stage.triggers.rest(free.state, i)?;
            let mut way = match self.vocab.encode(&[(&trigger.text, true)]).as_deref() {
                Ok([token]) if rest.len() == trigger.text.len() => vec![*token],
                _ => self.split(rest),
            };
            if let Some((most, close)) = &stage.limit {
                // Where the section has been as long as it may be, other tokens come.
                let room = most.saturating_sub(free.tokens) as usize;
                if way.len() > room {
                    way.truncate(room);
                    way.extend(close.get(free.tokens.saturating_sub(*most) as usize..)?);
                }
            }
            Some((way, self.least[next]))
        });
        ways.min_by_key(|(way, behind)| way.len() + behind)
    }
}
