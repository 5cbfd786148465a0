//! What all replicas, requests and watches of a server share. It knows no request: those who answer one take from it
//! what they need, each part under its own lock.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::fault::Rules;
use crate::options::{Options, REQUESTS_KEPT_MAX};
use crate::replica_cache::ReplicaCache;
use crate::store::Store;
use crate::watches::Watches;

pub(crate) struct ServerState {
    pub(crate) options: Options,
    store: Mutex<Store>,
    watches: Mutex<Watches>,
    rules: Mutex<Rules>,
    uptime: Mutex<Uptime>,
    requests: Mutex<VecDeque<RequestRecord>>,
    tokens: Mutex<HashMap<String, TokenOwner>>,
    /// The caches of all replicas but the first.
    replicas: Mutex<Vec<Weak<ReplicaCache>>>,
}

/// The time between two restarts.
#[derive(Debug, Default)]
struct Uptime {
    token: CancellationToken,
    down_until: Duration,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServerState {
    pub(crate) fn new(options: Options, store: Store) -> Self {
        Self {
            options,
            store: Mutex::new(store),
            watches: Mutex::default(),
            rules: Mutex::default(),
            uptime: Mutex::default(),
            requests: Mutex::default(),
            tokens: Mutex::default(),
            replicas: Mutex::default(),
        }
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        locked(&self.store)
    }

    pub(crate) fn watches(&self) -> MutexGuard<'_, Watches> {
        locked(&self.watches)
    }

    pub(crate) fn rules(&self) -> MutexGuard<'_, Rules> {
        locked(&self.rules)
    }

    /// Canceled at the next restart, which resets everything that is open now.
    pub(crate) fn restart_token(&self) -> CancellationToken {
        locked(&self.uptime).token.clone()
    }

    pub(crate) fn is_down(&self) -> bool {
        self.options.clock.now() < locked(&self.uptime).down_until
    }

    pub(crate) fn restart(&self, down: Duration) {
        let ended = {
            let mut uptime = locked(&self.uptime);
            uptime.down_until = self.options.clock.now().saturating_add(down);
            std::mem::take(&mut uptime.token)
        };
        ended.cancel();
    }

    fn now(&self) -> Timestamp {
        let since_start = SignedDuration::try_from(self.options.clock.now()).unwrap_or(SignedDuration::MAX);
        self.options.start.saturating_add(since_start).unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn now_unix_seconds(&self) -> i64 {
        self.now().as_second()
    }

    /// The calendar time as in objects: whole seconds.
    pub(crate) fn now_rfc3339(&self) -> String {
        Timestamp::from_second(self.now().as_second())
            .unwrap_or(Timestamp::MAX)
            .to_string()
    }

    pub(crate) fn add_replica_cache(&self) -> Arc<ReplicaCache> {
        let cache = Arc::default();
        let mut replicas = locked(&self.replicas);
        replicas.retain(|replica| replica.strong_count() > 0);
        replicas.push(Arc::downgrade(&cache));
        cache
    }

    /// Freezes or thaws all replicas but the first. Returns how many there are.
    pub(crate) fn freeze_replicas(&self, freeze: bool) -> usize {
        let store = self.store();
        let caches: Vec<Arc<ReplicaCache>> = locked(&self.replicas).iter().filter_map(Weak::upgrade).collect();
        for cache in &caches {
            if freeze {
                cache.freeze(&store);
            } else {
                cache.thaw(&store);
            }
        }
        caches.len()
    }

    pub(crate) fn token_owner(&self, token: &str) -> Option<TokenOwner> {
        locked(&self.tokens).get(token).cloned()
    }

    pub(crate) fn record(&self, request: RequestRecord) {
        let mut requests = locked(&self.requests);
        if requests.len() >= REQUESTS_KEPT_MAX {
            requests.pop_front();
        }
        requests.push_back(request);
    }

    pub(crate) fn requests(&self) -> Vec<RequestRecord> {
        locked(&self.requests).iter().cloned().collect()
    }

    pub(crate) fn add_token(&self, token: &str, owner: TokenOwner) {
        locked(&self.tokens).insert(token.to_owned(), owner);
    }

    pub(crate) fn remove_token(&self, token: &str) {
        locked(&self.tokens).remove(token);
    }
}

/// A received request, for tests that check a client's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// Time on the server's clock.
    pub at: Duration,
    /// Kubernetes' verb (`list`, `watch` …) or, for paths that are not resources, the method in lower case.
    pub verb: &'static str,
    /// Path and query.
    pub uri: String,
    pub user_agent: String,
}

/// Somebody who has a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenOwner {
    /// The user's name.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The audiences that the token is for; the API server itself if there is none.
    pub audiences: Vec<String>,
}
