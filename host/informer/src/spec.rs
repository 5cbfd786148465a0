//! What a source is made of: [`SourceSpec`].

use std::time::Duration;

use informant_object::{FieldSelector, LabelSelector, Pointer, PointerError, Shape};

use crate::resource::GroupVersionResource;

/// One source: one resource of one cluster, in one namespace or all, watched for one informer.
///
/// Several sources may carry the same informer name; queries by that name are unions over them.
#[derive(Debug, Clone)]
pub struct SourceSpec {
    /// The informer's name, as in `[informer.pods]`.
    pub informer: String,
    /// The cluster's name, as in `[cluster.east]`; empty where there is only one.
    pub cluster: String,
    /// What is listed and watched.
    pub resource: GroupVersionResource,
    /// What the objects say as their `kind`, from discovery; items of lists come without.
    pub kind: String,
    /// Whether objects of this resource live in namespaces.
    pub namespaced: bool,
    /// The namespace to stay within; `None` is all of them, or a resource without namespaces.
    pub namespace: Option<String>,
    /// Which labels objects must have. The API server selects.
    pub label_selector: Option<LabelSelector>,
    /// Which fields objects must have. The API server selects, and says which fields it can.
    pub field_selector: Option<FieldSelector>,
    /// What is cut from each object before it is kept.
    pub drop: Vec<Pointer>,
    /// Whether `metadata.managedFields` is kept; it is a third to a half of most objects and of no use to handlers.
    pub keep_managed_fields: bool,
    /// Whether only the metadata of objects is asked for and kept (`PartialObjectMetadata`).
    pub metadata_only: bool,
    /// Native indexes: name, and where an object holds its values.
    pub indexes: Vec<(String, Pointer)>,
    /// Whether a relist tells handlers of objects that did not change too, as updates from themselves to themselves, as
    /// client-go does.
    pub relist_notify_unchanged: bool,
    /// How often handlers that name no period of their own are shown everything again; `None` is never.
    pub resync: Option<Duration>,
}

impl SourceSpec {
    /// A source of all objects of `resource`, in all namespaces, whole but for `managedFields`, for the informer
    /// `informer`.
    pub fn new(informer: impl Into<String>, resource: GroupVersionResource, kind: impl Into<String>) -> Self {
        Self {
            informer: informer.into(),
            cluster: String::new(),
            resource,
            kind: kind.into(),
            namespaced: true,
            namespace: None,
            label_selector: None,
            field_selector: None,
            drop: Vec::new(),
            keep_managed_fields: false,
            metadata_only: false,
            indexes: Vec::new(),
            relist_notify_unchanged: false,
            resync: None,
        }
    }

    /// Whether objects are kept in the same form.
    pub(crate) fn keeps_same_shape(&self, other: &Self) -> bool {
        let kept = |spec: &Self| (spec.drop.clone(), spec.keep_managed_fields, spec.metadata_only);
        kept(self) == kept(other)
    }

    /// What parsing an object of this source adds and cuts.
    pub(crate) fn shape(&self) -> Result<Shape, PointerError> {
        let shape = Shape::new(
            self.resource.api_version(),
            self.kind.clone(),
            self.drop.clone(),
            self.keep_managed_fields,
        )?;
        Ok(if self.metadata_only {
            shape.metadata_only()
        } else {
            shape
        })
    }

    /// The path of the collection that this source lists and watches.
    pub(crate) fn path(&self) -> String {
        self.resource.path(self.namespace.as_deref())
    }
}
