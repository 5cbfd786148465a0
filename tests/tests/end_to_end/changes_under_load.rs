//! Thirty plugin swaps and sixty configuration changes, valid, invalid and partly invalid, while 1,000 updates a second
//! flow for a minute.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::{guests, recording, wait};
use tokio::time::Instant;

use crate::load::{self, Load, Versions, put_broken, put_in_place};

const LOAD: Load = Load {
    updates_per_second: 1_000,
    seconds: 60,
};
const CHANGES: usize = 60;
const SWAPS: usize = 30;
/// The swaps with a file that must be refused; they are swaps of `replays`, whose section does not change.
const BROKEN_SWAPS: [usize; 3] = [5, 13, 21];

const HANDLED_WITHIN: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_handled_exactly_once_during_swaps_and_configuration_changes() {
    let world = World::start().await.unwrap();
    let mut written = world.written.clone();
    let writing = tokio::spawn(LOAD.write(world.cluster.client().await.unwrap()));
    world.change_periodically().await.unwrap();
    load::append(&mut written, writing.await.unwrap().unwrap());
    world.wait_until_handled(&written).await.unwrap();

    load::assert_handled_exactly_once(&written, &recording::calls(&world.daemon, "continues", 0));
    load::assert_view_equals_the_store(&written, &recording::calls(&world.daemon, "replays", 0));
    let coalesced = ["plugin=\"continues\""];
    let coalesced = world
        .daemon
        .metric("informant_listener_coalesced_total", &coalesced)
        .await
        .unwrap();
    assert_eq!(coalesced, Some(0.0));
    // One list or WatchList and its watch, however often the configuration changed.
    let relists = world
        .daemon
        .metric("informant_reflector_relists_total", &["informer=\"maps\""])
        .await
        .unwrap();
    assert_eq!(relists.unwrap_or_default(), 0.0);
}

struct World {
    cluster: Cluster,
    daemon: Daemon,
    written: Versions,
}

/// The expected result of a version of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Ok,
    Partial,
    Refused,
}

impl World {
    async fn start() -> Result<Self> {
        let cluster = Cluster::start(Kind::Embedded).await?;
        let written = Load::prepare(&cluster.client().await?).await?;
        for plugin in ["continues", "replays", "visitor"] {
            put_in_place(&guests::component("guest-recorder")?, &component(&cluster, plugin))?;
        }
        let first = Version::default().text(cluster.folder());
        let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &first).await?;
        daemon.wait_until_ready().await?;
        let world = Self {
            cluster,
            daemon,
            written,
        };
        for plugin in ["continues", "replays"] {
            world
                .reaches(&format!("the first list to be handled by {plugin}"), async || {
                    let labels = [&*format!("plugin=\"{plugin}\""), "event=\"sync\"", "result=\"ok\""];
                    world.daemon.metric("informant_handler_events_total", &labels).await
                })
                .await?;
        }
        Ok(world)
    }

    /// Makes two changes of the configuration, a swap, and so on, spread evenly over the time of the updates.
    async fn change_periodically(&self) -> Result<()> {
        let begin = Instant::now();
        let (mut changes, mut swaps) = (0, 0);
        let steps = CHANGES + SWAPS;
        for step in 0..steps {
            tokio::time::sleep_until(begin + Duration::from_secs(LOAD.seconds) * step as u32 / steps as u32).await;
            if step % 3 == 2 {
                self.swap(swaps).await?;
                swaps += 1;
            } else {
                self.change(changes).await?;
                changes += 1;
            }
        }
        ensure!((changes, swaps) == (CHANGES, SWAPS));
        Ok(())
    }

    async fn swap(&self, number: usize) -> Result<()> {
        let plugin = if number.is_multiple_of(2) {
            "continues"
        } else {
            "replays"
        };
        let broken = BROKEN_SWAPS.contains(&number);
        let result = if broken { "refused" } else { "ok" };
        let before = load::reloads(&self.daemon, plugin, result).await?;
        let file = component(&self.cluster, plugin);
        if broken {
            put_broken(&file, number == BROKEN_SWAPS[0])?;
        } else {
            // Never the running bytes: Informant correctly ignores those.
            let builds = ["guest-recorder-v2", "guest-recorder"];
            let good_before = (0..number)
                .filter(|other| other % 2 == number % 2 && !BROKEN_SWAPS.contains(other))
                .count();
            put_in_place(&guests::component(builds[good_before % 2])?, &file)?;
        }
        self.reaches(&format!("swap {number} of {plugin} to be {result}"), async || {
            let now = load::reloads(&self.daemon, plugin, result).await?;
            Ok((now > before).then_some(1.0))
        })
        .await
    }

    async fn change(&self, number: usize) -> Result<()> {
        let (text, expected) = version(number, self.cluster.folder());
        let result = match expected {
            Expected::Ok => "result=\"ok\"",
            Expected::Partial => "result=\"partial\"",
            Expected::Refused => "result=\"refused\"",
        };
        let count = async || {
            let count = self.daemon.metric("informant_config_reloads_total", &[result]).await?;
            anyhow::Ok(count.unwrap_or_default())
        };
        let before = count().await?;
        self.daemon.write_config(&text).await?;
        self.reaches(&format!("change {number} to be {result}"), async || {
            Ok((count().await? > before).then_some(1.0))
        })
        .await
    }

    /// Waits until both plugins handled the last version of each object, and no events are pending.
    async fn wait_until_handled(&self, written: &Versions) -> Result<()> {
        let events: usize = written.values().map(Vec::len).sum();
        self.reaches("every event to be handled", async || {
            let labels = ["plugin=\"continues\"", "result=\"ok\""];
            let handled = self.daemon.metric("informant_handler_events_total", &labels).await?;
            // One of them is `synced` of the first list.
            Ok(handled.filter(|handled| *handled > events as f64))
        })
        .await?;
        self.reaches("no pending events", async || {
            let plugins = self.daemon.json("/api/v1/plugins").await?;
            let mut plugins = plugins["items"].as_array().into_iter().flatten();
            let idle = plugins.all(|plugin| plugin["pending"] == 0 && plugin["inFlight"] == 0);
            Ok(idle.then_some(1.0))
        })
        .await?;
        // The log is read a little later than it is written.
        self.reaches("the log to be read", async || {
            let of = |plugin| recording::calls(&self.daemon, plugin, 0);
            let handled = of("continues")
                .iter()
                .filter(|call| call.event == "add" || call.event == "update")
                .count();
            let replayed = of("replays")
                .iter()
                .rev()
                .find(|call| call.event == "synced" || call.event == "init")
                .is_some_and(|call| call.event == "synced");
            Ok((handled >= events && replayed).then_some(1.0))
        })
        .await
    }

    /// Waits until a number exists and is not zero.
    async fn reaches(&self, what: &str, mut number: impl AsyncFnMut() -> Result<Option<f64>>) -> Result<()> {
        let reached = wait::until(what, HANDLED_WITHIN, async || match number().await {
            Ok(Some(number)) if number > 0.0 => Ok(()),
            Ok(_) => Err(self.daemon.process().tail()),
            Err(error) => Err(format!("{error:#}")),
        });
        reached.await
    }
}

fn component(cluster: &Cluster, plugin: &str) -> PathBuf {
    cluster.folder().join(format!("{plugin}.wasm"))
}

/// The differences between configurations.
#[derive(Default)]
struct Version {
    /// A label: a different one gives `continues` another instance.
    label: usize,
    /// The number of additional pending events that `continues` may have: it keeps its instance.
    pending: usize,
    /// A plugin on an informer of its own, with this label.
    visitor: Option<usize>,
    /// A key that `continues` does not know.
    wrong_key: bool,
}

impl Version {
    fn text(&self, folder: &Path) -> String {
        let Self { label, pending, .. } = self;
        let key = if self.wrong_key { "lable" } else { "label" };
        let pending = 100_000 + pending;
        let component = |plugin: &str| folder.join(format!("{plugin}.wasm"));
        let mut text = format!(
            "[informer.maps]\nresource = \"v1/configmaps\"\nlabel-selector = \"app=test\"\n\n\
             [plugin.continues]\ncomponent = {:?}\ninformers = [\"maps\"]\non-reload = \"continue\"\n\
             limits = {{ pending = {pending} }}\nconfig = {{ {key} = \"{label}\" }}\n\n\
             [plugin.replays]\ncomponent = {:?}\ninformers = [\"maps\"]\non-reload = \"replay\"\nlimits = {{ pending = 100000 }}\n\n",
            component("continues"),
            component("replays"),
        );
        if let Some(label) = self.visitor {
            let _ = write!(
                text,
                "[informer.again]\nresource = \"v1/configmaps\"\nlabel-selector = \"app=test\"\n\n\
                 [plugin.visitor]\ncomponent = {:?}\ninformers = [\"again\"]\nconfig = {{ quiet = true, label = \"{label}\" }}\n",
                component("visitor"),
            );
        }
        text
    }
}

/// The configuration of a change, and its expected result.
fn version(number: usize, folder: &Path) -> (String, Expected) {
    let round = number / 6;
    let now = Version {
        label: round + 1,
        pending: round,
        ..Version::default()
    };
    let (version, broken, expected) = match number % 6 {
        // One plugin gets another instance.
        0 => (now, None, Expected::Ok),
        1 => (now, Some("[plugin.continues\n"), Expected::Refused),
        // An informer and a plugin are added.
        2 => (
            Version {
                visitor: Some(0),
                ..now
            },
            None,
            Expected::Ok,
        ),
        3 => (
            now,
            Some("[plugin.other]\ncomponent = \"x.wasm\"\ninformers = [\"nowhere\"]\n"),
            Expected::Refused,
        ),
        // One section is refused, another is applied.
        4 => (
            Version {
                visitor: Some(1),
                wrong_key: true,
                ..now
            },
            None,
            Expected::Partial,
        ),
        // They are removed, and one plugin keeps its instance with another limit.
        _ => (
            Version {
                pending: round + 1,
                ..now
            },
            None,
            Expected::Ok,
        ),
    };
    (version.text(folder) + broken.unwrap_or_default(), expected)
}
