//! Masks: [`Grammar`] is committed state, [`Cursor`] walks ahead of it and undoes itself.
//!
//! llguidance's matcher has three habits that shape this layer (tried with 1.9.1):
//! - `rollback` keeps a cached mask whose key can come up again on another branch. So the cache is dropped after a
//!   walk that computed a mask ahead, and only then: without the cache a mask inside free text costs milliseconds.
//! - Any error, also one on a drafted branch, spoils the matcher for good. So the pristine compilation and the
//!   committed tokens are kept, and the matcher is built again from them.
//! - An end token that was consumed is not undone correctly. So end tokens are never given to it; whether the text may
//!   end is asked for, and written into the mask.

mod budget;
mod build;
pub mod compiler;
mod counters;
mod env;
mod gbnf;
mod lark;
pub mod mask;
mod queue;
mod schema;
pub mod spec;
mod text;
mod walk;

pub use compiler::{CompileHandle, CompileStats, Compiler};
pub use mask::Mask;
pub use spec::GrammarSpec;
pub use walk::Walk;

use crate::error::{Error, Result};
use crate::types::Token;
use build::{Ends, Pristine};
use llguidance::Matcher;
use llguidance::api::StopReason;
use std::fmt;
use std::sync::Arc;

/// A compiled constraint, shared by all who asked for it. What waits holds this: a live one has memory of its own.
#[derive(Debug, Clone)]
pub struct Compiled(Arc<Pristine>);

impl Compiled {
    /// The constraint at its beginning, for one choice. Costs 20 to 200 µs.
    pub fn begin(&self) -> Grammar {
        Grammar::new(Arc::clone(&self.0))
    }
}

/// The committed state of one sequence's constraint.
pub struct Grammar {
    pristine: Arc<Pristine>,
    live: Matcher,
    history: Vec<Token>,
}

impl Grammar {
    fn new(pristine: Arc<Pristine>) -> Self {
        let live = pristine.matcher.deep_clone();
        Grammar { pristine, live, history: Vec::new() }
    }

    /// The same constraint at its beginning.
    pub fn restart(&self) -> Self {
        Grammar::new(Arc::clone(&self.pristine))
    }

    /// The tokens that may come next; end tokens are set where the text may end here.
    ///
    /// # Errors
    /// `Error::Grammar` where a limit is hit, or where no token of the vocabulary can go on.
    pub fn mask(&mut self) -> Result<Mask> {
        mask_of(&mut self.live, &self.pristine.ends)
    }

    /// Takes a sampled token. End tokens are not committed.
    ///
    /// # Errors
    /// `Error::Grammar` where the token is refused; the state is unharmed then.
    pub fn commit(&mut self, token: Token) -> Result<()> {
        if self.pristine.ends.eog.contains(&token) {
            return Ok(());
        }
        if !push_to(&mut self.live, &self.pristine.ends, token)? {
            return Err(broken(&format!("token {token} does not continue the text")));
        }
        self.history.push(token);
        Ok(())
    }

    /// Whether nothing may follow: the sequence ends without an end token. A text that is complete before its first
    /// token shows it by its mask only.
    pub fn is_ended(&self) -> bool {
        ended(&self.live)
    }

    /// A walk ahead of the committed state.
    pub fn cursor(&mut self) -> Cursor<'_> {
        Cursor { grammar: self, own: None, pushed: 0, masked_ahead: false, keep: false }
    }

    /// Tokens committed so far.
    pub fn committed(&self) -> usize {
        self.history.len()
    }

    /// Undoes a walk of `pushed` tokens; `masked_ahead`: a mask was computed after the first of them.
    fn undo(&mut self, pushed: usize, masked_ahead: bool) {
        if self.live.is_error() || (pushed > 0 && self.live.rollback(pushed).is_err()) {
            self.rebuild();
        } else if masked_ahead {
            self.live.invalidate_bias_cache();
        }
    }

    /// Walks the committed tokens again from the pristine compilation: 0.6 ms for 238 tokens.
    fn rebuild(&mut self) {
        self.live = self.pristine.matcher.deep_clone();
        // A failure here stays in the matcher and is what the next mask reports.
        let _ = self.live.consume_tokens(&self.history);
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar")
            .field("committed", &self.history.len())
            .field("ended", &self.is_ended())
            .finish_non_exhaustive()
    }
}

/// A walk ahead; dropping it restores the committed state.
pub struct Cursor<'a> {
    grammar: &'a mut Grammar,
    /// Where the walk goes on when the grammar cannot be rolled back.
    own: Option<Matcher>,
    pushed: usize,
    masked_ahead: bool,
    keep: bool,
}

impl Cursor<'_> {
    /// The mask at the cursor.
    ///
    /// # Errors
    /// As [`Grammar::mask`]; the committed state is unharmed.
    pub fn mask(&mut self) -> Result<Mask> {
        let pristine = &self.grammar.pristine;
        let live = self.own.as_mut().unwrap_or(&mut self.grammar.live);
        let mask = mask_of(live, &pristine.ends);
        if self.pushed > 0 {
            // A mask that came from the cache or was forced walked no trie and left nothing behind.
            self.masked_ahead |= live.last_step_stats().map_or(true, |s| s.trie_nodes_walked > 0);
        }
        mask
    }

    /// Walks over a token; false where the grammar refuses it or the token is an end token (the walk ends there).
    ///
    /// # Errors
    /// As [`Grammar::mask`]; the committed state is unharmed.
    pub fn push(&mut self, token: Token) -> Result<bool> {
        let pristine = &self.grammar.pristine;
        if !pristine.can_rollback && self.own.is_none() {
            self.own = Some(self.grammar.live.deep_clone());
        }
        let live = self.own.as_mut().unwrap_or(&mut self.grammar.live);
        let taken = push_to(live, &pristine.ends, token)?;
        self.pushed += usize::from(taken);
        Ok(taken)
    }

    /// As [`Grammar::is_ended`] at the cursor.
    pub fn is_ended(&self) -> bool {
        ended(self.own.as_ref().unwrap_or(&self.grammar.live))
    }

    /// Plants a fault for tests: the walk is not undone.
    #[doc(hidden)]
    pub fn skip_rollback_for_test(&mut self) {
        self.keep = true;
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        if !self.keep {
            let pushed = if self.own.is_some() { 0 } else { self.pushed };
            self.grammar.undo(pushed, self.masked_ahead && self.own.is_none());
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

fn mask_of(matcher: &mut Matcher, ends: &Ends) -> Result<Mask> {
    if ended(matcher) {
        let mut mask = Mask::none(ends.width);
        ends.eog.iter().for_each(|&t| mask.set(t, true));
        return Ok(mask);
    }
    let words = matcher.compute_mask().map_err(|e| broken(&e.to_string()))?;
    let may_end = matcher.is_accepting().map_err(|e| broken(&e.to_string()))?;
    let mut mask = Mask::from_words(words.as_slice(), ends.width);
    // Also takes away an end token that the grammar itself asks for: it would end the text where it may not end.
    ends.eog.iter().for_each(|&t| mask.set(t, may_end));
    if mask.words().iter().all(|w| *w == 0) {
        return Err(broken("no token of the vocabulary can continue the text here"));
    }
    Ok(mask)
}

fn push_to(matcher: &mut Matcher, ends: &Ends, token: Token) -> Result<bool> {
    // An id past the vocabulary would spoil the matcher.
    if token as usize >= ends.width || ends.eog.contains(&token) {
        return Ok(false);
    }
    matcher.try_consume_tokens(&[token]).map(|n| n == 1).map_err(|e| broken(&e.to_string()))
}

fn ended(matcher: &Matcher) -> bool {
    matches!(
        matcher.stop_reason(),
        StopReason::NoExtension | StopReason::NoExtensionBias | StopReason::EndOfSentence
    )
}

fn broken(why: &str) -> Error {
    let why = text::clean(why);
    // What llguidance says where the mask is empty.
    let dead = why.is_empty() || why.ends_with("NoExtensionBias");
    Error::grammar("", "grammar", if dead { "nothing can follow here that satisfies it".into() } else { why })
}
