//! The step loop.
