//! The begin of a term: claims the journal, then reads what is in the Secrets.

use informant_cache::Moment;

use super::error::SharedStateError;
use super::format::{ChunkContent, JournalContent, Stamp};
use super::journal::{Phase, SharedJournal};
use super::layout::Layout;
use super::request::{SecretAnswer, SharedPart};
use super::task::{Attempt, Task};
use crate::key_value::KeyBatch;

impl SharedJournal {
    /// The first answer about the journal: claims it.
    pub(super) fn journal_read(&mut self, answer: SecretAnswer) {
        let SecretAnswer::Found { version, data } = answer else {
            self.set_task(Task::ReadFirstChunk);
            return;
        };
        match JournalContent::decode(&self.options.group, &data) {
            Ok(journal) => {
                self.version = Some(version);
                self.claim(journal);
            }
            Err(error) => self.refuse(error),
        }
    }

    /// Without a journal there must be nothing.
    pub(super) fn first_chunk_read(&mut self, answer: SecretAnswer) {
        match answer {
            SecretAnswer::Missing => {
                if self.options.lease_transitions > 1 {
                    let (group, terms) = (&self.options.group, self.options.lease_transitions);
                    tracing::warn!(
                        group,
                        terms,
                        "no shared state found, although replicas have acted before: plugins remember nothing"
                    );
                }
                self.version = None;
                self.claim(JournalContent::default());
            }
            _ => self.set_task(Task::Doubt(SharedStateError::missing(
                SharedPart::Journal,
                &self.options.group,
            ))),
        }
    }

    /// Writes the journal as it was found, with the next epoch.
    fn claim(&mut self, mut journal: JournalContent) {
        self.term.epoch = journal.term.epoch + 1;
        self.sequence = journal.sequence + 1;
        journal.term = self.term.clone();
        journal.sequence = self.sequence;
        let data = journal.encode(&self.options.group);
        let attempt = Attempt::new(SharedPart::Journal, data, self.version.clone(), KeyBatch::default());
        self.set_task(Task::Write(attempt));
        self.layout = Layout::of(journal, self.sizes.chunk_bytes_max);
    }

    /// Reads the chunks, one after the other; after the last one the state is open.
    pub(super) fn chunk_read(&mut self, now: Moment, number: u32, answer: SecretAnswer) {
        let group = &self.options.group;
        let read = match answer {
            SecretAnswer::Found { version, data } => ChunkContent::decode(group, number, &data).and_then(|content| {
                let last = Stamp {
                    epoch: self.term.epoch,
                    sequence: self.sequence,
                };
                match self.layout.load(number, content, version, last) {
                    true => Ok(()),
                    false => Err(SharedStateError::mismatched(SharedPart::Chunk(number), group)),
                }
            }),
            _ if self.layout.may_be_missing(number) => Ok(()),
            _ => Err(SharedStateError::missing(SharedPart::Chunk(number), group)),
        };
        match read {
            Ok(()) => self.read_chunk_or_open(now, number + 1),
            Err(error) => self.set_task(Task::Doubt(error)),
        }
    }

    /// A chunk does not belong to the journal that was read: another replica may have claimed and written both.
    pub(super) fn doubted(&mut self, error: SharedStateError, answer: SecretAnswer) {
        let lost = match &answer {
            SecretAnswer::Found { .. } if self.term.epoch == 0 => return self.journal_read(answer),
            SecretAnswer::Found { data, .. } => self.lost_to(data),
            _ => None,
        };
        match lost {
            Some(lost) => self.lose(lost, None),
            None => self.refuse(error),
        }
    }

    pub(super) fn read_chunk_or_open(&mut self, now: Moment, number: u32) {
        if number < self.layout.chunk_count() {
            self.set_task(Task::ReadChunk(number));
            return;
        }
        self.table.restore(self.layout.rows());
        self.phase = Phase::Running;
        self.recovered();
        self.pace.checked = now;
        let (epoch, chunks) = (self.term.epoch, number);
        tracing::info!(epoch, chunks, "shared state opened");
    }
}
