//! The namespaces in which a call of a handler trapped, and the time that calls about them took.

use std::collections::{BTreeMap, BTreeSet};

use informant_cache::listener::{SUSPECT_SHARE_PERCENT, SUSPECT_TIME};

use super::Key;

/// How much time calls may get ahead of their share, in nanoseconds.
const BURST_NS: u64 = 1_000_000_000;

#[derive(Default)]
pub(super) struct Suspects {
    /// The handler may have forgotten any of them.
    may_be_forgotten: bool,
    /// When a call about one of its objects trapped last, by namespace.
    namespaces: BTreeMap<String, u64>,
    /// Those that the handler itself has named: the history does not show each reason.
    named: BTreeSet<String>,
    /// When the next call may begin.
    next: u64,
    /// The call that runs, and when it began.
    running: Option<(Key, u64)>,
}

impl Suspects {
    pub(super) fn new(may_be_forgotten: bool) -> Self {
        Self {
            may_be_forgotten,
            ..Self::default()
        }
    }

    /// A call about `key` begins. Returns why it should not.
    pub(super) fn begin(&mut self, key: &Key, now: u64) -> Option<String> {
        let trapped = *self.namespaces.get(&key.0)?;
        if self.may_be_forgotten || u128::from(now - trapped) >= SUSPECT_TIME.as_nanos() {
            return None;
        }
        let (namespace, name) = key;
        let about = format!("was called for {namespace}/{name}, which is suspect");
        let before = self.running.replace((key.clone(), now));
        match before {
            Some(((_, other), _)) => Some(format!("{about}, during the call for {other}")),
            None => (now < self.next).then(|| format!("{about}, {} ns before its turn", self.next - now)),
        }
    }

    /// A call about `key` ends.
    pub(super) fn end(&mut self, key: &Key, has_trapped: bool, now: u64) {
        if let Some((_, began)) = self.running.take_if(|(running, _)| running == key) {
            let share = u64::from(100 / SUSPECT_SHARE_PERCENT);
            let next = self.next.max(began.saturating_sub(BURST_NS)) + share * (now - began);
            self.next = next.min(now + u64::try_from(SUSPECT_TIME.as_nanos()).unwrap_or(u64::MAX));
        }
        if has_trapped {
            self.namespaces.insert(key.0.clone(), now);
        }
    }

    /// The handler has named these.
    pub(super) fn name(&mut self, namespaces: &[String]) {
        self.named.extend(namespaces.iter().cloned());
    }

    /// Whether a call about one of the namespace's objects has ever trapped, or the handler has named it.
    pub(super) fn were_ever(&self, namespace: &str) -> bool {
        self.namespaces.contains_key(namespace) || self.named.contains(namespace)
    }
}
