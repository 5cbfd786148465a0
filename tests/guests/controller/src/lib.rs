//! A controller for the simulation. Each ConfigMap with the value `vN` has N Secrets, `NAME-0` and so on; each call
//! records an Event, whose reason is unique. The timer `beat` is due every 10 s, and records one too.
//!
//! Logs a JSON document when a call begins, one with what it deferred, and `gives-up` if that failed. Then it asks the
//! API server how the call shall end: the answer to a `get` of the ConfigMap, or of `beat`, is `conflict` for a failure
//! that is retried, `too-many-requests` for one that says when, `invalid` for a permanent one, and `unavailable` for a
//! trap.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use informant_plugin_sdk::prelude::*;

/// The most children of a ConfigMap.
const CHILDREN_MAX: usize = 4;

struct Controller {
    calls: u64,
}

impl Plugin for Controller {
    fn describe(_: Describe) -> Result<Manifest> {
        let maps = Reconciles::of("v1", "ConfigMap").owns(Related::of("v1", "Secret"));
        Ok(Manifest::new()
            .parallel()
            .reconciles(maps)
            .timer(Timer::every("beat", Duration::from_secs(10))))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Controller { calls: 0 })
    }
}

impl Reconciler for Controller {
    type Object = Value;

    fn reconcile(&mut self, request: &Request, map: Option<Value>) -> Result<Action> {
        let (namespace, name, call) = (
            &request.namespace,
            &request.name,
            self.next_call(&format!("{}{}", request.namespace, request.name)),
        );
        let mut children = Vec::new();
        for number in 0..CHILDREN_MAX {
            let child: Option<Value> = store::get("secrets", namespace, &child_name(name, number))?;
            children.extend(child.map(|child| version(&child)));
        }
        let primary = map.as_ref().map(version);
        info!(
            "{}",
            json!({ "did": "began", "call": call, "namespace": namespace, "name": name, "primary": primary,
                "children": children })
        );
        if let Some(map) = map
            && let Err(failure) = set_children(request, &map, &call)
        {
            info!("{}", json!({ "did": "gives-up", "namespace": namespace, "name": name }));
            end_as_answered(namespace, name)?;
            return Err(failure);
        }
        end_as_answered(namespace, name).map(|()| Action::done())
    }
}

impl TimerHandler for Controller {
    fn on_timer(&mut self, tick: &Tick) -> Result {
        let call = self.next_call("beat");
        info!(
            "{}",
            json!({ "did": "timer-began", "call": call, "scheduled": tick.scheduled, "missed": tick.missed })
        );
        recorder::event(recorder::object("v1", "Namespace", "", "default"), call).record()?;
        end_as_answered("default", "beat")
    }
}

impl Controller {
    /// A word that no other call has, unless the instance was lost in between and no time has passed.
    fn next_call(&mut self, about: &str) -> String {
        self.calls += 1;
        let about: String = about.chars().filter(char::is_ascii_alphanumeric).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("At{}N{}{about}", now.as_nanos(), self.calls)
    }
}

fn set_children(request: &Request, map: &Value, call: &str) -> Result {
    let wanted = map["data"]["value"].as_str().and_then(|value| value.strip_prefix('v'));
    let wanted: usize = wanted.and_then(|number| number.parse().ok()).unwrap_or_default();
    let child = |number| {
        let name = child_name(&request.name, number);
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "text": "x" } })
    };
    let done = kube::children(request).whole((0..wanted).map(child)).set()?;
    info!(
        "{}",
        json!({ "did": "children", "namespace": request.namespace, "name": request.name, "pruned": done.pruned })
    );
    recorder::event(request, call).record()?;
    Ok(())
}

fn child_name(name: &str, number: usize) -> String {
    format!("{name}-{number}")
}

/// The version of an object, as the history has it.
fn version(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let version = metadata["resourceVersion"].as_str().unwrap_or_default();
    json!({ "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"],
        "version": version.parse::<u64>().unwrap_or_default() })
}

fn end_as_answered(namespace: &str, name: &str) -> Result {
    let Err(error) = kube::get(&kube::object("v1/configmaps", namespace, name)) else {
        return Ok(());
    };
    match error.code {
        kube::ErrorCode::Conflict => Err(Failure::retryable("asked to fail")),
        kube::ErrorCode::TooManyRequests => {
            let after = error.retry_after.unwrap_or_default();
            Err(Failure::retry_after("asked to wait", after))
        }
        kube::ErrorCode::Invalid => Err(Failure::permanent("asked to give up")),
        kube::ErrorCode::Unavailable => panic!("asked to trap"),
        _ => Err(error.into()),
    }
}

export!(Controller: reconciler, timers);
