//! Which right each route of the admin API needs, in the terms of Kubernetes' RBAC.

use std::fmt;

use axum::extract::Request;
use http::Method;
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec};

use crate::admin::error::{AdminError, Code, MissingRight};

/// The API group of what only Informant has. No API server serves it, but RBAC rules can name it.
const OWN_GROUP: &str = "informant.dev";

/// The longest name of an object: 253 bytes, as in Kubernetes.
const NAME_BYTES_MAX: usize = 253;

/// A right, as in a SubjectAccessReview.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::admin) enum Right {
    /// To do something with a resource.
    Resource {
        verb: &'static str,
        /// Empty for the core group.
        group: String,
        resource: String,
        /// Empty for none.
        subresource: &'static str,
        /// Empty for all namespaces, or a cluster-scoped resource.
        namespace: String,
        /// Empty for all.
        name: String,
    },
    /// To `get` a path.
    Path(&'static str),
}

/// What a route requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Requirement {
    Right(Right),
    /// Rights on the requested objects, which its handler checks.
    OfObjects,
    /// It answers `not found`.
    Nothing,
    /// No caller may use it.
    Never,
}

impl Right {
    /// To read what only Informant has.
    pub(in crate::admin) fn own(verb: &'static str, resource: &str, name: &str) -> Self {
        Self::Resource {
            verb,
            group: OWN_GROUP.to_owned(),
            resource: resource.to_owned(),
            subresource: "",
            namespace: String::new(),
            name: name.to_owned(),
        }
    }

    fn action(resource: &str, action: &'static str, name: &str) -> Self {
        let mut right = Self::own("update", resource, name);
        if let Self::Resource { subresource, .. } = &mut right {
            *subresource = action;
        }
        right
    }

    /// The question whether a user has the right.
    pub(super) fn question(&self) -> SubjectAccessReviewSpec {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        match self {
            Self::Resource {
                verb,
                group,
                resource,
                subresource,
                namespace,
                name,
            } => SubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: some(verb),
                    group: some(group),
                    resource: some(resource),
                    subresource: some(subresource),
                    namespace: some(namespace),
                    name: some(name),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            Self::Path(path) => SubjectAccessReviewSpec {
                non_resource_attributes: Some(NonResourceAttributes {
                    path: some(path),
                    verb: some("get"),
                }),
                ..SubjectAccessReviewSpec::default()
            },
        }
    }
}

impl Right {
    /// # Errors
    /// If a name is longer than any in Kubernetes: the API server is not asked about it.
    pub(super) fn check_names(&self) -> Result<(), AdminError> {
        let Self::Resource { namespace, name, .. } = self else {
            return Ok(());
        };
        if namespace.len().max(name.len()) <= NAME_BYTES_MAX {
            return Ok(());
        }
        let message = format!("a name in the request is longer than {NAME_BYTES_MAX} bytes");
        Err(AdminError::new(Code::Invalid, message))
    }

    /// For programs, in an error.
    pub(super) fn missing(&self) -> MissingRight {
        match self.clone() {
            Self::Path(path) => MissingRight {
                verb: "get".to_owned(),
                resource: path.to_owned(),
                ..MissingRight::default()
            },
            Self::Resource {
                verb,
                group,
                resource,
                subresource,
                namespace,
                name,
            } => MissingRight {
                verb: verb.to_owned(),
                group,
                resource,
                subresource: subresource.to_owned(),
                namespace,
                name,
            },
        }
    }
}

impl fmt::Display for Right {
    /// As in kube-apiserver's messages: `list resource "pods" in API group "" in the namespace "web"`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, group, resource, subresource, namespace, name) = match self {
            Self::Path(path) => return write!(out, "get path \"{path}\""),
            Self::Resource {
                verb,
                group,
                resource,
                subresource,
                namespace,
                name,
            } => (verb, group, resource, subresource, namespace, name),
        };
        write!(out, "{verb} resource \"{resource}")?;
        if !subresource.is_empty() {
            write!(out, "/{subresource}")?;
        }
        write!(out, "\" in API group \"{group}\"")?;
        match namespace.as_str() {
            "" => write!(out, " at the cluster scope")?,
            namespace => write!(out, " in the namespace \"{namespace}\"")?,
        }
        match name.as_str() {
            "" => Ok(()),
            name => write!(out, ", name \"{name}\""),
        }
    }
}

/// Whether everybody may send the request: a probe without details.
pub(super) fn is_probe(request: &Request) -> bool {
    let (method, uri) = (request.method(), request.uri());
    matches!(*method, Method::GET | Method::HEAD)
        && uri.query().is_none()
        && matches!(uri.path(), "/livez" | "/readyz" | "/healthz")
}

/// What a request to the route at `path` requires; `parameter` is the name in the path.
pub(super) fn required(method: &Method, path: Option<&str>, parameter: &str) -> Requirement {
    let Some(path) = path else {
        return Requirement::Nothing;
    };
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let right = match (path, reads) {
        ("/livez" | "/healthz", true) => Right::Path("/livez"),
        ("/readyz", true) => Right::Path("/readyz"),
        ("/metrics", true) => Right::Path("/metrics"),
        ("/api/v1/get/{*resource}", true) => return Requirement::OfObjects,
        ("/api/v1/sources", true) => Right::own("list", "sources", ""),
        ("/api/v1/sources/{id}", true) => Right::own("get", "sources", parameter),
        ("/api/v1/plugins", true) => Right::own("list", "plugins", ""),
        ("/api/v1/plugins/{name}/effects", true) => Right::own("get", "effects", parameter),
        ("/api/v1/dead-letters" | "/api/v1/retries", true) => Right::own("list", "deadletters", ""),
        ("/api/v1/configuration", true) => Right::own("get", "configurations", ""),
        _ if *method != Method::POST => return Requirement::Never,
        ("/api/v1/plugins/{name}/pause", _) => Right::action("plugins", "pause", parameter),
        ("/api/v1/plugins/{name}/resume", _) => Right::action("plugins", "resume", parameter),
        ("/api/v1/plugins/{name}/requeue", _) => Right::action("plugins", "requeue", parameter),
        ("/api/v1/plugins/{name}/trigger", _) => Right::action("plugins", "trigger", parameter),
        ("/api/v1/loglevel", _) => Right::action("configurations", "loglevel", ""),
        _ => return Requirement::Never,
    };
    Requirement::Right(right)
}
