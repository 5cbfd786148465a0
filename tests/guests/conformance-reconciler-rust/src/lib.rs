//! Test guest: the reconciler of the conformance kit in Rust. `tests/guests/README.md` describes what it does.

use std::time::Duration;

use informant_plugin_sdk::prelude::*;

struct Conformance;

impl Plugin for Conformance {
    fn describe(_: Describe) -> Result<Manifest> {
        let pods = Reconciles::of("v1", "Pod").when(["/spec", "/metadata/annotations"]);
        Ok(Manifest::new()
            .reconciles(pods.owns(Related::of("v1", "ConfigMap")))
            .timer(Timer::every("poll", Duration::from_secs(10)))
            .timer(Timer::every("fails", Duration::from_secs(3_600)))
            .needs(Need::events()))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl Reconciler for Conformance {
    type Object = Value;

    fn reconcile(&mut self, request: &Request, pod: Option<Value>) -> Result<Action> {
        let (reason, attempt) = (request.reason, request.attempt);
        let text = pod.as_ref().map(|pod| pod["spec"]["text"].as_str().unwrap_or_default());
        let state = text.map_or_else(|| "gone".to_owned(), |text| format!("text={text}"));
        let behind = if request.cache_is_behind { " behind" } else { "" };
        info!("reconcile {request} {} {attempt} {state}{behind}", reason.as_str());
        let (Some(pod), Some(text)) = (&pod, text) else {
            return Ok(Action::done());
        };
        let action = pod["metadata"]["annotations"]["do"].as_str().unwrap_or_default();
        match action {
            "children" => drop(set_children(request, text)?),
            "status" => {
                let done = set_children(request, text)?;
                kube::set_status(request, &json!({ "text": text, "conditions": done.conditions() }))?;
            }
            "finalize" => {
                let is_wanted = finalizer::finalize(request, || {
                    info!("clean up");
                    Ok(())
                })?;
                info!("finalize={is_wanted}");
            }
            "requeue" if reason != Reason::RequeueAfter => {
                return Ok(Action::requeue_after(Duration::from_millis(100)));
            }
            _ => {}
        }
        if action.starts_with("event") {
            recorder::event(&**request, "Seen").warning().note(text).record()?;
        }
        match action {
            "retryable" | "event-retryable" if attempt == 0 => Err(Failure::retryable(text)),
            "event-permanent" => Err(Failure::permanent(text)),
            _ => Ok(Action::done()),
        }
    }
}

/// The children that the text names.
fn set_children(request: &Request, text: &str) -> Result<kube::Children> {
    let names = text.split(',').filter(|name| !name.is_empty());
    let (fields, whole): (Vec<&str>, Vec<&str>) = names.partition(|name| name.starts_with("fields-"));
    let map =
        |name| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "of": text } });
    let done = kube::children(request)
        .fields(fields.into_iter().map(map))
        .whole(whole.into_iter().map(map))
        .set()?;
    info!(
        "written={} pruned={} refused={} skipped={}",
        done.written,
        done.pruned,
        done.refused.join(","),
        done.prune_skipped.is_some()
    );
    Ok(done)
}

impl TimerHandler for Conformance {
    fn on_timer(&mut self, tick: &Tick) -> Result {
        let (scheduled, attempt) = (&tick.scheduled, tick.attempt);
        info!("timer {tick} {scheduled} missed={} attempt={attempt}", tick.missed);
        let pod = recorder::object("v1", "Pod", "web", "a").uid("uid-web-a");
        let note = format!("{tick} has run, attempt {attempt}");
        recorder::event(&pod, "Ticked").note(note).record()?;
        match tick.name.as_str() {
            "fails" if attempt == 0 => Err(Failure::retryable("asked to fail")),
            _ => Ok(()),
        }
    }
}

export!(Conformance: reconciler, timers);
