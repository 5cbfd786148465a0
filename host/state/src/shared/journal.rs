//! The journal of one term: from the claim of the state until it is lost or dropped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};

use super::error::SharedStateError;
use super::format::{JournalContent, Term};
use super::layout::Layout;
use super::limits::{RETRY_PAUSE_MAX, Sizes};
use super::metrics::SharedMetrics;
use super::request::{SecretAnswer, SecretFailure, SecretRequest, SharedPart};
use super::task::{Attempt, Task};
use crate::journal::RecorderWaker;
use crate::key_value::{KeySpace, KeyTable};
use crate::row::RowKind;

/// The pause before the first repetition of a failed request; it doubles.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(100);

/// Conflicts of one write without a pause: one for an answer that was lost, and one for an edit.
const CONFLICTS_WITHOUT_PAUSE_MAX: u32 = 2;

/// What a journal needs to know.
#[derive(Clone, Debug)]
pub struct SharedOptions {
    /// The group of replicas; part of the Secrets' names.
    pub group: String,
    /// The name of this process in the Lease, for people. No other process has it, also not an earlier one of the pod:
    /// if the Secrets were deleted, two processes may have the same epoch.
    pub holder: String,
    /// The transitions of the Lease, for people.
    pub lease_transitions: u64,
    /// The shortest time between the begin of two writes of the journal.
    pub group_interval: Duration,
}

/// What the caller is to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedStep {
    /// Send this request, then pass its answer to [`SharedJournal::answer`].
    Send(SecretRequest),
    /// Wait until then, for an answer, or for the waker.
    Wait(Moment),
    /// Another replica has taken the state over: close the gate at once. Nothing more is written.
    Lost(SharedLost),
    /// The state cannot be used. Nothing of it was changed but the epoch.
    Refused(SharedStateError),
}

/// Another replica has taken the state over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{holder} holds the shared state now, with epoch {epoch}; the epoch of this replica was {former}")]
pub struct SharedLost {
    /// The new holder; as it can be read.
    pub holder: String,
    /// The new epoch.
    pub epoch: u64,
    /// The epoch of this replica.
    pub former: u64,
}

/// The shared state in the hands of one replica, for one term: from the claim until it is lost or dropped. Its key
/// spaces end with it: they change nothing any more, and ends of events that wait are not reported.
pub struct SharedJournal {
    pub(super) options: SharedOptions,
    pub(super) sizes: Sizes,
    pub(super) metrics: SharedMetrics,
    pub(super) table: Arc<KeyTable>,
    waker: Arc<RecorderWaker>,
    pub(super) term: Term,
    /// The number of the journal's last write.
    pub(super) sequence: u64,
    /// The version of the journal; none: it does not exist.
    pub(super) version: Option<String>,
    pub(super) layout: Layout,
    pub(super) phase: Phase,
    /// What is to be done, or waits for its answer.
    task: Option<Task>,
    is_sent: bool,
    not_before: Moment,
    retry_pause: Duration,
    pub(super) pace: Pace,
}

/// When the journal is written.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the last write of the journal began.
    pub(super) written: Option<Moment>,
    /// When a Secret was written or compared.
    pub(super) checked: Moment,
    /// The Secret that is compared next: the journal, then the chunks.
    pub(super) next_check: u32,
    /// The journal is to be written, whatever has changed.
    pub(super) rewrites: bool,
    /// A chunk comes before the journal.
    pub(super) is_turn_of_chunk: bool,
    /// Since when the changes wait that are not in a write yet, and those that are.
    pub(super) pending_since: Option<Moment>,
    pub(super) writing_since: Option<Moment>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Opening,
    Running,
    Over(SharedStep),
}

impl SharedJournal {
    /// Begins a term. Nothing is known before it [is open](Self::is_open).
    #[must_use]
    pub fn new(options: SharedOptions, metrics: SharedMetrics) -> Self {
        Self::with_sizes(options, metrics, Sizes::default())
    }

    pub(super) fn with_sizes(options: SharedOptions, metrics: SharedMetrics, sizes: Sizes) -> Self {
        Self {
            term: Term {
                epoch: 0,
                holder: options.holder.clone(),
                lease_transitions: options.lease_transitions,
            },
            options,
            sizes,
            metrics,
            table: Arc::new(KeyTable::strict()),
            waker: Arc::default(),
            sequence: 0,
            version: None,
            layout: Layout::default(),
            phase: Phase::Opening,
            task: Some(Task::ReadJournal),
            is_sent: false,
            not_before: Moment::ZERO,
            retry_pause: RETRY_PAUSE_MIN,
            pace: Pace::default(),
        }
    }

    /// Sets the callback that is called whenever something is pending, from any thread. Only the first one counts.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        // There is one caller.
        let _ = self.waker.callback.set(Box::new(waker));
    }

    /// Whether the state was claimed and read, and is not lost.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Running
    }

    /// The epoch of this term; zero until it is claimed.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.term.epoch
    }

    /// The rows of one kind of a plugin. They are empty until this [is open](Self::is_open).
    #[must_use]
    pub fn space(&self, plugin: &str, kind: RowKind) -> KeySpace {
        KeySpace::new((plugin.into(), kind), &self.table, &self.waker, &self.metrics.failing)
    }

    /// Deletes the rows of all plugins but these.
    pub fn keep_only_plugins(&self, plugins: &BTreeSet<String>) {
        for (plugin, keys) in self.table.keep_only(plugins) {
            tracing::warn!(%plugin, keys, "plugin keys deleted, because config.toml has no such plugin");
        }
        self.waker.notify();
    }

    /// Writes what is pending without waiting for the interval: for a hand-over. See [`is_written`](Self::is_written).
    pub fn flush(&mut self) {
        self.options.group_interval = Duration::ZERO;
    }

    /// Whether everything is written, and all ends are reported.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.is_open() && !self.table.has_pending() && !matches!(&self.task, Some(task) if task.writes())
    }

    /// What to do next. Call it again after each [`Send`](SharedStep::Send), after the answer, and after a wait.
    pub fn step(&mut self, now: Moment) -> SharedStep {
        if let Phase::Over(step) = &self.phase {
            return step.clone();
        }
        self.observe(now);
        if self.is_sent {
            return SharedStep::Wait(self.next_observation(now));
        }
        if now < self.not_before {
            return SharedStep::Wait(self.not_before);
        }
        let task = match self.task.take() {
            Some(task) => task,
            None => match self.choose(now) {
                Ok(task) => task,
                Err(at) => return SharedStep::Wait(at),
            },
        };
        let request = task.request(&self.options.group);
        self.task = Some(task);
        self.is_sent = true;
        SharedStep::Send(request)
    }

    /// Takes the answer to the request that was sent.
    pub fn answer(&mut self, now: Moment, answer: SecretAnswer) {
        let Some(task) = self.task.take_if(|_| self.is_sent) else {
            return;
        };
        self.is_sent = false;
        if let SecretAnswer::Failed(failure) = &answer {
            self.failed(now, &task, failure);
            self.task = Some(match task {
                Task::Write(attempt) => Task::Resolve(attempt),
                read => read,
            });
            return;
        }
        match task {
            Task::ReadJournal => self.journal_read(answer),
            Task::ReadFirstChunk => self.first_chunk_read(answer),
            Task::ReadChunk(number) => self.chunk_read(now, number, answer),
            Task::Write(attempt) => self.write_answered(now, attempt, answer),
            Task::Resolve(attempt) => self.resolve(now, attempt, answer),
            Task::Confirm(attempt) => self.confirm(attempt, answer),
            Task::Doubt(error) => self.doubted(error, answer),
            Task::Check(part) => self.checked(now, part, answer),
        }
    }

    /// A request has no result: pauses.
    fn failed(&mut self, now: Moment, task: &Task, failure: &SecretFailure) {
        let SecretRequest { name, verb } = task.request(&self.options.group);
        let (verb, message) = (verb.name(), &failure.message);
        let what = match failure.is_denied {
            true => format!(
                "Informant may not {verb} the Secret {name}: {message}; its service account needs `get`, `create` and `update` on Secrets of this namespace"
            ),
            false => format!("cannot {verb} the Secret {name}: {message}"),
        };
        self.metrics.errors.inc();
        // Once for each cause, not for each attempt.
        if self.metrics.failure().as_ref() != Some(&what) {
            tracing::warn!(secret = %name, error = %what, code = "state-failing", "shared state cannot be read or written; retrying, and events whose calls changed it do not end");
        }
        self.metrics.set_failure(Some(what));
        let asked = failure.retry_after.unwrap_or_default().min(RETRY_PAUSE_MAX);
        self.pause(now, asked);
    }

    /// A request has done what it was for. A read between two writes that fail is none: they would repeat without a
    /// growing pause.
    pub(super) fn recovered(&mut self) {
        self.metrics.set_failure(None);
        self.retry_pause = RETRY_PAUSE_MIN;
    }

    /// Waits before the next request, longer each time.
    fn pause(&mut self, now: Moment, at_least: Duration) {
        self.not_before = now + self.retry_pause.max(at_least);
        self.retry_pause = (self.retry_pause * 2).min(RETRY_PAUSE_MAX);
    }

    fn write_answered(&mut self, now: Moment, mut attempt: Attempt, answer: SecretAnswer) {
        if let SecretAnswer::Written { version } = answer {
            return self.written(now, attempt, version);
        }
        self.metrics.conflicts.inc();
        attempt.conflicts += 1;
        if attempt.conflicts > CONFLICTS_WITHOUT_PAUSE_MAX {
            self.pause(now, Duration::ZERO);
        }
        self.task = Some(Task::Resolve(attempt));
    }

    /// Whether the write took effect after all; if not, whether it may be repeated.
    fn resolve(&mut self, now: Moment, mut attempt: Attempt, answer: SecretAnswer) {
        let found = match answer {
            SecretAnswer::Found { version, data } if data[..] == attempt.data[..] => {
                return self.written(now, attempt, version);
            }
            SecretAnswer::Found { version, data } => Some((version, data)),
            _ => None,
        };
        if found.as_ref().map(|(version, _)| version) == attempt.version.as_ref() {
            self.task = Some(Task::Write(attempt));
            return;
        }
        // Somebody else may still have the state; this replica claims what that one leaves.
        if self.phase == Phase::Opening {
            self.term.epoch = 0;
            self.task = Some(Task::ReadJournal);
            return;
        }
        let is_journal = attempt.part == SharedPart::Journal;
        let lost = found.as_ref().filter(|_| is_journal);
        if let Some(lost) = lost.and_then(|(_, data)| self.lost_to(data)) {
            return self.lose(lost, Some(attempt));
        }
        self.report_rewrite(attempt.part);
        attempt.version = found.map(|(version, _)| version);
        self.task = Some(match is_journal {
            true => Task::Write(attempt),
            false => Task::Confirm(attempt),
        });
    }

    /// The chunk has a version that this replica does not know: it is written only if the journal, read afterwards, is
    /// still this replica's. So the version was not a successor's.
    fn confirm(&mut self, attempt: Attempt, answer: SecretAnswer) {
        let lost = match &answer {
            SecretAnswer::Found { data, .. } => self.lost_to(data),
            _ => {
                self.pace.rewrites = true;
                None
            }
        };
        match lost {
            Some(lost) => self.lose(lost, Some(attempt)),
            None => self.task = Some(Task::Write(attempt)),
        }
    }

    /// The write took effect.
    fn written(&mut self, now: Moment, mut attempt: Attempt, version: String) {
        self.metrics.writes.inc();
        self.metrics.written_bytes.inc_by(attempt.data.len() as u64);
        self.recovered();
        match attempt.part {
            SharedPart::Journal => self.version = Some(version),
            SharedPart::Chunk(number) => self.layout.chunk_written(number, version),
        }
        let bytes = i64::try_from(self.layout.bytes()).unwrap_or(i64::MAX);
        self.metrics.bytes.set(bytes);
        if self.phase == Phase::Opening {
            return self.read_chunk_or_open(now, 0);
        }
        if attempt.part == SharedPart::Journal {
            self.pace.writing_since = None;
        }
        let _ = attempt.batch.report_ends();
    }

    /// Who has the journal, if it is not this replica. What cannot be read was edited by hand, unless a newer Informant
    /// wrote it.
    pub(super) fn lost_to(&self, data: &[u8]) -> Option<SharedLost> {
        if seeded_bug(SeededBug::OldJournalAccepted) {
            return None;
        }
        let (holder, epoch) = match JournalContent::decode(&self.options.group, data) {
            Ok(journal) => (journal.term.holder, journal.term.epoch),
            Err(SharedStateError::Newer { .. }) => ("a newer version of Informant".to_owned(), u64::MAX),
            Err(_) => return None,
        };
        let is_own = holder == self.term.holder && epoch == self.term.epoch;
        (!is_own).then_some(SharedLost {
            holder,
            epoch,
            former: self.term.epoch,
        })
    }

    pub(super) fn report_rewrite(&self, part: SharedPart) {
        self.metrics.rewrites.inc();
        let secret = part.secret_name(&self.options.group);
        tracing::warn!(%secret, "shared state was deleted or changed by somebody else; writing it again");
    }

    /// Nothing more is written, and events that wait do not end.
    pub(super) fn lose(&mut self, lost: SharedLost, attempt: Option<Attempt>) {
        let in_flight = attempt.map_or(0, |attempt| attempt.batch.ends.len());
        self.metrics.ends_dropped.inc_by(in_flight as u64);
        self.end(SharedStep::Lost(lost));
    }

    pub(super) fn refuse(&mut self, error: SharedStateError) {
        self.metrics.set_failure(Some(error.to_string()));
        self.end(SharedStep::Refused(error));
    }

    fn end(&mut self, step: SharedStep) {
        self.metrics.ends_dropped.inc_by(self.table.end() as u64);
        self.phase = Phase::Over(step);
    }

    pub(super) fn set_task(&mut self, task: Task) {
        self.task = Some(task);
    }
}

/// Nothing more is written; events that wait do not end.
impl Drop for SharedJournal {
    fn drop(&mut self) {
        let in_flight = self.task.as_ref().map_or(0, Task::ends);
        self.metrics.ends_dropped.inc_by((in_flight + self.table.end()) as u64);
        self.metrics.set_failure(None);
        self.metrics.unwritten_seconds.set(0.0);
    }
}
