//! The admin port with TLS: who gets in, what each caller sees, and which certificate the port shows.

mod certificates;
mod https;
mod ports;

use std::net::SocketAddr;

use informant_apiserver::{Action, Answer, Filter, Rule, TokenOwner};
use serde_json::{Value, json};

use super::program::{Program, informant};
use super::world::{Running, World, http_get, until};
use https::{https_get, https_post, https_raw};

/// What follows `[admin]` and its `listen`.
const SELF_SIGNED: &str = "tls = \"self-signed\"\n";

const INFORMERS: &str = "[informer.pods]\nresource = \"v1/pods\"\nindex = { node = \"/spec/nodeName\" }\n\
    [informer.secrets]\nresource = \"v1/secrets\"\nindex = { type = \"/type\" }\n";

/// A cluster where alice, bob and carol have tokens, and may do everything that no fault forbids.
async fn world() -> World {
    let world = World::start().await;
    for user in ["alice", "bob", "carol"] {
        let owner = TokenOwner {
            user: user.to_owned(),
            audiences: vec!["informant".to_owned()],
            ..TokenOwner::default()
        };
        world.server.add_token(&format!("{user}-token"), owner);
    }
    for namespace in ["web", "default"] {
        let metadata = json!({ "name": "db", "namespace": namespace, "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"password\":\"aHVudGVyMg==\"}}" } });
        let secret = json!({ "metadata": metadata, "type": "Opaque", "data": { "password": "aHVudGVyMg==" } });
        if namespace == "web" {
            let namespace = json!({ "metadata": { "name": "web" } });
            world.server.create("v1/namespaces", "", namespace).unwrap();
        }
        world.server.create("v1/secrets", namespace, secret).unwrap();
    }
    world.create_pod("web-0", "nginx");
    world
}

async fn secured(world: &World, more: &str) -> Running {
    let daemon = world.daemon(&format!("{SELF_SIGNED}{more}{INFORMERS}")).await;
    daemon.wait_until_ready().await;
    daemon
}

/// The program with the configuration of the world, and its health port.
async fn started(world: &World) -> (Program, SocketAddr) {
    let args = ["run", "--health-listen=127.0.0.1:0", "--log-format=json"];
    let program = Program::start(informant(world, &args)).await;
    let health = program.logged("health server listening").await;
    let health = health["fields"]["address"].as_str().unwrap().parse().unwrap();
    (program, health)
}

fn code(body: &str) -> String {
    let error: Value = serde_json::from_str(body).unwrap_or_default();
    error["code"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_without_an_accepted_token_are_refused() {
    let world = world().await;
    let foreign = TokenOwner {
        user: "dave".to_owned(),
        audiences: vec!["vault".to_owned()],
        ..TokenOwner::default()
    };
    world.server.add_token("dave-token", foreign);
    let daemon = secured(&world, "").await;
    for path in [
        "/api/v1/get/pods",
        "/api/v1/sources",
        "/api/v1/nothing",
        "/metrics",
        "/readyz?verbose",
        "/",
    ] {
        for token in ["", "forged", "dave-token", "alice-token-too"] {
            let (status, body) = https_get(daemon.address(), path, token).await;
            assert_eq!(
                (status, code(&body).as_str()),
                (401, "unauthenticated"),
                "{path} {token:?}: {body}"
            );
            assert!(!body.contains("web-0"), "{body}");
        }
        let (status, body) = https_get(daemon.address(), path, "alice-token").await;
        assert!([200, 404].contains(&status), "{path}: {status}: {body}");
    }
    for path in ["/livez", "/healthz", "/readyz"] {
        assert_eq!(
            https_get(daemon.address(), path, "").await,
            (200, "ok".to_owned()),
            "{path}"
        );
    }
    world.server.remove_token("alice-token");
    until("the expired token to be refused", async || {
        let (status, body) = https_get(daemon.address(), "/api/v1/get/pods", "alice-token").await;
        if status == 401 { Ok(()) } else { Err(body) }
    })
    .await;
    let rejected = daemon
        .metric("informant_admin_rejected_total", &["reason=\"unauthenticated\""])
        .await;
    assert!(rejected >= 24.0, "{rejected}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_caller_sees_what_the_api_server_allows() {
    let world = world().await;
    let faults = world.server.faults();
    // Bob may read one Secret and list the Secrets of one namespace; Carol nothing but pods.
    for namespace in ["", "default"] {
        faults.forbid(Filter::any().user("bob").resource("secrets").namespace(namespace));
    }
    for resource in [
        "secrets",
        "sources",
        "plugins",
        "deadletters",
        "configurations",
        "effects",
    ] {
        faults.forbid(Filter::any().user("carol").resource(resource));
    }
    let daemon = secured(&world, "").await;
    let status = async |path: &str, user: &str| https_get(daemon.address(), path, &format!("{user}-token")).await.0;
    for (path, expected) in [
        ("/api/v1/get/pods", [200, 200, 200]),
        ("/api/v1/get/secrets", [200, 403, 403]),
        ("/api/v1/get/secrets?namespace=web", [200, 200, 403]),
        ("/api/v1/get/secrets?namespace=web&name=db", [200, 200, 403]),
        ("/api/v1/get/secrets?namespace=default&name=db", [200, 403, 403]),
        ("/api/v1/get/secrets?namespace=default&name=absent", [404, 403, 403]),
        ("/api/v1/get/secrets?name=db", [200, 403, 403]),
        ("/api/v1/get/secrets?index=type&value=Opaque", [200, 403, 403]),
        (
            "/api/v1/get/secrets?index=type&value=Opaque&namespace=web",
            [200, 200, 403],
        ),
        ("/api/v1/sources", [200, 200, 403]),
        ("/api/v1/sources/1", [200, 200, 403]),
        ("/api/v1/plugins", [200, 200, 403]),
        ("/api/v1/plugins/none/effects", [404, 404, 403]),
        ("/api/v1/dead-letters", [200, 200, 403]),
        ("/api/v1/retries", [200, 200, 403]),
        ("/api/v1/configuration", [200, 200, 403]),
    ] {
        let found = [
            status(path, "alice").await,
            status(path, "bob").await,
            status(path, "carol").await,
        ];
        assert_eq!(found, expected, "{path}");
    }
    let (_, body) = https_get(daemon.address(), "/api/v1/get/secrets", "bob-token").await;
    insta::assert_snapshot!(body, @r#"{"code":"forbidden","message":"user \"bob\" cannot list resource \"secrets\" in API group \"\" at the cluster scope","missingRight":{"verb":"list","resource":"secrets"}}"#);
    let post = async |path: &str, user: &str| {
        https_post(daemon.address(), path, &format!("{user}-token"), "{}")
            .await
            .0
    };
    for action in ["pause", "resume", "requeue", "trigger"] {
        let path = format!("/api/v1/plugins/none/{action}");
        faults.forbid(Filter::any().user("bob").verb("update").resource("plugins"));
        let expected = if action == "trigger" { 400 } else { 404 };
        assert_eq!(
            (post(&path, "alice").await, post(&path, "bob").await),
            (expected, 403),
            "{action}"
        );
    }
    faults.forbid(Filter::any().user("bob").verb("update").resource("configurations"));
    assert_eq!(post("/api/v1/loglevel", "bob").await, 403);
    assert_eq!(
        post("/api/v1/sources", "alice").await,
        405,
        "the route has other methods"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn other_clusters_need_a_right_of_their_own() {
    let world = world().await;
    let other = World::start().await;
    other.create_pod("web-1", "nginx");
    let clusters = format!(
        "cluster = \"own\"\n[cluster.own]\nkubeconfig = {:?}\n[cluster.other]\nkubeconfig = {:?}\n",
        world.kubeconfig(),
        other.kubeconfig()
    );
    world
        .server
        .faults()
        .forbid(Filter::any().user("bob").resource("clusters").name("other"));
    let daemon = secured(&world, &clusters).await;
    for (path, expected) in [
        ("/api/v1/get/pods", [200, 403]),
        ("/api/v1/get/pods?cluster=own", [200, 200]),
        ("/api/v1/get/pods?cluster=other", [200, 403]),
    ] {
        let alice = https_get(daemon.address(), path, "alice-token").await.0;
        let bob = https_get(daemon.address(), path, "bob-token").await.0;
        assert_eq!([alice, bob], expected, "{path}");
    }
    assert_eq!(
        other
            .server
            .requests()
            .iter()
            .filter(|request| request.uri.contains("reviews"))
            .count(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_that_fails_closes_the_admin_port() {
    let world = world().await;
    let daemon = secured(&world, "").await;
    let failing = |resource: &str| Rule {
        filter: Filter::any().resource(resource),
        times: None,
        action: Action::Answer(Answer::internal_error()),
    };
    world.server.faults().rule(failing("subjectaccessreviews"));
    let (status, body) = https_get(daemon.address(), "/api/v1/get/pods", "alice-token").await;
    assert_eq!((status, code(&body).as_str()), (503, "unavailable"), "{body}");
    world.server.faults().rule(failing("tokenreviews"));
    let (status, body) = https_get(daemon.address(), "/api/v1/get/pods", "bob-token").await;
    assert_eq!((status, code(&body).as_str()), (503, "unavailable"), "{body}");
    assert_eq!(https_get(daemon.address(), "/livez", "").await.0, 200);
    world.server.faults().clear();
    assert_eq!(
        https_get(daemon.address(), "/api/v1/get/pods", "bob-token").await.0,
        200
    );
    let errors = daemon
        .metric("informant_admin_reviews_total", &["result=\"error\""])
        .await;
    assert_eq!(errors, 2.0);
}

/// What a caller gets to see of the Secrets' data: `hidden`, `shown`, or the status of an error.
fn data_of(answer: &(u16, String)) -> String {
    let (status, body) = answer;
    match (*status, body.contains("aHVudGVyMg=="), body.contains("<7 bytes>")) {
        (200, true, false) => "shown".to_owned(),
        (200, false, true) => "hidden".to_owned(),
        _ => status.to_string(),
    }
}

const OF_SECRETS: [&str; 4] = [
    "/api/v1/get/secrets?",
    "/api/v1/get/secrets?envelope=true&namespace=web&",
    "/api/v1/get/secrets?namespace=web&name=db&",
    "/api/v1/get/v1/secrets?index=type&value=Opaque&",
];

#[tokio::test(flavor = "multi_thread")]
async fn data_of_secrets_needs_a_wish_and_a_right() {
    let world = world().await;
    world
        .server
        .faults()
        .forbid(Filter::any().user("bob").resource("secrets"));
    let daemon = secured(&world, "").await;
    for path in OF_SECRETS {
        let shown = async |suffix: &str, token: &str| {
            data_of(&https_get(daemon.address(), &format!("{path}{suffix}"), token).await)
        };
        assert_eq!(shown("", "alice-token").await, "hidden", "{path}");
        assert_eq!(shown("show-secrets=false", "alice-token").await, "hidden", "{path}");
        assert_eq!(shown("show-secrets=true", "alice-token").await, "shown", "{path}");
        assert_eq!(shown("show-secrets=true", "bob-token").await, "403", "{path}");
        assert_eq!(shown("show-secrets=true", "").await, "401", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_secrets_is_never_shown_without_authentication() {
    let world = world().await;
    let daemon = world.daemon(INFORMERS).await;
    daemon.wait_until_ready().await;
    for path in OF_SECRETS.into_iter().filter(|path| !path.contains("index")) {
        assert_eq!(
            data_of(&daemon.get(path.trim_end_matches(['?', '&'])).await),
            "hidden",
            "{path}"
        );
        let (status, body) = daemon.get(&format!("{path}show-secrets=true")).await;
        assert_eq!((status, code(&body).as_str()), (401, "unauthenticated"), "{body}");
    }
    // An index may be computed from the data, so that its answer would tell whether a guess is right.
    let (status, body) = daemon.get("/api/v1/get/secrets?index=type&value=Opaque").await;
    assert_eq!((status, code(&body).as_str()), (401, "unauthenticated"), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts_and_origins_are_refused_under_tls() {
    let world = world().await;
    let daemon = secured(&world, "").await;
    let token = "authorization: Bearer alice-token\r\n";
    for headers in [
        format!("host: evil.example.com\r\n{token}"),
        format!("host: localhost\r\norigin: https://evil.example.com\r\n{token}"),
        format!("host: localhost\r\norigin: null\r\n{token}"),
        token.to_owned(),
    ] {
        let (status, body) = https_raw(
            daemon.address(),
            &format!("GET /api/v1/get/pods HTTP/1.0\r\n{headers}\r\n"),
        )
        .await;
        assert_eq!((status, code(&body).as_str()), (403, "forbidden"), "{headers}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_are_logged_with_their_caller() {
    let world = world().await;
    world.install("guest-recorder", "recorder.wasm");
    let plugin = "[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\n";
    world.configure(&format!("{SELF_SIGNED}{INFORMERS}{plugin}"));
    let (program, health) = started(&world).await;
    until("the plugin to run", async || {
        let (status, text) = http_get(health, "/readyz?verbose").await;
        if status == 200 && text.contains("plugin/recorder ok") {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await;
    for (path, body) in [
        // Who may do that, cannot act unseen.
        ("loglevel", "{\"level\":\"off\"}"),
        ("plugins/recorder/pause", "{}"),
        ("plugins/recorder/resume", "{}"),
        ("plugins/recorder/requeue", "{}"),
        ("plugins/recorder/trigger", "{\"all\":true}"),
        ("loglevel", "{\"level\":\"debug\"}"),
    ] {
        let (status, answer) = https_post(program.address(), &format!("/api/v1/{path}"), "alice-token", body).await;
        assert_eq!(status, 200, "{path}: {answer}");
    }
    for read in [
        "secrets",
        "secrets?show-secrets=true&namespace=none",
        "secrets?show-secrets=true&namespace=web",
    ] {
        let (status, answer) = https_get(program.address(), &format!("/api/v1/get/{read}"), "alice-token").await;
        assert_eq!(status, 200, "{read}: {answer}");
    }
    let read = program.logged("data of Secrets read").await;
    assert_eq!(
        (&read["fields"]["informer"], &read["fields"]["namespace"]),
        (&json!("secrets"), &json!("web"))
    );
    for message in [
        "data of Secrets read",
        "plugin paused",
        "plugin resumed",
        "events requeued",
        "calls triggered",
        "log level changed",
    ] {
        assert_eq!(program.logged(message).await["fields"]["user"], "alice", "{message}");
    }
    let (_, configuration) = https_get(program.address(), "/api/v1/configuration", "alice-token").await;
    let configuration: Value = serde_json::from_str(&configuration).unwrap();
    assert_eq!(configuration["logLevel"], "debug");
    let (status, body) = https_post(
        program.address(),
        "/api/v1/loglevel",
        "alice-token",
        "{\"level\":\"a=b=c\"}",
    )
    .await;
    assert_eq!((status, code(&body).as_str()), (400, "invalid"), "{body}");
    assert!(
        !program
            .lines()
            .iter()
            .any(|line| line.to_string().contains("alice-token")),
        "a token was logged"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_cannot_be_checked_are_logged() {
    let world = world().await;
    for review in ["tokenreviews", "subjectaccessreviews"] {
        world.server.faults().forbid(Filter::any().resource(review));
    }
    world.configure(&format!("{SELF_SIGNED}{INFORMERS}"));
    let (program, health) = started(&world).await;
    until("the client of the cluster", async || {
        let (status, text) = http_get(health, "/readyz?verbose").await;
        if status == 200 { Ok(()) } else { Err(text) }
    })
    .await;
    // The error of a client with the wrong protocol or port contains the answer.
    for (address, answer) in [
        (
            program.address(),
            "400 Bad Request: this port requires TLS: use https://",
        ),
        (health, "404 Not Found: not found; available: /livez"),
    ] {
        let args = ["status", "--admin", &address.to_string()];
        let output = informant(&world, &args).output().await.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(answer), "{error}");
    }
    let (status, body) = https_get(program.address(), "/api/v1/get/pods", "alice-token").await;
    assert_eq!((status, code(&body).as_str()), (503, "unavailable"), "{body}");
    assert!(
        !body.contains("tokenreviews"),
        "a caller who is not known learns why: {body}"
    );
    let logged = &program.logged("callers cannot be checked").await["fields"];
    assert_eq!((&logged["review"], &logged["suppressed"]), (&json!("token"), &json!(0)));
    let error = logged["error"].as_str().unwrap();
    assert!(
        error.contains("Informant may not create tokenreviews; apply the output of `informant rbac`"),
        "{error}"
    );
}
