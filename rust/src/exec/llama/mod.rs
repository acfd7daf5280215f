//! llama.cpp as a `Forward`.

pub mod gguf;
