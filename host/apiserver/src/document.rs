//! Request bodies as trees of values: JSON, YAML, or protocol buffers of built-in kinds.

use bytes::Bytes;
use serde_json::Value;

use crate::protobuf;
use crate::status::Status;

/// Reads an object.
pub(crate) fn read(content_type: &str, body: &Bytes) -> Result<Value, Status> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "" | "application/json" => serde_json::from_slice(body).map_err(|error| {
            Status::bad_request(format!(
                "the object provided is unrecognized: couldn't get version/kind; json parse error: {error}"
            ))
        }),
        "application/yaml" => yaml(body).map_err(Status::bad_request),
        protobuf::MEDIA_TYPE => protobuf::read(body).map_err(|error| Status::bad_request(error.to_string())),
        _ => Err(Status::new(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Reads one document of YAML; JSON is YAML, and the usual case.
///
/// # Errors
/// What the parser says, with its line.
pub(crate) fn yaml(body: &Bytes) -> Result<Value, String> {
    serde_json::from_slice(body).or_else(|_| {
        let text = std::str::from_utf8(body).map_err(|error| format!("the body is not UTF-8: {error}"))?;
        serde_saphyr::from_str(text).map_err(|error| format!("the body is neither JSON nor YAML: {error}"))
    })
}
