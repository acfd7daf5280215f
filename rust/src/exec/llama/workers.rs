//! Threads that compute passes.

pub mod ffi;

pub use ffi::{Pool, Workers};
