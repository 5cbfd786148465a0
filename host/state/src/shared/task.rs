//! One request to the API server, and what it is for.

use std::sync::Arc;

use super::error::SharedStateError;
use super::request::{SecretRequest, SecretVerb, SharedPart};
use crate::key_value::KeyBatch;

/// What is to be done, or waits for its answer.
pub(super) enum Task {
    ReadJournal,
    /// There is no journal: there must be no chunk.
    ReadFirstChunk,
    ReadChunk(u32),
    Write(Attempt),
    /// Whether the write took effect, and what to do if not.
    Resolve(Attempt),
    /// The chunk was written by somebody else: whether the journal is still this replica's.
    Confirm(Attempt),
    /// Whether a chunk is refused for this, or was written by a successor.
    Doubt(SharedStateError),
    /// Compares a Secret with memory.
    Check(SharedPart),
}

/// A write that is repeated with the same bytes until it has taken effect.
pub(super) struct Attempt {
    pub(super) part: SharedPart,
    pub(super) data: Arc<[u8]>,
    /// None: the Secret is to be created.
    pub(super) version: Option<String>,
    /// The ends that it reports.
    pub(super) batch: KeyBatch,
    pub(super) conflicts: u32,
}

impl Task {
    /// The request that does it.
    pub(super) fn request(&self, group: &str) -> SecretRequest {
        let (part, verb) = match self {
            Task::ReadJournal | Task::Confirm(_) | Task::Doubt(_) => (SharedPart::Journal, SecretVerb::Get),
            Task::ReadFirstChunk => (SharedPart::Chunk(0), SecretVerb::Get),
            Task::ReadChunk(number) => (SharedPart::Chunk(*number), SecretVerb::Get),
            Task::Check(part) => (*part, SecretVerb::Get),
            Task::Resolve(attempt) => (attempt.part, SecretVerb::Get),
            Task::Write(Attempt {
                part, data, version, ..
            }) => match version {
                Some(version) => (*part, SecretVerb::Update(Arc::clone(data), version.clone())),
                None => (*part, SecretVerb::Create(Arc::clone(data))),
            },
        };
        let name = part.secret_name(group);
        SecretRequest { name, verb }
    }

    /// Whether it is a part of a write.
    pub(super) fn writes(&self) -> bool {
        self.attempt().is_some()
    }

    /// How many events end with it.
    pub(super) fn ends(&self) -> usize {
        self.attempt().map_or(0, |attempt| attempt.batch.ends.len())
    }

    fn attempt(&self) -> Option<&Attempt> {
        match self {
            Task::Write(attempt) | Task::Resolve(attempt) | Task::Confirm(attempt) => Some(attempt),
            _ => None,
        }
    }
}

impl Attempt {
    pub(super) fn new(part: SharedPart, data: Arc<[u8]>, version: Option<String>, batch: KeyBatch) -> Self {
        Self {
            part,
            data,
            version,
            batch,
            conflicts: 0,
        }
    }
}
