//! What plugins do, as lines of the log of `informant dev`. That of `informant run` has no effects, because they
//! contain documents and paths.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use informant_cache::listener::DeliveryOutcome;
use informant_plugin_host::{Effect, ObservedDelivery, PluginObserver, trap_report_lines};

use crate::cli::in_cluster;
use crate::logging::DEV_TARGET;

/// Writes each call and each effect to the log.
#[derive(Debug)]
pub(super) struct EffectStream;

impl PluginObserver for EffectStream {
    fn delivered(&self, delivery: &ObservedDelivery<'_>) {
        let (about, error) = (about_call(delivery), failure(delivery.outcome));
        tracing::info!(target: DEV_TARGET, plugin = delivery.plugin, about, error = error.as_deref(), "call");
    }

    fn had_effect(&self, plugin: &str, effect: &Effect, is_withheld: bool) {
        let (about, error) = (about_effect(effect, is_withheld), effect_error(effect, is_withheld));
        tracing::info!(target: DEV_TARGET, plugin, about, error, "effect");
    }
}

/// `add v1/pods default/web-0 in 0.4 ms: ok`
fn about_call(call: &ObservedDelivery<'_>) -> String {
    let mut text = String::from(call.event);
    if let Some(source) = &call.source {
        text.extend([" ", &source.resource]);
    }
    if let Some(key) = call.key {
        text.extend([" ", &key.to_key().to_string()]);
    }
    if let Some(source) = &call.source {
        text.push_str(&in_cluster(&source.cluster));
    }
    // Writing into a String does not fail.
    if call.attempt > 0 {
        let _ = write!(text, ", retry {}", call.attempt);
    }
    let _ = write!(text, " in {}: {}", took(call.took), call.outcome.as_str());
    match call.outcome {
        DeliveryOutcome::RequeueAfter(wait) | DeliveryOutcome::RetryAfter(_, wait) => {
            let _ = write!(text, ", again in {wait:?}");
        }
        _ => {}
    }
    text
}

/// The error of a failed call. Of one that trapped, the trace is on lines of its own.
fn failure(outcome: &DeliveryOutcome) -> Option<Cow<'_, str>> {
    match outcome {
        DeliveryOutcome::Retryable(error)
        | DeliveryOutcome::RetryAfter(error, _)
        | DeliveryOutcome::Permanent(error) => Some(error.into()),
        DeliveryOutcome::Trapped(report) | DeliveryOutcome::TimedOut(report) => Some(trap_report_lines(report).into()),
        DeliveryOutcome::Ok
        | DeliveryOutcome::RequeueAfter(_)
        | DeliveryOutcome::Filtered
        | DeliveryOutcome::NotReady(_) => None,
    }
}

/// `kube patch v1/pods default/web-0 {…}`, in the words of `informant plugin effects`.
fn about_effect(effect: &Effect, is_withheld: bool) -> String {
    let kind = effect.kind.as_str();
    let mut text = format!(
        "{kind} {} {}{}",
        effect.action,
        effect.target,
        in_cluster(&effect.cluster)
    );
    if is_withheld {
        text.push_str(" (dry run)");
    }
    if !effect.detail.is_empty() {
        text.extend([" ", &effect.detail]);
    }
    text
}

fn effect_error(effect: &Effect, is_withheld: bool) -> Option<String> {
    let error = effect.error.as_ref()?;
    let verb = if is_withheld { "would fail" } else { "failed" };
    Some(format!("{verb}: {error}"))
}

/// With one digit after the point: `0.4 ms`, `1.2 s`.
pub(super) fn took(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use informant_cache::SourceInfo;
    use informant_object::KeyRef;
    use informant_plugin_host::EffectKind;

    use super::*;

    fn source(cluster: &str) -> SourceInfo {
        SourceInfo {
            informer: "pods".to_owned(),
            cluster: cluster.to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: "v1/pods".to_owned(),
            namespace: None,
            namespaced: true,
            partial: false,
        }
    }

    #[test]
    fn a_call_shows_event_object_time_and_outcome() {
        let key = KeyRef {
            namespace: "web",
            name: "a",
        };
        let call = |attempt, cluster: &str, outcome: &DeliveryOutcome| {
            let about = about_call(&ObservedDelivery {
                plugin: "greeter",
                source: Some(source(cluster)),
                key: Some(key),
                event: "update",
                attempt,
                took: Duration::from_micros(1_450),
                outcome,
            });
            match failure(outcome) {
                Some(error) => format!("{about}: {error}"),
                None => about,
            }
        };
        let lines = [
            call(0, "", &DeliveryOutcome::Ok),
            call(0, "east", &DeliveryOutcome::RequeueAfter(Duration::from_secs(30))),
            call(1, "", &DeliveryOutcome::Retryable("no such team".to_owned())),
            call(
                0,
                "",
                &DeliveryOutcome::Trapped(
                    "on-update for web/a trapped: it panicked; it wrote: no phase; in greet".to_owned(),
                ),
            ),
        ];
        insta::assert_snapshot!(lines.join("\n"), @"
        update v1/pods web/a in 1.4 ms: ok
        update v1/pods web/a in cluster east in 1.4 ms: requeued, again in 30s
        update v1/pods web/a, retry 1 in 1.4 ms: retryable: no such team
        update v1/pods web/a in 1.4 ms: trap: on-update for web/a trapped: it panicked
        no phase
        in greet
        ");
    }

    #[test]
    fn an_effect_shows_what_was_withheld_and_what_failed() {
        let effect = |kind, action: &str, target: &str, detail: &str, error: Option<&str>| Effect {
            detail: detail.to_owned(),
            error: error.map(str::to_owned),
            ..Effect::new(kind, action, target)
        };
        let shown = |effect: &Effect, is_withheld| {
            let error = effect_error(effect, is_withheld).map(|error| format!(": {error}"));
            about_effect(effect, is_withheld) + &error.unwrap_or_default()
        };
        let patch = effect(EffectKind::Kube, "patch", "v1/pods web/a", "{}", Some("conflict"));
        let lines = [
            shown(&patch, false),
            shown(&patch, true),
            shown(&effect(EffectKind::Kv, "delete", "seen", "", None), false),
            shown(
                &effect(EffectKind::Http, "POST", "https://example.com/hook", "200 OK", None),
                false,
            ),
        ];
        insta::assert_snapshot!(lines.join("\n"), @"
        kube patch v1/pods web/a {}: failed: conflict
        kube patch v1/pods web/a (dry run) {}: would fail: conflict
        kv delete seen
        http POST https://example.com/hook 200 OK
        ");
    }

    #[test]
    fn long_times_are_in_seconds() {
        assert_eq!(took(Duration::from_micros(50)), "0.1 ms");
        assert_eq!(took(Duration::from_millis(2_340)), "2.3 s");
    }
}
