//! Integration tests of the core: no Python, and no model engine unless the feature `llama` is on.

#![allow(unreachable_pub, reason = "nothing is exported from a test")]
#![allow(clippy::unwrap_used, reason = "in a test, also outside of its functions")]

mod grammar;
#[cfg(feature = "llama")]
mod llama;
mod process;
mod scheduling;
mod twin;
mod vocab;
