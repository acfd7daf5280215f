//! Tests of llama.
