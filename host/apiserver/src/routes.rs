//! Routing: from a method and a path to the requested resource.
//!
//! Source: apiserver `pkg/endpoints/request/requestinfo.go`.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::query::Query;

/// The user name of all clients: this server has no authentication.
pub(crate) const USER: &str = "informant";

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/api`, `/apis`: the groups.
    Groups {
        core: bool,
    },
    /// `/apis/apps`
    Group(String),
    /// `/api/v1`, `/apis/apps/v1`
    GroupVersion(String, String),
    Version,
    Health,
    OpenApiV2,
    /// `/openapi/v3`: the groups and versions that have a document.
    OpenApiV3Root,
    OpenApiV3(String, String),
    Faults,
    Resource(Resource),
    Nothing,
}

/// A path below a group's version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: String,
    /// Empty for a collection.
    pub(crate) name: String,
    pub(crate) subresource: String,
}

/// The attributes of a request, in Kubernetes' terms. Paths that are not resources have only a verb, in lower case
/// (`get`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Who sends it or, for an access review, who it is about.
    pub(crate) user: String,
}

pub(crate) fn route(path: &str) -> Route {
    let segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
        .collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["api"] => Route::Groups { core: true },
        ["apis"] => Route::Groups { core: false },
        ["api", version] => Route::GroupVersion(String::new(), (*version).to_owned()),
        ["apis", group] => Route::Group((*group).to_owned()),
        ["apis", group, version] => Route::GroupVersion((*group).to_owned(), (*version).to_owned()),
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        ["version"] => Route::Version,
        ["healthz" | "livez" | "readyz", ..] => Route::Health,
        ["openapi", "v2"] => Route::OpenApiV2,
        ["openapi", "v3"] => Route::OpenApiV3Root,
        ["openapi", "v3", "api", version] => Route::OpenApiV3(String::new(), (*version).to_owned()),
        ["openapi", "v3", "apis", group, version] => Route::OpenApiV3((*group).to_owned(), (*version).to_owned()),
        ["informant", "faults"] => Route::Faults,
        _ => Route::Nothing,
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Route {
    // A namespace is a resource, but the part after its name is another one, except for its own subresources.
    let (namespace, rest) = match rest {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        _ => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, subresource] => (*plural, *name, *subresource),
        _ => return Route::Nothing,
    };
    Route::Resource(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
    })
}

/// The attributes of a request, for rules, records and 403s.
pub(crate) fn attributes(method: &Method, route: &Route, query: &Query) -> Attributes {
    let Route::Resource(resource) = route else {
        return Attributes {
            verb: method_name(method),
            user: USER.to_owned(),
            ..Attributes::default()
        };
    };
    let collection = resource.name.is_empty();
    let verb = match *method {
        Method::GET if collection && query.flag("watch") => "watch",
        Method::GET if collection => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if collection => "deletecollection",
        _ => method_name(method),
    };
    Attributes {
        verb,
        group: resource.group.clone(),
        resource: resource.plural.clone(),
        subresource: resource.subresource.clone(),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        user: USER.to_owned(),
    }
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, group: &str, namespace: &str, rest: [&str; 3]) {
        let Route::Resource(found) = route(path) else {
            panic!("{path} leads to no resource")
        };
        assert_eq!(
            (found.group.as_str(), found.namespace.as_str()),
            (group, namespace),
            "{path}"
        );
        assert_eq!(
            [found.plural.as_str(), found.name.as_str(), found.subresource.as_str()],
            rest,
            "{path}"
        );
    }

    #[test]
    fn paths_lead_to_resources_as_in_kubernetes() {
        check("/api/v1/pods", "", "", ["pods", "", ""]);
        check("/api/v1/namespaces", "", "", ["namespaces", "", ""]);
        check("/api/v1/namespaces/a", "", "", ["namespaces", "a", ""]);
        check("/api/v1/namespaces/a/status", "", "", ["namespaces", "a", "status"]);
        check("/api/v1/namespaces/a/pods", "", "a", ["pods", "", ""]);
        check("/api/v1/namespaces/a/pods/b/status", "", "a", ["pods", "b", "status"]);
        check(
            "/apis/apps/v1/namespaces/a/deployments/b",
            "apps",
            "a",
            ["deployments", "b", ""],
        );
        check(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "rbac.authorization.k8s.io",
            "",
            ["clusterroles", "system:node", ""],
        );
        assert_eq!(route("/api/v1/namespaces/a/pods/b/c/d"), Route::Nothing);
        assert_eq!(route("/"), Route::Nothing);
    }
}
