//! A stream of updates that records every written version, and files that are replaced meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use informant_tests::client::Client;
use informant_tests::daemon::Daemon;
use informant_tests::guests;
use informant_tests::objects::{config_map, config_maps, version_of};
use informant_tests::recording::Call;
use serde_json::{Value, json};
use tokio::time::interval;

/// The number of objects that are updated in turn.
const OBJECTS: usize = 100;
const WRITERS: usize = 4;

/// By name: the versions that were written, in order.
pub(crate) type Versions = BTreeMap<String, Vec<String>>;

/// The rate and number of updates.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) updates_per_second: u64,
    pub(crate) seconds: u64,
}

impl Load {
    /// Creates the objects.
    pub(crate) async fn prepare(client: &Client) -> Result<Versions> {
        let mut written = Versions::new();
        for number in 0..OBJECTS {
            let name = format!("map-{number}");
            let created = client.post(&config_maps(""), &config_map(&name, "0")).await?;
            written.insert(name, vec![version_of(&created)]);
        }
        Ok(written)
    }

    /// Updates every object in turn at the fixed rate; returns the versions by name. Each writer has its own objects,
    /// so that the versions of one object are in order.
    pub(crate) async fn write(self, client: Client) -> Result<Versions> {
        let writers = (0..WRITERS).map(|writer| tokio::spawn(self.write_some(client.clone(), writer)));
        let mut all = Versions::new();
        for writer in futures::future::try_join_all(writers).await? {
            all.extend(writer?);
        }
        Ok(all)
    }

    async fn write_some(self, client: Client, writer: usize) -> Result<Versions> {
        let mut pace = interval(Duration::from_micros(
            1_000_000 * WRITERS as u64 / self.updates_per_second,
        ));
        let mut written = Versions::new();
        for round in 0..(self.updates_per_second * self.seconds / WRITERS as u64) as usize {
            pace.tick().await;
            let name = format!("map-{}", (round * WRITERS + writer) % OBJECTS);
            let patch = json!({"data": {"value": format!("{writer}-{round}")}});
            let object: Value = client.merge(&config_maps(&name), &patch).await?;
            written.entry(name).or_default().push(version_of(&object));
        }
        Ok(written)
    }
}

/// Appends the later versions.
pub(crate) fn append(written: &mut Versions, later: Versions) {
    for (name, versions) in later {
        written.entry(name).or_default().extend(versions);
    }
}

/// Asserts that every version written was handled once and in order.
pub(crate) fn assert_handled_exactly_once(written: &Versions, calls: &[Call]) {
    let mut handled = Versions::new();
    for call in calls
        .iter()
        .filter(|call| call.event == "add" || call.event == "update")
    {
        assert_eq!(call.reason == "initial", call.event == "add", "{call:?}");
        handled.entry(call.name.clone()).or_default().push(call.version.clone());
    }
    for (name, versions) in written {
        assert_eq!(
            handled.get(name),
            Some(versions),
            "{name}: the handled versions differ from the written ones"
        );
    }
    assert_eq!(handled.len(), written.len());
}

/// Asserts that the view of the last instance, built from its calls, equals what was written last.
pub(crate) fn assert_view_equals_the_store(written: &Versions, calls: &[Call]) {
    let begin = calls
        .iter()
        .rposition(|call| call.event == "init")
        .expect("an instance");
    let mut view = BTreeMap::new();
    for call in calls[begin..]
        .iter()
        .filter(|call| call.event == "add" || call.event == "update")
    {
        view.insert(&call.name, &call.version);
    }
    let last: BTreeMap<_, _> = written
        .iter()
        .filter_map(|(name, versions)| Some((name, versions.last()?)))
        .collect();
    assert_eq!(view, last);
    assert!(
        calls[begin..].iter().any(|call| call.event == "synced"),
        "the end of the replay was never delivered"
    );
}

/// The number of reloads of a plugin with this result.
pub(crate) async fn reloads(daemon: &Daemon, plugin: &str, result: &str) -> Result<f64> {
    let labels = [format!("plugin=\"{plugin}\""), format!("result=\"{result}\"")];
    let labels = labels.each_ref().map(String::as_str);
    let count = daemon.metric("informant_plugin_reloads_total", &labels).await?;
    Ok(count.unwrap_or_default())
}

/// Writes a temporary file and renames it, as careful tools do.
pub(crate) fn put_in_place(from: &Path, to: &Path) -> Result<()> {
    let temporary = to.with_extension("new");
    std::fs::copy(from, &temporary).with_context(|| format!("copying {}", from.display()))?;
    std::fs::rename(&temporary, to)?;
    Ok(())
}

/// Writes a file that must be refused: half a component, or none at all.
pub(crate) fn put_broken(to: &Path, half: bool) -> Result<()> {
    let whole = std::fs::read(guests::component("guest-recorder")?)?;
    let broken = match half {
        true => &whole[..whole.len() / 2],
        false => b"<html>not a component</html>",
    };
    std::fs::write(to, broken)?;
    Ok(())
}
