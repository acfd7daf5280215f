//! Sets that are closed under and, or and not: of strings, of numbers, and formulas over anything else. They know nothing of JSON or
//! of schemas.

mod automaton;
pub(super) mod bits;
mod few;
pub(super) mod logic;
pub(super) mod number;
mod pattern;
mod split;
pub(super) mod strings;
pub(super) mod syntax;
