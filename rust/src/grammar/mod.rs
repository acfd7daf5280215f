//! Masks: [`Grammar`] is committed state, [`Cursor`] walks ahead of it and undoes itself.

pub mod compiler;
pub mod mask;
pub mod spec;

pub use compiler::{CompileHandle, Compiler};
pub use mask::Mask;
pub use spec::GrammarSpec;

use crate::error::Result;
use crate::types::Token;

/// The committed state of one sequence's constraint.
#[derive(Debug)]
pub struct Grammar {}

impl Grammar {
    /// The tokens that may come next; end tokens are set where the text may end here.
    ///
    /// # Errors
    /// `Error::Grammar` where a limit is hit.
    pub fn mask(&mut self) -> Result<Mask> {
        unimplemented!()
    }
    /// Takes a sampled token. End tokens are not committed.
    ///
    /// # Errors
    /// `Error::Grammar` where the token is refused.
    pub fn commit(&mut self, _token: Token) -> Result<()> {
        unimplemented!()
    }
    /// Whether nothing may follow: the sequence ends without an end token.
    pub fn is_ended(&self) -> bool {
        unimplemented!()
    }
    /// A walk ahead of the committed state.
    pub fn cursor(&mut self) -> Cursor<'_> {
        unimplemented!()
    }
    /// Tokens committed so far.
    pub fn committed(&self) -> usize {
        unimplemented!()
    }
}

/// A walk ahead; dropping it restores the committed state.
#[derive(Debug)]
pub struct Cursor<'a> {
    _g: &'a mut Grammar,
}

impl Cursor<'_> {
    /// The mask at the cursor.
    ///
    /// # Errors
    /// As [`Grammar::mask`]; the committed state is unharmed.
    pub fn mask(&mut self) -> Result<Mask> {
        unimplemented!()
    }
    /// Walks over a token; false where the grammar refuses it or the token is an end token (the walk ends there).
    ///
    /// # Errors
    /// As [`Grammar::mask`]; the committed state is unharmed.
    pub fn push(&mut self, _token: Token) -> Result<bool> {
        unimplemented!()
    }
    /// As [`Grammar::is_ended`] at the cursor.
    pub fn is_ended(&self) -> bool {
        unimplemented!()
    }
}
