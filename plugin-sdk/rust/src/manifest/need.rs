//! The permissions that a plugin requires.

use serde::Serialize;

/// A verb of a Kubernetes API call, as in RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// [`kube::get`](crate::kube::get)
    Get,
    /// [`kube::list`](crate::kube::list)
    List,
    /// [`kube::create`](crate::kube::create)
    Create,
    /// [`kube::update`](crate::kube::update)
    Update,
    /// [`kube::patch`](crate::kube::patch)
    Patch,
    /// [`kube::delete`](crate::kube::delete)
    Delete,
}

/// A permission that a plugin requires. Informant refuses to load the plugin if config.toml does not grant it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// Calls to the Kubernetes API server.
    Kube(KubeNeed),
    /// Kubernetes Events: `allow.events = true`.
    Events {},
}

/// Verbs on a resource of the Kubernetes API. Without namespaces and names here, config.toml decides to which
/// namespaces and names the grant applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KubeNeed {
    verbs: Vec<Verb>,
    resource: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<String>,
}

impl Need {
    /// Requires these verbs on a resource, written as in config.toml: `v1/pods`, `apps/v1/deployments`.
    pub fn kube(verbs: impl IntoIterator<Item = Verb>, resource: impl Into<String>) -> KubeNeed {
        KubeNeed {
            verbs: verbs.into_iter().collect(),
            resource: resource.into(),
            namespaces: Vec::new(),
            names: Vec::new(),
            subresources: Vec::new(),
        }
    }

    /// Requires `allow.events = true`: for a plugin that must not run without its [`recorder`](crate::recorder).
    pub fn events() -> Need {
        Need::Events {}
    }
}

impl KubeNeed {
    /// Requires the grant in this namespace. Call it again for more namespaces.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// Requires the grant for the object with this name. Call it again for more names.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Requires the grant for this subresource instead of the object itself. Call it again for more subresources.
    #[must_use]
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresources.push(subresource.into());
        self
    }
}

impl From<KubeNeed> for Need {
    fn from(need: KubeNeed) -> Self {
        Self::Kube(need)
    }
}
