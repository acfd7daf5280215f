//! Tests of vocab.
