//! Records of all plugins in one limit of bytes, by plugin: one with many does not displace those of others.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// Records that are looked at under one lock: 512. Plugins that are recorded wait for it.
const LOCKED_RECORDS_MAX: usize = 512;

/// What is recorded.
pub(super) trait Record {
    fn size_bytes(&self) -> usize;
}

/// The records of all plugins.
pub(super) struct Rings<T> {
    bytes_max: usize,
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    rings: BTreeMap<Box<str>, Ring<T>>,
    bytes: usize,
    /// The number of the next record.
    next: u64,
    dropped: u64,
}

/// The records of one plugin, with their numbers, oldest first.
struct Ring<T> {
    records: VecDeque<(u64, Arc<T>)>,
    bytes: usize,
}

/// A part of the records.
#[derive(Debug)]
pub(crate) struct Selected<T> {
    /// The number of the record that follows.
    pub(crate) next: u64,
    /// Whether there were more than requested; these are the newest.
    pub(crate) has_more: bool,
    /// Oldest first.
    pub(crate) records: Vec<Arc<T>>,
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingsUsage {
    pub(crate) bytes: usize,
    pub(crate) records: usize,
    /// Records that made room for others.
    pub(crate) dropped: u64,
}

impl<T: Record> Rings<T> {
    /// Keeps at most this many bytes. Above it the oldest of the plugin with most of them are dropped, and counted.
    pub(super) fn new(bytes_max: usize) -> Rings<T> {
        Rings {
            bytes_max,
            kept: Mutex::new(Kept {
                rings: BTreeMap::new(),
                bytes: 0,
                next: 0,
                dropped: 0,
            }),
        }
    }

    pub(super) fn add(&self, plugin: &str, record: T) {
        let bytes = record.size_bytes();
        let mut kept = lock(&self.kept);
        let number = kept.next;
        kept.next += 1;
        kept.bytes += bytes;
        if !kept.rings.contains_key(plugin) {
            let ring = Ring {
                records: VecDeque::new(),
                bytes: 0,
            };
            kept.rings.insert(plugin.into(), ring);
        }
        if let Some(ring) = kept.rings.get_mut(plugin) {
            ring.bytes += bytes;
            ring.records.push_back((number, Arc::new(record)));
        }
        while kept.bytes > self.bytes_max && kept.drop_one() {}
    }

    pub(super) fn usage(&self) -> RingsUsage {
        let kept = lock(&self.kept);
        RingsUsage {
            bytes: kept.bytes,
            records: kept.rings.values().map(|ring| ring.records.len()).sum(),
            dropped: kept.dropped,
        }
    }

    /// The newest `max` records from number `from` on that are meant, of one plugin or of all. A number of an earlier
    /// process may be larger than any here, and means all.
    pub(super) fn select(
        &self,
        plugin: Option<&str>,
        (from, max): (u64, usize),
        mut is_meant: impl FnMut(&T) -> bool,
    ) -> Selected<T> {
        let (next, plugins) = {
            let kept = lock(&self.kept);
            let names: Vec<Box<str>> = match plugin {
                Some(name) => vec![name.into()],
                None => kept.rings.keys().cloned().collect(),
            };
            (kept.next, names)
        };
        let from = if from > next { 0 } else { from };
        let mut found = Vec::new();
        for plugin in plugins {
            // One more shows that there are more.
            self.select_of(&plugin, from..next, max.saturating_add(1), &mut is_meant, &mut found);
        }
        found.sort_unstable_by_key(|(number, _)| *number);
        let more = found.len().saturating_sub(max);
        Selected {
            next,
            has_more: more > 0,
            records: found.into_iter().skip(more).map(|(_, record)| record).collect(),
        }
    }

    /// Adds the newest `max` records of one plugin that are meant.
    fn select_of(
        &self,
        plugin: &str,
        mut numbers: Range<u64>,
        max: usize,
        is_meant: &mut impl FnMut(&T) -> bool,
        found: &mut Vec<(u64, Arc<T>)>,
    ) {
        let end = found.len().saturating_add(max);
        while !numbers.is_empty() {
            let kept = lock(&self.kept);
            let Some(ring) = kept.rings.get(plugin) else { return };
            let older = ring.records.partition_point(|(number, _)| *number < numbers.end);
            let looked_at = ring.records.range(..older).rev().take(LOCKED_RECORDS_MAX);
            let mut oldest = None;
            for (number, record) in looked_at.take_while(|(number, _)| numbers.contains(number)) {
                oldest = Some(*number);
                if found.len() < end && is_meant(record) {
                    found.push((*number, Arc::clone(record)));
                }
            }
            match oldest {
                Some(number) if found.len() < end => numbers.end = number,
                _ => return,
            }
        }
    }
}

impl<T: Record> Kept<T> {
    /// Drops the oldest record of the plugin with most bytes.
    fn drop_one(&mut self) -> bool {
        let largest = self.rings.iter_mut().max_by_key(|(_, ring)| ring.bytes);
        let Some((name, ring)) = largest else { return false };
        let dropped = ring.records.pop_front();
        let bytes = dropped.map_or(0, |(_, record)| record.size_bytes());
        ring.bytes -= bytes;
        self.bytes -= bytes;
        self.dropped += 1;
        if ring.records.is_empty() {
            let name = name.clone();
            self.rings.remove(&name);
        }
        bytes > 0
    }
}
