//! Time, bytes and rates.

use informant_cache::Division;
use informant_cache::listener::HeldShards;
use tokio::time::Instant;

use super::*;
use crate::world::Reload;

#[tokio::test]
async fn a_slow_response_ends_with_an_error() {
    for behavior in [Behavior::Silent, Behavior::Stalled, Behavior::Endless] {
        let mut setup = Setup::new(behavior, |spec| {
            // A tenth is left for the answer.
            spec.limits.call = Duration::from_secs(10);
            spec.limits.http_response_bytes = usize::MAX;
            spec.limits.http_time = Duration::from_secs(600);
            spec.limits.memory_bytes = 256 << 20;
            spec.limits.cpu = Duration::from_secs(60);
        })
        .await;
        let answer = setup.get(HOOK).await;
        match behavior {
            // Reading without end fills the guest's memory, or its time runs out.
            Behavior::Endless => {}
            _ => {
                assert_eq!(answer["error"], "Timeout", "{behavior:?}");
                assert!(!setup.has_restarted(), "{behavior:?}");
                assert_eq!(setup.plugin.status().state, PluginState::Running);
            }
        }
    }
}

#[tokio::test]
async fn bodies_above_their_limits_end_with_an_error() {
    let mut setup = Setup::new(Behavior::Endless, |spec| {
        spec.limits.http_response_bytes = 100_000;
        spec.limits.http_request_bytes = 10_000;
    })
    .await;
    assert_eq!(setup.get(HOOK).await["error"], "TooLarge");
    setup.network.set(Behavior::Chunks(10_000));
    let whole = setup.get(HOOK).await;
    assert_eq!((&whole["status"], &whole["bytes"]), (&json!(200), &json!(100_000)));
    setup.network.set(Behavior::Chunks(10_001));
    assert_eq!(setup.get(HOOK).await["error"], "TooLarge");
    setup.network.set(Behavior::Status(200));
    let request = |bytes: u32| json!({ "url": HOOK, "method": "POST", "fill": bytes });
    assert_eq!(setup.handle(&request(10_000)).await[0]["status"], 200);
    assert_eq!(setup.handle(&request(10_001)).await[0]["error"], "TooLarge");
    assert!(!setup.has_restarted());
    insta::assert_snapshot!(setup.world.metrics("informant_plugin_http_limited"), @r#"
    informant_plugin_http_limited_total{plugin="guest_http",limit="request"} 1
    informant_plugin_http_limited_total{plugin="guest_http",limit="response"} 2
    "#);
}

#[tokio::test]
async fn waits_of_one_call_do_not_take_cpu_time() {
    let mut setup = Setup::new(Behavior::Status(200), |spec| {
        spec.limits.cpu = Duration::from_millis(200);
        // 100 at once, then one each 20 ms: 60 waits, which would cost 10 ms each.
        spec.limits.http_per_second = 50;
    })
    .await;
    let lines = setup.handle(&json!({ "url": HOOK, "times": 160 })).await;
    assert_eq!(lines.len(), 160);
    assert!(lines.iter().all(|line| line["status"] == 200));
    assert!(!setup.has_restarted());
    let limited = setup.world.metrics("informant_plugin_http_limited");
    assert!(limited.contains(r#"limit="rate"} "#), "{limited}");
}

#[tokio::test]
async fn a_share_of_the_shards_has_its_share_of_requests() {
    let mut setup = Setup::new(Behavior::Status(200), |spec| {
        spec.is_divided = true;
        spec.limits.http_per_second = 4;
    })
    .await;
    let limited = |setup: &Setup| setup.world.metrics("informant_plugin_http_limited");
    let division = Division {
        shards: 4,
        ..Division::WHOLE
    };
    setup.plugin.share_limits(Some(HeldShards {
        division,
        shards: [0].into_iter().collect(),
    }));
    // 25 at once, then one in a second.
    let lines = setup.handle(&json!({ "url": HOOK, "times": 27 })).await;
    assert!(lines.iter().all(|line| line["status"] == 200), "{lines:?}");
    assert!(limited(&setup).contains(r#"limit="rate"} "#), "{}", limited(&setup));
}

#[tokio::test(start_paused = true)]
async fn a_byte_a_second_ends_with_its_call() {
    // limits.http-time, or nine tenths of limits.call.
    for (call, http_time, seconds) in [(20, 600, 18), (20, 5, 5)] {
        let mut setup = Setup::new(Behavior::Drip, |spec| {
            spec.limits.call = Duration::from_secs(call);
            spec.limits.http_time = Duration::from_secs(http_time);
        })
        .await;
        let began = Instant::now();
        assert_eq!(setup.get(HOOK).await["error"], "Timeout");
        assert_eq!(began.elapsed().as_secs(), seconds);
        setup.network.set(Behavior::Status(200));
        assert_eq!(setup.get(HOOK).await["status"], 200);
        assert!(!setup.has_restarted());
    }
}

#[tokio::test]
async fn changed_limits_apply_to_the_running_instance() {
    let mut setup = Setup::new(Behavior::Chunks(10_000), |_| ()).await;
    let steps = [(50_000, "TooLarge"), (100_000, "whole"), (99_999, "TooLarge")];
    for (bytes, wanted) in steps {
        let mut spec = setup.plugin.spec();
        spec.limits.http_response_bytes = bytes;
        let swapped = setup.plugin.reconfigure(spec).await.unwrap();
        assert!(swapped.is_none(), "the instance is kept");
        let answer = setup.get(HOOK).await;
        match wanted {
            "whole" => assert_eq!(answer["bytes"], 100_000),
            error => assert_eq!(answer["error"], error, "{bytes}"),
        }
    }
    assert!(!setup.has_restarted());
}
