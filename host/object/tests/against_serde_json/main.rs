//! The scanner's results equal those of a parse of the whole text: random documents, arbitrary bytes and a corpus,
//! compared with naive models over `serde_json::Value`.

mod bytes;
mod corpus;
mod document;
mod model;
mod objects;
mod payloads;
mod splitters;
