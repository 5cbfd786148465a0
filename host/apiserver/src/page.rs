//! One page of a list, and the body that streams it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use crate::body::Body;
use crate::kinds::Kind;
use crate::stored::Stored;

/// Approximate size of a frame of a streamed list.
const FRAME_BYTES: usize = 128 * 1024;

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) kind: Arc<Kind>,
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) revision: u64,
    /// The token of the next page.
    pub(crate) next: Option<String>,
    /// How many objects follow this page. Unknown if there is a selector.
    pub(crate) remaining: Option<usize>,
    /// The selector of the shards that these are.
    pub(crate) shards: Option<String>,
}

impl Page {
    pub(crate) fn metadata(&self) -> serde_json::Value {
        let mut metadata = json!({ "resourceVersion": self.revision.to_string() });
        if let Some(next) = &self.next {
            metadata["continue"] = json!(next);
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        if let Some(shards) = &self.shards {
            metadata["shardInfo"] = json!({ "selector": shards });
        }
        metadata
    }

    /// The list as JSON; each item is written by `item`. Long lists are streamed in frames of about 128 KiB.
    pub(crate) fn into_body(
        self,
        list_kind: &str,
        api_version: &str,
        item: impl Fn(&Kind, &Stored, &mut Vec<u8>) + Send + 'static,
    ) -> Body {
        let head = format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
            json!(list_kind),
            json!(api_version),
            self.metadata()
        );
        let mut frames = ListFrames {
            head: Some(head),
            items: self.items.into_iter(),
            kind: self.kind,
            first: true,
            item,
        };
        let first = frames.next().unwrap_or_default();
        if frames.is_done() {
            return Body::whole(first);
        }
        Body::frames(futures::stream::iter(std::iter::once(first).chain(frames).map(Ok)))
    }
}

/// Writes a list frame by frame, so that a list of 100 MB is never held as a whole.
struct ListFrames<F> {
    head: Option<String>,
    items: std::vec::IntoIter<Arc<Stored>>,
    kind: Arc<Kind>,
    first: bool,
    item: F,
}

impl<F> ListFrames<F> {
    fn is_done(&self) -> bool {
        self.head.is_none() && self.items.as_slice().is_empty()
    }
}

impl<F: Fn(&Kind, &Stored, &mut Vec<u8>)> Iterator for ListFrames<F> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_done() {
            return None;
        }
        let mut frame = self.head.take().map_or_else(Vec::new, String::into_bytes);
        while frame.len() < FRAME_BYTES
            && let Some(object) = self.items.next()
        {
            if !std::mem::take(&mut self.first) {
                frame.push(b',');
            }
            (self.item)(&self.kind, &object, &mut frame);
        }
        if self.items.as_slice().is_empty() {
            frame.extend_from_slice(b"]}\n");
        }
        Some(Bytes::from(frame))
    }
}
