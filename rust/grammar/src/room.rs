//! The state of a text: what may come next, and whether what is left of `max_tokens` is enough to complete it.
//!
//! The way to the end is walked as it would be drawn: forced tokens as the mask has them, then the next token on the shortest
//! way that [`Ending`] knows. Its length is a function of the text alone and gets one less with each of its tokens, so a text
//! whose way fits always has a next token whose way fits.

mod within;

use super::ending::{Allowed, Ending, Endings, Mark, State, Taken};
use super::mask::Mask;
use super::masks::Masks;
use super::unique::{Ahead, Filter};
use crate::error::Result;
use crate::types::Token;
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

    /// Whether our states no longer follow the text.
    pub(super) fn is_lost(&self) -> bool {
        self.ending.is_lost()
    }

    /// Marks the text as lost: it continues with a token that our states cannot follow.
    pub(super) fn lose(&mut self) {
        self.ending.lose();
    }

    /// The mask for the next token. `fallback` computes it where our states cannot.
    pub(super) fn mask(&mut self, masks: &Masks, fallback: impl FnOnce() -> Result<Allowed>) -> Result<Mask> {
        self.leave_tried();
        if let Some(mask) = masks.of(&self.ending, &self.endings) {
            return Ok(mask);
        }
        let allowed = fallback()?;
        masks.put(self.ending.state(), &allowed);
        Ok(allowed.mask)
    }

    /// A walk ahead for a filter.
    pub(super) fn ahead<'a>(&'a mut self, masks: &'a Masks) -> Look<'a> {
        self.leave_tried();
        Look { ending: &mut self.ending, endings: &self.endings, masks, marks: Vec::new() }
    }

    /// Takes a token; any other answer than `Yes` leaves the text as it was.
    pub(super) fn push(&mut self, token: Token) -> Taken {
        let is_tried = self.tried.is_some_and(|(tried, _)| tried == token);
        if !is_tried {
            self.leave_tried();
            let taken = self.ending.push(&self.endings, token);
            if taken != Taken::Yes {
                return taken;
            }
        }
        self.tried = None;
        let way = self.way.take().filter(|way| way.last() == Some(&token));
        let behind = self.behind.take().filter(|(first, _)| *first == token);
        let along = way.map(|mut way| {
            way.pop();
            way
        });
        self.way = along.or(behind.map(|(_, way)| way));
        Taken::Yes
    }

    /// Whether these tokens could come next; None where that can't be told.
    pub(super) fn takes(&mut self, tokens: &[Token]) -> Option<bool> {
        self.leave_tried();
        let mark = self.ending.mark();
        let mut taken = tokens.iter().map(|token| self.ending.push(&self.endings, *token));
        let end = taken.find(|taken| *taken != Taken::Yes);
        self.ending.back(mark);
        (end != Some(Taken::Lost)).then_some(end.is_none())
    }

    /// Whether the text may end.
    pub(super) fn may_end(&mut self) -> bool {
        self.leave_tried();
        self.ending.may_end(&self.endings)
    }

    /// Whether nothing may follow it.
    pub(super) fn is_ended(&self) -> bool {
        self.ending.is_ended(self.at())
    }

    /// All that the next token depends on.
    pub(super) fn state(&self) -> State {
        self.ending.state_at(self.at())
    }

    /// Where the text is.
    fn at(&self) -> Mark {
        self.tried.map_or_else(|| self.ending.mark(), |(_, mark)| mark)
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

    /// Whether `left` tokens complete the text with this one; true where that cannot be told.
    pub(super) fn fits(&mut self, of: (Option<&Filter>, &Masks), token: Token, left: usize) -> bool {
        let (filter, masks) = of;
        let way = self.way.as_ref().filter(|way| way.last() == Some(&token)).map(|way| way.len() - 1);
        let behind = self.behind.as_ref().filter(|(first, _)| *first == token).map(|(_, way)| way.len());
        if let Some(length) = way.or(behind) {
            return length <= left;
        }
        // The bytes to the end do not tell what has been there, which may need a longer way.
        if filter.is_none_or(|filter| !filter.is_in_the_way(token)) {
            self.leave_tried();
            let mark = self.ending.mark();
            if self.ending.push(&self.endings, token) != Taken::Yes {
                // Whoever draws it meets that.
                return true;
            }
            self.tried = Some((token, mark));
            if self.ending.least(&self.endings).is_none_or(|least| least as usize <= left) {
                return true;
            }
            if filter.is_none()
                && let Some(length) = masks.length(self.ending.state())
            {
                return length as usize <= left;
            }
            // This is much cheaper than a walk, and tells nearly as much.
            if !self.ending.is_near(&self.endings, left) {
                return false;
            }
        }
        let walked = self.walk(of, Some(token), left, filter.is_none());
        walked.is_none_or(|walked| walked.length() <= left)
    }

    /// How the text can be completed by at most `most` tokens, behind `first` where that is given.
    pub(super) fn way(&mut self, of: (Option<&Filter>, &Masks), first: Option<Token>, most: usize) -> Way {
        if let (Some(way), None) = (&self.way, first) {
            let way: Vec<Token> = way.iter().rev().copied().collect();
            return if way.len() > most { Way::Longer } else { Way::Found(way) };
        }
        let Some(walked) = self.walk(of, first, most, false) else { return Way::Unknown };
        if walked.length() > most {
            return Way::Longer;
        }
        let back = walked.tokens.iter().rev().copied().collect();
        match first {
            None => self.way = Some(back),
            Some(first) => self.behind = Some((first, back)),
        }
        Way::Found(walked.tokens)
    }

    /// See [`Trial::walk`].
    fn walk(
        &mut self,
        (filter, masks): (Option<&Filter>, &Masks),
        first: Option<Token>,
        most: usize,
        short: bool,
    ) -> Option<Walked> {
        self.leave_tried();
        let mark = self.ending.mark();
        let Room { ending, endings, .. } = self;
        let walked = Trial { filter: filter.cloned(), ending, endings, masks }.walk(first, most, short);
        self.ending.back(mark);
        walked
    }
}

/// A walk to the end, or to where the rest is known.
struct Walked {
    tokens: Vec<Token>,
    /// How many more tokens follow these.
    rest: usize,
}

impl Walked {
    fn length(&self) -> usize {
        self.tokens.len() + self.rest
    }
}

/// What comes next on a way.
enum Rest {
    /// As many tokens, up to the end.
    Known(usize),
    /// This token, which is taken.
    Next(Token),
    Unknown,
}

/// Walks from a text to its end. The caller restores the text afterwards.
struct Trial<'a> {
    filter: Option<Filter>,
    ending: &'a mut Ending,
    endings: &'a Endings,
    masks: &'a Masks,
}

impl Trial<'_> {
    /// The way behind `first`. One of more than `most` tokens may be cut short; then its length is more than `most`, too.
    /// `short`: stops at the first state for which the length of the rest is remembered. None where no way is known.
    fn walk(&mut self, first: Option<Token>, most: usize, short: bool) -> Option<Walked> {
        if first.is_some_and(|first| !self.take(first)) {
            return None;
        }
        let longest = if short { LONGEST } else { most.min(LONGEST) };
        let (mut tokens, mut states) = (Vec::new(), Vec::new());
        let rest = loop {
            match self.rest(short.then_some(&mut states)) {
                Rest::Known(rest) => break rest,
                Rest::Next(token) if tokens.len() < longest => tokens.push(token),
                _ => return (tokens.len() >= most).then_some(Walked { tokens, rest: 1 }),
            }
        };
        let walked = Walked { tokens, rest };
        for (at, state) in states.into_iter().enumerate() {
            self.masks.put_length(state, (walked.length() - at) as u32);
        }
        Some(walked)
    }

    /// Takes the next token of the way. With `states`, stops where the length of the rest is remembered for this state, and else
    /// adds the state to them.
    fn rest(&mut self, states: Option<&mut Vec<State>>) -> Rest {
        if self.ending.is_ended(self.ending.mark()) {
            return Rest::Known(0);
        }
        let Some(least) = self.ending.least(self.endings) else { return Rest::Unknown };
        if least == 0 {
            return if self.ending.may_end(self.endings) { Rest::Known(0) } else { Rest::Unknown };
        }
        if let Some(states) = states {
            let state = self.ending.state();
            if let Some(length) = self.masks.length(state) {
                return Rest::Known(length as usize);
            }
            states.push(state);
        }
        let forced = self.ending.forced(self.endings);
        let Some(token) = forced.or_else(|| self.next()).filter(|token| self.take(*token)) else {
            return Rest::Unknown;
        };
        // Items that must differ take detours; everything else gets shorter.
        let is_nearer = self.ending.least(self.endings).is_some_and(|now| now < least);
        if self.filter.is_none() && !is_nearer { Rest::Unknown } else { Rest::Next(token) }
    }

    /// The next token of the way, where none is forced.
    fn next(&mut self) -> Option<Token> {
        let next = self.ending.next(self.endings)?;
        if !self.begins_again(next) && self.allows(next) {
            return Some(next);
        }
        // The token would repeat an earlier item, or begin as one does. Take the byte that leads to the end soonest, and among equal
        // ones a byte that no earlier item begins with.
        let bytes = self.endings.letters().into_iter().chain([next]);
        let bytes =
            bytes.filter_map(|token| Some((self.least_behind(token)?, self.begins_again(token), token)));
        bytes.min().map(|(.., token)| token)
    }

    /// Whether the text goes on with this token as an item or key that has been there.
    fn begins_again(&self, token: Token) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.begins_again(token))
    }

    /// The fewest bytes behind a token, if that may come.
    fn least_behind(&mut self, token: Token) -> Option<u32> {
        let mark = self.ending.mark();
        let taken = self.ending.push(self.endings, token) == Taken::Yes;
        let least = self.ending.least(self.endings).filter(|_| taken);
        self.ending.back(mark);
        least.filter(|_| self.allows(token))
    }

    fn allows(&mut self, token: Token) -> bool {
        let Trial { filter, ending, endings, masks } = self;
        let mut look = Look { ending, endings, masks, marks: Vec::new() };
        filter.as_ref().is_none_or(|filter| filter.allows(token, &mut look))
    }

    fn take(&mut self, token: Token) -> bool {
        if let Some(filter) = &self.filter {
            let Some(next) = filter.after(token) else { return false };
            self.filter = Some(next);
        }
        self.ending.push(self.endings, token) == Taken::Yes
    }
}

/// A walk ahead of a text for a filter, which takes back each token that it pushes.
pub(super) struct Look<'a> {
    ending: &'a mut Ending,
    endings: &'a Endings,
    masks: &'a Masks,
    marks: Vec<Mark>,
}

impl Ahead for Look<'_> {
    fn state(&self) -> State {
        self.ending.state()
    }

    fn mask(&mut self) -> Option<Mask> {
        self.masks.of(self.ending, self.endings)
    }

    fn has_listed(&self, seen: &[&[u8]]) -> Option<bool> {
        self.ending.has_listed(seen)
    }

    fn push(&mut self, token: Token) -> bool {
        let mark = self.ending.mark();
        let taken = self.ending.push(self.endings, token) == Taken::Yes;
        if taken {
            self.marks.push(mark);
        }
        taken
    }

    fn pop(&mut self) {
        self.marks.pop().into_iter().for_each(|mark| self.ending.back(mark));
    }
}
