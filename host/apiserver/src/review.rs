//! Access reviews. Everything is allowed unless a rule forbids it.

use http::{Method, Response};
use serde_json::{Value, json};

use crate::body::{self, Body};
use crate::document;
use crate::faults::Attributes;

use crate::handlers::{Call, USER};
use crate::routes::Resource;
use crate::status::Status;

/// Whether a path is that of a review. Reviews are answered on create and never stored.
pub(crate) fn is_review(resource: &Resource) -> bool {
    matches!(
        resource.group.as_str(),
        "authorization.k8s.io" | "authentication.k8s.io"
    )
}

/// Responds to a review.
pub(crate) fn answer(call: &Call<'_>, resource: &Resource) -> Result<Response<Body>, Status> {
    if *call.method != Method::POST {
        return Err(Status::method_not_allowed());
    }
    let mut review = document::read(call.content_type, call.body)?;
    if !review.is_object() {
        return Err(Status::bad_request("a review has to be a JSON object"));
    }
    review["status"] = match resource.plural.as_str() {
        "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews" => {
            review_status(call, &review["spec"]["resourceAttributes"])
        }
        "selfsubjectrulesreviews" => json!({
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
            "incomplete": false,
        }),
        "selfsubjectreviews" => json!({ "userInfo": { "username": USER, "groups": ["system:masters"] } }),
        _ => return Err(Status::no_such_resource()),
    };
    Ok(body::json(201, &review))
}

fn review_status(call: &Call<'_>, asked: &Value) -> Value {
    let text = |field: &str| asked[field].as_str().unwrap_or_default().to_owned();
    let verbs = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    let attributes = Attributes {
        verb: verbs
            .into_iter()
            .find(|verb| asked["verb"] == **verb)
            .unwrap_or_default(),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
    };
    if call.inner.rules().forbids(&attributes) {
        json!({ "allowed": false, "reason": "forbidden by a fault rule" })
    } else {
        json!({ "allowed": true })
    }
}
