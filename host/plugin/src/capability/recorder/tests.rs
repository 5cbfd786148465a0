use std::sync::Mutex;
use std::time::Duration;

use informant_cache::{BoxFuture, Environment, Moment};
use serde_json::Value;

use super::sender::EVENTS_WAITING_MAX;
use super::*;
use crate::capability::kube::api::{KubeAction, KubeApi, KubeCall, KubeError, KubeErrorCode, KubeFuture};
use crate::sync::lock;
use crate::testing::TestParts;

/// Records the calls, and fails as long as there are statuses.
#[derive(Default)]
struct Api {
    calls: Mutex<Vec<String>>,
    statuses: Mutex<Vec<u16>>,
}

impl KubeApi for Api {
    fn call(&self, call: KubeCall) -> KubeFuture {
        let document: Value = serde_json::from_slice(call.action.document()).unwrap();
        let shown = match &call.action {
            KubeAction::Create(..) => {
                let text = |member: &str| document[member].as_str().unwrap_or_default().to_owned();
                let count = &document["series"]["count"];
                let again = if count.is_null() {
                    String::new()
                } else {
                    format!(" of {count}")
                };
                format!("create {} {}: {}{again}", text("type"), text("reason"), text("note"))
            }
            _ => format!("series of {}", document["series"]["count"]),
        };
        lock(&self.calls).push(shown);
        let status = lock(&self.statuses).pop();
        Box::pin(async move {
            match status {
                None => Ok(b"{}".to_vec()),
                Some(status) => Err(KubeError {
                    status,
                    ..KubeError::new(KubeErrorCode::Unavailable, "no")
                }),
            }
        })
    }
}

/// Shows tokio's time.
struct Clock(tokio::time::Instant);

impl Environment for Clock {
    fn now(&self) -> Moment {
        Moment::ZERO + self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, _name: &'static str, task: BoxFuture) {
        tokio::spawn(task);
    }

    fn random(&self) -> u64 {
        0
    }
}

struct Rig {
    api: Arc<Api>,
    caller: RecorderCaller,
}

impl Rig {
    fn new(is_granted: bool, is_dry_run: bool) -> Rig {
        let api = Arc::new(Api::default());
        let mut parts = TestParts::new("p", is_dry_run);
        parts.env = Arc::new(Clock(tokio::time::Instant::now()));
        parts.services.kube = Some(Arc::clone(&api) as Arc<dyn KubeApi>);
        let grants = Arc::new(Current::new(grant(is_granted)));
        let plugin = Arc::new(RecorderPlugin::of(Live::default(), &grants, &parts.plugin()));
        let caller = RecorderCaller {
            subject: CallSubject::new(plugin.catalog()),
            plugin,
            grants,
            may_use: Ok(()),
            recorded: Vec::new(),
            cause: CurrentCause::default(),
        };
        Rig { api, caller }
    }

    fn record(&mut self, name: &str, reason: &str, note: &str) -> Result<(), HostError> {
        let about = regarding(name);
        let texts = (reason.to_owned(), "Act".to_owned(), note.to_owned());
        self.caller.record(about, None, EventType::Warning, texts)
    }

    /// The call ends, and what it has recorded is sent.
    async fn succeed(&mut self) {
        let recorded = self.caller.finish(CallEnd::Succeeded);
        self.caller.plugin.commit(recorded, None);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.api.calls))
    }
}

fn grant(is_granted: bool) -> EventsGrant {
    EventsGrant {
        is_granted,
        identity: None,
    }
}

fn regarding(name: &str) -> Regarding {
    Regarding {
        cluster: String::new(),
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: "web".to_owned(),
        name: name.to_owned(),
        uid: "u".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_sent_when_their_call_has_succeeded() {
    let mut rig = Rig::new(true, false);
    rig.record("a", "Crashing", "once").unwrap();
    assert!(rig.caller.finish(CallEnd::Failed).is_empty());
    rig.record("a", "Crashing", "twice").unwrap();
    rig.succeed().await;
    assert_eq!(rig.calls(), ["create Warning Crashing: twice"]);
    rig.record("a", "Crashing", "thrice").unwrap();
    rig.record("a", "Other", "x").unwrap();
    rig.succeed().await;
    assert_eq!(rig.calls(), ["series of 2", "create Warning Other: x"]);
    rig.record("a", "Crashing", "again").unwrap();
    rig.succeed().await;
    assert!(rig.calls().is_empty());
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    assert_eq!(rig.calls(), ["series of 3"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_sent_again_while_the_server_is_away() {
    let mut rig = Rig::new(true, false);
    *lock(&rig.api.statuses) = vec![503, 0];
    rig.record("a", "Crashing", "x").unwrap();
    rig.succeed().await;
    assert_eq!(rig.calls().len(), 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.calls().len(), 2);
    // It is refused: once.
    *lock(&rig.api.statuses) = vec![403];
    rig.record("b", "Crashing", "x").unwrap();
    rig.succeed().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.calls().len(), 1);
    // The Event of a series is gone: it begins again.
    *lock(&rig.api.statuses) = vec![404];
    rig.record("b", "Crashing", "x").unwrap();
    rig.succeed().await;
    assert_eq!(rig.calls(), ["series of 2", "create Warning Crashing: x of 2"]);
}

#[tokio::test(start_paused = true)]
async fn another_section_decides_from_then_on_about_events() {
    let mut rig = Rig::new(false, false);
    // As instances that serve a new section have them.
    let grants = Arc::new(Current::new(grant(true)));
    rig.caller.plugin.set_grants(&grants);
    rig.caller.grants = Arc::clone(&grants);
    rig.record("a", "Crashing", "x").unwrap();
    rig.succeed().await;
    assert_eq!(rig.calls().len(), 1);
    rig.record("a", "Other", "x").unwrap();
    grants.set(grant(false));
    rig.succeed().await;
    assert!(rig.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_sends_no_events() {
    let mut rig = Rig::new(true, true);
    rig.record("a", "Crashing", "x").unwrap();
    rig.succeed().await;
    assert!(rig.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_no_event_may_have_is_refused_with_the_reason() {
    let mut rig = Rig::new(true, false);
    let mut refusal = |name: &str, reason: &str| {
        let refused = rig.record(name, reason, "x").unwrap_err();
        (refused.code, refused.message)
    };
    let (code, message) = refusal("", "Crashing");
    assert_eq!(code, ErrorCode::Invalid);
    insta::assert_snapshot!(message, @"`about` has no name: pass the object, or all of its reference");
    insta::assert_snapshot!(refusal("a", "pod is crashing").1, @r#"`reason` "pod is crashing" is no word in CamelCase, such as "ImagePulled""#);
    insta::assert_snapshot!(refusal("a", &"X".repeat(129)).1, @"`reason` has 129 bytes, and may have 128");
    insta::assert_snapshot!(refusal(&"x".repeat(254), "Crashing").1, @"`about` has a name of 254 bytes, and none has more than 253");
    for number in 0..CALL_EVENTS_MAX {
        rig.record("a", &format!("R{number}"), "x").unwrap();
    }
    let one_more = rig.record("a", "Crashing", "x").unwrap_err();
    assert_eq!(one_more.code, ErrorCode::TooLarge);
    let denied = Rig::new(false, false).record("a", "Crashing", "x").unwrap_err();
    assert_eq!(denied.code, ErrorCode::Denied);
    insta::assert_snapshot!(denied.message, @"Events are not granted; in config.toml, set in [plugin.p]: allow.events = true");
}

#[tokio::test(start_paused = true)]
async fn events_above_the_limits_are_counted() {
    let mut rig = Rig::new(true, false);
    // The sender waits for the server.
    *lock(&rig.api.statuses) = vec![503; 3];
    for call in 0..=EVENTS_WAITING_MAX / CALL_EVENTS_MAX + 1 {
        for number in 0..CALL_EVENTS_MAX {
            rig.record(&format!("pod-{call}-{number}"), "Crashing", "x").unwrap();
        }
        rig.succeed().await;
    }
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(rig.caller.plugin.series().clone()));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let dropped = text.lines().find(|line| line.contains("dropped")).unwrap_or_default();
    assert!(dropped.ends_with(" 199"), "{text}");
}
