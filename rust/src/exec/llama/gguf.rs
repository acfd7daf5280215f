//! GGUF files: their metadata, and other formats for their weights.

mod ffi;
pub mod quantize;

pub(super) use ffi::Metadata;
