//! The requests a source sends: LIST and WATCH of one collection.

use std::time::Duration;

use form_urlencoded::Serializer;
use http::{HeaderValue, Request, header};
use informant_cache::{ShardFilter, ShardSet};
use kube::client::Body;

use super::error::ApiError;
use crate::spec::SourceSpec;

pub(crate) const JSON: &str = "application/json";

/// Source: client-go `metadata`.
const LIST_OF_METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The same for the objects of a watch.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// What all requests of a source have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CollectionRequest {
    /// The collection's path, for example `/api/v1/pods`.
    pub(crate) path: String,
    /// Empty selects all.
    pub(crate) label_selector: String,
    /// Empty selects all.
    pub(crate) field_selector: String,
    /// Whether to request only the metadata of objects. A server that does not support this sends whole objects.
    pub(crate) metadata_only: bool,
    /// The shards whose objects are kept, whatever is answered.
    pub(crate) shards: Option<ShardFilter>,
}

/// Parameters of one page of a list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ListQuery<'a> {
    /// Unset for the newest state, "0" for any, another for one not older than that.
    pub(crate) version: Option<&'a str>,
    /// The most items; 0 leaves it to the server.
    pub(crate) limit: usize,
    /// The continue token of the previous page. Such a page has no version: the token contains it.
    pub(crate) continuation: Option<&'a str>,
}

impl ListQuery<'_> {
    /// One object of the newest state: with version "0" an API server may ignore the limit.
    pub(crate) const ONE: Self = Self {
        version: None,
        limit: 1,
        continuation: None,
    };
}

impl CollectionRequest {
    /// What it would list and watch if it read the objects of all shards.
    pub(crate) fn of_all_shards(spec: &SourceSpec) -> Self {
        Self {
            shards: None,
            ..Self::of(spec)
        }
    }

    /// What the source of `spec` lists and watches.
    pub(crate) fn of(spec: &SourceSpec) -> Self {
        let text = |selector: Option<String>| selector.unwrap_or_default();
        Self {
            path: spec.path(),
            label_selector: text(spec.label_selector.as_ref().map(ToString::to_string)),
            field_selector: text(spec.field_selector.as_ref().map(ToString::to_string)),
            metadata_only: spec.metadata_only,
            shards: spec.shards,
        }
    }

    /// The beginning of the path: `/api/v1` or `/apis/GROUP/VERSION`.
    pub(crate) fn group_version(&self) -> &str {
        let slashes = if self.path.starts_with("/apis/") { 3 } else { 2 };
        let end = self.path.match_indices('/').nth(slashes);
        end.map_or(&self.path, |(end, _)| &self.path[..end])
    }

    /// Whether no shard is read: what is answered is left out.
    pub(crate) fn reads_nothing(&self) -> bool {
        self.shards.is_some_and(|filter| filter.shards == ShardSet::default())
    }

    /// Only what is called `name` of it.
    pub(crate) fn of_name(mut self, name: &str) -> Self {
        if !self.field_selector.is_empty() {
            self.field_selector.push(',');
        }
        self.field_selector.push_str("metadata.name=");
        for char in name.chars() {
            if matches!(char, '\\' | ',' | '=') {
                self.field_selector.push('\\');
            }
            self.field_selector.push(char);
        }
        self
    }

    /// What a list asks for that leaves out what this field selector excludes. All else is the same.
    pub(crate) fn without(&self, excluded: &str) -> Self {
        let own = self.field_selector.as_str();
        let separator = if own.is_empty() { "" } else { "," };
        Self {
            field_selector: format!("{own}{separator}{excluded}"),
            ..self.clone()
        }
    }

    pub(crate) fn list(&self, query: &ListQuery<'_>) -> Result<Request<Body>, ApiError> {
        let mut parameters = self.parameters();
        if query.limit > 0 {
            parameters.append_pair("limit", &query.limit.to_string());
        }
        if let Some(token) = query.continuation {
            parameters.append_pair("continue", token);
        } else if let Some(version) = query.version {
            parameters.append_pair("resourceVersion", version);
        }
        build_as(
            Request::get(self.uri(&parameters.finish())),
            self.accepts(LIST_OF_METADATA),
        )
    }

    /// A watch of the events after `version`, which the server should end after `timeout`.
    pub(crate) fn watch(&self, version: &str, timeout: Duration) -> Result<Request<Body>, ApiError> {
        self.streamed(&[], Some(version), timeout)
    }

    /// A WatchList, a watch that starts with the current state: the newest, or any that is not older than `version`.
    ///
    /// Source: KEP-3157; client-go `Reflector.watchList`.
    pub(crate) fn watch_list(&self, version: Option<&str>, timeout: Duration) -> Result<Request<Body>, ApiError> {
        let initial = [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")];
        self.streamed(&initial, version, timeout)
    }

    /// Watches are requested uncompressed: a compressed one is one gzip member per event (Kubernetes 1.37), of which
    /// kube's layer decodes only the first.
    fn streamed(
        &self,
        initial: &[(&str, &str)],
        version: Option<&str>,
        timeout: Duration,
    ) -> Result<Request<Body>, ApiError> {
        let mut parameters = self.parameters();
        parameters.append_pair("watch", "true").extend_pairs(initial);
        parameters.append_pair("allowWatchBookmarks", "true");
        if let Some(version) = version {
            parameters.append_pair("resourceVersion", version);
        }
        parameters.append_pair("timeoutSeconds", &timeout.as_secs().to_string());
        let plain = HeaderValue::from_static("identity");
        let request = Request::get(self.uri(&parameters.finish())).header(header::ACCEPT_ENCODING, plain);
        build_as(request, self.accepts(METADATA))
    }

    fn accepts(&self, metadata: &'static str) -> &'static str {
        if self.metadata_only { metadata } else { JSON }
    }

    fn parameters(&self) -> Serializer<'static, String> {
        let mut parameters = Serializer::new(String::new());
        if !self.label_selector.is_empty() {
            parameters.append_pair("labelSelector", &self.label_selector);
        }
        if !self.field_selector.is_empty() {
            parameters.append_pair("fieldSelector", &self.field_selector);
        }
        // An API server that does not know it sends all objects.
        if let Some(selector) = self.shards.as_ref().and_then(ShardFilter::selector) {
            parameters.append_pair("shardSelector", &selector);
        }
        parameters
    }

    fn uri(&self, parameters: &str) -> String {
        if parameters.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{parameters}", self.path)
        }
    }
}

/// A GET without a body, with this `Accept` header.
pub(crate) fn build_as(builder: http::request::Builder, accept: &'static str) -> Result<Request<Body>, ApiError> {
    builder
        .header(header::ACCEPT, HeaderValue::from_static(accept))
        .body(Body::empty())
        .map_err(ApiError::Request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> CollectionRequest {
        CollectionRequest {
            path: "/api/v1/pods".to_owned(),
            label_selector: "app in (a,b)".to_owned(),
            field_selector: "status.phase!=Failed".to_owned(),
            metadata_only: false,
            shards: None,
        }
    }

    #[test]
    fn a_list_request_has_selectors_limit_and_version() {
        let request = pods()
            .list(&ListQuery {
                version: Some("0"),
                limit: 500,
                continuation: None,
            })
            .unwrap();
        insta::assert_snapshot!(request.uri(), @"/api/v1/pods?labelSelector=app+in+%28a%2Cb%29&fieldSelector=status.phase%21%3DFailed&limit=500&resourceVersion=0");
    }

    #[test]
    fn a_request_for_one_name_keeps_the_selectors() {
        insta::assert_snapshot!(pods().of_name("a,b").field_selector, @r"status.phase!=Failed,metadata.name=a\,b");
    }

    #[test]
    fn a_continuation_has_no_resource_version() {
        let request = pods()
            .list(&ListQuery {
                version: Some("7"),
                limit: 500,
                continuation: Some("t="),
            })
            .unwrap();
        assert!(!request.uri().query().unwrap().contains("resourceVersion"));
        assert!(request.uri().query().unwrap().ends_with("continue=t%3D"));
    }

    #[test]
    fn a_list_without_limits_and_selectors_is_the_bare_path() {
        let request = CollectionRequest {
            label_selector: String::new(),
            field_selector: String::new(),
            ..pods()
        }
        .list(&ListQuery {
            version: None,
            limit: 0,
            continuation: None,
        })
        .unwrap();
        assert_eq!(request.uri(), "/api/v1/pods");
    }

    #[test]
    fn a_watch_list_requests_initial_events_and_their_end_mark() {
        let query = |version| {
            let request = CollectionRequest {
                label_selector: String::new(),
                field_selector: String::new(),
                ..pods()
            };
            request
                .watch_list(version, Duration::from_secs(333))
                .unwrap()
                .uri()
                .query()
                .unwrap()
                .to_owned()
        };
        insta::assert_snapshot!(query(None), @"watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=333");
        insta::assert_snapshot!(query(Some("7")), @"watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=333");
    }

    #[test]
    fn a_watch_requests_bookmarks_without_compression() {
        let request = pods().watch("41", Duration::from_secs(333)).unwrap();
        let query = request.uri().query().unwrap();
        assert!(
            query.ends_with("watch=true&allowWatchBookmarks=true&resourceVersion=41&timeoutSeconds=333"),
            "{query}"
        );
        assert_eq!(request.headers()[header::ACCEPT_ENCODING], "identity");
    }
}
