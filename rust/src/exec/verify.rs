//! The acceptance rules.
