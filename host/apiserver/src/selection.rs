//! The objects of a kind that a request selects: a namespace, a label selector, a field selector.

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

use informant_object::{FieldSelector, LabelSelector};

use crate::history::Objects;
use crate::kinds::Kind;
use crate::query::ListOptions;
use crate::shard_selector::ShardSelector;
use crate::status::Status;
use crate::stored::Stored;

/// The character after `/` in ASCII: the end of all keys of a namespace.
const AFTER_SLASH: char = '0';

#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// Empty: all, or a kind that has none.
    namespace: String,
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
    shards: Option<ShardSelector>,
}

impl Selection {
    /// Everything in one namespace; the empty name means all namespaces.
    pub(crate) fn in_namespace(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            labels: None,
            fields: None,
            shards: None,
        }
    }

    pub(crate) fn read(kind: &Kind, namespace: &str, options: &ListOptions) -> Result<Self, Status> {
        let mut selection = Self::in_namespace(namespace);
        if !options.label_selector.trim().is_empty() {
            let selector = LabelSelector::parse(&options.label_selector);
            let selector =
                selector.map_err(|error| Status::bad_request(format!("unable to parse requirement: {error}")))?;
            selection.labels = Some(selector).filter(|selector| !selector.is_everything());
        }
        if !options.field_selector.trim().is_empty() {
            let selector = FieldSelector::parse(&options.field_selector);
            let selector = selector.map_err(|error| Status::bad_request(error.to_string()))?;
            check_fields(kind, &selector)?;
            selection.fields = Some(selector);
        }
        Ok(selection)
    }

    /// Only the objects of some shards; all of them if the selector is empty.
    pub(crate) fn in_shards(mut self, selector: &str) -> Result<Self, Status> {
        if !selector.is_empty() {
            self.shards = Some(ShardSelector::parse(selector)?);
        }
        Ok(self)
    }

    /// The shards, if they were selected.
    pub(crate) fn shards(&self) -> Option<&ShardSelector> {
        self.shards.as_ref()
    }

    /// Whether there is a selector, so that the remaining items of a list cannot be counted without matching.
    pub(crate) fn has_selectors(&self) -> bool {
        self.labels.is_some() || self.fields.is_some() || self.shards.is_some()
    }

    pub(crate) fn matches(&self, kind: &Kind, object: &Stored) -> bool {
        (self.namespace.is_empty() || self.namespace == *object.namespace)
            && self
                .labels
                .as_ref()
                .is_none_or(|labels| labels.matches_with(|key| object.label(key).map(Cow::Borrowed)))
            && self
                .fields
                .as_ref()
                .is_none_or(|fields| fields.matches_with(|path| object.field(kind, path)))
            && self.shards.as_ref().is_none_or(|shards| shards.matches(object))
    }

    /// The objects of the namespace, in order, ignoring the selectors.
    pub(crate) fn range<'a>(&self, objects: &'a Objects) -> impl Iterator<Item = &'a Arc<Stored>> + use<'a> {
        self.range_from(objects, "")
    }

    /// The objects of the namespace from key `start` on.
    pub(crate) fn range_from<'a>(
        &self,
        objects: &'a Objects,
        start: &str,
    ) -> impl Iterator<Item = &'a Arc<Stored>> + use<'a> {
        let first = format!("{}/", self.namespace);
        let end = format!("{}{AFTER_SLASH}", self.namespace);
        let bounds: (Bound<&str>, Bound<&str>) = if self.namespace.is_empty() {
            (Bound::Included(start), Bound::Unbounded)
        } else {
            (
                Bound::Included(first.as_str().max(start).min(&end)),
                Bound::Excluded(&end),
            )
        };
        objects.range::<_, str>(bounds).map(|(_, object)| object)
    }
}

/// Refuses fields that kube-apiserver has no index or accessor for, with its messages.
fn check_fields(kind: &Kind, selector: &FieldSelector) -> Result<(), Status> {
    let known = |path: &str| {
        matches!(path, "metadata.name" | "metadata.namespace") || kind.fields.iter().any(|field| field == path)
    };
    match selector.fields().find(|path| !known(path)) {
        None => Ok(()),
        Some(path) if kind.fields.is_empty() && kind.custom_version.is_none() => Err(Status::bad_request(format!(
            "{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ))),
        Some(path) if kind.kind == "Job" => Err(Status::bad_request(format!(
            "field label {path:?} not supported for Job"
        ))),
        Some(path) => Err(Status::bad_request(format!("field label not supported: {path}"))),
    }
}
