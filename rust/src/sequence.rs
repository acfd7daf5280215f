//! One running choice.
