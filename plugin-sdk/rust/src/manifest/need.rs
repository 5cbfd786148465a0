//! What a plugin has to be granted.

use serde::Serialize;

/// What may be done with objects on the cluster, in RBAC's words.
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

/// Something that a plugin cannot do without. Informant refuses to load it where config.toml does not grant that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// To act on the cluster.
    Kube(KubeNeed),
}

/// To act on the cluster: verbs × resource. In which namespaces, and on objects of which names, is left to whoever
/// grants it, unless it is said here.
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
    /// To do this with objects of this resource, written as in config.toml: `v1/pods`, `apps/v1/deployments`.
    pub fn kube(verbs: impl IntoIterator<Item = Verb>, resource: impl Into<String>) -> KubeNeed {
        KubeNeed {
            verbs: verbs.into_iter().collect(),
            resource: resource.into(),
            namespaces: Vec::new(),
            names: Vec::new(),
            subresources: Vec::new(),
        }
    }
}

impl KubeNeed {
    /// In this namespace, and in the others that are named.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// With the object of this name, and of the others that are named.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// With this subresource and not the object itself; and with the others that are named.
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
