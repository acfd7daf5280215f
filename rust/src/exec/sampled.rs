//! Lifts a `Forward` to a `Target`.
