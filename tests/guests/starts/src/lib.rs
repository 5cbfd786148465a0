//! Test guest: logs why its instances are created. `init` writes
//! `{"guest":"starts","event":"init","label":"","role":"events","instance":0,"instances":1,"because":"start",
//! "previous":null,"log_level":"trace","plugin":"…","contract":"…","offers":["…"],"denied":[true,true]}`; `denied`
//! tells whether the store and the cluster denied a call. Each event writes
//! `{"guest":"starts","event":"add","name":"a"}`.
//!
//! It receives the events of the kind in its config. With `fails-while-traced`, `init` fails, retryable, as long as the
//! host logs the level `trace`: nothing else that `init` sees differs from one attempt to the next. An object named
//! `trap` makes it panic.

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;
use serde_json::json;

/// The `config` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Config {
    label: String,
    kind: String,
    fails_while_traced: bool,
    /// The delay that a failure of `init` asks for; 0: none.
    retry_after_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            label: String::new(),
            kind: "Pod".to_owned(),
            fails_while_traced: false,
            retry_after_ms: 0,
        }
    }
}

struct Starts;

impl Plugin for Starts {
    fn describe(describe: Describe) -> Result<Manifest> {
        let config: Config = describe.config()?;
        let index = format!("by-{}", config.kind.to_lowercase());
        Ok(Manifest::new()
            .events(Events::of("v1", &config.kind))
            .index(&index)
            .indexed(Objects::of("v1", &config.kind)))
    }

    fn init(init: Init) -> Result<Self> {
        let config: Config = init.config()?;
        let is_denied =
            store::sources("pods").is_err_and(|error| error.code == informant_plugin_sdk::ErrorCode::NotHere);
        let pod = kube::object("v1/pods", "default", "a");
        let is_kube_denied = kube::get(&pod).is_err_and(|error| error.code == kube::ErrorCode::NotHere);
        let log_level = init.log_level.map(|level| level.as_str());
        let line = json!({
            "guest": "starts",
            "event": "init",
            "label": config.label,
            "role": init.role.as_str(),
            "instance": init.instance,
            "instances": init.instances,
            "because": init.because.as_str(),
            "previous": init.previous.as_ref().map(|previous| json!([previous.version, previous.digest])),
            "log_level": log_level,
            "plugin": init.plugin,
            "contract": init.contract,
            "offers": init.offers,
            "denied": [is_denied, is_kube_denied],
        });
        info!("{line}");
        match config.fails_while_traced && log_level == Some("trace") {
            true if config.retry_after_ms > 0 => Err(Failure::retry_after(
                "asked to fail for a while",
                std::time::Duration::from_millis(config.retry_after_ms),
            )),
            true => Err(Failure::retryable("asked to fail while traced")),
            false => Ok(Self),
        }
    }
}

impl EventHandler<Raw> for Starts {
    fn on_upsert(&mut self, event: &Event, _: Raw) -> Result<Action> {
        assert_ne!(event.name, "trap", "asked to trap");
        info!("{}", json!({ "guest": "starts", "event": "add", "name": event.name }));
        Ok(Action::done())
    }
}

impl Stateful for Starts {
    type State = ();

    fn save(&self) -> Result<()> {
        Ok(())
    }

    fn restore(&mut self, (): ()) -> Result {
        Ok(())
    }
}

impl IndexFuncs for Starts {
    type Object = Raw;

    fn index(&mut self, of: &ObjectRef, _: Raw) -> Result<IndexValues> {
        let _ = of;
        Ok(IndexValues::new())
    }
}

export!(Starts: events, state, index);
