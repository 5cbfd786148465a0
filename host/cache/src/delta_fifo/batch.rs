//! Several keys' deltas taken out of the queue together.

use crate::delta::{Delta, Deltas};

/// The deltas of several distinct keys, in the order of the queue. A buffer: keep it and hand it in again.
///
/// Goes back to [`DeltaFifo::batch_done`](crate::DeltaFifo::batch_done) once it is processed: only then do its keys
/// count as processed for the initial list.
#[derive(Debug, Default)]
pub struct Batch {
    deltas: Vec<Delta>,
    /// For each key the end of its deltas.
    ends: Vec<usize>,
    pub(super) is_in_initial_list: bool,
    pub(super) initial_keys: usize,
}

impl Batch {
    /// An empty one.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Whether these keys are of the initial list. A batch is wholly or not at all.
    #[must_use]
    pub fn is_in_initial_list(&self) -> bool {
        self.is_in_initial_list
    }

    /// How many keys it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All deltas: key after key, and of each key oldest first.
    #[must_use]
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    /// The deltas of each key, oldest first, never empty.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[Delta]> {
        self.ends.iter().enumerate().map(|(index, &end)| {
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            &self.deltas[start..end]
        })
    }

    pub(super) fn push(&mut self, deltas: Deltas) {
        deltas.drain_into(&mut self.deltas);
        self.ends.push(self.deltas.len());
    }

    pub(super) fn clear(&mut self) {
        self.deltas.clear();
        self.ends.clear();
        self.is_in_initial_list = false;
        self.initial_keys = 0;
    }
}
