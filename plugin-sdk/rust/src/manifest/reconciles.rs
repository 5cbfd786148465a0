//! What a plugin reconciles, and which other objects lead to it.

use std::time::Duration;

use serde::Serialize;

use super::PayloadKind;
use super::timer::text;
use crate::projection::Kind;

/// The objects that a [`Reconciler`](crate::Reconciler) receives, and the kinds whose changes lead to them, in the same
/// cluster. The plugin needs an informer for each of these kinds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reconciles {
    #[serde(rename = "for")]
    primary: Primary,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owns: Vec<Related>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    watches: Vec<Related>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_interval: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Primary {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "PayloadKind::is_default")]
    payload: PayloadKind,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    when: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    label_selector: String,
}

/// A kind whose objects lead to those that are reconciled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Related {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    when: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<By>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum By {
    Owner,
    AnyOwner,
    Namespace,
    Label(String),
    Annotation(String),
    Index(String),
}

impl Reconciles {
    /// Objects of one apiVersion (`v1`, `apps/v1`) and kind, whole.
    pub fn of(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            primary: Primary {
                api_version: api_version.into(),
                kind: kind.into(),
                payload: PayloadKind::Whole,
                when: Vec::new(),
                namespaces: Vec::new(),
                label_selector: String::new(),
            },
            owns: Vec::new(),
            watches: Vec::new(),
            min_interval: None,
        }
    }

    /// Objects of the kind of `T`, and the part of them that `T` reads.
    pub fn of_type<T: Kind>() -> Self {
        let mut this = Self::of(T::API_VERSION, T::KIND);
        this.primary.payload = T::payload();
        this
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn payload(&self) -> PayloadKind {
        self.primary.payload.clone()
    }

    /// The apiVersion and kind of those that the plugin makes.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn owned_types(&self) -> Vec<(String, String)> {
        let owned = self.owns.iter();
        owned
            .map(|rule| (rule.api_version.clone(), rule.kind.clone()))
            .collect()
    }

    /// Only the fields at these JSON pointers. See [`PayloadKind::Fields`].
    #[must_use]
    pub fn fields<P: Into<String>>(mut self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.primary.payload = PayloadKind::Fields(pointers.into_iter().map(Into::into).collect());
        self
    }

    /// A change counts only if one of these parts differs: `generation`, `labels`, or what a JSON pointer names. That
    /// an object is being deleted, and its finalizers, always count. `generation` stands for any change of an object
    /// without `metadata.generation`.
    #[must_use]
    pub fn when<P: Into<String>>(mut self, parts: impl IntoIterator<Item = P>) -> Self {
        self.primary.when = parts.into_iter().map(Into::into).collect();
        self
    }

    /// Only objects in these namespaces.
    #[must_use]
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.primary.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// Only objects that match this label selector: `app=web,tier in (a, b)`.
    #[must_use]
    pub fn label_selector(mut self, selector: impl Into<String>) -> Self {
        self.primary.label_selector = selector.into();
        self
    }

    /// The shortest time from the end of one call for an object to the start of the next, from 10 ms to 24 h.
    /// `min-interval` of the plugin's section overrides it.
    #[must_use]
    pub fn min_interval(mut self, interval: Duration) -> Self {
        self.min_interval = Some(text(interval));
        self
    }

    /// A kind that the plugin makes for them: an object leads to the owner that is its controller. See
    /// [`kube::children`](crate::kube::children).
    #[must_use]
    pub fn owns(mut self, kind: Related) -> Self {
        self.owns.push(kind);
        self
    }

    /// Another kind that leads to them, by what `kind` says.
    #[must_use]
    pub fn watches(mut self, kind: Related) -> Self {
        self.watches.push(kind);
        self
    }
}

impl Related {
    /// Objects of one apiVersion and kind.
    pub fn of(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            when: Vec::new(),
            by: None,
        }
    }

    /// As [`Reconciles::when`].
    #[must_use]
    pub fn when<P: Into<String>>(mut self, parts: impl IntoIterator<Item = P>) -> Self {
        self.when = parts.into_iter().map(Into::into).collect();
        self
    }

    /// An object leads to the owner that is its controller.
    #[must_use]
    pub fn by_owner(self) -> Self {
        self.by(By::Owner)
    }

    /// An object leads to each of its owners.
    #[must_use]
    pub fn by_any_owner(self) -> Self {
        self.by(By::AnyOwner)
    }

    /// An object leads to all in its namespace; if namespaces are reconciled, to its namespace.
    #[must_use]
    pub fn by_namespace(self) -> Self {
        self.by(By::Namespace)
    }

    /// An object leads to the one in its namespace that this label names.
    #[must_use]
    pub fn by_label(self, name: impl Into<String>) -> Self {
        self.by(By::Label(name.into()))
    }

    /// An object leads to the one that this annotation names: `name`, in its own namespace, or `namespace/name`.
    #[must_use]
    pub fn by_annotation(self, name: impl Into<String>) -> Self {
        self.by(By::Annotation(name.into()))
    }

    /// An object leads to those that this [index](super::Manifest::index) of the plugin has under its key:
    /// `namespace/name`, or `name` without a namespace.
    #[must_use]
    pub fn by_index(self, name: impl Into<String>) -> Self {
        self.by(By::Index(name.into()))
    }

    fn by(mut self, by: By) -> Self {
        self.by = Some(by);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_matches_the_contract() {
        let reconciles = Reconciles::of("example.com/v1", "Website")
            .when(["generation", "labels"])
            .owns(Related::of("apps/v1", "Deployment").when(["/status/readyReplicas"]))
            .watches(Related::of("v1", "ConfigMap").by_index("configs"))
            .watches(Related::of("v1", "LimitRange").by_namespace())
            .min_interval(Duration::from_millis(1_500));
        let expected = serde_json::json!({
            "for": { "apiVersion": "example.com/v1", "kind": "Website", "when": ["generation", "labels"] },
            "owns": [{ "apiVersion": "apps/v1", "kind": "Deployment", "when": ["/status/readyReplicas"] }],
            "watches": [
                { "apiVersion": "v1", "kind": "ConfigMap", "by": { "index": "configs" } },
                { "apiVersion": "v1", "kind": "LimitRange", "by": "namespace" },
            ],
            "minInterval": "1s 500ms",
        });
        assert_eq!(serde_json::to_value(reconciles).expect("it is JSON"), expected);
    }
}
