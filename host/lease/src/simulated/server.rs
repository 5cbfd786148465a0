//! A naive API server: Leases, each replaced only under its version, one after another.

use std::collections::BTreeMap;
use std::sync::Arc;

use informant_object::ResourceVersion;

use crate::record::{LeaseContent, LeaseRecord};
use crate::replica::LeaseName;
use crate::request::{LeaseAnswer, RequestKind, Seen};

#[derive(Debug, Default)]
pub struct Server {
    version: u64,
    pub(crate) leases: BTreeMap<LeaseName, LeaseRecord>,
}

impl Server {
    /// Answers a request. Returns what watches deliver, too.
    pub fn apply(&mut self, name: &LeaseName, kind: RequestKind) -> (LeaseAnswer, Option<Seen>) {
        let current = self.leases.get(name);
        match (kind, current) {
            (RequestKind::Read, Some(record)) => (LeaseAnswer::Record(record.clone()), None),
            (RequestKind::Read | RequestKind::Replace { .. }, None) => (LeaseAnswer::NotFound, None),
            (RequestKind::Create(_), Some(_)) => (LeaseAnswer::Conflict, None),
            (RequestKind::Create(content), None) => {
                let uid = format!("uid-{}", self.version).into();
                self.write(name, uid, content)
            }
            (RequestKind::Replace { version, uid, content }, Some(record)) => {
                if record.version != version || record.uid != uid {
                    return (LeaseAnswer::Conflict, None);
                }
                self.write(name, uid, content)
            }
        }
    }

    fn write(&mut self, name: &LeaseName, uid: Arc<str>, content: LeaseContent) -> (LeaseAnswer, Option<Seen>) {
        let version = self.next_version();
        let content = as_read(&content);
        let record = LeaseRecord { version, uid, content };
        self.leases.insert(name.clone(), record.clone());
        (LeaseAnswer::Record(record.clone()), Some(Seen::Record(record)))
    }

    /// Somebody edits a Lease, whatever its version is.
    pub fn edit(&mut self, name: &LeaseName, edit: impl FnOnce(&mut LeaseContent)) -> Option<Seen> {
        let version = self.next_version();
        let record = self.leases.get_mut(name)?;
        record.version = version;
        edit(&mut record.content);
        record.content = as_read(&record.content);
        Some(Seen::Record(record.clone()))
    }

    pub fn delete(&mut self, name: &LeaseName) -> Option<Seen> {
        self.leases.remove(name)?;
        Some(Seen::Absent(Some(self.next_version())))
    }

    /// All Leases.
    pub fn iter(&self) -> impl Iterator<Item = (&LeaseName, &LeaseRecord)> {
        self.leases.iter()
    }

    /// The version of a list that is served now.
    #[must_use]
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion::new(&self.version.to_string())
    }

    fn next_version(&mut self) -> ResourceVersion {
        self.version += 1;
        self.version()
    }
}

/// What a replica reads of a Lease into which this was written.
fn as_read(content: &LeaseContent) -> LeaseContent {
    let annotations: Vec<(String, String)> = content
        .annotations()
        .filter_map(|(name, text)| Some((name, text?.into_owned())))
        .collect();
    LeaseContent::from_parts(
        Some(&content.holder),
        Some(content.duration_seconds()),
        Some(content.lease_transitions()),
        annotations.iter().map(|(name, text)| (name.as_str(), text.as_str())),
    )
}
