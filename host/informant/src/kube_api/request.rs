//! Builds the HTTP request of a call.

use form_urlencoded::Serializer;
use http::{HeaderValue, Method, Request, header};
use informant_plugin_host::{
    KubeAction, KubeAddress, KubeCall, KubeDelete, KubeError, KubeErrorCode, KubePatchKind, KubeWrite,
};
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

/// The characters to escape in a path segment: all but RFC 3986's unreserved ones.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The request of a call.
/// Errors: [`KubeErrorCode::Invalid`] if it is not a valid request.
pub(super) fn of(call: &KubeCall) -> Result<Request<Body>, KubeError> {
    let document = || call.document().into_owned();
    let (method, content_type, body) = match &call.action {
        KubeAction::Get | KubeAction::List(_) => (Method::GET, None, Vec::new()),
        KubeAction::Create(..) => (Method::POST, Some("application/json"), document()),
        KubeAction::Update(..) => (Method::PUT, Some("application/json"), document()),
        KubeAction::Patch(kind, ..) => (Method::PATCH, Some(media_type(*kind)), document()),
        KubeAction::Delete(options) => (Method::DELETE, Some("application/json"), delete_options(options)),
    };
    let agent = format!("informant/{} plugin/{}", env!("CARGO_PKG_VERSION"), call.plugin);
    let mut request = Request::builder()
        .method(method)
        .uri(uri(&call.address, &query(&call.action)))
        .header(header::ACCEPT, "application/json")
        .header(header::ACCEPT_ENCODING, "identity");
    // A plugin's name is a DNS label, so there is always one.
    if let Ok(agent) = HeaderValue::try_from(agent) {
        request = request.header(header::USER_AGENT, agent);
    }
    // Without groups, the API server adds those of a ServiceAccount.
    if let Some(user) = &call.identity {
        request = request.header("Impersonate-User", &**user);
    }
    if let Some(content_type) = content_type {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    request
        .body(Body::from(body))
        .map_err(|error| KubeError::new(KubeErrorCode::Invalid, format!("invalid request: {error}")))
}

fn media_type(kind: KubePatchKind) -> &'static str {
    match kind {
        KubePatchKind::Merge => "application/merge-patch+json",
        KubePatchKind::Json => "application/json-patch+json",
        KubePatchKind::Strategic => "application/strategic-merge-patch+json",
        // JSON is YAML, and older servers know only this media type.
        KubePatchKind::Apply => "application/apply-patch+yaml",
    }
}

fn uri(address: &KubeAddress, query: &str) -> String {
    let mut uri = address.resource.root();
    let mut push = |segments: [&str; 2]| {
        for segment in segments.into_iter().filter(|segment| !segment.is_empty()) {
            uri.push('/');
            uri.extend(utf8_percent_encode(segment, ESCAPED));
        }
    };
    if !address.namespace.is_empty() {
        push(["namespaces", &address.namespace]);
    }
    push([&address.resource.plural, &address.name]);
    push([&address.subresource, ""]);
    if !query.is_empty() {
        uri.extend(["?", query]);
    }
    uri
}

fn query(action: &KubeAction) -> String {
    let mut pairs = Serializer::new(String::new());
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            pairs.append_pair(name, value);
        }
    };
    match action {
        KubeAction::Get => {}
        KubeAction::List(list) => {
            add("labelSelector", &list.label_selector);
            add("fieldSelector", &list.field_selector);
            add("limit", &list.limit.to_string());
            add("continue", &list.cursor);
        }
        KubeAction::Create(_, write) | KubeAction::Update(_, write) | KubeAction::Patch(_, _, write) => {
            let KubeWrite {
                field_manager,
                field_validation,
                force,
                dry_run,
            } = write;
            add("fieldManager", field_manager);
            add("fieldValidation", field_validation.unwrap_or_default());
            add("dryRun", if *dry_run { "All" } else { "" });
            // The API server refuses it for anything but apply.
            let apply = matches!(action, KubeAction::Patch(KubePatchKind::Apply, ..));
            add("force", if *force && apply { "true" } else { "" });
        }
        // The options are in the body.
        KubeAction::Delete(_) => {}
    }
    pairs.finish()
}

fn delete_options(options: &KubeDelete) -> Vec<u8> {
    let mut document = json!({ "kind": "DeleteOptions", "apiVersion": "v1" });
    for (field, value) in [("uid", &options.uid), ("resourceVersion", &options.resource_version)] {
        if !value.is_empty() {
            document["preconditions"][field] = json!(value);
        }
    }
    if let Some(propagation) = options.propagation {
        document["propagationPolicy"] = json!(propagation.as_str());
    }
    if let Some(seconds) = options.grace_period_seconds {
        document["gracePeriodSeconds"] = json!(seconds);
    }
    if options.dry_run {
        document["dryRun"] = json!(["All"]);
    }
    document.to_string().into_bytes()
}
