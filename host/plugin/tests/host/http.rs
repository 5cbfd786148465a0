//! HTTP requests of guests: what is granted, what limits do, and what a guest gets.

mod limits;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::Response;
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody};
use informant_plugin_host::{
    HttpBody, HttpCall, HttpClient, HttpError, HttpErrorCode, HttpFuture, Plugin, PluginState,
};
use informant_spec::{HttpGrant, PluginSpec};
use serde_json::{Value, json};

use crate::world::{Pods, World};

/// What the other side does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behavior {
    /// Answers with this status, the header `retry-after: 60`, and the body `hello`.
    Status(u16),
    /// Answers 503 with this `retry-after`, if any.
    Busy(Option<&'static str>),
    /// Never answers.
    Silent,
    /// Answers with a body that sends a byte for each poll, without end.
    Endless,
    /// Answers with a body that sends nothing.
    Stalled,
    /// Answers with this many chunks of 10 bytes.
    Chunks(usize),
    /// Answers with a body that sends a byte each second, without end.
    Drip,
    /// Fails.
    Fails(HttpErrorCode),
}

/// The network: it notes the requests.
pub(crate) struct Network {
    behavior: Mutex<Behavior>,
    seen: Mutex<Vec<String>>,
}

struct Chunks {
    /// None: without end.
    left: Option<usize>,
    is_stalled: bool,
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        if self.is_stalled {
            return Poll::Pending;
        }
        match &mut self.left {
            Some(0) => return Poll::Ready(None),
            Some(left) => *left -= 1,
            None => {}
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"0123456789")))))
    }
}

impl Network {
    fn new(behavior: Behavior) -> Arc<Network> {
        Arc::new(Network {
            behavior: Mutex::new(behavior),
            seen: Mutex::default(),
        })
    }

    fn set(&self, behavior: Behavior) {
        *self.behavior.lock().unwrap() = behavior;
    }

    /// The requests since the last call.
    pub(crate) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    async fn answer(self: Arc<Network>, call: HttpCall) -> Result<Response<HttpBody>, HttpError> {
        let HttpCall {
            plugin,
            request,
            address,
            header_files,
            ..
        } = call;
        let (head, body) = request.into_parts();
        let headers: Vec<String> = head
            .headers
            .iter()
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect();
        let body = body.collect().await?.to_bytes();
        let files: Vec<&str> = header_files.iter().map(|(name, _)| name.as_str()).collect();
        let line = format!(
            "{plugin}: {} {} {} files={files:?} address={address:?} bytes={}",
            head.method,
            head.uri,
            headers.join(" "),
            body.len()
        );
        self.seen.lock().unwrap().push(line);
        let chunks = |left, is_stalled| Ok(Response::new(Chunks { left, is_stalled }.boxed_unsync()));
        let behavior = *self.behavior.lock().unwrap();
        let hello = |status: u16, retry_after: Option<&str>| {
            let body = Full::new(Bytes::from_static(b"hello")).map_err(|never: Infallible| match never {});
            let mut response = Response::builder().status(status);
            if let Some(value) = retry_after {
                response = response.header("retry-after", value);
            }
            Ok(response.body(body.boxed_unsync()).unwrap())
        };
        match behavior {
            Behavior::Status(status) => hello(status, Some("60")),
            Behavior::Busy(retry_after) => hello(503, retry_after),
            Behavior::Silent => std::future::pending().await,
            Behavior::Endless => chunks(None, false),
            Behavior::Stalled => chunks(None, true),
            Behavior::Chunks(count) => chunks(Some(count), false),
            Behavior::Drip => {
                let bytes = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(b"x"))));
                let drip = bytes.then(|byte| async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    byte
                });
                Ok(Response::new(StreamBody::new(drip).boxed_unsync()))
            }
            Behavior::Fails(code) => Err(HttpError::new(code, "as the test wants")),
        }
    }
}

/// A network that many hosts may share.
struct Shared(Arc<Network>);

impl HttpClient for Shared {
    fn send(&self, call: HttpCall) -> HttpFuture {
        Box::pin(Arc::clone(&self.0).answer(call))
    }
}

/// A plugin that may call `hooks.example.com` and the services of the namespace `web`.
pub(crate) struct Setup {
    pub(crate) network: Arc<Network>,
    pub(crate) world: World,
    pub(crate) plugin: Plugin,
    pub(crate) pods: Pods,
    objects: usize,
}

impl Setup {
    pub(crate) async fn new(behavior: Behavior, adjust: impl FnOnce(&mut PluginSpec)) -> Setup {
        let network = Network::new(behavior);
        let world = World::with_http(Arc::new(Shared(Arc::clone(&network))));
        let adjust = |spec: &mut PluginSpec| {
            let urls = ["https://hooks.example.com/services/T000/", "http://*.web.svc:8080"];
            spec.allow_http = urls.map(|url| HttpGrant::parse(url).unwrap()).into();
            adjust(spec);
        };
        let plugin = world.run("guest_http", json!({}), adjust).await;
        let mut pods = world.pods("pods");
        pods.attach(&plugin.listener());
        Setup {
            network,
            world,
            plugin,
            pods,
            objects: 0,
        }
    }

    /// Handles an event whose object has this `spec`. Returns the lines that the guest wrote.
    pub(crate) async fn handle(&mut self, spec: &Value) -> Vec<Value> {
        self.objects += 1;
        let name = format!("object-{}", self.objects);
        let wanted = spec["times"].as_u64().unwrap_or(1) as usize;
        let spec = spec.to_string();
        let spec = spec.strip_suffix('}').unwrap();
        self.pods.apply_with(&name, &format!(r#"}},"spec":{spec}"#));
        let lines = self.world.recorded(wanted, |line| line["name"] == name.as_str()).await;
        // An event that is retried later stays pending.
        let listener = self.plugin.listener();
        self.world
            .until("the call to end", || listener.control().stats().in_flight == 0)
            .await;
        lines
    }

    /// The same, for one request of GET.
    async fn get(&mut self, url: &str) -> Value {
        self.handle(&json!({ "url": url })).await.remove(0)
    }

    fn lines(&self) -> Vec<Value> {
        let lines = self.world.log.json().into_iter();
        lines.filter(|line| line["guest"] == "http").collect()
    }

    fn has_restarted(&self) -> bool {
        self.plugin.status().restarts > 0
    }
}

pub(crate) const HOOK: &str = "https://hooks.example.com/services/T000/B1";

#[tokio::test]
async fn a_request_is_sent_only_with_a_grant() {
    let mut setup = Setup::new(Behavior::Status(200), |_| ()).await;
    let answer = setup.get(HOOK).await;
    assert_eq!((&answer["status"], &answer["text"]), (&json!(200), &json!("hello")));
    let denied = setup.get("https://example.com/").await;
    assert_eq!(denied["error"], "Denied");
    let sent = "guest_http: GET https://hooks.example.com/services/T000/B1 host=hooks.example.com files=[] address=None bytes=0";
    assert_eq!(setup.network.seen(), [sent]);
    let log = setup.world.log.text();
    let line = r#"in config.toml, set in [plugin.guest_http]: allow.http = ["https://example.com"]"#;
    assert!(log.contains(line), "{log}");
    insta::assert_snapshot!(setup.world.metrics("informant_plugin_http_requests"), @r#"
    informant_plugin_http_requests_total{plugin="guest_http",host="",result="denied"} 1
    informant_plugin_http_requests_total{plugin="guest_http",host="hooks.example.com:443",result="2xx"} 1
    "#);
}

#[tokio::test]
async fn a_component_without_a_grant_runs_and_is_denied() {
    let mut setup = Setup::new(Behavior::Status(200), |spec| {
        spec.allow_http.clear();
        spec.config = json!({ "init": HOOK });
    })
    .await;
    assert_eq!(setup.get(HOOK).await["error"], "Denied");
    let granted: Vec<Value> = setup.lines().iter().map(|line| line["error"].clone()).collect();
    assert_eq!(granted, ["Denied", "Denied"], "in init, too");
    assert_eq!(setup.plugin.status().state, PluginState::Running);
    assert!(setup.network.seen().is_empty());
}

#[tokio::test]
async fn hosts_that_may_mean_the_machine_are_refused() {
    let mut setup = Setup::new(Behavior::Status(200), |spec| {
        spec.allow_http.push(HttpGrant::parse("http://127.0.0.1:9000").unwrap());
    })
    .await;
    for url in [
        "http://127.0.0.1:9001/",
        "http://127.1:9000/",
        "http://0x7f000001:9000/",
        "http://2130706433:9000/",
        "http://[::ffff:127.0.0.1]:9000/",
        "http://169.254.169.254/latest/meta-data/",
        "http://user@api.web.svc:8080/",
        "http://api.web.svc.:8080/",
        "http://web.svc:8080/",
        "https://api.web.svc:8080/",
        "https://hooks.example.com/services/T000/../T001/B1",
        "https://hooks.example.com/services/T000/%2e%2e/T001/B1",
        "https://hooks.example.com/services/T000%2f..%2fT001/B1",
        "https://hooks.example.com/services/T0001/B1",
    ] {
        assert_eq!(setup.get(url).await["error"], "Denied", "{url}");
    }
    assert!(setup.network.seen().is_empty());
    for (url, address) in [
        ("http://127.0.0.1:9000/", "address=Some(127.0.0.1)"),
        ("http://a.b.web.svc:8080/", "address=None"),
        ("https://HOOKS.example.com:443/services/%54000/B1", "address=None"),
    ] {
        assert_eq!(setup.get(url).await["status"], 200, "{url}");
        assert!(setup.network.seen().remove(0).contains(address), "{url}");
    }
}

#[tokio::test]
async fn long_methods_and_hosts_are_refused_when_they_are_set() {
    let mut setup = Setup::new(Behavior::Status(200), |_| {}).await;
    let method = |bytes: usize| json!({ "url": HOOK, "method": "X".repeat(bytes) });
    let host = |bytes: usize| json!({ "url": format!("http://{}.web.svc:8080/", "x".repeat(bytes)) });
    assert_eq!(setup.handle(&method(64)).await[0]["status"], 200);
    assert_eq!(setup.network.seen().len(), 1);
    for spec in [method(65), method(1 << 20), host(300), host(1 << 20)] {
        let lines = setup.handle(&spec).await;
        assert_eq!(lines[0]["error"], "Invalid", "{lines:?}");
    }
    assert_eq!(setup.network.seen(), [""; 0]);
}

#[tokio::test]
async fn methods_and_headers_that_break_the_boundary_are_refused() {
    let mut setup = Setup::new(Behavior::Status(200), |_| ()).await;
    for method in ["TRACE", "CONNECT", "connect", "Connect", "trace", "TRACK", "track"] {
        let lines = setup.handle(&json!({ "url": HOOK, "method": method })).await;
        assert_eq!(lines[0]["error"], "Denied", "{method}");
    }
    for name in [
        "Host",
        "Transfer-Encoding",
        "Connection",
        "Proxy-Authorization",
        "TE",
        "Trailer",
        "Expect",
    ] {
        let lines = setup.handle(&json!({ "url": HOOK, "headers": { name: "x" } })).await;
        assert_eq!(lines[0]["error"], "Invalid", "{name}");
    }
    assert!(setup.network.seen().is_empty());
}

#[tokio::test]
async fn a_host_is_closed_after_a_failure_that_says_when() {
    let mut setup = Setup::new(Behavior::Status(429), |_| ()).await;
    // The plugin handles the status itself: the host stays open.
    assert_eq!(setup.get(HOOK).await["status"], 429);
    assert_eq!(setup.get(HOOK).await["status"], 429);
    assert_eq!(setup.network.seen().len(), 2);
    let lines = setup.handle(&json!({ "url": HOOK, "ensureOk": true })).await;
    assert_eq!(lines[0]["status"], 429);
    assert_eq!(setup.network.seen().len(), 1);
    let closed = setup.plugin.status().closed_hosts;
    assert_eq!((closed.len(), closed[0].host.as_str()), (1, "hooks.example.com:443"));
    setup.network.set(Behavior::Status(200));
    let closed = setup.handle(&json!({ "url": HOOK })).await.remove(0);
    assert_eq!(closed["status"], 429);
    let seconds: u64 = closed["headers"]["retry-after"].as_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(
        setup.get("http://api.web.svc:8080/").await["status"],
        200,
        "another host"
    );
    assert_eq!(setup.network.seen().len(), 1);
    let requests = setup.world.metrics("informant_plugin_http_requests");
    assert!(
        requests.contains(r#"host="hooks.example.com:443",result="closed"} 1"#),
        "{requests}"
    );
}

#[tokio::test]
async fn a_host_is_closed_until_a_date_or_by_default() {
    for (asked, wanted) in [
        (Some("Fri, 01 Jan 2100 00:00:00 GMT"), 3_500..=3_600),
        (Some("soon"), 20..=30),
        (None, 20..=30),
    ] {
        let mut setup = Setup::new(Behavior::Busy(asked), |_| ()).await;
        setup.handle(&json!({ "url": HOOK, "ensureOk": true })).await;
        setup.network.set(Behavior::Status(200));
        let closed = setup.get(HOOK).await;
        assert_eq!(closed["status"], 429, "{asked:?}");
        let seconds: u64 = closed["headers"]["retry-after"].as_str().unwrap().parse().unwrap();
        assert!(wanted.contains(&seconds), "{asked:?}: {seconds}");
        assert_eq!(setup.network.seen().len(), 1, "{asked:?}");
    }
}

#[tokio::test]
async fn errors_reach_the_guest_by_their_kind() {
    let mut setup = Setup::new(Behavior::Silent, |_| ()).await;
    for (code, wanted) in [
        (HttpErrorCode::Address, "AddressProhibited"),
        (HttpErrorCode::Dns, "Unreachable"),
        (HttpErrorCode::ConnectTimeout, "Unreachable"),
        (HttpErrorCode::Certificate, "Tls"),
        (HttpErrorCode::Interrupted, "Interrupted"),
        (HttpErrorCode::HeaderFile, "Configuration"),
        (HttpErrorCode::Protocol, "Other"),
    ] {
        setup.network.set(Behavior::Fails(code));
        assert_eq!(setup.get(HOOK).await["error"], wanted, "{code:?}");
    }
    let log = setup.world.log.text();
    assert!(
        log.contains("HTTP request failed: https://hooks.example.com: as the test wants"),
        "{log}"
    );
    assert!(!log.contains("T000"), "paths of webhooks are secrets: {log}");
}

#[tokio::test]
async fn a_dry_run_sends_only_requests_that_read() {
    let mut setup = Setup::new(Behavior::Status(200), |spec| spec.is_dry_run = true).await;
    assert_eq!(setup.get(HOOK).await["status"], 200);
    assert_eq!(setup.network.seen().len(), 1);
    let url = format!("{HOOK}?token=secret");
    let posted = setup
        .handle(&json!({ "url": url, "method": "POST", "body": "hi" }))
        .await;
    assert_eq!(posted[0]["status"], 202, "{posted:?}");
    assert!(setup.network.seen().is_empty());
    let effects = setup.plugin.effects().effects;
    assert_eq!((effects[0].action.as_str(), effects[0].target.as_str()), ("POST", HOOK));
    assert_eq!(effects.len(), 1);
    let metrics = setup.world.metrics("informant_plugin_http_requests");
    assert!(metrics.contains(r#"result="withheld"} 1"#), "{metrics}");
}

#[tokio::test]
async fn withheld_requests_obey_the_rate_of_requests() {
    let mut setup = Setup::new(Behavior::Status(200), |spec| {
        spec.is_dry_run = true;
        spec.limits.http_per_second = 50;
    })
    .await;
    // 100 at once, then one each 20 ms.
    let lines = setup
        .handle(&json!({ "url": HOOK, "method": "POST", "times": 110 }))
        .await;
    assert!(lines.iter().all(|line| line["status"] == 202), "{lines:?}");
    assert_eq!(setup.plugin.effects().effects.len(), 110);
    let limited = setup.world.metrics("informant_plugin_http_limited");
    assert!(limited.contains(r#"limit="rate"} "#), "{limited}");
    let seconds = setup.world.metrics("informant_plugin_http_seconds");
    assert!(!seconds.contains("guest_http"), "they were not sent: {seconds}");
}
