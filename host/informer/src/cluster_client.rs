//! A cluster as all its sources see it: [`ClusterClient`], with what they learn about its API server.
//!
//! kube's client speaks HTTP/1.1, so each watch has a connection of its own, and TCP keeps the connection to a stopped
//! process open. So a source whose connection was silent for [`CLUSTER_SILENCE_MAX`] asks its cluster. If another
//! source received something meanwhile, the cluster is alive. If not, one request on behalf of all sources has to be
//! answered within [`PROBE_MAX`]; else each silent source ends its watch and is shown as stale.
//!
//! After such an outage one source at a time asks whether the API server is back, and all of them return as soon as it
//! is, at a limited rate, however long their own back-off still is. The same holds after a login that failed.
//!
//! Source: client-go's HTTP/2 ping (30 s + 15 s), which has no counterpart in HTTP/1.1.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use informant_cache::{Environment, Moment, with_jitter};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;

use crate::api::{self, ApiError, WithoutLogin};
use crate::metrics::{CounterFamily, SourceMetrics};

/// How long nothing may be received from a cluster before it is asked for a sign of life.
pub const CLUSTER_SILENCE_MAX: Duration = Duration::from_secs(25);

/// How long the API server may take to answer that request. Together with [`CLUSTER_SILENCE_MAX`], an API server that
/// hangs is noticed within 40 s.
pub const PROBE_MAX: Duration = Duration::from_secs(15);

/// How long nothing may be received from a cluster whose API server cannot be asked, because the login fails.
const UNKNOWN_SILENCE_MAX: Duration = CLUSTER_SILENCE_MAX.saturating_mul(2);

/// How often an API server that does not respond is asked whether it is back, plus up to half.
pub const RECOVERY_PROBE_PERIOD: Duration = Duration::from_secs(2);

/// After an outage, at most this many sources of a cluster send their next request per second. As many as a controller
/// sends with the usual limits of client-go (`qps = 50`).
pub const RECOVERIES_PER_SECOND_MAX: u32 = 50;

/// What is requested as a sign of life. Every user may read it, and the API server serves it outside its queues.
const PROBE_PATH: &str = "/readyz";

/// A kube client, and what the sources that share it learn about the health of its API server. Cheap to clone; clones
/// share both. Sources of one cluster should share one: from a plain [`Client`] each informer makes its own. Their
/// environments must have the same clock.
#[derive(Clone)]
pub struct ClusterClient {
    client: Client,
    health: Arc<ClusterHealth>,
}

#[derive(Debug)]
struct ClusterHealth {
    /// Where the API server is, for logs; may be empty.
    url: String,
    /// When something was last received, in nanoseconds plus one; 0 is never. Written at most once per second and
    /// connection.
    received: AtomicU64,
    /// Held by the source that asks for a sign of life.
    asker: tokio::sync::Mutex<()>,
    /// Held by the source that waits for the API server's return, which is not asked again before then.
    prober: tokio::sync::Mutex<Moment>,
    reach: watch::Sender<Reach>,
    /// When the next source may return after an outage.
    next_recovery: Mutex<Moment>,
}

/// What the last requests say about the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Available,
    /// Requests are not sent, because the login fails. Open watches continue.
    NoLogin,
    /// It does not answer.
    Lost,
}

/// A source's access to its cluster.
#[derive(Clone)]
pub(crate) struct ClusterLink {
    pub(crate) cluster: ClusterClient,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) metrics: Arc<SourceMetrics>,
}

impl ClusterClient {
    /// For the sources of one cluster, to share; `url` is where its API server is, for logs.
    #[must_use]
    pub fn new(url: impl Into<String>, client: Client) -> Self {
        let health = ClusterHealth {
            url: url.into(),
            received: AtomicU64::new(0),
            asker: tokio::sync::Mutex::default(),
            prober: tokio::sync::Mutex::new(Moment::ZERO),
            reach: watch::Sender::new(Reach::Available),
            next_recovery: Mutex::new(Moment::ZERO),
        };
        Self {
            client,
            health: Arc::new(health),
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
    /// Sends `request` as [`api::open`] does; gives up earlier if the API server shows no sign of life.
    ///
    /// # Errors
    /// As [`api::open`]; [`ApiError::Unresponsive`] if nothing is received from the cluster.
    pub(crate) async fn open(&self, request: Request<Body>) -> Result<Response<Body>, ApiError> {
        let opened = tokio::select! {
            biased;
            opened = api::open(&self.cluster.client, &self.environment, request) => opened,
            error = self.until_unresponsive() => return Err(error),
        };
        let code = match &opened {
            Ok(_) => 200,
            Err(ApiError::Refused { code, .. }) => *code,
            Err(_) => return opened,
        };
        self.received(self.environment.now());
        if code < 500 {
            self.health().set_available();
        }
        opened
    }

    /// Something was received at `now`, on any connection.
    pub(crate) fn received(&self, now: Moment) {
        let stamp = now.as_nanos().saturating_add(1);
        self.health().received.store(stamp, Ordering::Relaxed);
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
                self.health().set_lost(&error);
                Err(unresponsive())
            }
        }
    }

    /// Waits for `pause` after a request to which the API server did not respond. If it responds to no source, waits
    /// only until it responds again.
    pub(crate) async fn sleep_unless_recovered(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.environment.sleep(pause) => {}
            () = self.recovered() => {
                let wait = self.health().reserve_recovery(self.environment.now());
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

    /// Resolves once the cluster is found unresponsive, or the login to it fails, and then requests are answered again.
    async fn recovered(&self) {
        let mut reach = self.health().reach.subscribe();
        let noticed = async {
            // The sender lives as long as this link.
            let _ = reach.wait_for(|reach| *reach != Reach::Available).await;
            let _ = reach.wait_for(|reach| *reach == Reach::Available).await;
        };
        tokio::select! {
            biased;
            () = noticed => {}
            () = self.probe_until_ready() => {}
        }
    }

    /// Asks on behalf of all sources of the cluster whether it is back, with a login, because they need one, too. Never
    /// resolves if it was not away.
    async fn probe_until_ready(&self) {
        let mut was_away = false;
        {
            let mut next = self.health().prober.lock().await;
            loop {
                self.environment.sleep(*next - self.environment.now()).await;
                match self.probe(None).await {
                    // Anything but a server error: not every user may read it.
                    Ok(status) if status < 500 => break,
                    // Not ready yet, but alive.
                    Ok(_) => {}
                    Err(error) if error.is_of_login() => self.health().set_no_login(),
                    // Perhaps it is the login that takes so long.
                    Err(ApiError::TooSlow(_)) if self.probe(Some(WithoutLogin)).await.is_ok() => {
                        self.health().set_no_login();
                    }
                    Err(error) => self.health().set_lost(&error),
                }
                was_away = true;
                let period = with_jitter(RECOVERY_PROBE_PERIOD, 50, self.environment.random());
                *next = self.environment.now() + period;
            }
        }
        self.health().set_available();
        if !was_away {
            // It was only this source's request.
            std::future::pending::<()>().await;
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

impl ClusterHealth {
    /// The last sign of life if it is recent enough, or else whether the API server is known not to respond.
    fn known_state(&self, now: Moment) -> Option<Result<Moment, ApiError>> {
        match self.received() {
            Some(received) if now - received < CLUSTER_SILENCE_MAX => Some(Ok(received)),
            _ => (*self.reach.borrow() == Reach::Lost).then(|| Err(unresponsive())),
        }
    }

    /// How long nothing has been received.
    fn silence(&self, now: Moment) -> Duration {
        now - self.received().unwrap_or(Moment::ZERO)
    }

    fn received(&self) -> Option<Moment> {
        let stamp = self.received.load(Ordering::Relaxed);
        stamp.checked_sub(1).map(Moment::from_nanos)
    }

    /// The API server does not respond.
    fn set_lost(&self, error: &ApiError) {
        if self.replace(Reach::Lost, |before| before != Reach::Lost).is_some() {
            tracing::warn!(url = self.shown_url(), %error, code = "watch-not-live", "API server unavailable");
        }
    }

    /// The login fails. Says nothing about an API server that did not respond before.
    fn set_no_login(&self) {
        self.replace(Reach::NoLogin, |before| before == Reach::Available);
    }

    /// Requests are answered.
    fn set_available(&self) {
        if self.replace(Reach::Available, |before| before != Reach::Available) == Some(Reach::Lost) {
            tracing::info!(url = self.shown_url(), "API server available again");
        }
    }

    /// Sets what is known if that changes it; returns what was known before.
    fn replace(&self, reach: Reach, changes: impl Fn(Reach) -> bool) -> Option<Reach> {
        let before = *self.reach.borrow();
        if !changes(before) {
            return None;
        }
        let mut replaced = None;
        self.reach.send_if_modified(|known| {
            replaced = changes(*known).then(|| std::mem::replace(known, reach));
            replaced.is_some()
        });
        replaced
    }

    fn shown_url(&self) -> Option<&str> {
        Some(self.url.as_str()).filter(|url| !url.is_empty())
    }

    /// How long a source waits before it returns after an outage, so that not all of them return at once.
    fn reserve_recovery(&self, now: Moment) -> Duration {
        let mut next = self.next_recovery.lock().unwrap_or_else(PoisonError::into_inner);
        let own = (*next).max(now);
        *next = own + Duration::from_secs(1) / RECOVERIES_PER_SECOND_MAX;
        own - now
    }
}

fn unresponsive() -> ApiError {
    ApiError::Unresponsive(CLUSTER_SILENCE_MAX)
}

#[cfg(test)]
mod tests {
    use informant_apiserver::{ApiServer, Ending, Filter};
    use informant_cache::SourceState;
    use prometheus_client::registry::Registry;
    use tower::{BoxError, Service as _};

    use super::*;
    use crate::LoginFailed;
    use crate::testing::{Rig, RigOptions, api_server, pass, put, settle};
    use crate::{InformerMetrics, TokioEnvironment};

    fn link(client: Client) -> ClusterLink {
        let metrics = InformerMetrics::register(&mut Registry::default());
        ClusterLink {
            cluster: client.into(),
            environment: Arc::new(TokioEnvironment::current(1)),
            metrics: Arc::new(metrics.source("pods", "")),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_source_does_not_wait_for_the_servers_return() {
        let service = tower::service_fn(async |_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, BoxError>>().await
        });
        let link = link(Client::new(service, "default"));
        let _waits_for_return = link.health().prober.lock().await;
        let ended = tokio::time::timeout(PROBE_MAX + CLUSTER_SILENCE_MAX, link.sign_of_life()).await;
        assert!(ended.expect("it waits for the lock").is_err());
    }

    /// What a client whose login failed returns.
    type LoginError = fn() -> BoxError;

    /// As kube's client returns the errors of its own login.
    fn of_kube() -> BoxError {
        kube::client::AuthError::UnrefreshableTokenResponse.into()
    }

    fn of_service() -> BoxError {
        LoginFailed("no token".into()).into()
    }

    /// A source whose login fails while the sender is true; if not `unmarked_only`, also for a sign of life.
    fn rig_with_login(server: &ApiServer, error: LoginError, unmarked_only: bool) -> (Rig, watch::Sender<bool>) {
        let (service, fails) = (server.service(), watch::Sender::new(false));
        let failing = fails.subscribe();
        let service = tower::service_fn(move |request: Request<Body>| {
            let spared = unmarked_only && request.extensions().get::<WithoutLogin>().is_some();
            let (mut service, fails) = (service.clone(), *failing.borrow() && !spared);
            async move {
                match fails {
                    true => Err(error()),
                    false => service.call(request).await.map_err(BoxError::from),
                }
            }
        });
        let options = RigOptions {
            client: Some(Client::new(service, "default").into()),
            ..RigOptions::default()
        };
        (Rig::start_with(server, options), fails)
    }

    #[tokio::test(start_paused = true)]
    async fn failing_login_ends_silent_watch_one_period_later() {
        for error in [of_kube as LoginError, of_service] {
            let server = api_server();
            let (rig, login_fails) = rig_with_login(&server, error, false);
            settle().await;
            server.faults().freeze_watches(&Filter::any());
            login_fails.send_replace(true);
            for _ in 1..UNKNOWN_SILENCE_MAX.as_secs() {
                pass(1).await;
                assert_eq!(rig.informer.status().state, SourceState::Live);
            }
            pass(5).await;
            assert_eq!(rig.informer.status().state, SourceState::Stale);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn source_returns_as_soon_as_the_login_works() {
        let server = api_server();
        let (rig, login_fails) = rig_with_login(&server, of_service, true);
        settle().await;
        login_fails.send_replace(true);
        server.faults().drop_watches(&Filter::any(), Ending::Reset);
        // Its own back-off is long by then.
        pass(300).await;
        assert_eq!(rig.informer.status().state, SourceState::Stale);
        login_fails.send_replace(false);
        pass(4).await;
        // A watch that is reopened proves nothing by itself.
        put(&server, "a", 1);
        settle().await;
        assert_eq!(rig.informer.status().state, SourceState::Live);
    }

    #[tokio::test(start_paused = true)]
    async fn all_sources_return_after_a_login_that_hung() {
        let service = tower::service_fn(async |request: Request<Body>| {
            if request.extensions().get::<WithoutLogin>().is_none() {
                std::future::pending::<()>().await;
            }
            Ok::<_, BoxError>(Response::new(Body::empty()))
        });
        let link = link(Client::new(service, "default"));
        let login_works = async {
            pass(60).await;
            assert_eq!(*link.health().reach.borrow(), Reach::NoLogin, "it is no outage");
            link.health().set_available();
        };
        let all = async { tokio::join!(link.recovered(), link.recovered(), login_works) };
        let returned = tokio::time::timeout(Duration::from_secs(61), all).await;
        returned.expect("each source waits for its own back-off");
    }

    #[tokio::test(start_paused = true)]
    async fn request_for_a_sign_of_life_waits_for_no_login() {
        let server = api_server();
        let service = server.service();
        let service = tower::service_fn(move |request: Request<Body>| {
            let mut service = service.clone();
            async move {
                if request.uri().path() == PROBE_PATH && request.extensions().get::<WithoutLogin>().is_none() {
                    std::future::pending::<()>().await;
                }
                service.call(request).await
            }
        });
        let options = RigOptions {
            client: Some(Client::new(service, "default").into()),
            ..RigOptions::default()
        };
        let rig = Rig::start_with(&server, options);
        settle().await;
        server.faults().freeze_watches(&Filter::any());
        pass(100).await;
        assert_eq!(rig.requests("watch").len(), 1, "the silent watch was given up");
    }
}
