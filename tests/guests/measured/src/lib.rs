//! The benchmark's handler: reads some fields of each pod, without the old state, and is called for every change.
//!
//! Sums restart counts, so that it reads its objects as a real handler does. It measures the lag of objects that have
//! the time of their write (annotation `bench/written-us`, microseconds since 1970). For each thousand of them it logs
//! one line at level info, with the lags in microseconds:
//!
//! ```json
//! {"lags":1000,"p50_us":800,"p99_us":2100,"max_us":2600}
//! ```
//!
//! With `config = { each = true }` it logs one line for each object instead, with both times:
//!
//! ```json
//! {"written_us":1767225600000000,"handled_us":1767225600000800}
//! ```
//!
//! With `config = { first = true }` it logs the time of its first call:
//!
//! ```json
//! {"first_us":1767225600000800}
//! ```

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

/// The number of lags in a line.
const LAGS_IN_A_LINE: usize = 1_000;

struct Measured {
    restarts: u64,
    lags_us: Vec<u64>,
    config: Config,
}

/// The `config` table.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    each: bool,
    first: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Metadata,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    restart_count: u64,
}

impl Plugin for Measured {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new().events(Events::of("v1", "Pod").fields([
            "/metadata/annotations/bench~1written-us",
            "/spec/nodeName",
            "/status/phase",
            "/status/containerStatuses/*/name",
            "/status/containerStatuses/*/ready",
            "/status/containerStatuses/*/restartCount",
        ])))
    }

    fn init(init: Init) -> Result<Self> {
        Ok(Measured {
            restarts: 0,
            lags_us: Vec::new(),
            config: init.config()?,
        })
    }
}

impl EventHandler<Pod> for Measured {
    fn on_upsert(&mut self, _: &Event, pod: Pod) -> Result<Action> {
        if std::mem::take(&mut self.config.first) {
            info!("{{\"first_us\":{}}}", now_us());
        }
        let statuses = &pod.status.container_statuses;
        self.restarts += statuses.iter().map(|status| status.restart_count).sum::<u64>();
        let written = pod.metadata.annotations.get("bench/written-us");
        if let Some(written) = written.and_then(|text| text.parse().ok()) {
            self.record(written);
        }
        Ok(Action::done())
    }
}

impl Measured {
    fn record(&mut self, written_us: u64) {
        let now_us = now_us();
        if self.config.each {
            info!("{{\"written_us\":{written_us},\"handled_us\":{now_us}}}");
            return;
        }
        self.lags_us.push(now_us.saturating_sub(written_us));
        if self.lags_us.len() < LAGS_IN_A_LINE {
            return;
        }
        self.lags_us.sort_unstable();
        let at = |share: usize| self.lags_us[(LAGS_IN_A_LINE - 1) * share / 100];
        info!(
            "{{\"lags\":{LAGS_IN_A_LINE},\"p50_us\":{},\"p99_us\":{},\"max_us\":{}}}",
            at(50),
            at(99),
            at(100)
        );
        self.lags_us.clear();
    }
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

export!(Measured: events);
