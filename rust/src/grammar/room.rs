//! Whether what is left of `max_tokens` is enough to complete a text.
//!
//! The way to the end is walked as it would be drawn: forced tokens as the mask has them, then the next token on the shortest
//! way that [`Ending`](super::ending::Ending) knows. Its length is a function of the text alone and gets one less with each of
//! its tokens, so a text whose way fits always has a next token whose way fits.

use super::ending::{Ending, Endings, Mark};
use super::matching::{Ends, Walk, ended};
use super::unique::Filter;
use crate::types::Token;
use llguidance::Matcher;
use std::sync::Arc;

/// Longest way that is walked, in tokens. Behind a longer one, texts are as if nothing were known of their ends.
pub(super) const LONGEST: usize = 4_096;

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

/// What is known of the way from a text to its end.
#[derive(Debug, Clone)]
pub(super) struct Room {
    endings: Arc<Endings>,
    ending: Ending,
    /// A token that the ending has taken to see whether it fits, and where it was before.
    tried: Option<(Token, Mark)>,
    /// The way from here, and that from what is committed, where they are known; the next token is the last. Where a text goes
    /// along a way, the rest of it is the way from there.
    way: Option<Vec<Token>>,
    kept: Option<Vec<Token>>,
    /// The way behind a token that may come here.
    behind: Option<(Token, Vec<Token>)>,
}

impl Room {
    /// At the beginning of a text.
    pub(super) fn new(endings: &Arc<Endings>) -> Self {
        let ending = endings.begin();
        Room { endings: Arc::clone(endings), ending, tried: None, way: None, kept: None, behind: None }
    }

    /// The same, for a text apart from this one that goes on from here.
    pub(super) fn apart(&self) -> Self {
        let mut room = self.clone();
        room.leave_tried();
        room.keep();
        room
    }

    /// Takes a token.
    pub(super) fn push(&mut self, token: Token) {
        if self.tried.is_none_or(|(tried, _)| tried != token) {
            self.leave_tried();
            self.ending.push(&self.endings, token);
        }
        self.tried = None;
        let way = self.way.take().filter(|way| way.last() == Some(&token));
        let behind = self.behind.take().filter(|(first, _)| *first == token);
        let along = way.map(|mut way| {
            way.pop();
            way
        });
        self.way = along.or(behind.map(|(_, way)| way));
    }

    /// Notes that what was taken is committed.
    pub(super) fn keep(&mut self) {
        self.ending.keep();
        self.kept.clone_from(&self.way);
    }

    /// Goes back to what is committed.
    pub(super) fn undo(&mut self) {
        (self.tried, self.behind) = (None, None);
        self.ending.undo();
        self.way.clone_from(&self.kept);
    }

    fn leave_tried(&mut self) {
        if let Some((_, mark)) = self.tried.take() {
            self.ending.back(mark);
        }
    }

    /// Whether so many tokens complete the text with this one; None where a walk must tell.
    pub(super) fn fits(&mut self, token: Token, left: usize) -> Option<bool> {
        let way = self.way.as_ref().filter(|way| way.last() == Some(&token)).map(|way| way.len() - 1);
        let behind = self.behind.as_ref().filter(|(first, _)| *first == token).map(|(_, way)| way.len());
        if let Some(length) = way.or(behind) {
            return Some(length <= left);
        }
        self.leave_tried();
        self.tried = Some((token, self.ending.mark()));
        self.ending.push(&self.endings, token);
        match self.ending.least(&self.endings) {
            // This is much cheaper than a walk, and tells nearly as much.
            Some(least) if least as usize > left && !self.ending.is_near(&self.endings, left) => Some(false),
            Some(least) if least as usize > left => None,
            _ => Some(true),
        }
    }

    /// The fewest bytes that complete the text; None where that cannot be told.
    fn least(&self) -> Option<u32> {
        self.ending.least(&self.endings)
    }

    /// How the text can be completed by at most `most` tokens, behind `first` where that is given.
    pub(super) fn way(
        &mut self,
        (live, filter): (&Matcher, Option<&Filter>),
        (ends, can_rollback): (&Ends, bool),
        first: Option<Token>,
        most: usize,
    ) -> Way {
        if let (Some(way), None) = (&self.way, first) {
            let way: Vec<Token> = way.iter().rev().copied().collect();
            return if way.len() > most { Way::Longer } else { Way::Found(way) };
        }
        self.leave_tried();
        let mark = self.ending.mark();
        let (live, filter) = (live.clone(), filter.cloned());
        let way = Trial { live, filter, ends, can_rollback, room: self }.way(first, most);
        self.ending.back(mark);
        if let Way::Found(way) = &way {
            let back = way.iter().rev().copied().collect();
            match first {
                None => self.way = Some(back),
                Some(first) => self.behind = Some((first, back)),
            }
        }
        way
    }
}

/// A walk to the end, apart from the text.
struct Trial<'a> {
    live: Matcher,
    filter: Option<Filter>,
    ends: &'a Ends,
    can_rollback: bool,
    room: &'a mut Room,
}

impl Trial<'_> {
    fn way(&mut self, first: Option<Token>, most: usize) -> Way {
        if first.is_some_and(|first| !self.take(first)) {
            return Way::Unknown;
        }
        let mut way = Vec::new();
        let mut known = self.room.least();
        while !ended(&self.live) {
            let Some(least) = known else { return Way::Unknown };
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
            known = self.room.least();
            if self.filter.is_none() && known.is_none_or(|now| now >= least) {
                return Way::Unknown;
            }
        }
        if way.len() > most { Way::Longer } else { Way::Found(way) }
    }

    /// The next token of the way, where none is forced.
    fn next(&mut self) -> Option<Token> {
        let next = self.room.ending.next(&self.room.endings)?;
        if self.filter.is_none() || self.allows(next) {
            return Some(next);
        }
        // An item that has been there: the byte behind which the end is nearest.
        let letters = self.room.endings.letters().into_iter();
        letters.filter_map(|token| Some((self.least_behind(token)?, token))).min().map(|found| found.1)
    }

    /// The fewest bytes behind a token, if that may come.
    fn least_behind(&mut self, token: Token) -> Option<u32> {
        if !self.live.validate_tokens(&[token]).is_ok_and(|n| n == 1) || !self.allows(token) {
            return None;
        }
        let Room { ending, endings, .. } = &mut *self.room;
        let mark = ending.mark();
        ending.push(endings, token);
        let least = ending.least(endings);
        ending.back(mark);
        least
    }

    fn allows(&mut self, token: Token) -> bool {
        let Some(filter) = &self.filter else { return true };
        let mut walk = Walk::new(&mut self.live, self.ends, self.can_rollback);
        let allows = filter.allows(token, &mut walk);
        walk.finish();
        allows
    }

    fn take(&mut self, token: Token) -> bool {
        if let Some(filter) = &self.filter {
            let Some(next) = filter.after(token) else { return false };
            self.filter = Some(next);
        }
        let taken = self.live.try_consume_tokens(&[token]).is_ok_and(|n| n == 1);
        self.room.ending.push(&self.room.endings, token);
        taken
    }
}
