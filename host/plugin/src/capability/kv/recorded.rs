//! The keys as a call that is captured uses them: what it reads and changes is recorded.

use std::sync::Arc;

use super::key_value::{KvChange, KvHandled, KvHeld, KvSpace, KvUsage};
use crate::capture::{Record, Recorder, Tape};

/// Records what passes through.
struct RecordedSpace {
    space: Arc<dyn KvSpace>,
    recorder: Arc<Recorder>,
}

/// The same keys, recorded if the present call is captured.
pub(super) fn recorded(space: Arc<dyn KvSpace>, tape: &Tape) -> Arc<dyn KvSpace> {
    match tape.recorder() {
        Some(recorder) => Arc::new(RecordedSpace { space, recorder }),
        None => space,
    }
}

impl RecordedSpace {
    fn note(&self, changes: &[KvChange]) {
        for (key, value) in changes {
            self.recorder.record(Record::KeyChange(key.clone(), value.clone()));
        }
    }
}

impl KvSpace for RecordedSpace {
    fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        let value = self.space.get(key);
        self.recorder.record(Record::Key(key.to_owned(), value.clone()));
        value
    }

    fn keys(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String> {
        let keys = self.space.keys(prefix, cursor, max);
        for key in &keys {
            self.recorder.record(Record::Key(key.clone(), self.space.get(key)));
        }
        keys
    }

    fn usage(&self) -> KvUsage {
        self.space.usage()
    }

    fn room(&self) -> usize {
        self.space.room()
    }

    fn failure(&self) -> Option<String> {
        self.space.failure()
    }

    fn commit(&self, changes: Vec<KvChange>, handled: Option<KvHandled>) {
        self.note(&changes);
        self.space.commit(changes, handled);
    }

    fn hold(&self, changes: Vec<KvChange>) -> KvHeld {
        self.note(&changes);
        self.space.hold(changes)
    }
}
