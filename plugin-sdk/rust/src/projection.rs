//! What a type reads of an object, from the type itself.

use std::any::type_name;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use serde_json::Value;

use crate::manifest::PayloadKind;
use crate::payload::{Payload, Raw};

/// The kind of the objects that a type is decoded from. `#[derive(Projection)]` implements it for a type with
/// `#[projection(api_version = "v1", kind = "Pod")]`.
#[diagnostic::on_unimplemented(
    message = "Informant does not know which objects `{Self}` stands for",
    note = "derive Projection, and add `#[projection(api_version = \"v1\", kind = \"Pod\")]` to `{Self}`",
    note = "with #[handler], `#[informant::handler(api_version = \"v1\", kind = \"Pod\")]` works for any type, too"
)]
pub trait Kind: Payload {
    /// `v1`, `apps/v1`; `*` for any.
    const API_VERSION: &'static str;
    /// `Pod`; `*` for any.
    const KIND: &'static str;

    /// How much of an object the type reads. By default all.
    fn payload() -> PayloadKind {
        PayloadKind::Whole
    }
}

/// Any object, whole.
impl Kind for Value {
    const API_VERSION: &'static str = "*";
    const KIND: &'static str = "*";
}

/// Any object, whole.
impl Kind for Raw {
    const API_VERSION: &'static str = "*";
    const KIND: &'static str = "*";
}

/// Any object, without a document.
impl Kind for () {
    const API_VERSION: &'static str = "*";
    const KIND: &'static str = "*";

    fn payload() -> PayloadKind {
        PayloadKind::None
    }
}

/// The JSON pointers of what a type reads. Derive it, for a type and the types of its fields:
///
/// ```
/// # use informant_plugin_sdk::prelude::*;
/// # use serde::Deserialize;
/// #[derive(Deserialize, Projection)]
/// #[projection(api_version = "v1", kind = "Pod")]
/// #[serde(rename_all = "camelCase")]
/// struct Pod {
///     #[serde(default)]
///     status: Status,
/// }
///
/// #[derive(Deserialize, Projection, Default)]
/// #[serde(rename_all = "camelCase", default)]
/// struct Status {
///     phase: String,
///     container_statuses: Vec<Container>,
/// }
///
/// #[derive(Deserialize, Projection)]
/// #[serde(rename_all = "camelCase")]
/// struct Container {
///     restart_count: u32,
/// }
///
/// assert_eq!(Pod::pointers(), ["/status/phase", "/status/containerStatuses/*/restartCount"]);
/// let rule = Events::of("v1", "Pod").fields(Pod::pointers());
/// assert_eq!(Events::of_type::<Pod>(), rule);
/// ```
///
/// The derive follows serde's attributes that name and leave out fields. It refuses those with which the document has
/// another shape than the type:
///
/// ```compile_fail
/// # use informant_plugin_sdk::prelude::*;
/// # use serde::Deserialize;
/// # #[derive(Deserialize, Projection)]
/// # struct Metadata { name: String }
/// #[derive(Deserialize, Projection)]
/// struct Pod {
///     #[serde(flatten)]
///     metadata: Metadata,
/// }
/// ```
///
/// A field with `deserialize_with` or `with`, and one with `#[projection(whole)]`, is read whole. The latter is for
/// types that do not implement the trait, for example those of k8s-openapi. An enum is always read whole.
///
/// A type that contains itself has no end of fields: `pointers` panics, until one of the fields that lead back to the
/// type has `#[projection(whole)]`.
#[diagnostic::on_unimplemented(
    message = "Informant does not know which fields `{Self}` reads",
    note = "derive Projection for `{Self}`, or add `#[projection(whole)]` to the field"
)]
pub trait Projection {
    /// The pointers, relative to a value of this type. An empty pointer is the whole value.
    fn pointers() -> Vec<String>;
}

impl PayloadKind {
    /// What `T` reads.
    pub fn of<T: Projection>() -> Self {
        let pointers = T::pointers();
        if pointers.iter().any(String::is_empty) {
            return Self::Whole;
        }
        Self::Fields(pointers)
    }
}

/// Deeper pointers are those of a type that contains itself, in members.
const DEPTH_MAX: usize = 64;

/// The pointers of a member or, with `*`, of each element.
///
/// # Panics
/// At `DEPTH_MAX`, instead of running out of stack.
pub fn below<T: Projection>(token: &str) -> impl Iterator<Item = String> {
    thread_local!(static DEPTH: Cell<usize> = const { Cell::new(0) });
    let depth = DEPTH.get();
    // If it panics, the thread may yet have other tests.
    DEPTH.set(if depth == DEPTH_MAX { 0 } else { depth + 1 });
    assert!(
        depth < DEPTH_MAX,
        "the fields of `{}` have no end, because it contains itself: add #[projection(whole)] to a field that leads back to it",
        type_name::<T>()
    );
    let pointers = T::pointers().into_iter();
    DEPTH.set(depth);
    pointers.map(move |pointer| format!("/{token}{pointer}"))
}

/// A list or map of `T`. All of it, if `T` is read whole.
fn each<T: Projection>() -> Vec<String> {
    let pointers = T::pointers();
    if pointers.iter().any(String::is_empty) {
        return vec![String::new()];
    }
    below::<T>("*").collect()
}

macro_rules! whole {
    ($($type:ty)+) => {
        $(
            impl Projection for $type {
                fn pointers() -> Vec<String> {
                    vec![String::new()]
                }
            }
        )+
    };
}

whole!(() bool char f32 f64 i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize String Box<str> Value);

macro_rules! like {
    ($($type:ident)+) => {
        $(
            impl<T: Projection> Projection for $type<T> {
                fn pointers() -> Vec<String> {
                    T::pointers()
                }
            }
        )+
    };
}

like!(Option Box);

impl<T: Projection> Projection for Vec<T> {
    fn pointers() -> Vec<String> {
        each::<T>()
    }
}

impl<T: Projection + Ord> Projection for BTreeSet<T> {
    fn pointers() -> Vec<String> {
        each::<T>()
    }
}

impl<T: Projection + Hash + Eq, S: BuildHasher> Projection for HashSet<T, S> {
    fn pointers() -> Vec<String> {
        each::<T>()
    }
}

impl<K: Ord, T: Projection> Projection for BTreeMap<K, T> {
    fn pointers() -> Vec<String> {
        each::<T>()
    }
}

impl<K: Hash + Eq, T: Projection, S: BuildHasher> Projection for HashMap<K, T, S> {
    fn pointers() -> Vec<String> {
        each::<T>()
    }
}
