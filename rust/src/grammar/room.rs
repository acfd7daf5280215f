//! Whether what is left of `max_tokens` is enough to complete a text.
//!
//! The way to the end is walked as it would be drawn: forced tokens as the mask has them, then the next token on the shortest
//! way that [`Ending`](super::ending::Ending) knows. Its length is a function of the text alone and gets one less with each of
//! its tokens, so a text whose way fits always has a next token whose way fits.

use super::part::{Part, Pristine, Walk, ended};
use super::sections::{At, Free, FreeStage, Place, Plan, Stage};
use super::unique::Filter;
use crate::error::Result;
use crate::types::Token;
use llguidance::Matcher;
use std::sync::Arc;

/// Longest way that is walked, in tokens. Behind a longer one, texts are as if nothing were known of their ends.
const LONGEST: usize = 4_096;

/// How a text can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// By these tokens.
    Found(Vec<Token>),
    /// Not by as few as were asked for.
    Longer,
    /// That cannot be told.
    Unknown,
}

/// The ways that are known: where a text goes along one, its rest is the way from there.
#[derive(Debug, Clone, Default)]
pub(super) struct Ways {
    /// From here, and from what is committed; the next token is the last.
    here: Option<Vec<Token>>,
    kept: Option<Vec<Token>>,
    /// Behind a token that may come here.
    behind: Option<(Token, Vec<Token>)>,
}

impl Ways {
    pub(super) fn push(&mut self, token: Token) {
        let here = self.here.take().filter(|way| way.last() == Some(&token));
        let behind = self.behind.take().filter(|(first, _)| *first == token);
        let along = here.map(|mut way| {
            way.pop();
            way
        });
        self.here = along.or(behind.map(|(_, way)| way));
    }

    pub(super) fn keep(&mut self) {
        self.behind = None;
        self.kept.clone_from(&self.here);
    }

    pub(super) fn undo(&mut self) {
        self.behind = None;
        self.here.clone_from(&self.kept);
    }

    /// Tokens behind this one.
    fn length(&self, token: Token) -> Option<usize> {
        let here = self.here.as_ref().filter(|way| way.last() == Some(&token));
        let behind = self.behind.as_ref().filter(|(first, _)| *first == token);
        here.map(|way| way.len() - 1).or(behind.map(|(_, way)| way.len()))
    }
}

impl Part {
    /// Whether the text with this token can be completed by `left` more; true where that cannot be told.
    pub(super) fn fits(&mut self, token: Token, left: usize) -> bool {
        if let Some(length) = self.ways.length(token) {
            return length <= left;
        }
        let (Some(ending), Some(endings)) = (&mut self.ending, &self.pristine.endings) else { return true };
        let mark = ending.mark();
        ending.push(endings, token);
        let is_sure = ending.least(endings).is_none_or(|least| least as usize <= left);
        // This is much cheaper than a walk, and tells nearly as much.
        let is_near = is_sure || ending.is_near(endings, left);
        ending.back(mark);
        is_sure || is_near && self.way(Some(token), left) != Way::Longer
    }

    /// The fewest bytes that complete the text; None where that cannot be told.
    pub(super) fn least(&self) -> Option<u32> {
        self.ending.as_ref()?.least(self.pristine.endings.as_ref()?)
    }

    /// How the text can be completed by at most `most` tokens, behind `first` where that is given.
    pub(super) fn way(&mut self, first: Option<Token>, most: usize) -> Way {
        if let (Some(way), None) = (&self.ways.here, first) {
            let way: Vec<Token> = way.iter().rev().copied().collect();
            return if way.len() > most { Way::Longer } else { Way::Found(way) };
        }
        let Some(mark) = self.ending.as_ref().map(|ending| ending.mark()) else { return Way::Unknown };
        let mut trial = Trial { live: self.live.clone(), filter: self.filter.clone(), part: self };
        let way = trial.way(first, most);
        self.ending.iter_mut().for_each(|ending| ending.back(mark));
        if let Way::Found(way) = &way {
            let back = way.iter().rev().copied().collect();
            match first {
                None => self.ways.here = Some(back),
                Some(first) => self.ways.behind = Some((first, back)),
            }
        }
        way
    }
}

/// A walk to the end, apart from the text.
struct Trial<'a> {
    live: Matcher,
    filter: Option<Filter>,
    part: &'a mut Part,
}

impl Trial<'_> {
    fn way(&mut self, first: Option<Token>, most: usize) -> Way {
        if first.is_some_and(|first| !self.take(first)) {
            return Way::Unknown;
        }
        let mut way = Vec::new();
        while !ended(&self.live) {
            let Some(least) = self.part.least() else { return Way::Unknown };
            if least == 0 {
                let may_end = self.live.is_accepting().unwrap_or(false);
                return if may_end { Way::Found(way) } else { Way::Unknown };
            }
            if way.len() >= most {
                return Way::Longer;
            }
            if way.len() >= LONGEST {
                return Way::Unknown;
            }
            let forced = self.live.compute_ff_tokens().first().copied();
            let Some(token) = forced.or_else(|| self.next()).filter(|token| self.take(*token)) else {
                return Way::Unknown;
            };
            way.push(token);
            // Items that must differ take detours; everything else gets shorter.
            if self.filter.is_none() && self.part.least().is_none_or(|now| now >= least) {
                return Way::Unknown;
            }
        }
        if way.len() > most { Way::Longer } else { Way::Found(way) }
    }

    /// The next token of the way, where none is forced.
    fn next(&mut self) -> Option<Token> {
        let (ending, endings) = (self.part.ending.as_ref()?, self.part.pristine.endings.as_ref()?);
        let next = ending.next(endings)?;
        let letters = endings.letters().all();
        if self.filter.is_none() || self.allows(next) {
            return Some(next);
        }
        // An item that has been there: the byte behind which the end is nearest.
        letters
            .into_iter()
            .filter_map(|token| Some((self.least_behind(token)?, token)))
            .min()
            .map(|found| found.1)
    }

    /// The fewest bytes behind a token, if that may come.
    fn least_behind(&mut self, token: Token) -> Option<u32> {
        if !self.live.validate_tokens(&[token]).is_ok_and(|n| n == 1) || !self.allows(token) {
            return None;
        }
        let Pristine { endings, .. } = &*self.part.pristine;
        let (ending, endings) = (self.part.ending.as_mut()?, endings.as_ref()?);
        let mark = ending.mark();
        ending.push(endings, token);
        let least = ending.least(endings);
        ending.back(mark);
        least
    }

    fn allows(&mut self, token: Token) -> bool {
        let Some(filter) = &self.filter else { return true };
        let mut walk = Walk { live: &mut self.live, pristine: &self.part.pristine, walked: false };
        let allows = filter.allows(token, &mut walk);
        if walk.walked {
            self.live.invalidate_bias_cache();
        }
        allows
    }

    fn take(&mut self, token: Token) -> bool {
        if let Some(filter) = &self.filter {
            let Some(next) = filter.after(token) else { return false };
            self.filter = Some(next);
        }
        let taken = self.live.try_consume_tokens(&[token]).is_ok_and(|n| n == 1);
        if let (Some(ending), Some(endings)) = (&mut self.part.ending, &self.part.pristine.endings) {
            ending.push(endings, token);
        }
        taken
    }
}

impl Plan {
    /// Whether the output with this token can be completed by `left` more; true where that cannot be told.
    pub(super) fn fits(&self, at: &mut At, token: Token, left: usize) -> Result<bool> {
        if !self.complete || self.ends.eog.contains(&token) {
            return Ok(true);
        }
        let behind = self.behind(at);
        match &mut at.place {
            // What follows the section is needed, too.
            Place::Bound(part) => Ok(left.checked_sub(behind).is_some_and(|left| part.fits(token, left))),
            Place::Free(free) => {
                let mut next = At { section: at.section, place: Place::Free(*free) };
                // A token that is refused is met by those who draw it.
                Ok(!self.push(&mut next, token)? || self.way(&mut next, left) != Way::Longer)
            }
        }
    }

    /// How the output can be completed by at most `most` tokens.
    pub(super) fn way(&self, at: &mut At, most: usize) -> Way {
        let behind = self.behind(at);
        match (&mut at.place, &self.stages[at.section]) {
            (Place::Free(free), Stage::Free(stage)) => match self.out_of(stage, free) {
                Some((way, behind)) if way.len() + behind <= most => Way::Found(way),
                Some(_) => Way::Longer,
                None => Way::Unknown,
            },
            (Place::Bound(part), _) => match most.checked_sub(behind) {
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
                    Stage::Bound { next, .. } => own[at] + next.map_or(0, |next| self.least[next]),
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
        let mut at = self.begin();
        let behind = self.behind(&at);
        if let Place::Bound(part) = &at.place
            && part.least().is_none_or(|least| least as usize + behind <= enough)
            && enough < usize::MAX
        {
            return None;
        }
        match self.way(&mut at, usize::MAX) {
            Way::Found(way) => Some(way.len() + behind),
            Way::Longer | Way::Unknown => None,
        }
    }

    /// Tokens that complete the output behind a section.
    pub(super) fn behind(&self, at: &At) -> usize {
        match (&self.stages[at.section], &at.place) {
            (Stage::Bound { next: Some(next), .. }, _) => self.least[*next],
            (Stage::Free(stage), Place::Free(free)) => {
                self.out_of(stage, free).map_or(0, |(_, behind)| behind)
            }
            _ => 0,
        }
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
