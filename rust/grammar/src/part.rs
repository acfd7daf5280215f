//! One grammar of a text: what is committed to it, and how a walk ahead in it is undone.

use super::ending::{Allowed, Endings, State, Taken};
use super::mask::Mask;
use super::masks::Masks;
use super::matching::{Compiled, Ends, Guide, broken, ended, mask_of};
use super::room::{LONGEST, Room, Way};
use super::unique::{Filter, Rules};
use super::written::Written;
use crate::error::Result;
use crate::types::Token;
use std::fmt;
use std::sync::{Arc, Once};

/// What is said where only llguidance follows texts.
pub(super) const UNFOLLOWED: &str =
    "a constraint's outputs may not be completed within max_tokens, and their masks may take milliseconds";

/// A compiled grammar at its beginning.
pub(super) struct Pristine {
    pub(super) compiled: Compiled,
    pub(super) ends: Arc<Ends>,
    pub(super) source: Source,
    /// Whether an engine's own llguidance can follow its Lark text.
    pub(super) guides: bool,
    /// What is enforced beside the grammar.
    pub(super) rules: Option<Arc<Rules>>,
    /// The states of its texts, and how they can be completed; None where llguidance alone follows them.
    pub(super) endings: Option<Arc<Endings>>,
    pub(super) masks: Arc<Masks>,
    /// So that the log says only once that our states do not follow a text.
    pub(super) told: Once,
    /// Where white space may stand behind a text, in the token that completes it: the tokens with nothing else.
    pub(super) blank: Option<Arc<Mask>>,
}

/// What a grammar was compiled from.
pub(super) enum Source {
    Written(Arc<Written>),
    /// Lark text; None where it has several parts.
    Lark(Option<String>),
}

impl Pristine {
    /// The Lark text that says the same; None where there is none.
    pub(super) fn lark(&self) -> Option<String> {
        match &self.source {
            Source::Written(written) => written.lark(),
            Source::Lark(text) => text.clone(),
        }
    }
}

impl fmt::Debug for Pristine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pristine").field("endings", &self.endings).finish_non_exhaustive()
    }
}

/// A grammar, and the tokens that it has taken.
pub(super) struct Part {
    pub(super) pristine: Arc<Pristine>,
    tokens: Vec<Token>,
    /// As many are committed.
    committed: usize,
    /// Our state of the text; once it is lost, the guide is asked.
    room: Option<Room>,
    guide: Guide,
    /// Whether the guide says that nothing may follow.
    is_over: bool,
    /// Whether nothing but white space may follow, now and at the last committed token.
    is_closed: bool,
    was_closed: bool,
    /// The filter that runs beside the grammar, now and at the last committed token.
    filter: Option<Arc<Filter>>,
    kept: Option<Arc<Filter>>,
}

impl Part {
    /// At its beginning.
    pub(super) fn new(pristine: Arc<Pristine>) -> Self {
        let filter = pristine.rules.as_ref().map(|rules| Arc::new(Filter::new(rules)));
        let room = pristine.endings.as_ref().map(Room::new);
        let is_over = pristine.endings.is_none() && ended(pristine.compiled.matcher());
        Part {
            pristine,
            tokens: Vec::new(),
            committed: 0,
            room,
            guide: Guide::default(),
            is_over,
            is_closed: false,
            was_closed: false,
            kept: filter.clone(),
            filter,
        }
    }

    /// The same state apart from this one, to go on from.
    pub(super) fn apart(&self) -> Self {
        Part {
            pristine: Arc::clone(&self.pristine),
            tokens: self.tokens.clone(),
            committed: self.tokens.len(),
            room: self.room.as_ref().map(Room::apart),
            guide: self.guide.apart(),
            is_over: self.is_over,
            is_closed: self.is_closed,
            was_closed: self.is_closed,
            filter: self.filter.clone(),
            kept: self.filter.clone(),
        }
    }

    /// The state, where it is known.
    fn room(&mut self) -> Option<&mut Room> {
        self.room.as_mut().filter(|room| !room.is_lost())
    }

    /// All that the next token depends on; None where our states do not follow the text.
    pub(super) fn state(&self) -> Option<State> {
        self.room.as_ref().filter(|room| !room.is_lost()).map(Room::state)
    }

    pub(super) fn mask(&mut self) -> Result<Mask> {
        let mask = self.unfiltered()?;
        self.filtered(mask)
    }

    /// What the filter leaves of the grammar's mask.
    fn filtered(&mut self, mut mask: Mask) -> Result<Mask> {
        if mask.is_none() {
            return Err(broken("no token of the vocabulary can continue the text here"));
        }
        let is_ended = self.is_ended();
        if !is_ended && self.room().is_some_and(Room::may_end) {
            // The text may end or go on, as a number can. White space on its own would only delay the end.
            let blank = self.pristine.blank.iter().flat_map(|blank| blank.iter());
            blank.for_each(|token| mask.set(token, false));
        }
        let Part { pristine, room, filter, .. } = self;
        if let Some(filter) = filter.as_ref().filter(|_| !is_ended) {
            let room = room.as_mut().filter(|room| !room.is_lost());
            match room.map(|room| room.ahead(&pristine.masks)) {
                Some(mut ahead) => filter.apply(&mut mask, Some(&mut ahead)),
                // Then only what completes an equal item at once is taken out.
                None => filter.apply(&mut mask, None),
            }
            if mask.is_none() {
                return Err(broken("no item, or key, is left that has not been there"));
            }
        }
        Ok(mask)
    }

    /// What the grammar allows.
    fn unfiltered(&mut self) -> Result<Mask> {
        let Part { pristine, tokens, room, guide, .. } = self;
        let Some(room) = room.as_mut().filter(|room| !room.is_lost()) else {
            return mask_of(guide.behind(&pristine.compiled, tokens), &pristine.ends);
        };
        if room.is_ended() || self.is_closed {
            return Ok(pristine.ends.mask());
        }
        room.mask(&pristine.masks, || {
            let live = guide.behind(&pristine.compiled, tokens);
            let mask = mask_of(live, &pristine.ends)?;
            Ok(Allowed { mask, is_forced: !live.compute_ff_bytes().is_empty(), near: None })
        })
    }

    /// The mask with what llguidance alone says of the grammar, and whether our states follow the text.
    pub(super) fn unfollowed(&mut self) -> Result<(Mask, bool)> {
        let mut guide = Guide::default();
        let live = guide.behind(&self.pristine.compiled, &self.tokens);
        let is_known = self.room.as_ref().is_some_and(|room| !room.is_lost());
        let mask = mask_of(live, &self.pristine.ends)?;
        Ok((self.filtered(mask)?, is_known))
    }

    /// Walks over a token; false where it is refused or an end token.
    pub(super) fn push(&mut self, token: Token) -> Result<bool> {
        let Pristine { compiled, ends, .. } = &*self.pristine;
        // An id past the vocabulary would spoil a matcher.
        if token as usize >= ends.width || ends.eog.contains(&token) {
            return Ok(false);
        }
        let filter = match &self.filter {
            Some(filter) => match filter.after(token) {
                None => return Ok(false),
                Some(next) => Some(Arc::new(next)),
            },
            None => None,
        };
        let mut room = self.room.as_mut().filter(|room| !room.is_lost());
        let taken = match room.as_mut().map_or(Taken::Lost, |room| room.push(token)) {
            Taken::Yes => true,
            Taken::No => false,
            Taken::Lost => {
                let (taken, is_over) = self.guide.push(compiled, &self.tokens, token)?;
                if taken {
                    self.is_over |= is_over;
                    if let Some(room) = room {
                        room.lose();
                        self.pristine.told.call_once(|| log::warn!("{UNFOLLOWED}: it has too many states"));
                    }
                }
                taken
            }
        };
        if taken {
            self.tokens.push(token);
            self.filter = filter;
            self.is_closed = self.closes()?;
        }
        Ok(taken)
    }

    /// Whether the text is complete: it may end here, and only white space or an end token may come next.
    fn closes(&mut self) -> Result<bool> {
        let Some(blank) = self.pristine.blank.clone() else { return Ok(false) };
        if self.is_closed || !self.room().is_some_and(Room::may_end) {
            return Ok(self.is_closed);
        }
        let next = self.unfiltered()?;
        let ends = &self.pristine.ends.eog;
        Ok(next.iter().all(|token| blank.allows(token) || ends.contains(&token)))
    }

    /// Notes that a walk ahead begins here.
    pub(super) fn branch(&mut self) {
        self.guide.branch(&self.pristine.compiled);
    }

    /// Notes that the tokens walked over are committed.
    pub(super) fn keep(&mut self) {
        self.committed = self.tokens.len();
        self.kept.clone_from(&self.filter);
        self.was_closed = self.is_closed;
        self.room.iter_mut().for_each(Room::keep);
    }

    /// Whether these tokens could come next; the state stays.
    pub(super) fn takes(&mut self, tokens: &[Token]) -> Result<bool> {
        if let Some(taken) = self.room().and_then(|room| room.takes(tokens)) {
            return Ok(taken);
        }
        let live = self.guide.behind(&self.pristine.compiled, &self.tokens);
        live.validate_tokens(tokens).map(|n| n == tokens.len()).map_err(|e| broken(&e.to_string()))
    }

    /// Whether the text with this token can be completed by `left` more; true where that cannot be told.
    pub(super) fn fits(&mut self, token: Token, left: usize) -> bool {
        if left >= LONGEST {
            return true;
        }
        let Part { pristine, room, filter, .. } = self;
        let room = room.as_mut().filter(|room| !room.is_lost());
        room.is_none_or(|room| room.fits((filter.as_deref(), &pristine.masks), token, left))
    }

    /// Those of the text's mask behind which `left` more tokens complete it, and the end tokens in it. The mask itself where that cannot be
    /// told.
    pub(super) fn within(&mut self, mask: Mask, left: usize) -> Mask {
        let Part { pristine, room, filter, .. } = self;
        match room.as_mut().filter(|room| !room.is_lost()) {
            Some(room) if left < LONGEST && !room.is_ended() => {
                room.within((filter.as_deref(), &pristine.masks), (mask, &pristine.ends.eog), left)
            }
            _ => mask,
        }
    }

    /// How the text can be completed by at most `most` tokens, behind `first` where that is given.
    pub(super) fn way(&mut self, first: Option<Token>, most: usize) -> Way {
        let Part { pristine, room, filter, .. } = self;
        match room {
            Some(room) if !room.is_lost() => room.way((filter.as_deref(), &pristine.masks), first, most),
            _ => Way::Unknown,
        }
    }

    /// Whether the text may end here.
    pub(super) fn may_end(&mut self) -> bool {
        if let Some(room) = self.room() {
            return room.may_end();
        }
        let live = self.guide.behind(&self.pristine.compiled, &self.tokens);
        ended(live) || live.is_accepting().unwrap_or(false)
    }

    /// Whether nothing may follow.
    pub(super) fn is_ended(&self) -> bool {
        self.is_closed
            || match &self.room {
                Some(room) if !room.is_lost() => room.is_ended(),
                _ => self.is_over,
            }
    }

    /// Goes back to what is committed. `walked`: there are tokens ahead of it. Without any, a matcher may still have failed.
    pub(super) fn undo(&mut self, walked: bool) {
        self.guide.back(&self.pristine.compiled, self.committed);
        if walked {
            self.filter.clone_from(&self.kept);
            self.room.iter_mut().for_each(Room::undo);
            self.tokens.truncate(self.committed);
            self.is_over = false;
            self.is_closed = self.was_closed;
        }
    }
}
