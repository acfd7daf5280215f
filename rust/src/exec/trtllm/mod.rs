//! TensorRT-LLM's Executor as an engine: folders in, its own sampling, masks by callback.
//!
//! The one exception to "Rust never calls Python": TensorRT-LLM's interface is a Python module. All calls into it stand in
//! `python/llgtrt/trtllm.py`; here is what to ask for and what the answers mean. `interface` is the border.
//!
//! The executor batches, keeps KV and samples by itself, on threads of its own. So a slot here is but the text that the
//! scheduler believes to be computed: prompt chunks are answered at once, a copy costs nothing, and what of it is still in
//! the KV cache is the executor's affair (KV block reuse).
//!
//! - A job of a sequence **without speculation** joins a request that stays in flight over all its rounds, streamed: a
//!   request for each token would leave the batch after each. Its masks come from a copy of the grammar, which walks on
//!   with what the executor has drawn, so that the executor never waits for the scheduler. The copy cannot disagree: it
//!   commits the tokens that the sequence will be told.
//! - A job of a sequence **with speculation** is a request of its own, as NVIDIA's draft/target flow has it: a request with
//!   draft tokens ends after one verification anyway. Its masks come from a cursor on the job's own grammar, one for each
//!   draft token and one more.
//!
//! The GIL is taken to hand over plain values and never while waiting: the executor's thread takes it for every callback,
//! and computes masks without it. No lock of ours is held while the GIL is waited for.

#[cfg(feature = "python")]
mod drafter;
#[cfg(feature = "python")]
mod drawn;
pub(crate) mod folder;
#[cfg(feature = "python")]
mod interface;
#[cfg(feature = "python")]
mod open;
#[cfg(feature = "python")]
mod options;
#[cfg(feature = "python")]
mod orders;
mod pair;
#[cfg(feature = "python")]
mod target;
#[cfg(feature = "python")]
mod walk;

#[cfg(feature = "python")]
pub(crate) use open::install;
pub(super) use pair::{Opened, Pair, follow, open, rank, sources};
