//! The server's state as a file: all objects with their versions, so that a later server resumes where this one
//! stopped.
//!
//! ```text
//!  {"snapshot":1,"revision":912,"random":"…","objects":2}
//!  {"group":"","version":"v1","plural":"pods","object":{…}}      one line per object, definitions first
//!  {"end":2}                                                     a file without it was truncated
//! ```
//!
//! History is not kept: watches and exact lists from before the snapshot get 410 afterwards, as after a compaction. The
//! caller writes the file and makes sure that it is complete.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::definitions::{self, Definition};
use crate::history::Objects;
use crate::kinds::{Kind, group_version};
use crate::options::Options;
use crate::random::Random;
use crate::server::ApiServer;
use crate::store::Store;
use crate::stored::Stored;
use crate::tree;

/// The format that this server writes and reads.
const FORMAT: u32 = 1;

/// A snapshot of the state. Cheap to take: objects are shared with the server.
#[derive(Debug)]
pub struct ServerSnapshot {
    revision: u64,
    random: Random,
    collections: Vec<(Arc<Kind>, Objects)>,
}

/// Why a snapshot cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The first line is not that of a snapshot in a format that this version reads.
    #[error("not a snapshot of informant apiserver in format {FORMAT}: {0}")]
    Header(String),
    #[error(
        "the file is truncated: it has {found} of {expected} objects and no end mark; it was cut off while it was written or copied. \
         Use an older copy, or remove it to start with an empty server"
    )]
    Truncated {
        /// Number of objects in the header.
        expected: usize,
        /// Number of objects in the file.
        found: usize,
    },
    /// A line is invalid.
    #[error("line {line}: {problem}. Use an older copy, or remove it to start with an empty server")]
    Line {
        /// Counted from 1.
        line: usize,
        problem: String,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Serialize, Deserialize)]
struct Header {
    snapshot: u32,
    revision: u64,
    /// In hexadecimal: JSON's numbers are too small.
    random: String,
    objects: usize,
}

#[derive(Serialize)]
struct Written<'a> {
    group: &'a str,
    version: &'a str,
    plural: &'a str,
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Read {
    group: String,
    version: String,
    plural: String,
    #[serde(deserialize_with = "tree::deserialize")]
    object: Value,
}

#[derive(Serialize, Deserialize)]
struct End {
    end: usize,
}

impl ApiServer {
    /// The current state, for [`ServerSnapshot::write`].
    pub fn snapshot(&self) -> ServerSnapshot {
        let store = self.state.store();
        let filled = store
            .collections()
            .iter()
            .filter(|collection| !collection.objects.is_empty());
        let mut collections: Vec<_> = filled
            .map(|collection| (Arc::clone(&collection.kind), collection.objects.clone()))
            .collect();
        // Definitions first, so that the kinds they define are served when their objects are read.
        collections.sort_by_key(|(kind, _)| !definitions::is_definitions(kind));
        ServerSnapshot {
            revision: store.revision(),
            random: store.random.clone(),
            collections,
        }
    }

    /// A server with the state written by [`ServerSnapshot::write`].
    ///
    /// # Errors
    /// If the file is truncated, of another format, or contains objects of kinds that this server does not serve.
    pub fn restore(options: Options, snapshot: impl BufRead) -> Result<Self, SnapshotError> {
        let mut store = Store::new(&options);
        read(&mut store, snapshot)?;
        Ok(Self::with_store(options, store))
    }
}

impl ServerSnapshot {
    /// The revision of the newest write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Writes the snapshot, line by line.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let objects = self.collections.iter().map(|(_, objects)| objects.len()).sum();
        let header = Header {
            snapshot: FORMAT,
            revision: self.revision,
            random: format!("{:016x}", self.random.state()),
            objects,
        };
        line(out, &header)?;
        for (kind, objects) in &self.collections {
            for stored in objects.values() {
                let object: &RawValue = serde_json::from_slice(stored.json())?;
                let written = Written {
                    group: &kind.group,
                    version: &kind.version,
                    plural: &kind.plural,
                    object,
                };
                line(out, &written)?;
            }
        }
        line(out, &End { end: objects })?;
        out.flush()
    }
}

fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

fn read(store: &mut Store, snapshot: impl BufRead) -> Result<(), SnapshotError> {
    let mut lines = snapshot.lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    let header: Header = serde_json::from_str(&first).map_err(|error| SnapshotError::Header(error.to_string()))?;
    let random = u64::from_str_radix(&header.random, 16);
    let random = random.map_err(|error| SnapshotError::Header(format!("random: {error}")))?;
    if header.snapshot != FORMAT {
        return Err(SnapshotError::Header(format!("it is in format {}", header.snapshot)));
    }
    for found in 0..header.objects {
        let truncated = SnapshotError::Truncated {
            expected: header.objects,
            found,
        };
        let Some(text) = lines.next().transpose()? else {
            return Err(truncated);
        };
        // The last line of a truncated file may be incomplete.
        let parsed: Result<Read, _> = serde_json::from_str(&text);
        let read = match parsed {
            Ok(read) => read,
            Err(error) if error.is_eof() => return Err(truncated),
            Err(error) => return Err(at_line(found, error.to_string())),
        };
        put(store, &read).map_err(|problem| at_line(found, problem))?;
    }
    let end = lines.next().transpose()?.unwrap_or_default();
    match serde_json::from_str(&end) {
        Ok(End { end }) if end == header.objects => {}
        _ => {
            return Err(SnapshotError::Truncated {
                expected: header.objects,
                found: header.objects,
            });
        }
    }
    store.random = Random::new(random);
    store.resume_at(header.revision);
    Ok(())
}

fn at_line(object: usize, problem: String) -> SnapshotError {
    SnapshotError::Line {
        line: object + 2,
        problem,
    }
}

fn put(store: &mut Store, read: &Read) -> Result<(), String> {
    let (group, version, plural) = (&read.group, &read.version, &read.plural);
    // A custom resource may be stored in a version that is not served.
    let slot = store
        .served(group, version, plural)
        .map(|served| served.slot)
        .or_else(|| store.defined(group, plural));
    let Some(slot) = slot else {
        return Err(format!(
            "{plural} of {} are not served by this version of Informant",
            group_version(group, version)
        ));
    };
    let metadata = &read.object["metadata"];
    let revision = metadata["resourceVersion"]
        .as_str()
        .and_then(|version| version.parse().ok());
    let Some(revision) = revision.filter(|_| metadata["name"].is_string()) else {
        return Err("an object has no name or resourceVersion".to_owned());
    };
    if definitions::is_definitions(&store.collection(slot).kind) {
        let accepted = read.object["status"]["conditions"]
            .as_array()
            .is_some_and(|conditions| {
                conditions
                    .iter()
                    .any(|it| it["type"] == "NamesAccepted" && it["status"] == "True")
            });
        let definition = Definition::read(&read.object).map_err(|status| status.message)?;
        if accepted {
            store.define(definition);
        }
    }
    let stored = Stored::new(&store.collection(slot).kind, &read.object, revision);
    store.restore(slot, stored);
    Ok(())
}
