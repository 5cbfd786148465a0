//! What a holder does next: writes the journal, folds it, or compares what is in the Secrets with memory.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};

use super::format::{JournalContent, RowChange, Stamp, row_cost_bytes};
use super::journal::SharedJournal;
use super::limits::CHECK_INTERVAL;
use super::request::{SecretAnswer, SharedPart};
use super::task::{Attempt, Task};
use crate::key_value::KeyBatch;
use crate::row::{RowKey, RowKind};

/// How often the age of what is not written is shown.
const OBSERVATION_INTERVAL: Duration = Duration::from_secs(1);

impl SharedJournal {
    /// What is to be done now, or when to ask again.
    pub(super) fn choose(&mut self, now: Moment) -> Result<Task, Moment> {
        let has_pending = self.table.has_pending();
        let due = self
            .pace
            .written
            .map_or(now, |began| began + self.options.group_interval);
        let is_due = self.pace.rewrites || has_pending && now >= due;
        let chunk = self.layout.next_chunk();
        // In turn, so that a fold delays no group by more than one chunk.
        if is_due
            && !(self.pace.is_turn_of_chunk && chunk.is_some())
            && let Some(attempt) = self.compose(now)
        {
            self.pace.is_turn_of_chunk = true;
            return Ok(Task::Write(attempt));
        }
        self.pace.is_turn_of_chunk = false;
        if let Some(number) = chunk {
            return Ok(Task::Write(self.chunk_attempt(number)));
        }
        // Also while changes arrive all the time.
        let check = self.pace.checked + CHECK_INTERVAL;
        match now >= check {
            true => Ok(Task::Check(self.part_to_check())),
            false if has_pending => Err(due.min(check)),
            false => Err(check),
        }
    }

    /// The next write of the journal; none if nothing fits into it before the end of the fold.
    fn compose(&mut self, now: Moment) -> Option<Attempt> {
        let in_journal = self.layout.changes_bytes();
        let is_empty = in_journal == 0 && !self.layout.is_folding();
        let mut batch = self
            .table
            .take_at_most(self.sizes.write_bytes_max.saturating_sub(in_journal), is_empty);
        let is_nothing = batch.is_empty() && batch.ends.is_empty();
        if is_nothing && self.layout.is_folding() && !self.pace.rewrites {
            return None;
        }
        self.sequence += 1;
        let full = in_journal + batch_bytes(&batch) > self.sizes.journal_bytes_max;
        let stamp = Stamp {
            epoch: self.term.epoch,
            sequence: self.sequence,
        };
        // What does not fit needs a fold as well.
        if self.layout.can_fold() && (full || is_nothing && !self.pace.rewrites) {
            self.layout.begin_fold(stamp);
        }
        self.layout.add_changes(changes_of(&batch), self.sequence);
        // The first rows: without a chunk, a journal that was deleted would pass for one that never was.
        if self.layout.chunk_count() == 0 && self.layout.can_fold() {
            self.layout.begin_fold(stamp);
        }
        self.pace.rewrites = false;
        self.pace.written = Some(now);
        self.pace.writing_since = self.pace.pending_since.take();
        let mut journal = JournalContent {
            term: self.term.clone(),
            sequence: self.sequence,
            ..JournalContent::default()
        };
        self.layout.describe(&mut journal);
        let data = journal.encode(&self.options.group);
        if seeded_bug(SeededBug::EndsBeforeWrite) {
            let _ = batch.report_ends();
        }
        Some(Attempt::new(SharedPart::Journal, data, self.version.clone(), batch))
    }

    fn chunk_attempt(&self, number: u32) -> Attempt {
        let data = self.layout.chunk_data(&self.options.group, number);
        let version = self.layout.chunk_version(number);
        Attempt::new(SharedPart::Chunk(number), data, version, KeyBatch::default())
    }

    fn part_to_check(&mut self) -> SharedPart {
        let number = self.pace.next_check;
        self.pace.next_check = if number < self.layout.chunk_count() {
            number + 1
        } else {
            0
        };
        match number.checked_sub(1) {
            Some(chunk) => SharedPart::Chunk(chunk),
            None => SharedPart::Journal,
        }
    }

    /// Compares what was read with memory. Nothing was written since the last answer, so a difference is somebody
    /// else's.
    pub(super) fn checked(&mut self, now: Moment, part: SharedPart, answer: SecretAnswer) {
        self.recovered();
        self.pace.checked = now;
        let found = match answer {
            SecretAnswer::Found { version, data } => Some((version, data)),
            _ => None,
        };
        let version = found.as_ref().map(|(version, _)| version);
        match part {
            SharedPart::Journal if version == self.version.as_ref() => {}
            SharedPart::Journal => {
                if let Some(lost) = found.as_ref().and_then(|(_, data)| self.lost_to(data)) {
                    return self.lose(lost, None);
                }
                self.report_rewrite(part);
                self.version = found.map(|(version, _)| version);
                self.pace.rewrites = true;
            }
            SharedPart::Chunk(number) => {
                let attempt = self.chunk_attempt(number);
                // It may be one that was planned, and never written: there is nothing to compare.
                if version == attempt.version.as_ref() || self.layout.is_unsettled(number) {
                    return;
                }
                // The version is not taken from the answer: a conflict looks into the journal first.
                self.set_task(Task::Write(attempt));
            }
        }
    }

    /// Shows how old the oldest change is that is not written.
    pub(super) fn observe(&mut self, now: Moment) {
        if self.pace.pending_since.is_none() && self.table.has_pending() {
            self.pace.pending_since = Some(now);
        }
        let oldest = self.pace.writing_since.or(self.pace.pending_since);
        let age = oldest.map_or(Duration::ZERO, |since| now.since(since));
        self.metrics.unwritten_seconds.set(age.as_secs_f64());
    }

    /// When to [observe](Self::observe) again, while an answer is awaited.
    pub(super) fn next_observation(&self, now: Moment) -> Moment {
        match self.pace.writing_since.or(self.pace.pending_since) {
            Some(_) => now + OBSERVATION_INTERVAL,
            None => Moment::NEVER,
        }
    }
}

fn changes_of(batch: &KeyBatch) -> impl Iterator<Item = RowChange> {
    batch
        .changes
        .iter()
        .map(|(space, (key, value))| (row_key(space, key), value.clone()))
}

fn row_key((plugin, kind): &(Arc<str>, RowKind), key: &str) -> RowKey {
    RowKey {
        plugin: Arc::clone(plugin),
        kind: *kind,
        key: key.into(),
    }
}

fn batch_bytes(batch: &KeyBatch) -> usize {
    changes_of(batch)
        .map(|(key, value)| row_cost_bytes(&key, value.as_ref()))
        .sum()
}
