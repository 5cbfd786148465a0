//! What a plugin has written to its objects last: the cache may not have seen it yet.
//!
//! A write may be left out only if the cache is at least as new as the plugin's own last write to the object. Otherwise
//! the last of three writes A, B, A would be compared with a cache that still has the first, and B would stay.
//!
//! An apply is left out if the cache has what the same apply has made or found: that version, or a later one that
//! differs in its status only. What the apply would change cannot be read from the object, which does not tell who owns
//! a field.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use informant_object::{Object, VersionRef};
use serde_json::Value;

use crate::capability::kube::api::{KubeAction, KubeAddress, KubeError, KubePatchKind};
use crate::capability::kube::writes::Target;
use crate::sync::lock;

/// Objects of one plugin whose last write is remembered: 10,000. At the limit those are forgotten whose write the cache
/// has seen. If that leaves more than half, no write is left out until it does not.
pub(crate) const OWN_WRITES_MAX: usize = 10_000;

/// Writes between two attempts to forget, if the last one left more than half: it visits all objects.
const FORGET_WRITES_MIN: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    known: Mutex<Known>,
    /// Of applies. Its key is secret, so that no author of documents can make two that have one hash.
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Known {
    targets: HashMap<Target, LastWrites>,
    /// Some writes could not be remembered.
    is_incomplete: bool,
    /// Writes until the next attempt to forget.
    until_forget: usize,
}

#[derive(Debug)]
struct LastWrites {
    address: KubeAddress,
    in_flight: usize,
    /// Writes that have ended.
    ended: u64,
    /// A write may have been made whose response was lost.
    is_uncertain: bool,
    /// The last write has deleted it, and the response has no version.
    is_deleted: bool,
    /// A write that deletes it was sent: what the cache has may be its predecessor.
    was_deleted: bool,
    version: Option<Box<str>>,
    /// The apply that `version` answers; none if that was no apply.
    applied: Option<Applied>,
}

#[derive(Clone, Copy, Debug)]
struct Applied {
    /// The hash of the apply.
    apply: u64,
    /// That of the [content](content_of) of its response, if it has one.
    content: Option<u64>,
}

/// A write in flight. If it is dropped without a response, its effect is unknown.
pub(crate) struct WriteInFlight {
    own: Arc<OwnWrites>,
    target: Target,
    /// How many writes to the target had ended when it was sent.
    ended_before: u64,
    is_delete: bool,
    applied: Option<Applied>,
    /// It is an apply that writes no status.
    leaves_status: bool,
    has_ended: bool,
}

impl OwnWrites {
    /// The write `action` to `target`, which is at `address`, is about to be sent. `cached` is the version that the
    /// cache has of an object.
    pub(crate) fn begin(
        self: &Arc<OwnWrites>,
        target: Target,
        address: &KubeAddress,
        action: &KubeAction,
        cached: impl Fn(&KubeAddress) -> Option<Box<str>>,
    ) -> WriteInFlight {
        let mut known = self.lock();
        if known.targets.len() >= OWN_WRITES_MAX && !known.targets.contains_key(&target) {
            known.make_room(cached);
        }
        let mut ended_before = 0;
        if known.targets.len() >= OWN_WRITES_MAX && !known.targets.contains_key(&target) {
            known.is_incomplete = true;
        } else {
            let last = known.targets.entry(target.clone()).or_insert_with(|| LastWrites {
                address: address.clone(),
                in_flight: 0,
                ended: 0,
                is_uncertain: false,
                is_deleted: false,
                was_deleted: false,
                version: None,
                applied: None,
            });
            last.in_flight += 1;
            last.was_deleted |= matches!(action, KubeAction::Delete(_));
            ended_before = last.ended;
        }
        drop(known);
        // A target is the object with its subresources.
        let applied = self.hash_of_apply(action).filter(|_| address.subresource.is_empty());
        WriteInFlight {
            own: Arc::clone(self),
            target,
            ended_before,
            is_delete: matches!(action, KubeAction::Delete(_)),
            leaves_status: applied.is_some() && !has_status(action.document()),
            applied: applied.map(|apply| Applied { apply, content: None }),
            has_ended: false,
        }
    }

    /// Whether `object`, which is `target`, is what `action`, an apply, has made or found last.
    pub(crate) fn has_applied(&self, target: &Target, object: &Object, action: &KubeAction) -> bool {
        let Some(apply) = self.hash_of_apply(action) else {
            return false;
        };
        let content = {
            let known = self.lock();
            let last = known.targets.get(target).filter(|last| last.are_seen(object.version()));
            let Some((last, applied)) = last.and_then(|last| Some((last, last.applied?))) else {
                return false;
            };
            if applied.apply != apply || last.version.as_deref() == Some(object.version().as_str()) {
                return applied.apply == apply;
            }
            applied.content
        };
        content.is_some_and(|content| self.hash_of_content(object.json()) == Some(content))
    }

    /// Of an object as JSON.
    fn hash_of_content(&self, json: &[u8]) -> Option<u64> {
        Some(self.hasher.hash_one(content_of(json)?))
    }

    fn hash_of_apply(&self, action: &KubeAction) -> Option<u64> {
        let KubeAction::Patch(KubePatchKind::Apply, document, options) = action else {
            return None;
        };
        Some(self.hasher.hash_one((document, options)))
    }

    /// Whether a cache that has `version` of `target` has seen all of the plugin's own writes to it.
    pub(crate) fn are_seen(&self, target: &Target, version: VersionRef<'_>) -> bool {
        let known = self.lock();
        match known.targets.get(target) {
            None => !known.is_incomplete,
            Some(last) => last.are_seen(version),
        }
    }

    /// Whether an own write that is remembered has deleted `target`, or tried to: the cache may have its predecessor.
    pub(crate) fn has_deleted(&self, target: &Target) -> bool {
        self.lock().targets.get(target).is_some_and(|last| last.was_deleted)
    }

    /// The version of the last own write to `target` that is remembered.
    pub(crate) fn version(&self, target: &Target) -> Option<Box<str>> {
        self.lock().targets.get(target)?.version.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Changed by single assignments and inserts: consistent after any panic.
        lock(&self.known)
    }
}

impl Known {
    fn make_room(&mut self, cached: impl Fn(&KubeAddress) -> Option<Box<str>>) {
        self.until_forget = self.until_forget.saturating_sub(1);
        if self.until_forget > 0 {
            return;
        }
        self.targets.retain(|_, last| match cached(&last.address) {
            Some(version) => !last.are_seen(VersionRef::new(&version)),
            // What is not cached is always written.
            None => last.in_flight > 0 || last.is_uncertain,
        });
        match self.targets.len() <= OWN_WRITES_MAX / 2 {
            true => self.is_incomplete = false,
            false => self.until_forget = FORGET_WRITES_MIN,
        }
    }
}

impl LastWrites {
    fn are_seen(&self, cached: VersionRef<'_>) -> bool {
        let is_newer = |own: &str| match (VersionRef::new(own).number(), cached.number()) {
            (Some(own), Some(cached)) => own > cached,
            _ => own != cached.as_str(),
        };
        self.is_known() && !self.version.as_deref().is_some_and(is_newer)
    }

    /// Whether `version` is that of the last write for certain.
    fn is_known(&self) -> bool {
        self.in_flight == 0 && !self.is_uncertain && !self.is_deleted
    }

    /// A write succeeded, of which the response has `version`; with its hash if it was an apply. `overlapped`: another
    /// one ended meanwhile, and it is unknown which of them was made last.
    fn succeeded(&mut self, version: &str, applied: Option<Applied>, overlapped: bool) {
        let is_older = |own: &str| match (VersionRef::new(version).number(), VersionRef::new(own).number()) {
            (Some(version), Some(own)) => version < own,
            _ => false,
        };
        if overlapped && self.version.as_deref().is_some_and(is_older) {
            return;
        }
        self.version = Some(version.into());
        self.applied = applied;
        self.is_deleted = false;
        // Requests that follow each other are made in their order.
        self.is_uncertain &= overlapped;
    }
}

/// What an apply can change of an object, as JSON: all but its status and what the API server sets itself.
fn content_of(json: &[u8]) -> Option<Vec<u8>> {
    let mut object: Value = serde_json::from_slice(json).ok()?;
    object.as_object_mut()?.remove("status");
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    for member in ["resourceVersion", "managedFields", "generation"] {
        metadata.remove(member);
    }
    serde_json::to_vec(&object).ok()
}

fn has_status(document: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Document {
        status: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_slice(document).is_ok_and(|document: Document| document.status.is_some())
}

impl WriteInFlight {
    /// The response is this object.
    pub(crate) fn made(&mut self, json: &[u8]) {
        if let Some(applied) = self.applied.as_mut().filter(|_| self.leaves_status) {
            applied.content = self.own.hash_of_content(json);
        }
    }

    /// The API server has answered, or nothing was sent. `version` is that of the written object, if it is known.
    pub(crate) fn ended(mut self, version: Result<Option<&str>, &KubeError>) {
        self.has_ended = true;
        let mut known = self.own.lock();
        let Some(last) = known.targets.get_mut(&self.target) else {
            return;
        };
        let overlapped = last.ended != self.ended_before;
        last.in_flight = last.in_flight.saturating_sub(1);
        last.ended += 1;
        match version {
            Ok(Some(version)) => last.succeeded(version, self.applied, overlapped),
            // A `Status`.
            Ok(None) if self.is_delete && !overlapped => {
                last.is_deleted = true;
                last.is_uncertain = false;
            }
            Ok(None) => last.is_uncertain = true,
            // It was refused.
            Err(error) if matches!(error.status, 400..=499) => {}
            Err(_) => last.is_uncertain = true,
        }
    }
}

impl Drop for WriteInFlight {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        if let Some(last) = self.own.lock().targets.get_mut(&self.target) {
            last.in_flight = last.in_flight.saturating_sub(1);
            last.ended += 1;
            last.is_uncertain = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use informant_object::Shape;

    use crate::capability::kube::api::{KubeDelete, KubeErrorCode, KubeWrite};

    fn target(name: &str) -> Target {
        Target::new(&KubeAddress::of_pod(name), name)
    }

    fn begin(own: &Arc<OwnWrites>, name: &str) -> WriteInFlight {
        make(own, name, &update())
    }

    fn delete(own: &Arc<OwnWrites>, name: &str) -> WriteInFlight {
        make(own, name, &KubeAction::Delete(KubeDelete::default()))
    }

    fn make(own: &Arc<OwnWrites>, name: &str, action: &KubeAction) -> WriteInFlight {
        own.begin(target(name), &KubeAddress::of_pod(name), action, |_| None)
    }

    fn update() -> KubeAction {
        KubeAction::Update(b"{}".to_vec(), KubeWrite::default())
    }

    fn apply(document: &str, manager: &str) -> KubeAction {
        let options = KubeWrite {
            field_manager: manager.to_owned(),
            ..KubeWrite::default()
        };
        KubeAction::Patch(KubePatchKind::Apply, document.as_bytes().to_vec(), options)
    }

    fn pod(version: &str, spec: u8, status: u8) -> Object {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"default","name":"a","uid":"u","resourceVersion":"{version}"}},"spec":{{"a":{spec}}},"status":{{"a":{status}}}}}"#
        );
        Object::parse(json.as_bytes(), &Shape::of("v1", "Pod")).unwrap()
    }

    fn are_seen(own: &OwnWrites, version: &str) -> bool {
        own.are_seen(&target("a"), VersionRef::new(version))
    }

    #[test]
    fn a_write_is_seen_once_the_cache_has_its_version() {
        let own = Arc::new(OwnWrites::default());
        assert!(are_seen(&own, "5"));
        let write = begin(&own, "a");
        assert!(!are_seen(&own, "5"), "in flight");
        write.ended(Ok(Some("10")));
        assert!(!are_seen(&own, "9") && are_seen(&own, "10") && are_seen(&own, "11"));
        begin(&own, "a").ended(Err(&KubeError {
            status: 409,
            ..KubeError::new(KubeErrorCode::Conflict, "refused")
        }));
        assert!(are_seen(&own, "10"), "it changed nothing");
    }

    #[test]
    fn a_write_without_a_response_is_uncertain_until_the_next() {
        let own = Arc::new(OwnWrites::default());
        let lost = KubeError::new(KubeErrorCode::Timeout, "lost");
        for is_dropped in [false, true] {
            match (begin(&own, "a"), is_dropped) {
                (write, true) => drop(write),
                (write, false) => write.ended(Err(&lost)),
            }
            assert!(!are_seen(&own, "1000"));
            begin(&own, "a").ended(Ok(Some("12")));
            assert!(are_seen(&own, "12"));
        }
    }

    #[test]
    fn an_apply_is_known_by_its_document_options_and_version() {
        let own = Arc::new(OwnWrites::default());
        let has = |action: &KubeAction, version: &str| own.has_applied(&target("a"), &pod(version, 1, 1), action);
        let first = apply("{}", "m");
        make(&own, "a", &first).ended(Ok(Some("10")));
        assert!(has(&first, "10"));
        assert!(
            !has(&first, "9") && !has(&first, "11"),
            "somebody else has written since"
        );
        assert!(!has(&apply(r#"{"a":1}"#, "m"), "10") && !has(&apply("{}", "other"), "10") && !has(&update(), "10"));
        let overlapping = [make(&own, "a", &first), make(&own, "a", &first)];
        assert!(!has(&first, "10"), "in flight");
        drop(overlapping);
        assert!(!has(&first, "10"), "unknown");
        make(&own, "a", &first).ended(Ok(Some("10")));
        assert!(has(&first, "10"), "it has changed nothing");
        begin(&own, "a").ended(Ok(Some("12")));
        assert!(!has(&first, "12"), "a write of another kind");
    }

    #[test]
    fn an_apply_is_known_although_the_status_has_changed() {
        let own = Arc::new(OwnWrites::default());
        let first = apply("{}", "m");
        let mut write = make(&own, "a", &first);
        write.made(pod("10", 1, 1).json());
        write.ended(Ok(Some("10")));
        let has =
            |version: &str, spec: u8, status: u8| own.has_applied(&target("a"), &pod(version, spec, status), &first);
        assert!(has("10", 1, 1) && has("11", 1, 2));
        assert!(!has("12", 2, 2), "somebody has changed it");
        assert!(!has("9", 1, 0), "the cache has an older state");
        let with_status = apply(r#"{"status":{"a":1}}"#, "m");
        let mut write = make(&own, "a", &with_status);
        write.made(pod("20", 1, 1).json());
        write.ended(Ok(Some("20")));
        let has = |version: &str, status: u8| own.has_applied(&target("a"), &pod(version, 1, status), &with_status);
        assert!(has("20", 1) && !has("21", 2));
    }

    #[test]
    fn at_the_limit_what_the_cache_has_seen_is_forgotten() {
        let own = Arc::new(OwnWrites::default());
        let write = |name: &str, seen: &str| {
            let seen: Box<str> = seen.into();
            let write = own.begin(target(name), &KubeAddress::of_pod(name), &update(), |_| {
                Some(seen.clone())
            });
            write.ended(Ok(Some("10")));
        };
        for number in 0..OWN_WRITES_MAX {
            write(&format!("pod-{number}"), "9");
        }
        write("a", "9");
        assert!(
            !own.are_seen(&target("a"), VersionRef::new("10")),
            "nothing is left out now"
        );
        for _ in 0..FORGET_WRITES_MIN {
            write("b", "10");
        }
        assert!(own.are_seen(&target("a"), VersionRef::new("9")));
        assert!(!own.are_seen(&target("b"), VersionRef::new("9")));
        assert_eq!(own.lock().targets.len(), 1);
    }

    #[test]
    fn deleted_objects_are_forgotten_once_the_cache_lacks_them() {
        let own = Arc::new(OwnWrites::default());
        delete(&own, "a").ended(Ok(None));
        assert!(!are_seen(&own, "5"), "the cache has not seen the delete");
        for number in 0..OWN_WRITES_MAX {
            delete(&own, &format!("pod-{number}")).ended(Ok(None));
        }
        let count = own.lock().targets.len();
        assert!(count < 10, "{count}");
        assert!(are_seen(&own, "5"), "writes may be left out again");
    }

    #[test]
    fn of_overlapping_writes_the_newest_version_counts() {
        let own = Arc::new(OwnWrites::default());
        let (first, second) = (begin(&own, "a"), begin(&own, "a"));
        second.ended(Ok(Some("11")));
        first.ended(Ok(Some("10")));
        assert!(!are_seen(&own, "10") && are_seen(&own, "11"));
        // The API server was restored from a backup.
        begin(&own, "a").ended(Ok(Some("7")));
        assert!(are_seen(&own, "7"));
    }
}
