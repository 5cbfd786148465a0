//! `/informant/faults`: fault injection over HTTP. POST applies one [`Fault`] as JSON, GET lists the active rules,
//! DELETE clears all faults.

use bytes::Bytes;
use http::{Method, Response};
use serde_json::json;

use super::{Fault, Faults};
use crate::body::Body;
use crate::response;
use crate::status::Status;

/// Answers a request to `/informant/faults`.
pub(crate) fn answer(faults: &Faults, method: &Method, body: &Bytes) -> Result<Response<Body>, Status> {
    match *method {
        Method::POST => {
            let fault: Fault = serde_json::from_slice(body).map_err(|error| {
                Status::bad_request(format!(
                    "invalid fault: {error}; send one fault as JSON, for example {{\"drop-watches\":{{}}}}"
                ))
            })?;
            tracing::info!(?fault, "fault injected over HTTP");
            Ok(response::json(200, &json!({ "met": faults.apply(fault) })))
        }
        Method::GET => Ok(response::json(200, &json!({ "rules": faults.rules() }))),
        Method::DELETE => Ok(response::json(200, &json!({ "met": faults.apply(Fault::Clear) }))),
        _ => Err(Status::method_not_allowed()),
    }
}
