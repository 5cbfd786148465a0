//! Kubernetes objects as Informant stores them: JSON bytes with a small head.
//!
//! ```text
//! frames ──▶ LineSplitter, ListSplitter ──▶ one object's bytes ──Object::parse (one scan, one copy)──▶ Object
//!                                                                                                       │
//!                                        key, uid, version · pointers · projections · label and field selectors
//! ```
//!
//! This crate owns objects and their keys, resource versions, the scanner, pointers and projections, selectors, and the
//! splitting of API server responses into objects. Guarantees:
//!
//! - No input makes it panic or use unbounded memory.
//! - An object costs one scan and one allocation.
//! - Results equal those of a parse of the whole text (property-tested against serde_json). If a name occurs twice in
//!   one object, which no API server sends, each item documents which occurrence counts.
//!
//! It does no I/O, reads no clock, and knows no resource type.
//!
//! Its modules, lowest layer first; none imports from a layer above its own:
//!
//! ```layers
//! allocation digest error key pointer version
//! scanner
//! paths values
//! shape cut
//! head
//! object projection
//! frames selector
//! ```

mod allocation;
mod cut;
mod digest;
mod error;
pub mod frames;
mod head;
mod key;
mod object;
mod paths;
mod pointer;
mod projection;
mod scanner;
mod selector;
mod shape;
mod values;
mod version;

pub use allocation::allocation_bytes;
pub use error::{FoundByte, HEAD_FIELD_BYTES_MAX, KINDS_DEPTH_MAX, OBJECT_BYTES_MAX, ObjectError};
pub use head::{ObjectHead, first_head, head};
pub use key::{AsKey, Key, KeyError, KeyRef, SourceId};
pub use object::{ByKey, HEAD_ANNOTATIONS_BYTES_MAX, Labels, Object, SCRATCH_BYTES_MAX};
pub use pointer::{POINTER_TOKENS_MAX, Pointer, PointerError, PointerToken};
pub use projection::{Payload, Projection};
pub use selector::{FieldSelector, LabelSelector, SelectorError};
pub use shape::{Shape, TypeMeta};
pub use version::{ResourceVersion, VersionRef};
