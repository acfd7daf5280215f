//! Waiting line, slots, step plan.
