//! llama.cpp as a `Forward`.
