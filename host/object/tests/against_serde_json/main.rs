//! What the scanner answers is what a parse of the whole text answers: random documents, arbitrary bytes and a kept
//! corpus, against naive models over `serde_json::Value`.

mod bytes;
mod corpus;
mod document;
mod model;
mod objects;
mod splitters;
