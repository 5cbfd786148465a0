//! What the instances of a plugin share of HTTP: its limits, and the hosts that are closed to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use informant_cache::{Environment, Moment, TokenBucket};
use informant_spec::Limits;
use tokio::sync::Semaphore;

use super::client::{HttpClient, HttpPermit};
use super::metrics::{HttpLimit, HttpSeries};
use super::{HTTP_BURST, HTTP_CLOSED_HOSTS_MAX, HTTP_CLOSED_MAX};
use crate::capability::parts::PluginParts;
use crate::effects::Effects;
use crate::sync::lock;

/// State shared by all instances of one plugin.
pub(crate) struct HttpPlugin {
    pub(super) plugin: Arc<str>,
    /// None where there is no network.
    pub(super) client: Option<Arc<dyn HttpClient>>,
    pub(super) env: Arc<dyn Environment>,
    pub(super) series: Arc<HttpSeries>,
    /// Whether requests are withheld, those that were, and how much of the rate this process has.
    pub(super) dry_run: Arc<Effects>,
    state: Mutex<HttpState>,
}

/// A host that is closed to a plugin, because it asked for a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedHost {
    /// Host and port.
    pub host: String,
    /// Until it opens.
    pub left: Duration,
}

struct HttpState {
    limits: Limits,
    /// Replaced when the limit changes; requests that hold a permit of an older one are not counted again.
    permits: Arc<Semaphore>,
    rate: TokenBucket,
    /// Hosts that asked for a pause, with their ports.
    closed: BTreeMap<String, Moment>,
}

impl HttpPlugin {
    pub(super) fn of(series: Arc<HttpSeries>, parts: &PluginParts<'_>) -> HttpPlugin {
        let limits = parts.spec.limits;
        HttpPlugin {
            plugin: Arc::clone(parts.plugin),
            client: parts.services.http.clone(),
            env: Arc::clone(parts.env),
            series,
            dry_run: Arc::clone(parts.dry_run),
            state: Mutex::new(HttpState {
                limits,
                permits: Arc::new(Semaphore::new(limits.http_in_flight)),
                rate: TokenBucket::new(limits.http_per_second, HTTP_BURST),
                closed: BTreeMap::new(),
            }),
        }
    }

    /// Applies other limits, or another share of them, to requests that begin from now on.
    pub(super) fn set_limits(&self, limits: Limits) {
        let share = self.dry_run.limit_share();
        let (per_second, burst) = (share.of(limits.http_per_second), share.of(HTTP_BURST));
        let mut state = self.state();
        if limits.http_in_flight != state.limits.http_in_flight {
            state.permits = Arc::new(Semaphore::new(limits.http_in_flight));
        }
        state.rate.set(per_second, burst, self.env.now());
        state.limits = limits;
    }

    pub(super) fn limits(&self) -> Limits {
        self.state().limits
    }

    /// Waits until a request may start: for one of the concurrent requests to end, and for the rate.
    pub(super) async fn admit(&self) -> HttpPermit {
        let permits = Arc::clone(&self.state().permits);
        let permit = match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => {
                self.series.count_limited(HttpLimit::InFlight);
                // Never closed.
                permits.acquire_owned().await.ok()
            }
        };
        let mut counted = false;
        loop {
            let now = self.env.now();
            let taken = self.state().rate.take(now);
            let Err(next) = taken else {
                return HttpPermit::new(permit);
            };
            if !std::mem::replace(&mut counted, true) {
                self.series.count_limited(HttpLimit::Rate);
            }
            self.env.sleep(next - now).await;
        }
    }

    /// How long `host` is still closed to the plugin, if it is.
    pub(super) fn closed_for(&self, host: &str) -> Option<Duration> {
        let now = self.env.now();
        let mut state = self.state();
        let until = *state.closed.get(host)?;
        if until <= now {
            state.closed.remove(host);
            return None;
        }
        Some(until - now)
    }

    /// The hosts that are closed to the plugin, and for how long.
    pub(crate) fn closed_hosts(&self) -> Vec<ClosedHost> {
        let now = self.env.now();
        let state = self.state();
        let closed = state.closed.iter().filter(|(_, until)| **until > now);
        let closed = closed.map(|(host, until)| ClosedHost {
            host: host.clone(),
            left: *until - now,
        });
        closed.collect()
    }

    /// Closes hosts to the plugin, each for so long.
    pub(super) fn close(&self, hosts: impl Iterator<Item = (String, Duration)>) {
        let now = self.env.now();
        let mut state = self.state();
        state.closed.retain(|_, until| *until > now);
        for (host, pause) in hosts {
            if state.closed.len() < HTTP_CLOSED_HOSTS_MAX || state.closed.contains_key(&host) {
                state.closed.insert(host, now + pause.min(HTTP_CLOSED_MAX));
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, HttpState> {
        // Changed by single assignments: whole after any panic.
        lock(&self.state)
    }
}
