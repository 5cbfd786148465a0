//! A cluster as all its sources see it: [`ClusterClient`], with what they learn about its API server.
//!
//! kube's client speaks HTTP/1.1, so each watch has a connection of its own, and TCP keeps the connection to a stopped
//! process open. So a source whose connection was silent for [`CLUSTER_SILENCE_MAX`] asks its cluster. If another
//! source received something meanwhile, the cluster is alive. If not, one request on behalf of all sources has to be
//! answered within [`PROBE_MAX`]; else each silent source ends its watch and is shown as stale.
//!
//! A source whose request got no answer asks whether the API server is away. If it is, one source asks once a second on
//! behalf of all. The first answer, to whomever, ends the outage: all sources return at a limited rate, however long
//! their own back-off still is, and what fails in the first moments is tried again soon
//! ([`ClusterLink::return_pause`]). The same holds after a login that failed. An outage is two lines in the log
//! ([`health`]).
//!
//! Source: client-go's HTTP/2 ping (30 s + 15 s), which has no counterpart in HTTP/1.1.

mod health;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::{Request, Response};
use informant_cache::{Environment, Moment, TokenBucket};
use kube::Client;
use kube::client::Body;

use self::health::{ClusterHealth, Reach};
use crate::api::{self, ApiError, WithoutLogin};
use crate::metrics::{CounterFamily, SourceMetrics};

/// How long nothing may be received from a cluster before it is asked for a sign of life.
pub const CLUSTER_SILENCE_MAX: Duration = Duration::from_secs(25);

/// How long the API server may take to answer that request. Together with [`CLUSTER_SILENCE_MAX`], an API server that
/// hangs is noticed within 40 s.
pub const PROBE_MAX: Duration = Duration::from_secs(15);

/// How long nothing may be received from a cluster whose API server cannot be asked, because the login fails.
const UNKNOWN_SILENCE_MAX: Duration = CLUSTER_SILENCE_MAX.saturating_mul(2);

/// How often an API server that does not respond is asked whether it is back, whether or not the request before was
/// answered: up to [`PROBE_MAX`] of them wait for an answer.
pub const RECOVERY_PROBE_PERIOD: Duration = Duration::from_secs(1);

/// After an outage, at most this many sources of a cluster send their next request per second. Twice as many as a
/// controller sends with the usual limits of client-go (`qps = 50`), for a moment: 50 sources are back in half a
/// second.
pub const RECOVERIES_PER_SECOND_MAX: u32 = 100;

/// At most this many requests a second for objects of which the stores of a cluster have only the head. A burst is one
/// second's worth.
pub(crate) const BODY_READS_PER_SECOND_MAX: u32 = 20;

/// For how long after an outage a failure counts as one of the restart: an API server that answers may still refuse
/// versions, users and resources until its caches are filled.
pub(crate) const RETURN_MAX: Duration = Duration::from_secs(10);

/// The shortest pause between two attempts of a source in that time.
const RETURN_RETRY_PACE: Duration = Duration::from_millis(250);

/// How long a request that was sent during an outage may stay unanswered after its end. It may have been sent on a
/// connection that leads nowhere.
const RETURN_ANSWER_MAX: Duration = Duration::from_secs(1);

/// What is requested as a sign of life. Every user may read it, and the API server serves it outside its queues.
const PROBE_PATH: &str = "/readyz";

/// A kube client, and what the sources that share it learn about the health of its API server. Cheap to clone; clones
/// share both. Sources of one cluster should share one: from a plain [`Client`] each informer makes its own. Their
/// environments must have the same clock.
#[derive(Clone)]
pub struct ClusterClient {
    client: Client,
    health: Arc<ClusterHealth>,
    body_reads: Arc<Mutex<TokenBucket>>,
    /// The API groups and versions with a WatchList that ended its initial events. Each may have a server of its own.
    watch_lists: Arc<Mutex<BTreeSet<String>>>,
}

/// A source's access to its cluster.
#[derive(Clone)]
pub(crate) struct ClusterLink {
    cluster: ClusterClient,
    pub(crate) environment: Arc<dyn Environment>,
    metrics: Arc<SourceMetrics>,
    /// The number of the outage in which the source was last counted.
    counted: Arc<AtomicU64>,
}

/// What the API server says about itself.
enum ProbeAnswer {
    Ready,
    Away(Reach, String),
}

impl ClusterClient {
    /// For the sources of one cluster, to share; `url` is where its API server is, for logs.
    #[must_use]
    pub fn new(url: impl Into<String>, client: Client) -> Self {
        Self {
            client,
            health: Arc::new(ClusterHealth::new(url.into())),
            body_reads: Arc::new(Mutex::new(TokenBucket::new(
                BODY_READS_PER_SECOND_MAX,
                BODY_READS_PER_SECOND_MAX,
            ))),
            watch_lists: Arc::default(),
        }
    }

    /// The client, for other requests.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl From<Client> for ClusterClient {
    fn from(client: Client) -> Self {
        Self::new("", client)
    }
}

impl std::fmt::Debug for ClusterClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The client holds tokens.
        out.debug_struct("ClusterClient")
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}

impl ClusterLink {
    pub(crate) fn new(cluster: ClusterClient, environment: Arc<dyn Environment>, metrics: Arc<SourceMetrics>) -> Self {
        Self {
            cluster,
            environment,
            metrics,
            counted: Arc::default(),
        }
    }

    /// Whether the API server of this group and version is known to end the initial events of a WatchList.
    pub(crate) fn supports_watch_list(&self, group_version: &str) -> bool {
        self.watch_lists().contains(group_version)
    }

    pub(crate) fn set_supports_watch_list(&self, group_version: &str, supports: bool) {
        let mut known = self.watch_lists();
        match supports {
            true => drop(known.insert(group_version.to_owned())),
            false => drop(known.remove(group_version)),
        }
    }

    // It is consistent between calls.
    fn watch_lists(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.cluster.watch_lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends `request` as [`api::open`] does; gives up earlier if the API server shows no sign of life, or is back
    /// after an outage and does not answer this request.
    ///
    /// # Errors
    /// As [`api::open`]; [`ApiError::Unresponsive`] if nothing is received from the cluster.
    pub(crate) async fn open(&self, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        let opened = tokio::select! {
            biased;
            opened = api::open(&self.cluster.client, &self.environment, request) => opened,
            error = self.until_unresponsive() => return Err(error),
            () = self.until_overtaken() => return Err(unresponsive()),
        };
        let code = match &opened {
            Ok(_) => 200,
            Err(ApiError::Refused { code, .. }) => *code,
            Err(_) => return opened,
        };
        let now = self.environment.now();
        self.received(now);
        if code < 500 {
            self.health().set_available(now);
        }
        opened
    }

    /// Something was received at `now`, on any connection.
    pub(crate) fn received(&self, now: Moment) {
        self.health().set_received(now);
    }

    /// When the cluster last gave a sign of life; asks for one if it has been silent for too long. A login that fails
    /// is no reason to end a watch, unless nothing was received for [`UNKNOWN_SILENCE_MAX`].
    ///
    /// # Errors
    /// [`ApiError::Unresponsive`].
    pub(crate) async fn sign_of_life(&self) -> Result<Moment, ApiError> {
        if let Some(known) = self.health().known_state(self.environment.now()) {
            return known;
        }
        // At most `PROBE_MAX` for each source that asks before this one; the first answer is that of all.
        let _asker = self.health().asker.lock().await;
        // Another source may have asked meanwhile.
        if let Some(known) = self.health().known_state(self.environment.now()) {
            return known;
        }
        let answer = self.probe(Some(WithoutLogin)).await;
        let now = self.environment.now();
        match answer {
            Ok(_) => Ok(now),
            // It says nothing about the API server, so nothing is known until the next one.
            Err(error) if error.is_of_login() && self.health().silence(now) < UNKNOWN_SILENCE_MAX => Ok(now),
            Err(error) => {
                self.health().set_away(Reach::Lost, &error.to_string(), now);
                Err(unresponsive())
            }
        }
    }

    /// Waits until one more request for bodies may be sent.
    pub(crate) async fn body_read_allowed(&self) {
        loop {
            let now = self.environment.now();
            let taken = self
                .cluster
                .body_reads
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(now);
            match taken {
                Ok(()) => return,
                Err(next) => self.environment.sleep(next - now).await,
            }
        }
    }

    /// How many outages of the API server have ended.
    pub(crate) fn outages_ended(&self) -> u64 {
        self.health().outages_ended()
    }

    /// Whether a failure belongs to an outage: it lasts, or ended less than [`RETURN_MAX`] ago.
    pub(crate) fn is_in_outage(&self) -> bool {
        !self.health().is_available() || self.health().is_returning(self.environment.now())
    }

    /// How long to wait after a failure if an outage ended less than [`RETURN_MAX`] ago.
    pub(crate) fn return_pause(&self) -> Option<Duration> {
        let now = self.environment.now();
        let is_returning = self.health().is_returning(now);
        is_returning.then(|| self.health().reserve_return(now).max(RETURN_RETRY_PACE))
    }

    /// Waits for `pause`. If the API server is away or goes away, waits only until it is back.
    pub(crate) async fn sleep(&self, pause: Duration) {
        self.sleep_until_back(pause, self.went_away()).await;
    }

    /// The same after a request that got no answer: asks whether the API server is away. If it is not, calls `alone`,
    /// because it was only this source's request.
    pub(crate) async fn sleep_unanswered(&self, pause: Duration, alone: impl FnOnce()) {
        let away = async {
            if !self.is_away().await {
                alone();
                self.went_away().await;
            }
            self.health().count_source(&self.counted);
        };
        self.sleep_until_back(pause, away).await;
    }

    async fn sleep_until_back(&self, pause: Duration, away: impl Future<Output = ()>) {
        let back = async {
            away.await;
            self.returned().await;
        };
        tokio::select! {
            biased;
            () = self.environment.sleep(pause) => {}
            () = back => {
                let wait = self.health().reserve_return(self.environment.now());
                self.environment.sleep(wait).await;
            }
        }
    }

    fn health(&self) -> &ClusterHealth {
        &self.cluster.health
    }

    /// Resolves once the cluster shows no sign of life.
    async fn until_unresponsive(&self) -> ApiError {
        let mut silent_since = self.environment.now();
        loop {
            let waited = self.environment.now() - silent_since;
            self.environment.sleep(CLUSTER_SILENCE_MAX.saturating_sub(waited)).await;
            match self.sign_of_life().await {
                Ok(received) => silent_since = received,
                Err(error) => return error,
            }
        }
    }

    /// Resolves [a moment](RETURN_ANSWER_MAX) after an outage that lasts, or begins while this is polled.
    async fn until_overtaken(&self) {
        self.until(|reach| reach == Reach::Lost).await;
        self.returned().await;
        self.environment.sleep(RETURN_ANSWER_MAX).await;
    }

    async fn until(&self, is_met: impl Fn(Reach) -> bool) {
        // The sender lives as long as this link.
        let _ = self.health().reach().wait_for(|reach| is_met(*reach)).await;
    }

    /// Resolves while the API server is away.
    async fn went_away(&self) {
        self.until(|reach| reach != Reach::Available).await;
    }

    /// Whether the API server is away; asks it, unless that is known.
    pub(crate) async fn is_away(&self) -> bool {
        let ask = async {
            let mut next = self.health().prober.lock().await;
            let answer = self.ask().await;
            *next = self.environment.now() + RECOVERY_PROBE_PERIOD;
            !self.learn(answer)
        };
        tokio::select! {
            biased;
            () = self.went_away() => true,
            is_away = ask => is_away,
        }
    }

    /// Resolves once the API server, which is away, is back. One source asks on behalf of all.
    async fn returned(&self) {
        tokio::select! {
            biased;
            () = self.until(|reach| reach == Reach::Available) => {}
            () = self.ask_until_ready() => {}
        }
    }

    /// Sends a request each [`RECOVERY_PROBE_PERIOD`], until one is answered.
    async fn ask_until_ready(&self) {
        let mut next = self.health().prober.lock().await;
        let mut asked = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(answer) = asked.next() => {
                    if self.learn(answer) {
                        return;
                    }
                }
                () = self.environment.sleep(*next - self.environment.now()) => {
                    *next = self.environment.now() + RECOVERY_PROBE_PERIOD;
                    asked.push(self.ask());
                }
            }
        }
    }

    /// Asks whether sources can send requests: with a login, because they need one, too.
    async fn ask(&self) -> ProbeAnswer {
        match self.probe(None).await {
            // Anything but a server error: not every user may read it.
            Ok(status) if status < 500 => ProbeAnswer::Ready,
            Ok(status) => {
                let text = format!("it responds to {PROBE_PATH} with {status}");
                ProbeAnswer::Away(Reach::NotReady, text)
            }
            Err(error) if error.is_of_login() => ProbeAnswer::Away(Reach::NoLogin, error.to_string()),
            // Perhaps it is the login that takes so long.
            Err(error @ ApiError::TooSlow(_)) if self.probe(Some(WithoutLogin)).await.is_ok() => {
                ProbeAnswer::Away(Reach::NoLogin, error.to_string())
            }
            Err(error) => ProbeAnswer::Away(Reach::Lost, error.to_string()),
        }
    }

    /// Notes an answer for all sources. Returns whether the API server is ready.
    fn learn(&self, answer: ProbeAnswer) -> bool {
        let now = self.environment.now();
        match answer {
            ProbeAnswer::Ready => {
                self.health().set_available(now);
                true
            }
            ProbeAnswer::Away(reach, error) => {
                self.health().set_away(reach, &error, now);
                false
            }
        }
    }

    /// Sends the request for a sign of life; returns the HTTP status of the answer.
    async fn probe(&self, login: Option<WithoutLogin>) -> Result<u16, ApiError> {
        let answer = api::probe(&self.cluster.client, &self.environment, PROBE_PATH, login, PROBE_MAX).await;
        let result = if answer.is_ok() { "answered" } else { "unanswered" };
        self.metrics.count(CounterFamily::Probes, result);
        if answer.is_ok() {
            self.received(self.environment.now());
        }
        answer
    }
}

fn unresponsive() -> ApiError {
    ApiError::Unresponsive(CLUSTER_SILENCE_MAX)
}

#[cfg(test)]
mod tests;
