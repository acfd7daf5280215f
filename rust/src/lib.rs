//! llgtrt: the core of an OpenAI-compatible inference server for constrained decoding with speculation.
//!
//! Code map, lowest rank first; a file uses files of a lower rank only (`tests/tidy.rs` holds it so).
//!
//! | rank | module | what lives there |
//! |---|---|---|
//! | 0 | [`error`], [`vocab`], [`grammar`] | the one error enum; the one tokenizer; masks: the crate `llgtrt-grammar` |
//! | 1 | [`types`], [`config`], [`request`] | ids, events, usage; `runtime.json`; the one validation of a request |
//! | 2 | [`sampler`], [`text`] | logits to token; token to text |
//! | 3 | [`exec`] | the seam to the engines, and the engines |
//! | 4 | [`sequence`] | one running choice |
//! | 5 | `sched` | slots, drafts, step plan |
//! | 6 | [`engine`] | the step loop, and what waits for it |
//! | 7 | [`handle`], [`process`], [`metrics`] | the engine seen from outside |
//! | 8 | `py` | the Python boundary |

pub mod config;
pub mod engine;
pub mod exec;
pub mod handle;
pub mod metrics;
pub mod process;
#[cfg(feature = "python")]
mod py;
pub mod request;
pub mod sampler;
mod sched;
pub mod sequence;
pub mod text;
pub mod types;

/// Masks, a crate of its own: other engines use it, too.
pub use llgtrt_grammar as grammar;
pub use llgtrt_grammar::{error, vocab};

/// Compilations and masks are made of many small pieces of memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
