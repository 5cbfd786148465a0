//! Deletes that are kept for handlers that another process calls: if this one takes over, it delivers them.
//!
//! A ring of the deletes of all sources of a process, in the order in which they were received. Off, and without cost,
//! until [`KeptDeletes::keep`] switches it on. What it leaves out is counted in [`KeptDeletesStats`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informant_object::{Key, KeyRef, Object, Pointer, Projection, Shape, SourceId};

use crate::Moment;

/// How many deletes are kept. Above it the oldest is dropped and counted: a takeover may then lack it.
///
/// A handler that is as far behind would have as many pending events, whose limit is far lower.
pub const KEPT_DELETES_MAX: usize = 100_000;

/// How many bytes of last states are kept. Above it the oldest are cut to what identifies the object (`apiVersion`,
/// `kind`, name, namespace, uid, version, labels), and counted. The rest of these is limited by their number.
pub const KEPT_DELETES_BYTES_MAX: usize = 32 * 1_024 * 1_024;

/// The deletes that a process keeps. A clone is the same.
#[derive(Clone, Default)]
pub struct KeptDeletes(Arc<Shared>);

#[derive(Default)]
struct Shared {
    is_on: AtomicBool,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    /// Deletes that are older are dropped.
    age_max: Duration,
    deletes: VecDeque<(SourceId, KeptDelete)>,
    /// The deletes before it have been cut.
    whole_from: usize,
    /// Of the last states from `whole_from` on.
    bytes: usize,
    dropped: u64,
    cut: u64,
}

/// A delete that is kept.
#[derive(Clone, Debug)]
pub struct KeptDelete {
    /// The object.
    pub key: Key,
    /// Its last known state, or what is left of it.
    pub last: Option<Object>,
    /// The delete was not observed.
    pub final_state_unknown: bool,
    /// A version at which the object is known to be gone. None: unknown.
    pub gone_by: Option<u64>,
    /// When it was received.
    pub received: Moment,
}

/// How much is kept, and what was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptDeletesStats {
    /// Deletes kept now.
    pub deletes: usize,
    /// Bytes of those that are kept whole.
    pub bytes: usize,
    /// Deletes dropped because of [`KEPT_DELETES_MAX`].
    pub dropped: u64,
    /// Last states cut because of [`KEPT_DELETES_BYTES_MAX`].
    pub cut: u64,
}

impl KeptDeletes {
    /// Keeps the deletes of the last `age_max` from now on, and drops older ones. None: keeps none.
    pub fn keep(&self, age_max: Option<Duration>, now: Moment) {
        self.0.is_on.store(age_max.is_some(), Ordering::Relaxed);
        let mut ring = self.ring();
        match age_max {
            Some(age_max) => {
                ring.age_max = age_max;
                ring.expire(now);
            }
            None => ring.clear(),
        }
    }

    /// Whether deletes are kept.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_on.load(Ordering::Relaxed)
    }

    /// Adds a delete of `source`, if deletes are kept.
    pub fn add(&self, source: SourceId, delete: impl FnOnce() -> KeptDelete) {
        if self.is_on() {
            self.ring().add(source, delete());
        }
    }

    /// The deletes of `source`, oldest first. Visits all deletes of all sources.
    #[must_use]
    pub fn of(&self, source: SourceId) -> Vec<KeptDelete> {
        let ring = self.ring();
        let of_source = ring.deletes.iter().filter(|(of, _)| *of == source);
        of_source.map(|(_, delete)| delete.clone()).collect()
    }

    /// The deletes of `olds` whose keys are in `scope` are deletes of `new` from now on, which replaces them.
    pub fn transfer(&self, olds: &[SourceId], new: SourceId, scope: impl Fn(KeyRef<'_>) -> bool) {
        if self.is_on() {
            let mut ring = self.ring();
            let moved = ring.deletes.iter_mut();
            let moved = moved.filter(|(source, delete)| olds.contains(source) && scope(delete.key.as_ref()));
            moved.for_each(|(source, _)| *source = new);
        }
    }

    /// Drops the deletes of a source that is over.
    pub fn forget(&self, source: SourceId) {
        if self.is_on() {
            self.ring().forget(source);
        }
    }

    /// How much is kept, and what was left out.
    #[must_use]
    pub fn stats(&self) -> KeptDeletesStats {
        let ring = self.ring();
        KeptDeletesStats {
            deletes: ring.deletes.len(),
            bytes: ring.bytes,
            dropped: ring.dropped,
            cut: ring.cut,
        }
    }

    // It is consistent between calls.
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for KeptDeletes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

impl Ring {
    fn add(&mut self, source: SourceId, delete: KeptDelete) {
        self.expire(delete.received);
        if self.deletes.len() == KEPT_DELETES_MAX {
            self.drop_oldest();
            self.dropped += 1;
        }
        self.bytes += size(&delete);
        self.deletes.push_back((source, delete));
        while self.bytes > KEPT_DELETES_BYTES_MAX {
            self.cut_oldest();
        }
    }

    fn expire(&mut self, now: Moment) {
        while let Some((_, oldest)) = self.deletes.front()
            && now - oldest.received > self.age_max
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let Some((_, oldest)) = self.deletes.pop_front() else {
            return;
        };
        match self.whole_from.checked_sub(1) {
            Some(whole_from) => self.whole_from = whole_from,
            None => self.bytes -= size(&oldest),
        }
    }

    fn cut_oldest(&mut self) {
        let (_, oldest) = &mut self.deletes[self.whole_from];
        self.whole_from += 1;
        self.bytes -= size(oldest);
        if let Some(last) = &mut oldest.last {
            *last = identity_of(last);
            self.cut += 1;
        }
    }

    fn forget(&mut self, source: SourceId) {
        let mut place = 0;
        let (mut whole_from, mut bytes) = (self.whole_from, self.bytes);
        self.deletes.retain(|(of, delete)| {
            let stays = *of != source;
            match place < self.whole_from {
                true => whole_from -= usize::from(!stays),
                false if !stays => bytes -= size(delete),
                false => {}
            }
            place += 1;
            stays
        });
        (self.whole_from, self.bytes) = (whole_from, bytes);
    }

    fn clear(&mut self) {
        (self.deletes, self.whole_from, self.bytes) = (VecDeque::new(), 0, 0);
    }
}

fn size(delete: &KeptDelete) -> usize {
    delete.last.as_ref().map_or(0, Object::size_bytes)
}

/// What identifies an object, of its last state.
fn identity_of(object: &Object) -> Object {
    static IDENTITY: LazyLock<Projection> = LazyLock::new(|| {
        let fields = ["name", "namespace", "uid", "resourceVersion", "labels"];
        let fields = fields.map(|field| format!("/metadata/{field}"));
        Projection::new(&fields.map(|field| Pointer::parse(&field).expect("a pointer")))
    });
    let mut json = Vec::new();
    object.project(&IDENTITY, &mut json);
    // Too much is better than nothing.
    Object::parse(&json, &Shape::verbatim()).unwrap_or_else(|_| object.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const PODS: SourceId = SourceId(1);
    const NODES: SourceId = SourceId(2);

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn kept_for(seconds: u64) -> KeptDeletes {
        let kept = KeptDeletes::default();
        kept.keep(Some(Duration::from_secs(seconds)), at(0));
        kept
    }

    fn delete(name: &str, bytes: usize, received: u64) -> KeptDelete {
        let last = testing::object(&format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"default","name":"{name}","uid":"u",
                "resourceVersion":"7","labels":{{"app":"web"}},"annotations":{{"a":"b"}}}},"spec":"{}"}}"#,
            "x".repeat(bytes)
        ));
        KeptDelete {
            key: last.key().to_key(),
            last: Some(last),
            final_state_unknown: false,
            gone_by: Some(7),
            received: at(received),
        }
    }

    fn names(kept: &KeptDeletes, source: SourceId) -> Vec<String> {
        let deletes = kept.of(source).into_iter();
        deletes.map(|delete| delete.key.name().to_owned()).collect()
    }

    #[test]
    fn nothing_is_kept_until_it_is_switched_on() {
        let kept = KeptDeletes::default();
        kept.add(PODS, || panic!("it costs nothing"));
        kept.keep(Some(Duration::from_secs(1)), at(0));
        kept.add(PODS, || delete("a", 0, 0));
        assert_eq!(names(&kept, PODS), ["a"]);
        kept.keep(None, at(0));
        assert_eq!((kept.is_on(), kept.stats()), (false, KeptDeletesStats::default()));
    }

    #[test]
    fn deletes_older_than_the_age_are_dropped() {
        let kept = kept_for(600);
        kept.add(PODS, || delete("a", 10, 0));
        kept.add(PODS, || delete("b", 10, 300));
        kept.add(NODES, || delete("c", 10, 600));
        assert_eq!(names(&kept, PODS), ["a", "b"]);
        kept.keep(Some(Duration::from_secs(600)), at(601));
        assert_eq!(names(&kept, PODS), ["b"]);
        kept.keep(Some(Duration::from_secs(1_000)), at(1_200));
        assert_eq!(
            names(&kept, PODS),
            ["b"],
            "the age grows with what the holder has not accepted"
        );
        kept.keep(Some(Duration::from_secs(10)), at(1_200));
        assert_eq!(
            (kept.stats().deletes, kept.stats().bytes, kept.stats().dropped),
            (0, 0, 0)
        );
    }

    #[test]
    fn above_their_number_the_oldest_is_dropped_and_counted() {
        let kept = kept_for(600);
        for number in 0..KEPT_DELETES_MAX + 2 {
            let delete = KeptDelete {
                key: Key::new("default", &number.to_string()),
                last: None,
                ..delete("a", 0, 0)
            };
            kept.add(PODS, || delete);
        }
        let stats = kept.stats();
        assert_eq!((stats.deletes, stats.dropped), (KEPT_DELETES_MAX, 2));
        assert_eq!(names(&kept, PODS)[0], "2");
    }

    #[test]
    fn above_the_bytes_the_oldest_keep_what_identifies_them() {
        let kept = kept_for(600);
        let third = KEPT_DELETES_BYTES_MAX / 3;
        for name in ["a", "b", "c", "d"] {
            kept.add(PODS, || delete(name, third, 0));
        }
        let stats = kept.stats();
        assert_eq!((stats.deletes, stats.cut), (4, 2));
        assert!(stats.bytes <= KEPT_DELETES_BYTES_MAX);
        let cut = kept.of(PODS).remove(0).last.unwrap();
        let identity = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"a","uid":"u","resourceVersion":"7","labels":{"app":"web"}}}"#;
        let json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).unwrap();
        assert_eq!(json(cut.json()), json(identity.as_bytes()));
        kept.forget(PODS);
        assert_eq!((kept.stats().deletes, kept.stats().bytes), (0, 0));
        kept.add(PODS, || delete("e", third, 0));
        assert!(kept.of(PODS)[0].last.as_ref().unwrap().size_bytes() > third);
    }

    #[test]
    fn deletes_move_to_the_source_that_replaces_theirs() {
        let kept = kept_for(600);
        kept.add(PODS, || delete("a", 10, 0));
        kept.add(PODS, || delete("b", 10, 0));
        kept.transfer(&[PODS], NODES, |key| key.name == "a");
        assert_eq!(
            (names(&kept, NODES), names(&kept, PODS)),
            (vec!["a".to_owned()], vec!["b".to_owned()])
        );
        kept.forget(PODS);
        assert_eq!(names(&kept, NODES), ["a"]);
        assert!(kept.stats().bytes > 0);
    }
}
