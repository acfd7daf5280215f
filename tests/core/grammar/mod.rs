//! Tests of grammar.
