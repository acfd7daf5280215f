//! Tests of process.
