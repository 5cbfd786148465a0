//! Request bodies as JSON values: from JSON, YAML, or protocol buffers of built-in kinds.

use bytes::Bytes;
use serde_json::Value;

use crate::protobuf;
use crate::status::Status;
use crate::tree::{self, DEPTH_MAX};

/// Reads an object.
pub(crate) fn read(content_type: &str, body: &Bytes) -> Result<Value, Status> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "" | "application/json" => tree::read(body).map_err(|error| {
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
/// The parser's error, with its line.
pub(crate) fn yaml(body: &Bytes) -> Result<Value, String> {
    tree::read(body).or_else(|_| {
        let text = std::str::from_utf8(body).map_err(|error| format!("the body is not UTF-8: {error}"))?;
        let value =
            serde_saphyr::from_str(text).map_err(|error| format!("the body is neither JSON nor YAML: {error}"))?;
        check_depth(&value)?;
        Ok(value)
    })
}

/// Refuses trees deeper than those that are read. Needed where something other than the JSON parser built one.
pub(crate) fn check_depth(value: &Value) -> Result<(), String> {
    fn fits(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left > 0 && items.iter().all(|item| fits(item, left - 1)),
            Value::Object(fields) => left > 0 && fields.values().all(|field| fits(field, left - 1)),
            _ => true,
        }
    }
    if fits(value, DEPTH_MAX) {
        Ok(())
    } else {
        Err(format!("the object is nested deeper than {DEPTH_MAX} levels"))
    }
}
