//! Token to UTF-8 text; stop-string holdback.
