//! Integration tests of the core: no Python, and no model engine unless the feature `llama` is on.

mod grammar;
#[cfg(feature = "llama")]
mod llama;
mod process;
mod scheduling;
mod vocab;
