//! Masks: [`Grammar`] is committed state, [`Cursor`] walks ahead of it and undoes itself.
//!
//! A constraint may be of sections: free text, in which it lies dormant and no mask is computed, up to a trigger, behind
//! which a grammar holds. A walk ahead may go over any of their borders, and is undone over them.
//!
//! What may come depends on the state of a text alone. `ending` has the states, which are shared by all texts of a grammar,
//! and `masks` what was computed in them. A state is a few numbers: to walk ahead, to go back and to copy it costs nothing.
//!
//! Schemas and lists become tables directly (`productions`); llguidance compiles clients' Lark. Its matcher is used where a grammar has what
//! `ending` does not follow: Lark's `stop`, `suffix` and `max_tokens`, and what is beyond a limit. Three habits of it (tried with 1.9.1) shape `matching`:
//! - `rollback` keeps a cached mask whose key can come up again on another branch.
//! - Any error, also one on a drafted branch, spoils a matcher for good. So the compiled one is kept, and the tokens.
//! - An end token that was consumed is not undone correctly. So end tokens are never given to it; whether the text may
//!   end is asked for, and written into the mask.

mod around;
mod budget;
mod build;
mod calls;
pub mod compiler;
mod completing;
pub mod config;
mod counters;
mod ending;
mod env;
pub mod error;
mod gbnf;
mod habits;
mod languages;
mod lark;
pub mod mask;
mod masks;
pub mod matcher;
mod matching;
mod part;
mod productions;
mod queue;
mod room;
mod schema;
mod sections;
mod sets;
pub mod spec;
mod tags;
mod text;
mod texts;
mod triggers;
pub mod types;
mod unique;
pub mod vocab;
mod walk;
mod within;
mod workers;
mod written;

pub use compiler::{CompileHandle, CompileStats, Compiler};
pub use mask::{Mask, Next};
pub use matcher::Matcher;
pub use spec::GrammarSpec;
pub use walk::Walk;

use crate::error::{Error, Result};
use crate::types::{Narrowed, Token};
use matching::broken;
use room::Way;
use sections::{At, Place, Plan};
use std::fmt;
use std::sync::Arc;

/// A compiled constraint, shared by all who asked for it. What waits holds this: a live one has memory of its own.
#[derive(Debug, Clone)]
pub struct Compiled(Arc<Plan>);

impl Compiled {
    /// The constraint at its beginning, for one choice.
    pub fn begin(&self) -> Grammar {
        self.begin_for((0, 0))
    }

    /// The same for a text of this client: what came in its earlier texts is what [`Cursor::usual`] proposes.
    pub fn begin_for(&self, client: Client) -> Grammar {
        Grammar { teaches: true, ..Grammar::new(Arc::clone(&self.0), client) }
    }

    /// Where less is allowed than its schemas do.
    pub fn narrowed(&self) -> &[Narrowed] {
        &self.0.narrowed
    }

    /// The Lark text that says the same; None where it has sections, or where Lark cannot say it.
    pub fn lark(&self) -> Option<String> {
        self.0.whole()?.lark()
    }

    /// The fewest tokens that complete an output; None where that cannot be told.
    pub fn least(&self) -> Option<usize> {
        self.0.complete.then(|| self.0.shortest(usize::MAX))?
    }

    /// Refuses an output that cannot be completed within `max_tokens`.
    ///
    /// # Errors
    /// `Error::Invalid` that says how many it needs.
    pub fn fits(&self, max_tokens: u32) -> Result<()> {
        let max_tokens = max_tokens as usize;
        let least = if self.0.complete { self.0.shortest(max_tokens) } else { None };
        match least {
            Some(least) if least > max_tokens => {
                let why = format!(
                    "is {max_tokens}, but an output that satisfies the constraint needs at least {least} tokens; \
                     raise it to {least} or more"
                );
                Err(Error::invalid("max_tokens", why))
            }
            _ => Ok(()),
        }
    }
}

/// A client, and the number of a salt that it names; see `cache_salt`.
pub type Client = (u64, u64);

/// The committed state of one sequence's constraint.
pub struct Grammar {
    plan: Arc<Plan>,
    at: At,
    committed: usize,
    /// Whose text it is: a client, and a salt of its.
    client: Client,
    /// Whether others learn from what is committed: it is what comes out, and no trial.
    teaches: bool,
}

impl Grammar {
    fn new(plan: Arc<Plan>, client: Client) -> Self {
        let at = plan.begin();
        Grammar { plan, at, committed: 0, client, teaches: false }
    }

    /// The same constraint at its beginning, for a trial.
    pub fn restart(&self) -> Self {
        Grammar::new(Arc::clone(&self.plan), self.client)
    }

    /// A copy with a life of its own: for an engine that walks on while the sequence commits. Costs as much as
    /// [`Compiled::begin`].
    pub fn fork(&self) -> Self {
        let Grammar { plan, at, committed, client, .. } = self;
        let (plan, at) = (Arc::clone(plan), at.apart());
        Grammar { plan, at, committed: *committed, client: *client, teaches: false }
    }

    /// See [`Compiled::narrowed`].
    pub fn narrowed(&self) -> &[Narrowed] {
        &self.plan.narrowed
    }

    /// The Lark text that it was made from; None where an engine's own llguidance could not take it.
    pub fn guide(&self) -> Option<String> {
        self.plan.whole().filter(|pristine| pristine.guides)?.lark()
    }

    /// What may come next; in a mask, end tokens are set where the text may end here.
    ///
    /// # Errors
    /// `Error::Grammar` where a limit is hit, or where no token of the vocabulary can go on.
    pub fn mask(&mut self) -> Result<Next> {
        self.plan.next(&mut self.at)
    }

    /// For tests: the mask with what llguidance alone says of the grammar, and whether [`Grammar::mask`] has it from states of our own. None in
    /// free text.
    ///
    /// # Errors
    /// As [`Grammar::mask`].
    #[doc(hidden)]
    pub fn mask_by_llguidance(&mut self) -> Result<Option<(Mask, bool)>> {
        match &mut self.at.place {
            Place::Free(_) => Ok(None),
            Place::Bound(part) => part.unfollowed().map(Some),
        }
    }

    /// Takes a sampled token. End tokens are not committed.
    ///
    /// # Errors
    /// `Error::Grammar` where the token is refused; the state is unharmed then.
    pub fn commit(&mut self, token: Token) -> Result<()> {
        if self.plan.ends.eog.contains(&token) {
            return Ok(());
        }
        let state = match &self.at.place {
            Place::Bound(part) if self.teaches => part.state(),
            _ => None,
        };
        if !self.plan.push(&mut self.at, token)? {
            return Err(broken(&format!("token {token} does not continue the text")));
        }
        self.committed += 1;
        if let Some(state) = state {
            self.plan.habits.note(state, self.client, token);
        }
        Ok(())
    }

    /// Whether nothing may follow: the sequence ends without an end token. A text that is complete before its first
    /// token shows it by its mask only.
    pub fn is_ended(&self) -> bool {
        self.plan.is_ended(&self.at)
    }

    /// Whether the output may end here.
    pub fn may_end(&mut self) -> bool {
        self.plan.may_end(&mut self.at)
    }

    /// Whether outputs are completed within `max_tokens`.
    pub fn completes(&self) -> bool {
        self.plan.complete
    }

    /// Whether free text runs, for which no mask is computed.
    pub fn is_dormant(&self) -> bool {
        matches!(self.at.place, Place::Free(_))
    }

    /// Whether the next token belongs to a section of reasoning.
    pub fn is_reasoning(&self) -> bool {
        self.plan.is_reasoning(&self.at)
    }

    /// A walk ahead of the committed state.
    pub fn cursor(&mut self) -> Cursor<'_> {
        Cursor { grammar: self, own: None, pushed: 0, keep: false }
    }

    /// Tokens committed so far.
    pub fn committed(&self) -> usize {
        self.committed
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar")
            .field("committed", &self.committed)
            .field("dormant", &self.is_dormant())
            .field("ended", &self.is_ended())
            .finish_non_exhaustive()
    }
}

/// A walk ahead; dropping it restores the committed state.
pub struct Cursor<'a> {
    grammar: &'a mut Grammar,
    /// Where the walk goes on when it has left the committed section, or what is committed cannot be rolled back.
    own: Option<At>,
    /// Tokens that the committed section's grammar walked over.
    pushed: usize,
    keep: bool,
}

impl Cursor<'_> {
    /// What may come next at the cursor.
    ///
    /// # Errors
    /// As [`Grammar::mask`]; the committed state is unharmed.
    pub fn mask(&mut self) -> Result<Next> {
        let Grammar { plan, at, .. } = &mut *self.grammar;
        if let Some(own) = &mut self.own {
            return plan.next(own);
        }
        plan.next(at)
    }

    /// Walks over a token; false where the grammar refuses it or the token is an end token (the walk ends there).
    ///
    /// # Errors
    /// As [`Grammar::mask`]; the committed state is unharmed.
    pub fn push(&mut self, token: Token) -> Result<bool> {
        let Grammar { plan, at, .. } = &mut *self.grammar;
        if self.own.is_none() {
            match &mut at.place {
                Place::Bound(part) => {
                    if self.pushed == 0 {
                        part.branch();
                    }
                    let taken = part.push(token)?;
                    self.pushed += usize::from(taken);
                    self.own = plan.after(at)?;
                    return Ok(taken);
                }
                Place::Free(_) => self.own = Some(at.apart()),
            }
        }
        self.own.as_mut().map_or(Ok(false), |own| plan.push(own, token))
    }

    /// Whether the output with this token can be completed by `left` more. True where that cannot be told.
    ///
    /// # Errors
    /// As [`Grammar::mask`]; the committed state is unharmed.
    pub fn fits(&mut self, token: Token, left: u32) -> Result<bool> {
        let Grammar { plan, at, .. } = &mut *self.grammar;
        plan.fits(self.own.as_mut().unwrap_or(at), token, left as usize)
    }

    /// What may come, over `width` tokens, each by itself.
    pub fn listed(&self, next: &Next, width: usize) -> Mask {
        match next {
            Next::Only(mask) => mask.clone(),
            Next::Any { end } => self.grammar.plan.ends.and_all(*end, width),
        }
    }

    /// The next token on a short way to complete the output, an end token where that is complete; and how many tokens that
    /// takes. None where no way is known.
    pub fn way(&mut self) -> Option<(Token, u32)> {
        let Grammar { plan, at, .. } = &mut *self.grammar;
        let at = self.own.as_mut().unwrap_or(at);
        let Way::Found(way) = plan.way(at, usize::MAX) else { return None };
        let next = way.first().or(plan.ends.eog.first())?;
        Some((*next, (way.len() + plan.behind(at)) as u32))
    }

    /// Of the tokens of this mask, which is that of the cursor, the one that is likely to come by earlier texts of the same
    /// client; None where none came more often than all others.
    pub fn usual(&self, mask: &Mask) -> Option<Token> {
        let Grammar { plan, at, client, .. } = &*self.grammar;
        match &self.own.as_ref().unwrap_or(at).place {
            Place::Bound(part) => plan.habits.usual(part.state()?, *client, mask),
            Place::Free(_) => None,
        }
    }

    /// As [`Grammar::is_ended`] at the cursor.
    pub fn is_ended(&self) -> bool {
        self.grammar.plan.is_ended(self.own.as_ref().unwrap_or(&self.grammar.at))
    }

    /// Plants a fault for tests: the walk is not undone.
    #[doc(hidden)]
    pub fn skip_rollback_for_test(&mut self) {
        self.keep = true;
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        if let Place::Bound(part) = &mut self.grammar.at.place
            && !self.keep
        {
            part.undo(self.pushed > 0);
        }
    }
}

impl fmt::Debug for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("grammar", &self.grammar)
            .field("ahead", &self.pushed)
            .finish_non_exhaustive()
    }
}
