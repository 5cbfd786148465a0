//! Has two timers, and logs `NAME SCHEDULED missed=N attempt=N` at each run.
//!
//! With `event = true` in its config, it then records an Event about a pod. With `fail = "retry"` or `"permanent"`,
//! each run fails so at its end; with `"trap"`, it traps.
//!
//! With `count` and `every_ms` it has so many timers of this period instead, which do nothing: the benchmark's.

use std::time::Duration;

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

struct Timers {
    config: Config,
}

/// The `config` table.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    fail: Option<Fail>,
    event: bool,
    count: u32,
    every_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fail {
    Retry,
    Permanent,
    Trap,
}

impl Plugin for Timers {
    fn describe(describe: Describe) -> Result<Manifest> {
        let config: Config = describe.config()?;
        if config.count > 0 {
            let period = Duration::from_millis(config.every_ms);
            let timers = (0..config.count).map(|number| Timer::every(format!("timer-{number}"), period));
            return Ok(timers.fold(Manifest::new(), Manifest::timer));
        }
        Ok(Manifest::new()
            .timer(Timer::every("poll", Duration::from_secs(10)))
            .timer(Timer::cron("report", "0 8 * * *").zone("Europe/Berlin")))
    }

    fn init(init: Init) -> Result<Self> {
        let config = init.config()?;
        Ok(Timers { config })
    }
}

impl TimerHandler for Timers {
    fn on_timer(&mut self, tick: &Tick) -> Result {
        if self.config.count > 0 {
            return Ok(());
        }
        info!(
            "{tick} {} missed={} attempt={}",
            tick.scheduled, tick.missed, tick.attempt
        );
        if self.config.event {
            let pod = recorder::object("v1", "Pod", "web", "a").uid("uid-a");
            let note = format!("{tick} has run");
            recorder::event(&pod, "Ticked").warning().note(note).record()?;
        }
        match self.config.fail {
            Some(Fail::Retry) => Err(Failure::retryable("asked to fail")),
            Some(Fail::Permanent) => Err(Failure::permanent("asked to fail")),
            Some(Fail::Trap) => panic!("asked to trap"),
            None => Ok(()),
        }
    }
}

export!(Timers: timers);
