//! A cluster whose login fails or hangs, and which source asks whether it is back.

use informant_apiserver::{ApiServer, Ending, Filter};
use informant_cache::SourceState;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tower::{BoxError, Service as _};

use super::*;
use crate::LoginFailed;
use crate::testing::{Rig, RigOptions, api_server, pass, put, settle};
use crate::{InformerMetrics, TokioEnvironment};

fn link(client: Client) -> ClusterLink {
    let metrics = InformerMetrics::register(&mut Registry::default());
    ClusterLink::new(
        client.into(),
        Arc::new(TokioEnvironment::current(1)),
        Arc::new(metrics.source("pods", "")),
    )
}

#[tokio::test(start_paused = true)]
async fn silent_source_does_not_wait_for_the_servers_return() {
    let service =
        tower::service_fn(async |_: Request<Body>| std::future::pending::<Result<Response<Body>, BoxError>>().await);
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
        assert_eq!(*link.health().reach().borrow(), Reach::NoLogin, "it is no outage");
        link.health().set_available(link.environment.now());
    };
    let source = || link.sleep_unanswered(Duration::from_secs(3_600), || ());
    let all = async { tokio::join!(source(), source(), login_works) };
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
