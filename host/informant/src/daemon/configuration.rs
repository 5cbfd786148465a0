//! What became of the configuration's last change: taken in, in part, or refused, and what waits for what.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use informant_cache::Moment;

/// How the file and what runs relate.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// The file.
    pub path: PathBuf,
    /// When the file was last read with a content that was new; at first, when the daemon started.
    pub read: Moment,
    /// What became of it; none while that is not known yet.
    pub result: Option<ReloadResult>,
    /// Why the file as it is now is not taken at all; an older content is what runs.
    pub refused: Option<Arc<str>>,
    /// Sections of which an older version runs, or none, each with the reason.
    pub waiting: BTreeMap<Section, Arc<str>>,
}

/// What became of a change of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadResult {
    /// All of it runs.
    Ok,
    /// Some sections keep their old version.
    Partial,
    /// The file as a whole is wrong; nothing has changed.
    Refused,
    /// Its text is another, what it says is not.
    Unchanged,
}

/// A section of config.toml.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// `[cluster]`, whose name is empty, or `[cluster.NAME]`
    Cluster(String),
    /// `[admin]`
    Admin,
    /// `[state]`
    State,
    /// `[informer.NAME]`, in one of its clusters (empty: the only one)
    Informer(String, String),
    /// `[plugin.NAME]`
    Plugin(String),
}

impl Configuration {
    /// That of a daemon that starts.
    #[must_use]
    pub fn new(path: PathBuf, now: Moment) -> Self {
        Self {
            path,
            read: now,
            result: None,
            refused: None,
            waiting: BTreeMap::new(),
        }
    }

    /// Notes whether a section waits, and for what.
    pub(super) fn note(&mut self, section: Section, waits: Option<Arc<str>>) {
        match waits {
            Some(reason) => self.waiting.insert(section, reason),
            None => self.waiting.remove(&section),
        };
    }

    /// How the file and what runs relate now, which may be better than it was: a component was mended, an informer let
    /// go.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (&self.refused, self.waiting.is_empty()) {
            (Some(_), _) => "refused",
            (None, false) => "partial",
            (None, true) => "applied",
        }
    }
}

impl ReloadResult {
    /// Its name in metrics, JSON and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Partial => "partial",
            Self::Refused => "refused",
            Self::Unchanged => "unchanged",
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(name) if name.is_empty() => f.write_str("cluster"),
            Self::Cluster(name) => write!(f, "cluster.{name}"),
            Self::Admin => f.write_str("admin"),
            Self::State => f.write_str("state"),
            Self::Informer(name, cluster) if cluster.is_empty() => write!(f, "informer.{name}"),
            Self::Informer(name, cluster) => write!(f, "informer.{name} in cluster {cluster}"),
            Self::Plugin(name) => write!(f, "plugin.{name}"),
        }
    }
}
