//! Which requests and watches a fault applies to.

use serde::{Deserialize, Serialize};

use crate::routes::Attributes;

/// Selects requests: a field that is `None` matches all.
///
/// ```
/// use informant_apiserver::Filter;
/// let lists_of_pods = Filter::any().verb("list").resource("pods");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// The API group; the core group is the empty string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The plural, `pods`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The namespace in the path; the empty string is "all namespaces" or a cluster-wide resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The object's name in the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user that an access review is about. All requests themselves have the same user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

impl Filter {
    /// Matches everything.
    pub fn any() -> Self {
        Self::default()
    }

    /// Only this verb.
    pub fn verb(mut self, verb: &str) -> Self {
        self.verb = Some(verb.to_owned());
        self
    }

    /// Only this API group.
    pub fn group(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }

    /// Only this resource, by its plural.
    pub fn resource(mut self, plural: &str) -> Self {
        self.resource = Some(plural.to_owned());
        self
    }

    /// Only this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only this object.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only this user.
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    pub(crate) fn matches(&self, attributes: &Attributes) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.verb, attributes.verb)
            && is(&self.group, &attributes.group)
            && is(&self.resource, &attributes.resource)
            && is(&self.namespace, &attributes.namespace)
            && is(&self.name, &attributes.name)
            && is(&self.user, &attributes.user)
    }
}
