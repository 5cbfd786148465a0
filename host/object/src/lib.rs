//! Kubernetes objects as Informant holds them: JSON bytes with a small head.
//!
//! ```text
//! frames ──▶ LineSplitter, ListSplitter ──▶ one object's bytes ──Object::parse (one scan, one copy)──▶ Object
//!                                                                                                       │
//!                                        key, uid, version · pointers · projections · label and field selectors
//! ```
//!
//! This room owns: the object and its key, resource versions, the scanner, pointers and projections, selectors, and how
//! objects are cut out of what an API server sends. It promises: whatever the bytes, no panic and no unbounded memory;
//! one scan and one allocation an object; what it answers is what a parse of the whole text would answer
//! (property-tested against serde_json; of names that occur twice in one object, which no API server sends, each item
//! says which counts). It does no I/O, reads no clock, and knows no resource type.

mod cut;
mod error;
pub mod frames;
mod head;
mod key;
mod labels;
mod object;
mod paths;
mod pointer;
mod projection;
mod scanner;
mod selector;
mod shape;
mod source;
mod type_meta;
mod values;
mod version;

pub use error::{Found, OBJECT_BYTES_MAX, ObjectError};
pub use head::{ObjectHead, head};
pub use key::{AsKey, Key, KeyError, KeyRef};
pub use labels::Labels;
pub use object::{ByKey, Object, SCRATCH_BYTES_MAX};
pub use pointer::{POINTER_TOKENS_MAX, Pointer, PointerError, Token};
pub use projection::{Payload, Projection};
pub use scanner::DEPTH_MAX;
pub use selector::{FieldSelector, LabelSelector, SelectorError};
pub use shape::Shape;
pub use source::SourceId;
pub use type_meta::TypeMeta;
pub use version::{ResourceVersion, VersionRef};
