//! The engine seen from outside.
