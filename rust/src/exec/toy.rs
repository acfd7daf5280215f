//! The weightless engine.
