//! Bookmarks: watch events that carry only a version.

use std::borrow::Cow;

use serde::Deserialize;

use crate::version::ResourceVersion;

/// The content of a `BOOKMARK` event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// Everything up to this version has been sent.
    pub version: ResourceVersion,
    /// Whether this bookmark ends the initial list of a watch-list.
    ///
    /// Source: KEP-3157, annotation `k8s.io/initial-events-end: "true"`.
    pub initial_events_end: bool,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, rename = "resourceVersion", default)]
    version: Cow<'a, str>,
    #[serde(borrow, default)]
    annotations: Option<Annotations<'a>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    #[serde(borrow, rename = "k8s.io/initial-events-end", default)]
    initial_events_end: Option<Cow<'a, str>>,
}

impl Bookmark {
    /// Reads the object of a `BOOKMARK` event.
    ///
    /// # Errors
    /// serde_json's error when the object is not JSON or has no metadata.
    pub fn parse(object: &[u8]) -> Result<Bookmark, serde_json::Error> {
        let Envelope { metadata } = serde_json::from_slice(object)?;
        let mark = metadata
            .annotations
            .and_then(|annotations| annotations.initial_events_end);
        Ok(Bookmark {
            version: ResourceVersion::new(&metadata.version),
            initial_events_end: mark.is_some_and(|mark| mark == "true"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bookmark_that_ends_an_initial_list_is_recognized() {
        let bookmark = |json: &str| Bookmark::parse(json.as_bytes()).expect(json);
        let plain =
            bookmark(r#"{"kind":"Pod","metadata":{"resourceVersion":"12","creationTimestamp":null},"spec":{}}"#);
        assert_eq!(
            plain,
            Bookmark {
                version: ResourceVersion::new("12"),
                initial_events_end: false
            }
        );
        let last =
            bookmark(r#"{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}"#);
        assert!(last.initial_events_end);
        let other = bookmark(r#"{"metadata":{"resourceVersion":"1","annotations":{"a":"b"}}}"#);
        assert!(!other.initial_events_end);
        assert!(Bookmark::parse(b"{}").is_err());
    }
}
