//! The grammar layer through its public interface, on the toy vocabulary.

mod common;
mod compiler;
mod complete;
mod conformance;
mod defaults;
mod differential;
mod drawn;
mod forced;
mod fresh;
mod gbnf;
mod guide;
mod in_place;
mod keywords;
mod languages;
mod many;
mod missing_bytes;
mod openapi;
mod order;
mod parameters;
mod plain;
mod refusals;
mod sections;
mod specs;
pub mod states;
mod unions;
mod walks;
mod worst;
