//! The code blocks of `docs/guides/plugin-features.md` about what takes effect with a handler's success: values that
//! Informant remembers, and metrics.

use informant_plugin_sdk::prelude::*;

struct Remembering;

impl Plugin for Remembering {
    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler<Raw> for Remembering {
    fn on_upsert(&mut self, event: &Event, _: Raw) -> Result<Action> {
        // Notify once for each object, whatever happens.
        if kv::set_if_absent(&format!("notified/{}", event.uid), "")? {
            info!("{event} is new");
        }
        // A key for each object, not one for all: see below.
        let key = format!("calls/{}", event.uid);
        let calls: u64 = kv::get_json(&key)?.unwrap_or(0);
        kv::set_json(&key, &(calls + 1))?;
        Ok(Action::done())
    }
}

informant_plugin_sdk::export!(Remembering: events);

struct Counting;

impl Plugin for Counting {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new()
            .metric(Metric::counter("evictions", "Evicted pods").labels(["node"]))
            .metric(Metric::gauge("pods", "Pods on a node").labels(["node"]))
            .metric(Metric::histogram("start_seconds", "Time until a pod is ready").buckets([1.0, 10.0, 60.0])))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler for Counting {
    fn on_upsert(&mut self, _: &Event, pod: Value) -> Result<Action> {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        metrics::add("evictions", 1.0, &[("node", node)])?;
        Ok(Action::done())
    }
}

informant_plugin_sdk::export!(Counting: events);

#[cfg(test)]
mod tests {
    use informant_plugin_sdk::testing::Driver;

    use super::*;

    fn pod(name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": "web", "name": name, "uid": format!("uid-{name}") },
            "spec": { "nodeName": "node-1" },
        })
    }

    #[test]
    fn each_object_is_new_once_and_every_call_is_counted() {
        let mut driver = Driver::<Remembering>::start(json!({})).unwrap();
        for name in ["a", "b", "a"] {
            driver.put(pod(name)).unwrap();
        }
        assert_eq!(driver.take_log(), ["info: web/a is new", "info: web/b is new"]);
        let calls = |uid: &str| driver.cache().remembered(&format!("calls/{uid}"));
        assert_eq!(calls("uid-a").as_deref(), Some(&b"2"[..]));
        assert_eq!(calls("uid-b").as_deref(), Some(&b"1"[..]));
    }

    #[test]
    fn the_metric_of_the_guide_is_counted_by_node() {
        let mut driver = Driver::<Counting>::start(json!({})).unwrap();
        for name in ["a", "b"] {
            driver.put(pod(name)).unwrap();
        }
        assert_eq!(driver.cache().metric("evictions", &[("node", "node-1")]), Some(2.0));
    }
}
