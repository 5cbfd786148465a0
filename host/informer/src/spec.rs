//! The specification of a source: [`SourceSpec`].

use std::time::Duration;

use informant_cache::ShardFilter;
use informant_object::{FieldSelector, LabelSelector, Pointer, PointerError, Shape};

use informant_spec::GroupVersionResource;

/// One source: one resource of one cluster, in one namespace or all, watched for one informer.
///
/// Several sources may have the same informer name; queries by that name return their union.
#[derive(Debug, Clone)]
pub struct SourceSpec {
    /// The informer's name, as in `[informer.pods]`.
    pub informer: String,
    /// The cluster's name, as in `[cluster.east]`; empty if there is only one.
    pub cluster: String,
    /// What is listed and watched.
    pub resource: GroupVersionResource,
    /// The objects' `kind`, from discovery; items of lists do not contain it.
    pub kind: String,
    /// Whether it is one of the kinds that a resource pattern (`*`, `apps/v1/*`) matches. Lookups leave out such a
    /// kind while it cannot be read: see [`Source::is_left_out`](informant_cache::Source::is_left_out).
    pub of_pattern: bool,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// The namespace; `None` for all of them, or for a cluster-scoped resource.
    pub namespace: Option<String>,
    /// Labels that objects must have; selected by the API server.
    pub label_selector: Option<LabelSelector>,
    /// Fields that objects must have; selected by the API server, which defines the supported fields.
    pub field_selector: Option<FieldSelector>,
    /// The shards whose objects are read, if several processes divide the work; `None` for all. Objects of others are
    /// left out before they are parsed.
    pub shards: Option<ShardFilter>,
    /// What is removed from each object before it is stored.
    pub drop: Vec<Pointer>,
    /// What becomes a hash in each object before it is stored.
    pub digest: Vec<Pointer>,
    /// Whether to keep `metadata.managedFields`, which is a third to a half of most objects and useless to handlers.
    pub keep_managed_fields: bool,
    /// Whether to request and keep only the metadata of objects (`PartialObjectMetadata`).
    pub metadata_only: bool,
    /// Native indexes: name, and the pointer to the values in an object.
    pub indexes: Vec<(String, Pointer)>,
    /// Whether a relist also notifies handlers of unchanged objects, as updates with equal states, as client-go does.
    pub relist_notify_unchanged: bool,
    /// How often handlers without a period of their own receive a resync; `None` is never.
    pub resync: Option<Duration>,
}

impl SourceSpec {
    /// A source of all objects of `resource`, in all namespaces, without `managedFields`, for the informer `informer`.
    pub fn new(informer: impl Into<String>, resource: GroupVersionResource, kind: impl Into<String>) -> Self {
        Self {
            informer: informer.into(),
            cluster: String::new(),
            resource,
            kind: kind.into(),
            of_pattern: false,
            namespaced: true,
            namespace: None,
            label_selector: None,
            field_selector: None,
            shards: None,
            drop: Vec::new(),
            digest: Vec::new(),
            keep_managed_fields: false,
            metadata_only: false,
            indexes: Vec::new(),
            relist_notify_unchanged: false,
            resync: None,
        }
    }

    /// Whether both store objects in the same shape.
    pub(crate) fn keeps_same_shape(&self, other: &Self) -> bool {
        let kept = |spec: &Self| (spec.keep_managed_fields, spec.metadata_only);
        (&self.drop, &self.digest, kept(self)) == (&other.drop, &other.digest, kept(other))
    }

    /// What parsing adds to and removes from an object of this source.
    pub(crate) fn shape(&self) -> Result<Shape, PointerError> {
        let shape = Shape::new(
            self.resource.api_version(),
            self.kind.clone(),
            self.drop.clone(),
            self.keep_managed_fields,
        )?
        .with_digest(self.digest.clone())?;
        Ok(if self.metadata_only {
            shape.metadata_only()
        } else {
            shape
        })
    }

    pub(crate) fn path(&self) -> String {
        self.resource.path(self.namespace.as_deref())
    }
}
