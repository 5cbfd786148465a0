//! Test guest: counts the events of each object in `kv`, under `count/NAME`, and its starts under `starts`. It logs a
//! line for each event, with the label `round`: `{"guest":"kv","name":"a","round":"3","count":2,"starts":1}`.
//!
//! At the first attempt for objects whose names start with `fails` or `traps`, the call fails or traps after it has
//! counted. An object called `bounds` logs the errors of keys and values that are not allowed. The first call for an
//! object whose name starts with `marks` remembers that, and defers a write that gives it the label `marked`.

use informant_plugin_sdk::prelude::*;

struct Counting;

/// Adds 1 to the number under `key`.
fn count(key: &str) -> Result<u64> {
    let count = kv::get_json::<u64>(key)?.unwrap_or(0) + 1;
    kv::set_json(key, &count)?;
    Ok(count)
}

fn log_errors() {
    let large = vec![0_u8; 10 << 20];
    let filled = || (0..100).try_for_each(|number| kv::set(&format!("filler/{number}"), vec![0; 64 << 10]));
    let attempts = [
        ("empty", kv::set("", "")),
        ("nul", kv::set("a\0b", "")),
        ("long", kv::set(&"k".repeat(513), "")),
        ("large", kv::set("large", large)),
        ("quota", filled()),
    ];
    for (what, answer) in attempts {
        let error = answer
            .err()
            .map(|error| json!({ "code": format!("{:?}", error.code), "message": error.message }));
        info!("{}", json!({ "guest": "kv", "what": what, "error": error }));
    }
}

impl Plugin for Counting {
    fn init(_: Init) -> Result<Self> {
        count("starts")?;
        Ok(Self)
    }
}

impl EventHandler<Value> for Counting {
    fn on_upsert(&mut self, event: &Event, object: Value) -> Result<Action> {
        let count = count(&format!("count/{}", event.name))?;
        if event.attempt == 0 && event.name.starts_with("fails") {
            return Err(Failure::retryable("asked to"));
        }
        assert!(event.attempt > 0 || !event.name.starts_with("traps"), "asked to");
        if event.name == "bounds" {
            log_errors();
            return Err(Failure::permanent("asked to"));
        }
        if event.name.starts_with("marks") && kv::set_if_absent(&format!("marked/{}", event.name), "")? {
            let label = json!({ "metadata": { "labels": { "marked": "yes" } } });
            kube::defer_patch(&kube::of(event)).merge(&label)?;
        }
        let starts = kv::get_json::<u64>("starts")?;
        let round = &object["metadata"]["labels"]["round"];
        info!(
            "{}",
            json!({ "guest": "kv", "name": event.name, "round": round, "count": count, "starts": starts })
        );
        Ok(Action::done())
    }
}

export!(Counting: events);
