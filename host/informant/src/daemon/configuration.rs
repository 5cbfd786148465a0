//! The result of the last configuration change: applied, partially applied or refused, and the pending sections.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use informant_cache::Moment;
use informant_config::TextHash;

use super::admin_certificate::CertificateStatus;

/// How the running configuration relates to the file.
#[derive(Debug, Clone)]
pub struct Configuration {
    pub path: PathBuf,
    /// The digest of the text that is in effect, to compare replicas.
    pub digest: Arc<str>,
    /// When new content was last read from the file; at first, when the daemon started.
    pub read: Moment,
    /// The result of that change; none while it is being applied.
    pub result: Option<ReloadResult>,
    /// Why the file cannot be read now; the previous configuration stays in effect.
    pub unreadable: Option<Arc<str>>,
    /// Why the present file is refused as a whole; the previous configuration stays in effect.
    pub refused: Option<Arc<str>>,
    /// Sections whose newest version is not running, each with the reason.
    pub waiting: BTreeMap<Section, Arc<str>>,
    /// The certificate of the admin server; none without TLS.
    pub certificate: Option<CertificateStatus>,
    /// Whether another process on this configuration would be noticed; none until that is known.
    pub announcement: Option<Announcement>,
}

/// Whether a second process would be noticed, and whether there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announcement {
    /// This process does not run in a pod, and does not announce itself.
    Off { reason: Arc<str> },
    /// It runs in a pod, but cannot use the Lease.
    Failing {
        reason: Arc<str>,
        /// The name of another process, if it was there a short time ago.
        other: Option<Arc<str>>,
    },
    Announced {
        /// `NAMESPACE/NAME`.
        lease: Arc<str>,
        /// The name of another process on this configuration.
        other: Option<Arc<str>>,
    },
}

impl Announcement {
    /// Another process on this configuration.
    pub fn other(&self) -> Option<&Arc<str>> {
        match self {
            Announcement::Off { .. } => None,
            Announcement::Failing { other, .. } | Announcement::Announced { other, .. } => other.as_ref(),
        }
    }
}

/// The result of a change of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadResult {
    /// All of it is applied.
    Ok,
    /// Some sections keep their previous version, possibly since an earlier change.
    Partial,
    /// The file is invalid; nothing has changed.
    Refused,
    /// The text changed, but not its meaning, and all of it was applied before.
    Unchanged,
}

/// A section of config.toml.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// `[cluster]`, whose name is empty, or `[cluster.NAME]`
    Cluster(String),
    /// `[admin]`
    Admin,
    /// `[ha]`
    Ha,
    /// `[health]`
    Health,
    /// `[http]`
    Http,
    /// `[script-runners]`
    ScriptRunners,
    /// `[state]`
    State,
    /// `[informer.NAME]`, in one of its clusters (empty for the only one)
    Informer(String, String),
    /// `[plugin.NAME]`
    Plugin(String),
}

impl Configuration {
    /// The state of a daemon that starts.
    #[must_use]
    pub fn new(path: PathBuf, digest: &TextHash, now: Moment) -> Self {
        Self {
            path,
            digest: digest.to_string().into(),
            read: now,
            result: None,
            unreadable: None,
            refused: None,
            waiting: BTreeMap::new(),
            certificate: None,
            announcement: None,
        }
    }

    /// Marks a section as pending for a reason, or as applied.
    pub(super) fn set_pending(&mut self, section: Section, reason: Option<Arc<str>>) {
        match reason {
            Some(reason) => self.waiting.insert(section, reason),
            None => self.waiting.remove(&section),
        };
    }

    /// The present state, which may be better than the result of the last change: a component may have been repaired,
    /// or an unused informer removed since.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (&self.unreadable, &self.refused, self.waiting.is_empty()) {
            (Some(_), ..) => "unreadable",
            (None, Some(_), _) => "refused",
            (None, None, false) => "partial",
            (None, None, true) => "applied",
        }
    }

    /// Whether all sections of the newest file are in effect.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        self.unreadable.is_none() && self.refused.is_none() && self.waiting.is_empty()
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
            Self::Ha => f.write_str("ha"),
            Self::Health => f.write_str("health"),
            Self::Http => f.write_str("http"),
            Self::ScriptRunners => f.write_str("script-runners"),
            Self::State => f.write_str("state"),
            Self::Informer(name, cluster) if cluster.is_empty() => write!(f, "informer.{name}"),
            Self::Informer(name, cluster) => write!(f, "informer.{name} in cluster {cluster}"),
            Self::Plugin(name) => write!(f, "plugin.{name}"),
        }
    }
}
