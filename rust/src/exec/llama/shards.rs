//! Ranks in the machine's own memory, for a machine without GPUs.
//!
//! The library splits a model over devices that each have memory of their own. Its CPU is none: what lies in host memory it
//! takes to be whole. A shard is the CPU under another name, with a buffer type that does not say that it is host memory.
//! The engine's thread computes one shard after the other, and hands each one's work out to all threads, so that a
//! split costs the sums and copies between layers and nothing else. It gains nothing either: it is there so that what is
//! written for several GPUs can be tried, and tested, without them.

pub(super) mod ffi;
