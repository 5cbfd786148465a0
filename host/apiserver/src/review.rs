//! Reviews of rights and tokens. Everything is allowed unless a rule forbids it; a token is known once it was added.

use http::{Method, Response};
use serde_json::{Value, json};

use crate::body::{self, Body};
use crate::call::Call;
use crate::document;
use crate::routes::{Attributes, Resource, USER};
use crate::state::TokenOwner;
use crate::status::Status;

/// Whether a path is that of a review. Reviews are answered on create and never stored.
pub(crate) fn is_review(resource: &Resource) -> bool {
    matches!(
        resource.group.as_str(),
        "authorization.k8s.io" | "authentication.k8s.io"
    )
}

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
            let user = review["spec"]["user"].as_str().unwrap_or(USER);
            review_status(call, &review["spec"]["resourceAttributes"], user)
        }
        "tokenreviews" => token_status(call, &review["spec"]),
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

/// The audience of the API server itself.
const OWN_AUDIENCE: &str = "https://kubernetes.default.svc";

fn token_status(call: &Call<'_>, asked: &Value) -> Value {
    let audiences = |listed: Vec<String>| match listed.is_empty() {
        true => vec![OWN_AUDIENCE.to_owned()],
        false => listed,
    };
    let wanted = audiences(serde_json::from_value(asked["audiences"].clone()).unwrap_or_default());
    let owner = call.state.token_owner(asked["token"].as_str().unwrap_or_default());
    let Some(TokenOwner {
        user,
        groups,
        audiences: of_token,
    }) = owner
    else {
        return json!({ "authenticated": false, "error": "invalid bearer token" });
    };
    let of_token = audiences(of_token);
    let shared: Vec<&String> = of_token.iter().filter(|audience| wanted.contains(audience)).collect();
    if shared.is_empty() {
        let error = format!("token audiences {of_token:?} is invalid for the target audiences {wanted:?}");
        return json!({ "authenticated": false, "error": error });
    }
    json!({ "authenticated": true, "user": { "username": user, "groups": groups }, "audiences": shared })
}

fn review_status(call: &Call<'_>, asked: &Value, user: &str) -> Value {
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
        user: user.to_owned(),
    };
    if call.state.rules().forbids(&attributes) {
        json!({ "allowed": false, "reason": "forbidden by a fault rule" })
    } else {
        json!({ "allowed": true })
    }
}
