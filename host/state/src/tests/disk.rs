//! A disk that records every write, may be full, and can be examined as a crash would leave it.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard};

use redb::StorageBackend;

use super::*;
use crate::file::{self, OpenError, OpenedDatabase};

/// An operation on a disk.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Write(u64, Vec<u8>),
    Length(u64),
    Sync,
}

/// A disk; clones share it.
#[derive(Clone, Default)]
pub(super) struct Disk(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    ops: Vec<Op>,
    /// How many writes it accepts before it is full.
    room: Option<usize>,
}

/// A process on it. None if the content is not accepted.
pub(super) fn start_on(disk: &Disk) -> Option<Process> {
    let metrics = StateMetrics::default();
    let store = catch_unwind(AssertUnwindSafe(|| disk.store(metrics.clone())));
    let store = store.ok().flatten()?;
    Some(Process::start_on(Path::new("disk"), store, metrics, options()))
}

/// What a power cut may leave: flushed writes survive, others may or may not.
#[derive(Clone, Debug, Default)]
pub(super) struct Platter {
    flushed: Vec<u8>,
    since: Vec<Op>,
}

impl Disk {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        let disk = Self::default();
        disk.content().bytes = bytes;
        disk
    }

    /// Its content if the process is killed now.
    pub(super) fn after_kill(&self) -> Self {
        Self::of(self.content().bytes.clone())
    }

    /// The operations since the last call.
    pub(super) fn ops(&self) -> Vec<Op> {
        std::mem::take(&mut self.content().ops)
    }

    /// It is full after this many writes; `None`: never.
    pub(super) fn set_room(&self, writes: Option<usize>) {
        self.content().room = writes;
    }

    /// A store on it. None if the content is not accepted.
    pub(super) fn store(&self, metrics: StateMetrics) -> Option<TableStore> {
        let disk = self.clone();
        let open = move || match file::open_on(disk.clone()) {
            Ok(database) => Ok(OpenedDatabase {
                database,
                set_aside: None,
            }),
            Err(error) => Err(OpenError::Io {
                path: "disk".into(),
                source: io::Error::other(error),
            }),
        };
        TableStore::open_by(Box::new(open), "disk".into(), metrics).ok()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap()
    }
}

impl Platter {
    pub(super) fn apply(&mut self, op: Op) {
        match op {
            Op::Sync => {
                self.flushed = self.with(|_| true);
                self.since.clear();
            }
            op => self.since.push(op),
        }
    }

    /// With all writes: the process is gone, the system continues.
    pub(super) fn after_kill(&self) -> Vec<u8> {
        self.with(|_| true)
    }

    /// With half of the last write.
    pub(super) fn torn(&self) -> Option<Vec<u8>> {
        let (Op::Write(offset, data), before) = self.since.split_last()? else {
            return None;
        };
        let mut torn = self.clone();
        torn.since = before.to_vec();
        torn.since.push(Op::Write(*offset, data[..data.len() / 2].to_vec()));
        Some(torn.after_kill())
    }

    /// With those unflushed writes for which `survives` returns true.
    pub(super) fn with(&self, survives: impl Fn(usize) -> bool) -> Vec<u8> {
        let mut bytes = self.flushed.clone();
        for (place, op) in self.since.iter().enumerate() {
            match op {
                Op::Length(length) => bytes.resize(*length as usize, 0),
                Op::Write(offset, data) if survives(place) => write(&mut bytes, *offset, data),
                Op::Write(..) | Op::Sync => {}
            }
        }
        bytes
    }
}

fn write(bytes: &mut [u8], offset: u64, data: &[u8]) {
    let offset = offset as usize;
    bytes[offset..offset + data.len()].copy_from_slice(data);
}

impl Content {
    fn take_room(&mut self) -> io::Result<()> {
        match &mut self.room {
            Some(0) => Err(io::ErrorKind::StorageFull.into()),
            Some(writes) => {
                *writes -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.content().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.content();
        let found = content.bytes.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut content = self.content();
        content.take_room()?;
        content.bytes.resize(length as usize, 0);
        content.ops.push(Op::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.content();
        content.take_room()?;
        content.ops.push(Op::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut content = self.content();
        content.take_room()?;
        write(&mut content.bytes, offset, data);
        content.ops.push(Op::Write(offset, data.to_vec()));
        Ok(())
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Disk")
    }
}
