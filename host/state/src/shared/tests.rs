//! Shared state on a naive API server.

mod bad_input;
mod behavior;
mod copies;
mod formats;
mod simulation;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_object::SourceId;

use super::limits::Sizes;
use super::{SecretAnswer, SecretRequest, SecretVerb, SharedJournal, SharedMetrics, SharedOptions, SharedStep};
use crate::key_value::{EventEnd, KeyChange};
use crate::row::{Row, RowKind};

const GROUP: &str = "informant";

/// The Secrets of a namespace, with their versions.
#[derive(Clone, Default)]
struct Server {
    secrets: BTreeMap<String, (u64, Vec<u8>)>,
    last_version: u64,
}

impl Server {
    fn apply(&mut self, request: &SecretRequest) -> SecretAnswer {
        let found = self.secrets.get(&request.name);
        let version = found.map(|(version, _)| version.to_string());
        let data = match (&request.verb, found, version) {
            (SecretVerb::Get, None, _) | (SecretVerb::Update(..), None, _) => return SecretAnswer::Missing,
            (SecretVerb::Get, Some((version, data)), _) => {
                return SecretAnswer::Found {
                    version: version.to_string(),
                    data: data.clone(),
                };
            }
            (SecretVerb::Create(data), None, _) => data,
            (SecretVerb::Update(data, expected), Some(_), version) if version.as_ref() == Some(expected) => data,
            _ => return SecretAnswer::Conflict,
        };
        self.last_version += 1;
        self.secrets
            .insert(request.name.clone(), (self.last_version, data.to_vec()));
        SecretAnswer::Written {
            version: self.last_version.to_string(),
        }
    }

    /// Somebody edits a Secret.
    fn edit(&mut self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        self.last_version += 1;
        let (version, data) = self.secrets.get_mut(name).unwrap();
        *version = self.last_version;
        edit(data);
    }
}

fn options(holder: &str) -> SharedOptions {
    SharedOptions {
        group: GROUP.to_owned(),
        holder: holder.to_owned(),
        lease_transitions: 0,
        group_interval: Duration::from_millis(200),
    }
}

/// Small enough that a few keys fill several chunks.
const SMALL: Sizes = Sizes {
    journal_bytes_max: 500,
    write_bytes_max: 2_000,
    chunk_bytes_max: 700,
};

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn value(text: &str) -> Option<Arc<[u8]>> {
    Some(text.as_bytes().into())
}

fn change(key: &str, text: &str) -> Vec<KeyChange> {
    vec![(key.to_owned(), value(text))]
}

fn end(report: impl FnOnce() + Send + 'static) -> EventEnd {
    EventEnd {
        source: SourceId(1),
        key: None,
        report: Box::new(report),
    }
}

/// A replica whose requests are answered at once.
struct Replica {
    journal: SharedJournal,
    now: Moment,
    /// The requests so far.
    requests: Vec<String>,
}

impl Replica {
    fn new(holder: &str) -> Self {
        Self::of(SharedJournal::with_sizes(
            options(holder),
            SharedMetrics::default(),
            SMALL,
        ))
    }

    fn of(journal: SharedJournal) -> Self {
        Self {
            journal,
            now: Moment::ZERO,
            requests: Vec::new(),
        }
    }

    /// Opens the state.
    fn open(holder: &str, server: &mut Server) -> Self {
        let mut replica = Self::new(holder);
        replica.settle(server);
        assert!(replica.journal.is_open());
        replica
    }

    /// Steps until nothing is to be done before the time of the next check.
    fn settle(&mut self, server: &mut Server) -> SharedStep {
        loop {
            match self.journal.step(self.now) {
                SharedStep::Send(request) => {
                    self.requests.push(format!("{} {}", request.verb.name(), request.name));
                    self.journal.answer(self.now, server.apply(&request));
                }
                SharedStep::Wait(until) if until.since(self.now) <= Duration::from_secs(10) => self.now = until,
                other => return other,
            }
        }
    }

    fn set(&self, key: &str, text: &str) {
        self.journal.space("p", RowKind::Key).commit(change(key, text), None);
    }

    fn get(&self, key: &str) -> Option<String> {
        let found = self.journal.space("p", RowKind::Key).get(key);
        found.map(|value| String::from_utf8(value.to_vec()).unwrap())
    }

    fn took(&mut self) -> String {
        std::mem::take(&mut self.requests).join(", ")
    }
}

/// What the next holder would find.
fn stored(server: &Server) -> Result<Vec<Row>, String> {
    let mut server = server.clone();
    let mut next = Replica::new("probe");
    match next.settle(&mut server) {
        SharedStep::Wait(_) => Ok(next.journal.export()),
        other => Err(format!("{other:?}")),
    }
}

fn texts(rows: &[Row]) -> BTreeMap<String, String> {
    let text = |row: &Row| {
        let value = String::from_utf8_lossy(&row.value).into_owned();
        (format!("{}/{}", row.key.plugin, row.key.key), value)
    };
    rows.iter().map(text).collect()
}
