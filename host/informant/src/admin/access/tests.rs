//! Callers against the embedded API server, whose answers can be held, refused and delayed, under a paused clock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, Method};
use http_body::Frame;
use http_body_util::StreamBody;
use informant_apiserver::{Action, Answer, ApiServer, Filter, Options, Rule, TokenOwner};
use informant_cache::Moment;
use informant_informer::TokioEnvironment;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;

use super::reviews::{REVIEW_ANSWER_BYTES_MAX, REVIEW_KEPT, REVIEWS_MAX, Warnings};
use super::*;
use crate::admin::error::ResourceRight;
use crate::metrics::DaemonMetrics;

struct World {
    server: ApiServer,
    reviews: Reviews,
}

impl World {
    fn new() -> Self {
        let server = ApiServer::new(Options::default());
        for (token, user, audience) in [
            ("alice-token", "alice", "informant"),
            ("bob-token", "bob", "https://kubernetes.default.svc"),
            ("vault-token", "carol", "vault"),
        ] {
            let owner = TokenOwner {
                user: user.to_owned(),
                groups: vec!["developers".to_owned()],
                audiences: vec![audience.to_owned()],
            };
            server.add_token(token, owner);
        }
        let reviews = reviews_by(Client::new(server.service(), "default"));
        Self { server, reviews }
    }

    async fn user(&self, token: &str) -> Result<String, AdminError> {
        let user = self.reviews.caller(token).await?;
        Ok(Caller::User(user).name().unwrap().to_owned())
    }

    fn requests(&self, resource: &str) -> usize {
        let requests = self.server.requests();
        requests.iter().filter(|request| request.uri.contains(resource)).count()
    }

    fn rule(&self, resource: &str, action: Action) {
        self.server.faults().rule(Rule {
            filter: Filter::any().resource(resource),
            times: None,
            action,
        });
    }
}

fn reviews_by(client: Client) -> Reviews {
    Reviews::new(ReviewParts {
        clusters: Box::new(BTreeMap::from([(String::new(), client)])),
        cluster: String::new(),
        environment: Arc::new(TokioEnvironment::current(1)),
        metrics: DaemonMetrics::default(),
    })
}

/// Asks an API server that answers with `status` and `part`, so many `times`. Counts the bytes that it sends.
fn reviews_by_answers(status: u16, part: Bytes, times: usize) -> (Reviews, Arc<AtomicUsize>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let (part, count) = (part.clone(), Arc::clone(&count));
        let parts = futures::stream::repeat_with(move || {
            count.fetch_add(part.len(), Ordering::Relaxed);
            Ok::<_, std::io::Error>(Frame::data(part.clone()))
        });
        let body = StreamBody::new(parts.take(times));
        let answer = http::Response::builder().status(status).body(body);
        std::future::ready(answer)
    });
    (reviews_by(Client::new(service, "default")), sent)
}

fn secrets(namespace: &str) -> Right {
    Right::Resource(ResourceRight {
        verb: "list".to_owned(),
        resource: "secrets".to_owned(),
        namespace: namespace.to_owned(),
        ..ResourceRight::default()
    })
}

#[tokio::test(start_paused = true)]
async fn tokens_for_informant_or_the_api_server_are_accepted() {
    let world = World::new();
    assert_eq!(world.user("alice-token").await.unwrap(), "alice");
    assert_eq!(world.requests("tokenreviews"), 1);
    assert_eq!(world.user("bob-token").await.unwrap(), "bob");
    assert_eq!(
        world.requests("tokenreviews"),
        3,
        "asked for Informant's audience first"
    );
    for token in ["vault-token", "forged"] {
        assert_eq!(
            world.user(token).await.unwrap_err().code,
            Code::Unauthenticated,
            "{token}"
        );
    }
    insta::assert_snapshot!(world.user("vault-token").await.unwrap_err().message, @"the API server does not accept the token: it is unknown, expired or for another audience");
}

#[tokio::test(start_paused = true)]
async fn answers_about_callers_are_kept_for_ten_seconds() {
    let world = World::new();
    for _ in 0..3 {
        let user = world.reviews.caller("alice-token").await.unwrap();
        world.reviews.authorize(&user, &secrets("web")).await.unwrap();
        assert!(world.user("forged").await.is_err());
    }
    let asked = (world.requests("tokenreviews"), world.requests("subjectaccessreviews"));
    assert_eq!(asked, (1 + 2, 1));
    world.server.remove_token("alice-token");
    world.server.faults().forbid(Filter::any().user("alice"));
    let user = world.reviews.caller("alice-token").await.unwrap();
    tokio::time::advance(REVIEW_KEPT).await;
    let error = world.reviews.authorize(&user, &secrets("web")).await.unwrap_err();
    assert_eq!(world.user("alice-token").await.unwrap_err().code, Code::Unauthenticated);
    insta::assert_snapshot!(serde_json::to_string(&error).unwrap(), @r#"{"code":"forbidden","message":"user \"alice\" cannot list resource \"secrets\" in API group \"\" in the namespace \"web\"","missingRight":{"verb":"list","resource":"secrets","namespace":"web"}}"#);
}

#[tokio::test(start_paused = true)]
async fn rights_of_one_user_are_not_those_of_another() {
    let world = World::new();
    world.server.faults().forbid(Filter::any().user("bob").namespace("web"));
    let (alice, bob) = (world.reviews.caller("alice-token"), world.reviews.caller("bob-token"));
    let (alice, bob) = (alice.await.unwrap(), bob.await.unwrap());
    let web = secrets("web");
    assert!(world.reviews.authorize(&alice, &web).await.is_ok());
    assert!(world.reviews.authorize(&bob, &web).await.is_err());
    assert!(world.reviews.authorize(&bob, &secrets("default")).await.is_ok());
    assert!(world.reviews.authorize(&alice, &web).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn api_server_that_hangs_or_fails_allows_nothing() {
    let world = World::new();
    let user = world.reviews.caller("alice-token").await.unwrap();
    let mut messages = Vec::new();
    for action in [
        Action::Hold,
        Action::Answer(Answer::internal_error()),
        Action::Answer(Answer::html(502)),
        Action::Answer(Answer::Reset),
        Action::Forbid,
    ] {
        world.rule("tokenreviews", action.clone());
        world.rule("subjectaccessreviews", action.clone());
        let caller = world.user("bob-token").await.unwrap_err();
        let access = world.reviews.authorize(&user, &secrets("web")).await.unwrap_err();
        assert_eq!(
            (caller.code, access.code),
            (Code::Unavailable, Code::Unavailable),
            "{action:?}"
        );
        messages.push(caller.message);
        messages.push(access.message);
        world.server.faults().clear();
    }
    insta::assert_snapshot!(messages.join("\n"), @r#"
    cannot check the caller's token, so nothing is allowed; the log of Informant has the reason
    cannot check the caller's access, so nothing is allowed: the API server did not answer within 5 s
    cannot check the caller's token, so nothing is allowed; the log of Informant has the reason
    cannot check the caller's access, so nothing is allowed: the API server answered 500 to subjectaccessreviews
    cannot check the caller's token, so nothing is allowed; the log of Informant has the reason
    cannot check the caller's access, so nothing is allowed: the API server answered 502 to subjectaccessreviews
    cannot check the caller's token, so nothing is allowed; the log of Informant has the reason
    cannot check the caller's access, so nothing is allowed: the API server cannot be asked: ServiceError: connection reset by the embedded API server because of a fault or a restart
    cannot check the caller's token, so nothing is allowed; the log of Informant has the reason
    cannot check the caller's access, so nothing is allowed: Informant may not create subjectaccessreviews; apply the output of `informant rbac`
    "#);
    assert!(world.user("bob-token").await.is_ok(), "a failure was kept");
}

#[tokio::test(start_paused = true)]
async fn an_endless_answer_about_a_caller_is_not_read() {
    for status in [200, 500] {
        let (reviews, sent) = reviews_by_answers(status, Bytes::from_static(&[b' '; 64 << 10]), usize::MAX);
        assert_eq!(reviews.caller("token").await.unwrap_err().code, Code::Unavailable);
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent <= REVIEW_ANSWER_BYTES_MAX + (64 << 10), "{sent}");
    }
}

/// The API server, or a webhook behind it, may repeat the token in its answer.
#[tokio::test(start_paused = true)]
async fn errors_of_reviews_contain_nothing_of_the_answer() {
    let user = User {
        token: kept::TokenHash::of("s3cret"),
        info: UserInfo::default(),
    };
    for status in [200, 401, 403, 500] {
        let (reviews, _) = reviews_by_answers(status, Bytes::from_static(b"\"s3cret\""), 1);
        let error = reviews.authorize(&user, &secrets("web")).await.unwrap_err();
        assert_eq!(error.code, Code::Unavailable);
        assert!(!error.message.contains("s3cret"), "{}", error.message);
    }
}

#[test]
fn each_cause_of_failed_reviews_is_logged_once_a_minute() {
    let mut warnings = Warnings::new();
    let mut line = |problem: &str, seconds: u64| warnings.line(problem, Moment::from_nanos(seconds * 1_000_000_000));
    assert_eq!(line("the API server answered 500: a", 0), Some(0));
    assert_eq!(line("the API server answered 500: b", 1), None);
    assert_eq!(line("Informant may not create tokenreviews", 2), Some(0));
    assert_eq!(line("Informant may not create tokenreviews", 3), None);
    assert_eq!(line("Informant may not create tokenreviews", 62), Some(1));
    let changes = (0..100).filter(|number| line(&format!("cause {number}"), 63).is_some());
    assert!(changes.count() <= 10, "a cause that changes each time fills the log");
}

#[tokio::test(start_paused = true)]
async fn reviews_in_flight_are_bounded() {
    let world = Arc::new(World::new());
    world.rule("tokenreviews", Action::Hold);
    let callers: Vec<_> = (0..REVIEWS_MAX * 4)
        .map(|number| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.user(&format!("forged-{number}")).await.unwrap_err().code })
        })
        .collect();
    for caller in callers {
        assert_eq!(caller.await.unwrap(), Code::Unavailable);
    }
    assert!(
        world.requests("tokenreviews") <= 2 * REVIEWS_MAX,
        "{}",
        world.requests("tokenreviews")
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_tokens_do_not_delay_callers_whose_token_is_kept() {
    let world = Arc::new(World::new());
    let user = world.reviews.caller("alice-token").await.unwrap();
    world.rule("tokenreviews", Action::Hold);
    let forged = (0..REVIEWS_MAX * 2).map(|number| {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.user(&format!("forged-{number}")).await.unwrap_err().code })
    });
    let forged: Vec<_> = forged.collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = tokio::time::Instant::now();
    world.reviews.authorize(&user, &secrets("web")).await.unwrap();
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    for caller in forged {
        assert_eq!(caller.await.unwrap(), Code::Unavailable);
    }
}

#[tokio::test(start_paused = true)]
async fn simultaneous_requests_of_a_caller_ask_once() {
    let world = Arc::new(World::new());
    world.rule("tokenreviews", Action::DelayMs(100));
    let callers: Vec<_> = (0..REVIEWS_MAX * 8)
        .map(|_| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.user("alice-token").await.unwrap() })
        })
        .collect();
    for caller in callers {
        assert_eq!(caller.await.unwrap(), "alice");
    }
    assert!(
        world.requests("tokenreviews") <= REVIEWS_MAX,
        "{}",
        world.requests("tokenreviews")
    );
}

#[test]
fn only_a_single_bearer_token_is_read() {
    let token = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        bearer_token(&headers).map(str::to_owned).map_err(|error| error.code)
    };
    assert_eq!(token(&["Bearer a.b-c"]), Ok("a.b-c".to_owned()));
    assert_eq!(token(&["bearer  abc "]), Ok("abc".to_owned()));
    for refused in [
        &[][..],
        &["Bearer"],
        &["Bearer "],
        &["Basic YTpi"],
        &["abc"],
        &["Bearer a", "Bearer b"],
    ] {
        assert_eq!(token(refused), Err(Code::Unauthenticated), "{refused:?}");
    }
}

#[test]
fn each_route_needs_a_right_of_its_own() {
    let routes = [
        (Method::GET, "/livez"),
        (Method::GET, "/healthz"),
        (Method::GET, "/readyz"),
        (Method::GET, "/metrics"),
        (Method::HEAD, "/metrics"),
        (Method::GET, "/api/v1/get/{*resource}"),
        (Method::GET, "/api/v1/sources"),
        (Method::GET, "/api/v1/sources/{id}"),
        (Method::GET, "/api/v1/plugins"),
        (Method::GET, "/api/v1/plugins/{name}/effects"),
        (Method::GET, "/api/v1/plugins/{name}/logs"),
        (Method::GET, "/api/v1/dead-letters"),
        (Method::GET, "/api/v1/retries"),
        (Method::GET, "/api/v1/configuration"),
        (Method::POST, "/api/v1/plugins/{name}/pause"),
        (Method::POST, "/api/v1/plugins/{name}/resume"),
        (Method::POST, "/api/v1/plugins/{name}/restart"),
        (Method::POST, "/api/v1/plugins/{name}/requeue"),
        (Method::POST, "/api/v1/plugins/{name}/trigger"),
        (Method::POST, "/api/v1/plugins/{name}/capture"),
        (Method::POST, "/api/v1/loglevel"),
        (Method::POST, "/api/v1/plugins"),
        (Method::DELETE, "/api/v1/plugins"),
        (Method::GET, "/api/v1/added-later"),
    ];
    let shown = routes.map(|(method, path)| {
        let parameter = if path.contains('{') { "NAME" } else { "" };
        match rights::required(&method, Some(path), parameter) {
            Requirement::Right(right) => format!("{method} {path}: {right}"),
            other => format!("{method} {path}: {other:?}"),
        }
    });
    insta::assert_snapshot!(shown.join("\n"), @r#"
    GET /livez: get path "/livez"
    GET /healthz: get path "/livez"
    GET /readyz: get path "/readyz"
    GET /metrics: get path "/metrics"
    HEAD /metrics: get path "/metrics"
    GET /api/v1/get/{*resource}: OfObjects
    GET /api/v1/sources: list resource "sources" in API group "informant.dev" at the cluster scope
    GET /api/v1/sources/{id}: get resource "sources" in API group "informant.dev" at the cluster scope, name "NAME"
    GET /api/v1/plugins: list resource "plugins" in API group "informant.dev" at the cluster scope
    GET /api/v1/plugins/{name}/effects: get resource "effects" in API group "informant.dev" at the cluster scope, name "NAME"
    GET /api/v1/plugins/{name}/logs: get resource "plugins/logs" in API group "informant.dev" at the cluster scope, name "NAME"
    GET /api/v1/dead-letters: list resource "deadletters" in API group "informant.dev" at the cluster scope
    GET /api/v1/retries: list resource "deadletters" in API group "informant.dev" at the cluster scope
    GET /api/v1/configuration: get resource "configurations" in API group "informant.dev" at the cluster scope
    POST /api/v1/plugins/{name}/pause: update resource "plugins/pause" in API group "informant.dev" at the cluster scope, name "NAME"
    POST /api/v1/plugins/{name}/resume: update resource "plugins/resume" in API group "informant.dev" at the cluster scope, name "NAME"
    POST /api/v1/plugins/{name}/restart: update resource "plugins/restart" in API group "informant.dev" at the cluster scope, name "NAME"
    POST /api/v1/plugins/{name}/requeue: update resource "plugins/requeue" in API group "informant.dev" at the cluster scope, name "NAME"
    POST /api/v1/plugins/{name}/trigger: update resource "plugins/trigger" in API group "informant.dev" at the cluster scope, name "NAME"
    POST /api/v1/plugins/{name}/capture: update resource "plugins/capture" in API group "informant.dev" at the cluster scope, name "NAME"
    POST /api/v1/loglevel: update resource "configurations/loglevel" in API group "informant.dev" at the cluster scope
    POST /api/v1/plugins: Never
    DELETE /api/v1/plugins: Never
    GET /api/v1/added-later: Never
    "#);
}
