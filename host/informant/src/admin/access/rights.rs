//! Which right each route of the admin API needs, in the terms of Kubernetes' RBAC.

use std::fmt;

use axum::extract::Request;
use http::Method;
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec};

use crate::admin::error::{AdminError, Code, ResourceRight};

/// The API group of what only Informant has. No API server serves it, but RBAC rules can name it.
const OWN_GROUP: &str = "informant.dev";

/// The longest name of an object: 253 bytes, as in Kubernetes.
const NAME_BYTES_MAX: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::admin) enum Right {
    Resource(ResourceRight),
    Path(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Requirement {
    Right(Right),
    /// Rights on the requested objects, which its handler checks.
    OfObjects,
    /// The rights of what is streamed, which its handler checks.
    OfTopics,
    Nothing,
    /// No caller may use it.
    Never,
}

impl Right {
    /// To read what only Informant has.
    pub(in crate::admin) fn own(verb: &str, resource: &str, name: &str) -> Self {
        Self::Resource(own(verb, resource, name))
    }

    /// The parts of such a right.
    pub(in crate::admin) fn of_own(verb: &str, resource: &str, name: &str) -> ResourceRight {
        own(verb, resource, name)
    }

    fn action(resource: &str, action: &str, name: &str) -> Self {
        Self::Resource(ResourceRight {
            subresource: action.to_owned(),
            ..own("update", resource, name)
        })
    }

    pub(super) fn question(&self) -> SubjectAccessReviewSpec {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        match self {
            Self::Resource(right) => SubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: some(&right.verb),
                    group: some(&right.group),
                    resource: some(&right.resource),
                    subresource: some(&right.subresource),
                    namespace: some(&right.namespace),
                    name: some(&right.name),
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
    /// Errors: if a name is longer than any in Kubernetes: the API server is not asked about it.
    pub(super) fn check_names(&self) -> Result<(), AdminError> {
        let Self::Resource(right) = self else {
            return Ok(());
        };
        if right.namespace.len().max(right.name.len()) <= NAME_BYTES_MAX {
            return Ok(());
        }
        let message = format!("a name in the request is longer than {NAME_BYTES_MAX} bytes");
        Err(AdminError::new(Code::Invalid, message))
    }

    /// For programs, in an error. A path is shown as a resource.
    pub(super) fn missing(&self) -> ResourceRight {
        match self {
            Self::Resource(right) => right.clone(),
            Self::Path(path) => ResourceRight {
                verb: "get".to_owned(),
                resource: (*path).to_owned(),
                ..ResourceRight::default()
            },
        }
    }
}

fn own(verb: &str, resource: &str, name: &str) -> ResourceRight {
    ResourceRight {
        verb: verb.to_owned(),
        group: OWN_GROUP.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..ResourceRight::default()
    }
}

impl fmt::Display for Right {
    /// As in kube-apiserver's messages: `list resource "pods" in API group "" in the namespace "web"`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = match self {
            Self::Path(path) => return write!(out, "get path \"{path}\""),
            Self::Resource(right) => right,
        };
        write!(out, "{} resource \"{}", right.verb, right.resource)?;
        if !right.subresource.is_empty() {
            write!(out, "/{}", right.subresource)?;
        }
        write!(out, "\" in API group \"{}\"", right.group)?;
        match right.namespace.as_str() {
            "" => write!(out, " at the cluster scope")?,
            namespace => write!(out, " in the namespace \"{namespace}\"")?,
        }
        match right.name.as_str() {
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
        (
            "/api/v1/get/{*resource}"
            | "/api/v1/why/{*resource}"
            | "/api/v1/calls/{*resource}"
            | "/api/v1/indexes/{*resource}",
            true,
        ) => return Requirement::OfObjects,
        ("/api/v1/sources", true) => Right::own("list", "sources", ""),
        ("/api/v1/sources/{id}", true) => Right::own("get", "sources", parameter),
        ("/api/v1/plugins", true) => Right::own("list", "plugins", ""),
        ("/api/v1/plugins/{name}" | "/api/v1/plugins/{name}/series", true) => Right::own("get", "plugins", parameter),
        ("/api/v1/stream", true) => return Requirement::OfTopics,
        ("/api/v1/plugins/{name}/effects" | "/api/v1/plugins/{name}/why", true) => {
            Right::own("get", "effects", parameter)
        }
        ("/api/v1/plugins/{name}/logs", true) => Right::Resource(ResourceRight {
            subresource: "logs".to_owned(),
            ..own("get", "plugins", parameter)
        }),
        ("/api/v1/dead-letters" | "/api/v1/retries", true) => Right::own("list", "deadletters", ""),
        ("/api/v1/configuration", true) => Right::own("get", "configurations", ""),
        ("/api/v1/replicas", true) => Right::own("list", "replicas", ""),
        _ if *method != Method::POST => return Requirement::Never,
        ("/api/v1/plugins/{name}/pause", _) => Right::action("plugins", "pause", parameter),
        ("/api/v1/plugins/{name}/resume", _) => Right::action("plugins", "resume", parameter),
        ("/api/v1/plugins/{name}/restart", _) => Right::action("plugins", "restart", parameter),
        ("/api/v1/plugins/{name}/requeue", _) => Right::action("plugins", "requeue", parameter),
        ("/api/v1/plugins/{name}/capture", _) => Right::action("plugins", "capture", parameter),
        ("/api/v1/plugins/{name}/trigger", _) => Right::action("plugins", "trigger", parameter),
        ("/api/v1/loglevel", _) => Right::action("configurations", "loglevel", ""),
        _ => return Requirement::Never,
    };
    Requirement::Right(right)
}
