//! The Python boundary.
