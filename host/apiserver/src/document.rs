//! Request bodies as trees of values: JSON, or protocol buffers of built-in kinds.

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
        protobuf::MEDIA_TYPE => protobuf::read(body).map_err(|error| Status::bad_request(error.to_string())),
        _ => Err(Status::new(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/vnd.kubernetes.protobuf",
        )),
    }
}
