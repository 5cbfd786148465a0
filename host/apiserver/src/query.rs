//! The query of a request, and the list and watch options in it.
//!
//! Follows `metav1.ListOptions` with its validation (apimachinery `pkg/apis/meta/internalversion/validation`).

use std::time::Duration;

use crate::status::{FieldError, Status};

/// Decoded pairs, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(
            pairs
                .map(|(key, value)| (key.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// The first value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(candidate, _)| candidate == key)
            .map(|(_, value)| value.as_str())
    }

    fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    /// A flag as Kubernetes reads it: present, and neither empty, `0` nor `false`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(is_true)
    }

    /// Whether the write is a dry run. `options` is the kind of the options, for the message.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool, Status> {
        match self.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(Status::invalid_dry_run(options, &[other])),
        }
    }
}

fn is_true(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "" | "0" | "false")
}

/// `resourceVersionMatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// `resourceVersion` in its three meanings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionParam {
    /// Absent: the newest.
    Unset,
    /// `0`: any.
    Zero,
    At(u64),
}

/// The options of list, watch and deletecollection.
#[derive(Debug, Clone)]
pub(crate) struct ListOptions {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) shard_selector: String,
    /// Zero is no limit.
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) version: VersionParam,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) watch: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    pub(crate) fn read(query: &Query) -> Result<Self, Status> {
        let options = Self {
            label_selector: query.text("labelSelector").to_owned(),
            field_selector: query.text("fieldSelector").to_owned(),
            shard_selector: query.text("shardSelector").to_owned(),
            limit: usize::try_from(number(query, "limit")?).unwrap_or(usize::MAX),
            continue_token: query.text("continue").to_owned(),
            version: version(query)?,
            version_match: version_match(query.text("resourceVersionMatch"))?,
            watch: query.flag("watch"),
            timeout: query
                .get("timeoutSeconds")
                .map(|_| number(query, "timeoutSeconds"))
                .transpose()?
                .map(Duration::from_secs),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.get("sendInitialEvents").map(is_true),
        };
        options.validate(query)?;
        Ok(options)
    }

    fn validate(&self, query: &Query) -> Result<(), Status> {
        let forbidden = |field: &str, why: &str| Err(Status::forbidden_list_option(field, why));
        let field = "resourceVersionMatch";
        if self.watch {
            return match (self.send_initial_events, self.version_match) {
                (Some(_), Some(VersionMatch::NotOlderThan)) | (None, None) => Ok(()),
                (Some(_), _) => forbidden(
                    field,
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ),
                (None, Some(_)) => forbidden(
                    field,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ),
            };
        }
        if self.send_initial_events.is_some() {
            return forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if self.version_match.is_some() {
            if query.text("resourceVersion").is_empty() {
                return forbidden(
                    field,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                );
            }
            if !self.continue_token.is_empty() {
                return forbidden(field, "resourceVersionMatch is forbidden when continue is provided");
            }
            if self.version_match == Some(VersionMatch::Exact) && self.version == VersionParam::Zero {
                return forbidden(
                    field,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                );
            }
        }
        if !self.continue_token.is_empty() && !matches!(self.version, VersionParam::Unset | VersionParam::Zero) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(())
    }
}

/// A number; a negative one counts as absent, as in Kubernetes.
fn number(query: &Query, key: &str) -> Result<u64, Status> {
    match query.text(key) {
        "" => Ok(0),
        text => match text.parse::<i64>() {
            Ok(number) => Ok(u64::try_from(number).unwrap_or(0)),
            Err(_) => Err(Status::bad_request(format!(
                "strconv.ParseInt: parsing {text:?}: invalid syntax"
            ))),
        },
    }
}

/// Reads `resourceVersion`, which gets and lists share.
pub(crate) fn version(query: &Query) -> Result<VersionParam, Status> {
    match query.text("resourceVersion") {
        "" => Ok(VersionParam::Unset),
        "0" => Ok(VersionParam::Zero),
        text => text.parse().map(VersionParam::At).map_err(|_| {
            let why = format!(
                "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
            );
            // The cacher refuses a watch, and kube-apiserver does not translate its error.
            if query.flag("watch") {
                Status::new(500, "", why)
            } else {
                Status::bad_request(format!("invalid resource version: {why}"))
            }
        }),
    }
}

fn version_match(text: &str) -> Result<Option<VersionMatch>, Status> {
    match text {
        "" => Ok(None),
        "Exact" => Ok(Some(VersionMatch::Exact)),
        "NotOlderThan" => Ok(Some(VersionMatch::NotOlderThan)),
        other => Err(Status::invalid(
            "meta.k8s.io",
            "ListOptions",
            "",
            "resourceVersionMatch",
            FieldError::NotSupported,
            &format!("{other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""),
        )),
    }
}
