//! The engine in a supervised child process.
