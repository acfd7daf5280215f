//! Configuration to engine: the only file that names engines.
