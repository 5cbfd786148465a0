//! Objects of a response, one per line, as they arrive.

use anyhow::{Context, Result, bail};
use bytes::Buf as _;
use http::Response;
use http::header::ETAG;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use super::connection::SILENCE_MAX;
use crate::admin::{
    ABSENT_FIELDS, AbsentFields, Freshness, HEADS, INDEX_FAILURES, MISSING_SOURCES, MissingSource, SOURCES,
};

/// The longest object: as long as the longest line of a watch.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Objects as they arrive, one per line.
pub(in crate::cli) struct ObjectLines {
    response: Response<Incoming>,
    buffer: Vec<u8>,
    /// No newline before this offset.
    scanned: usize,
    ended: bool,
}

impl ObjectLines {
    pub(super) fn new(response: Response<Incoming>) -> Self {
        Self {
            response,
            buffer: Vec::new(),
            scanned: 0,
            ended: false,
        }
    }

    /// The sources of the objects, and how fresh each is.
    pub(in crate::cli) fn freshness(&self) -> Result<Vec<Freshness>> {
        serde_json::from_str(self.header(SOURCES))
            .context("the daemon's response has no valid `informant-sources` header")
    }

    /// The sources that are not in the answer.
    pub(in crate::cli) fn missing_sources(&self) -> Result<Vec<MissingSource>> {
        self.json_header(MISSING_SOURCES)
    }

    /// What the informer removes from its objects.
    pub(in crate::cli) fn absent_fields(&self) -> Result<AbsentFields> {
        self.json_header(ABSENT_FIELDS)
    }

    /// A header that is absent if there is nothing to say.
    fn json_header<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T> {
        match self.header(name) {
            "" => Ok(T::default()),
            json => serde_json::from_str(json)
                .with_context(|| format!("the daemon's response has no valid `{name}` header")),
        }
    }

    /// How many objects the queried index lacks because its function failed on them.
    pub(in crate::cli) fn index_failures(&self) -> u64 {
        self.header(INDEX_FAILURES).parse().unwrap_or_default()
    }

    /// Of how many objects the daemon has only the metadata.
    pub(in crate::cli) fn heads(&self) -> u64 {
        self.header(HEADS).parse().unwrap_or_default()
    }

    /// What the daemon calls this state of the objects.
    pub(in crate::cli) fn tag(&self) -> Option<String> {
        Some(self.header(ETAG.as_str()).to_owned()).filter(|tag| !tag.is_empty())
    }

    fn header(&self, name: &str) -> &str {
        self.response
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The next line without its newline; `None` after the last.
    pub(in crate::cli) async fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
                let end = self.scanned + at;
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                self.scanned = 0;
                return Ok(Some(line));
            }
            self.scanned = self.buffer.len();
            if self.scanned > LINE_BYTES_MAX {
                bail!("a line of the daemon's response is longer than {LINE_BYTES_MAX} bytes");
            }
            if self.ended {
                if self.buffer.is_empty() {
                    return Ok(None);
                }
                bail!("the daemon's response was cut off");
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<()> {
        let frame = tokio::time::timeout(SILENCE_MAX, self.response.body_mut().frame()).await;
        match frame.context("the daemon stopped responding")? {
            None => self.ended = true,
            Some(frame) => {
                let frame = frame.context("the daemon's response was cut off")?;
                if let Ok(data) = frame.into_data() {
                    self.buffer.extend_from_slice(data.chunk());
                }
            }
        }
        Ok(())
    }
}
