//! What a capture has. These types know no capability, so that every layer can record.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use informant_cache::Moment;
use informant_object::{Object, SourceId};
use informant_spec::Digest;
use serde_json::{Map, Value};

use crate::observed::ObservedCall;

/// A captured call.
#[derive(Clone, Debug)]
pub struct Captured {
    pub began: Moment,
    /// Of the component or script that was called.
    pub digest: Digest,
    /// What the guest first read from its clock, since 1970.
    pub clock: Option<Duration>,
    pub call: ObservedCall,
    /// The state that the call was about, as the cache has it; of a delete, the last one, if that is known.
    pub object: Option<Object>,
    /// The state before an update, if that is known.
    pub old: Option<Object>,
    /// The delete was not observed.
    pub final_state_unknown: bool,
    /// What the host answered and the call did, in order.
    pub records: Vec<Record>,
}

/// Something that the host answered, or that the call did.
#[derive(Clone, Debug)]
pub enum Record {
    /// An object was read from the cache.
    Object(SourceId, Object),
    /// A key was read, before all changes of the call; none: it was not set.
    Key(String, Option<Arc<[u8]>>),
    /// A key has this value after the call; none: it is not set.
    KeyChange(String, Option<Arc<[u8]>>),
    /// A call to the cluster, direct or deferred, and the body of its response.
    Kube(Box<KubeRequest>, Result<Vec<u8>, KubeFailure>),
    Http(Box<HttpRecord>),
    Log(LogRecord),
}

/// A call to the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeRequest {
    /// `get`, `patch`.
    pub verb: &'static str,
    /// `v1/pods`.
    pub resource: String,
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// Of a patch: `merge`, `json`, `strategic`, `apply`.
    pub patch: Option<&'static str>,
    /// What else tells a list from others; empty texts for none.
    pub label_selector: String,
    pub field_selector: String,
    pub cursor: String,
    /// Of a write: its options, under the names of the contract, without those that are as by default.
    pub options: Map<String, Value>,
    /// What is sent.
    pub document: Option<Vec<u8>>,
}

/// Why there was no answer from the cluster: the contract's `api-error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeFailure {
    pub code: &'static str,
    /// 0: there was no response.
    pub status: u16,
    pub reason: String,
    pub message: String,
    pub retry_after: Option<Duration>,
}

/// An HTTP request, and its answer as far as the guest has read it.
#[derive(Clone, Debug)]
pub struct HttpRecord {
    pub method: String,
    pub url: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// None: the call ended before.
    pub answer: Option<HttpAnswer>,
}

#[derive(Clone, Debug)]
pub enum HttpAnswer {
    Response {
        status: u16,
        headers: HeaderMap,
        body: Vec<u8>,
    },
    /// The code of the error: `timeout`.
    Failed(&'static str),
}

/// A line of the plugin's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// `info`.
    pub level: &'static str,
    pub message: String,
    /// A JSON object.
    pub fields: Option<String>,
}

impl Record {
    /// Bytes that it takes of the limit.
    pub(super) fn size_bytes(&self) -> usize {
        let value = |value: &Option<Arc<[u8]>>| value.as_ref().map_or(0, |value| value.len());
        match self {
            Record::Object(_, object) => object.json().len(),
            Record::Key(key, of) | Record::KeyChange(key, of) => key.len() + value(of),
            Record::Kube(request, reply) => {
                let reply = reply.as_ref().map_or_else(|failure| failure.message.len(), Vec::len);
                let options = serde_json::to_vec(&request.options).map_or(0, |options| options.len());
                request.document.as_ref().map_or(0, Vec::len) + options + reply
            }
            // Its bodies and its answer are counted as they come.
            Record::Http(http) => http.url.len() + headers_bytes(&http.headers),
            Record::Log(line) => line.message.len() + line.fields.as_ref().map_or(0, String::len),
        }
    }
}

/// Bytes of all names and values.
pub(super) fn headers_bytes(headers: &HeaderMap) -> usize {
    let sizes = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    sizes.sum()
}
