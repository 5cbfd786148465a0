//! `fetch` of scripts: requests that run at once, redirects, and what follows from a response.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Response, header};
use http_body_util::{BodyExt as _, Full};
use informant_plugin_host::{
    HttpBody, HttpCall, HttpClient, HttpError, HttpErrorCode, HttpFuture, KvSpace as _, Plugin,
};
use informant_spec::{HttpGrant, PluginSpec};
use serde_json::json;

use crate::scripts::{attached, can_run, run};
use crate::world::{Pods, Reload, World, hello_log, idle};

/// Turns that a request takes, so that others are in flight at the same time.
const TURNS: usize = 50;

/// Another service. It notes the requests, and how many were in flight at once.
#[derive(Default)]
pub(crate) struct Service {
    seen: Mutex<Vec<String>>,
    in_flight: AtomicUsize,
    in_flight_max: AtomicUsize,
}

#[derive(Default)]
pub(crate) struct Shared(pub(crate) Arc<Service>);

impl HttpClient for Shared {
    fn send(&self, call: HttpCall) -> HttpFuture {
        Box::pin(Arc::clone(&self.0).answer(call))
    }
}

impl Service {
    /// `/status/N` answers with that status, `/busy` and `/busy/date` with 503, `/to/N` redirects N times, `/away`
    /// redirects to another host, `/go?URL` to that URL, `/fails` fails, `/bytes` is not UTF-8, and any other path
    /// answers with what was sent.
    async fn answer(self: Arc<Service>, call: HttpCall) -> Result<Response<HttpBody>, HttpError> {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.in_flight_max.fetch_max(now, Ordering::SeqCst);
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        let (head, body) = call.request.into_parts();
        let body = String::from_utf8_lossy(&body.collect().await?.to_bytes()).into_owned();
        let with = |name: &str| {
            head.headers
                .get(name)
                .map(|value| format!(" {name}={}", value.to_str().unwrap()))
        };
        let headers: String = ["authorization", "content-type", "x-id"]
            .into_iter()
            .filter_map(with)
            .collect();
        let line = format!("{} {}{headers} {body}", head.method, head.uri);
        self.seen.lock().unwrap().push(line.trim_end().to_owned());
        let path = head.uri.path().to_owned();
        let number = || {
            path.rsplit('/')
                .next()
                .and_then(|last| last.parse::<u16>().ok())
                .unwrap_or_default()
        };
        let mut response = Response::builder().header(header::CONTENT_TYPE, "text/plain");
        let mut content = Bytes::from(format!(r#"{{"echo":"{body}"}}"#));
        if path.starts_with("/status/") {
            response = response.status(number()).header(header::RETRY_AFTER, "60");
            content = Bytes::from_static(b"why");
        } else if path.starts_with("/busy") {
            response = response.status(503);
            if path.ends_with("/date") {
                response = response.header(header::RETRY_AFTER, "Fri, 01 Jan 2100 00:00:00 GMT");
            }
        } else if path.starts_with("/to/") && number() > 0 {
            response = response
                .status(302)
                .header(header::LOCATION, format!("../to/{}", number() - 1));
        } else if path == "/away" {
            response = response.status(307).header(header::LOCATION, "http://b.svc/echo");
        } else if path == "/go" {
            let location = head.uri.query().unwrap();
            response = response.status(307).header(header::LOCATION, location);
        } else if path == "/denied" {
            response = response
                .status(307)
                .header(header::LOCATION, "https://elsewhere.example.com/x");
        } else if path == "/bytes" {
            content = Bytes::from_static(b"\xff\x00");
        } else if path == "/fails" {
            return Err(HttpError::new(HttpErrorCode::Dns, "the name cannot be resolved"));
        }
        let body = Full::new(content).map_err(|never: Infallible| match never {});
        Ok(response.body(body.boxed_unsync()).unwrap())
    }

    /// The requests since the last call.
    pub(crate) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

/// A script that may call the services `a.svc` and `b.svc`.
struct Setup {
    service: Arc<Service>,
    world: World,
    plugin: Plugin,
    pods: Pods,
}

impl Setup {
    /// `body` is that of `onAdd(pod, event)`.
    async fn new(body: &str) -> Setup {
        Setup::adjusted(body, |_| ()).await
    }

    async fn adjusted(body: &str, adjust: impl FnOnce(&mut PluginSpec)) -> Setup {
        let service = Arc::<Service>::default();
        let world = World::for_scripts_with_http(None, Arc::new(Shared(Arc::clone(&service))));
        let text = format!(
            "import {{ ensureOk, fetch as imported, log }} from \"informant\";\n\
             export async function onAdd(pod, event) {{\n{body}\n}}\n"
        );
        let plugin = run(&world, &text, |spec| {
            spec.allow_http = vec![HttpGrant::parse("http://*.svc").unwrap()];
            adjust(spec);
        })
        .await;
        let pods = attached(&world, &plugin).await;
        Setup {
            service,
            world,
            plugin,
            pods,
        }
    }

    /// Handles a pod. Returns the lines that the script wrote.
    async fn handle(&mut self, name: &str) -> Vec<String> {
        let before = hello_log(&self.world).len();
        self.pods.apply(name);
        idle(&self.world, &self.plugin).await;
        hello_log(&self.world).split_off(before)
    }
}

/// A script that logs what `expression` is, or the error.
fn logging(expression: &str) -> String {
    format!("try {{ log.info({expression}); }} catch (error) {{ log.info(error.name, error.code, error.message); }}")
}

#[tokio::test(start_paused = true)]
async fn a_script_sends_requests_and_reads_responses() {
    if !can_run() {
        return;
    }
    let mut setup = Setup::new(
        r#"
        const response = await fetch("http://A.svc/echo?q=1 2#x", {
          method: "post", headers: { "Content-Type": "text/x", "x-id": event.id }, body: "grüße",
        });
        log.info(response.status, response.ok, response.url, response.headers.get("CONTENT-TYPE"), await response.json());
        const bytes = await (await fetch("http://a.svc/bytes")).bytes();
        log.info([...bytes], (await fetch("http://a.svc/status/404")).ok, fetch === imported);
        "#,
    )
    .await;
    let lines = setup.handle("a").await;
    insta::assert_snapshot!(lines.join("\n"), @r#"
    INFO 200 true http://a.svc/echo?q=1%202 text/plain {"echo":"grüße"}
    INFO [255,0] false true
    "#);
    insta::assert_snapshot!(setup.service.seen().join("\n"), @"
    POST http://a.svc/echo?q=1%202 content-type=text/x x-id=uid-a/2 grüße
    GET http://a.svc/bytes
    GET http://a.svc/status/404
    ");
}

#[tokio::test(start_paused = true)]
async fn six_requests_of_a_call_are_in_flight_at_once() {
    if !can_run() {
        return;
    }
    let mut setup = Setup::new(
        r#"
        const all = await Promise.all(Array.from({ length: 20 }, (_, n) => fetch(`http://a.svc/${n}`, { method: "PUT", body: `${n}` })));
        log.info((await Promise.all(all.map((response) => response.json()))).map(({ echo }) => echo).join());
        "#,
    )
    .await;
    let lines = setup.handle("a").await;
    assert_eq!(lines, ["INFO 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19"]);
    assert_eq!(setup.service.in_flight_max.load(Ordering::SeqCst), 6);
}

#[tokio::test(start_paused = true)]
async fn redirects_are_authorized_and_lose_credentials() {
    if !can_run() {
        return;
    }
    let get = |url: &str| {
        let options = r#"{ method: "POST", headers: { authorization: "secret" }, body: "x" }"#;
        logging(&format!("(await fetch(\"{url}\", {options})).url"))
    };
    let body = [
        "http://a.svc/to/5",
        "http://a.svc/to/6",
        "http://a.svc/away",
        "http://a.svc/denied",
    ]
    .map(get);
    let mut setup = Setup::new(&body.join("\n")).await;
    let lines = setup.handle("a").await;
    insta::assert_snapshot!(lines.join("\n"), @r#"
    INFO http://a.svc/to/0
    INFO HttpError redirect GET http://a.svc: more than 5 redirects
    INFO http://b.svc/echo
    WARN HTTP request failed: https://elsewhere.example.com is not granted; in config.toml, set in [plugin.hello]: allow.http = ["https://elsewhere.example.com"]
    INFO HttpError denied POST https://elsewhere.example.com: not granted; the log names the line for config.toml, or the reason
    "#);
    let seen = setup.service.seen();
    assert_eq!(
        seen[0],
        "POST http://a.svc/to/5 authorization=secret content-type=text/plain;charset=UTF-8 x"
    );
    assert_eq!(seen[1], "GET http://a.svc/to/4 authorization=secret", "after a 302");
    let away = seen.iter().find(|line| line.contains("b.svc")).unwrap();
    assert_eq!(
        away, "POST http://b.svc/echo content-type=text/plain;charset=UTF-8 x",
        "after a 307"
    );
}

#[tokio::test(start_paused = true)]
async fn redirects_to_what_is_not_granted_are_not_followed() {
    if !can_run() {
        return;
    }
    for location in [
        "https://a.svc/echo",
        "http://a.svc:8080/echo",
        "http://example.com/",
        "//example.com/",
        "http://127.0.0.1:8089/plugins",
        "http://169.254.169.254/latest/meta-data/",
        "//[::ffff:169.254.169.254]/",
        "http://user@a.svc/echo",
        "file:///etc/passwd",
        "ftp://a.svc/echo",
        "javascript:alert(1)",
    ] {
        let get = logging(&format!("(await fetch(\"http://a.svc/go?{location}\")).url"));
        let mut setup = Setup::new(&get).await;
        let lines = setup.handle("a").await;
        let last = lines.last().unwrap();
        let is_refused = last.starts_with("INFO HttpError denied") || last.starts_with("INFO TypeError");
        assert!(is_refused, "{location}: {lines:?}");
        assert_eq!(setup.service.seen(), [format!("GET http://a.svc/go?{location}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_number_in_flight_applies_from_then_on() {
    if !can_run() {
        return;
    }
    let all = "await Promise.all(Array.from({ length: 12 }, (_, n) => fetch(`http://a.svc/${n}`)));";
    let mut setup = Setup::new(all).await;
    for limit in [2, 5, 1] {
        // In the middle of a call, or before it.
        setup.pods.apply(&format!("during-{limit}"));
        let mut spec = setup.plugin.spec();
        spec.limits.http_in_flight = limit;
        let swapped = setup.plugin.reconfigure(spec).await.unwrap();
        assert!(swapped.is_none(), "the instance is kept");
        idle(&setup.world, &setup.plugin).await;
        setup.service.in_flight_max.store(0, Ordering::SeqCst);
        setup.handle(&format!("after-{limit}")).await;
        assert_eq!(setup.service.in_flight_max.load(Ordering::SeqCst), limit);
    }
    assert_eq!(setup.service.seen().len(), 6 * 12);
}

#[tokio::test(start_paused = true)]
async fn errors_of_requests_name_the_host_and_the_reason() {
    if !can_run() {
        return;
    }
    let body = [
        r#"await fetch("http://a.svc/fails")"#,
        r#"await fetch("ftp://a.svc/")"#,
        r#"await fetch("http://a.svc/", { metod: "POST" })"#,
        r#"await fetch("http://a.svc/", { method: "POST", body: {} })"#,
        r#"await fetch("http://a.svc/", { headers: { host: "b.svc" } })"#,
        r#"await (await fetch("http://a.svc/status/200")).json()"#,
        r#"ensureOk(fetch("http://a.svc/echo"))"#,
    ];
    let mut setup = Setup::new(&body.map(logging).join("\n")).await;
    let lines = setup.handle("a").await;
    insta::assert_snapshot!(lines.join("\n"), @r#"
    WARN HTTP request failed: http://a.svc: the name cannot be resolved
    INFO HttpError dns GET http://a.svc: its name cannot be resolved
    INFO TypeError undefined fetch: "ftp://a.svc/" is not a URL that begins with http:// or https://
    INFO TypeError undefined fetch: there is no option metod; there are method, headers, body, redirect
    INFO TypeError undefined fetch: the body must be a string or bytes, not {}; for an object, write JSON.stringify(…)
    INFO HttpError invalid GET http://a.svc: scripts cannot set the header host
    INFO SyntaxError undefined http://a.svc answered 200 with a body that is not JSON (unexpected token: 'why')
    INFO TypeError undefined ensureOk takes a response, not {}; write ensureOk(await fetch(…))
    "#);
}

#[tokio::test(start_paused = true)]
async fn the_status_decides_whether_an_event_is_retried() {
    if !can_run() {
        return;
    }
    let mut setup =
        Setup::new("if (event.attempt === 0) ensureOk(await fetch(`http://a.svc/status/${pod.metadata.name}`));").await;
    for status in ["204", "404", "500"] {
        setup.handle(status).await;
    }
    // One that asks for a pause closes the host to the plugin.
    setup.pods.apply("429");
    setup.handle("503").await;
    assert_eq!(
        setup.service.seen(),
        ["204", "404", "500", "429"].map(|status| format!("GET http://a.svc/status/{status}"))
    );
    assert_eq!(setup.plugin.status().dead_letters, 1);
    let log = setup.world.log.text();
    for status in ["404", "500", "429"] {
        assert!(log.contains(&format!("http://a.svc answered {status}")), "{log}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_script_closes_a_host_that_names_no_seconds() {
    if !can_run() {
        return;
    }
    for (path, seconds) in [("busy/date", 3_600), ("busy", 30)] {
        let mut setup = Setup::new(&format!(
            r#"
            const response = await fetch("http://a.svc/{path}");
            log.info(response.status, response.headers.get("retry-after") <= {seconds});
            if (event.name === "a" && event.attempt === 0) ensureOk(response);
            "#
        ))
        .await;
        setup.pods.apply("a");
        let lines = setup.handle("b").await;
        assert_eq!(lines[2], "INFO 429 true", "{path}: {lines:?}");
        assert_eq!(setup.service.seen().len(), 2, "{path}: one when the time is over");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_withholds_the_posts_of_a_script() {
    if !can_run() {
        return;
    }
    let mut setup = Setup::adjusted(
        r#"
        const post = await fetch("http://a.svc/hook?token=secret", { method: "POST", body: "x" });
        const get = await fetch("http://a.svc/echo");
        log.info(ensureOk(post).status, await post.text(), get.status);
        "#,
        |spec| spec.is_dry_run = true,
    )
    .await;
    assert_eq!(setup.handle("a").await, ["INFO 202  200"]);
    assert_eq!(setup.service.seen(), ["GET http://a.svc/echo"]);
    let effects = setup.plugin.effects().effects;
    let listed: Vec<String> = effects
        .iter()
        .map(|effect| format!("{} {}", effect.action, effect.target))
        .collect();
    assert_eq!(listed, ["POST http://a.svc/hook"]);
}

#[tokio::test(start_paused = true)]
async fn requests_that_nothing_awaits_end_with_the_call() {
    if !can_run() {
        return;
    }
    let mut setup = Setup::new(
        r#"
        fetch("http://a.svc/first").then(() => log.info("first has ended"));
        if (event.name === "fails") fetch("http://a.svc/fails");
        if (event.name === "throws" && event.attempt === 0) throw new Error("throws");
        "#,
    )
    .await;
    assert_eq!(setup.handle("a").await, ["INFO first has ended"]);
    let lines = setup.handle("fails").await.join("\n");
    assert!(
        lines.contains("GET http://a.svc: its name cannot be resolved (a promise that nothing awaits)"),
        "{lines}"
    );
    // A call that fails abandons its requests; the next one has none of them.
    let lines = setup.handle("throws").await;
    assert_eq!(
        lines.iter().filter(|line| line.contains("first has ended")).count(),
        1,
        "{lines:?}"
    );
}

/// The status of a pod whose container was killed at this time.
fn killed(time: &str) -> String {
    format!(
        r#"}},"spec":{{"nodeName":"node-1"}},"status":{{"containerStatuses":[{{"name":"app","restartCount":3,"lastState":{{"terminated":{{"reason":"OOMKilled","finishedAt":"{time}"}}}}}}]"#
    )
}

#[tokio::test(start_paused = true)]
async fn oom_to_slack_reports_each_kill_once_per_pause() {
    if !can_run() {
        return;
    }
    let service = Arc::<Service>::default();
    let world = World::for_scripts_with_http(None, Arc::new(Shared(Arc::clone(&service))));
    let text = include_str!("../../../../plugins/oom-to-slack/oom_to_slack.js");
    let plugin = run(&world, text, |spec| {
        spec.config = json!({ "url": "http://a.svc/hook", "pause-minutes": 10 });
        spec.allow_http = vec![HttpGrant::parse("http://a.svc/hook").unwrap()];
    })
    .await;
    // The pod was deleted while nothing ran.
    let gone = ("uid-gone/app".to_owned(), Some(b"1000"[..].into()));
    world.keys.commit(vec![gone], None);
    let mut pods = attached(&world, &plugin).await;
    let mut posts = Vec::new();
    // Times in the future are never too long ago.
    for (time, name) in [
        ("2100-01-01T00:00:00Z", "web"),
        ("2100-01-01T00:05:00Z", "web"),
        ("2100-01-01T00:15:00Z", "web"),
        ("2100-01-01T00:15:00Z", "web"),
        ("2100-01-01T00:20:00Z", "db"),
        ("2001-01-01T00:00:00Z", "old"),
    ] {
        pods.apply_with(name, &killed(time));
        idle(&world, &plugin).await;
        posts.push(service.seen().len());
    }
    assert_eq!(posts, [1, 0, 1, 0, 1, 0], "{}", world.log.text());
    pods.delete("web");
    idle(&world, &plugin).await;
    assert_eq!(
        world.keys.text().split('=').next(),
        Some("uid-db/app"),
        "forgotten with its pod"
    );
}
