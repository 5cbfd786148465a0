//! The audit log of the real kube-apiserver: what was requested, and how it was answered.

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context, Result};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

/// A reader that returns each record once.
pub struct AuditLog {
    path: PathBuf,
    /// How many bytes were read.
    read: u64,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The name of the user.
    pub user: String,
    /// As whom the user made the request, by impersonation; empty: as itself.
    pub impersonated: String,
    /// The verb, with path and query.
    pub request: String,
    /// The status code of the answer.
    pub code: u64,
    /// When the API server received it, and when it had answered it.
    pub began: Timestamp,
    pub ended: Timestamp,
    /// Null if it is not recorded.
    pub body: Value,
}

impl Request {
    /// Whether the user lacked a right.
    pub fn is_forbidden(&self) -> bool {
        self.code == u64::from(StatusCode::FORBIDDEN.as_u16())
    }
}

impl AuditLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, read: 0 }
    }

    /// The requests that were answered, or began to be, since the last call.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn read_new(&mut self) -> Result<Vec<Request>> {
        let mut file = std::fs::File::open(&self.path).with_context(|| format!("opening {}", self.path.display()))?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // The last line may still be written.
        let complete = text.rfind('\n').map_or("", |end| &text[..=end]);
        self.read += complete.len() as u64;
        complete.lines().map(request).collect()
    }
}

fn request(line: &str) -> Result<Request> {
    let record: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
    let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let time = |pointer: &str| text(pointer).parse().with_context(|| format!("{pointer} of {line}"));
    let code = record.pointer("/responseStatus/code").and_then(Value::as_u64);
    Ok(Request {
        user: text("/user/username").to_owned(),
        impersonated: text("/impersonatedUser/username").to_owned(),
        request: format!("{} {}", text("/verb"), text("/requestURI")),
        code: code.unwrap_or_default(),
        began: time("/requestReceivedTimestamp")?,
        ended: time("/stageTimestamp")?,
        body: record.pointer("/requestObject").cloned().unwrap_or_default(),
    })
}
