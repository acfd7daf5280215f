//! Plain data that grammars and those who use them share.

use serde::{Deserialize, Serialize};

/// A token id.
pub type Token = u32;

/// A place of a schema at which less is allowed than it says, where the whole cannot be enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrowed {
    /// JSON pointer.
    pub pointer: String,
    /// The keyword there.
    pub keyword: String,
    /// What is left out.
    pub reason: String,
}
