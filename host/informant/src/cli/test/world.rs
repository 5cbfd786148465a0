//! Where a scenario runs: the embedded API server, the informers and the plugin, on one thread with a paused clock.
//!
//! ```text
//! steps ──apply, delete──▶ ApiServer ──watch──▶ informers ──▶ plugin ──▶ Recorder
//!                              ▲                                 │
//!                              └──────────── writes ─────────────┴─ HTTP ─▶ Answers
//! ```

mod replay;
mod state;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use informant_apiserver::{ApiServer, Kind, Options};
use informant_cache::listener::RequeueResult;
use informant_cache::{Moment, Source};
use informant_object::Key;
use informant_plugin_host::{HttpClient, KeyValue, Plugin, TimerTriggered};
use informant_spec::Content;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::answers::Answers;
use super::keys::Keys;
use super::prepare::{Prepared, Version};
use super::recorder::Recorder;
use super::replies::Replies;
use super::scenario::{Action, Object, Reference};
use crate::daemon::{InProcess, InProcessParts, PluginPhase};
use crate::directories;
use crate::guests::compiler;

/// The time before the steps, in which everything starts: 10 s.
const START: Duration = Duration::from_secs(10);

/// How long a plugin may take to start, on the paused clock: 10 min. Its `init` may ask to be tried again.
const START_MAX: Duration = Duration::from_secs(600);

/// The time that an action takes: 10 ms. What needs no time to pass happens in it.
const SETTLE: Duration = Duration::from_millis(10);

/// How long a swap may take, on the paused clock: 60 s.
const SWAP_MAX: Duration = Duration::from_secs(60);

/// A running scenario.
pub(super) struct World {
    pub(super) server: ApiServer,
    daemon: InProcess,
    plugin: String,
    pub(super) recorder: Recorder,
    pub(super) keys: Keys,
    answers: Answers,
    /// Of the cluster, to calls that are replayed.
    replies: Replies,
    /// The file of the plugin, which a swap replaces.
    file: PathBuf,
    /// Why the plugin or its next version was refused, until an expectation looks at it.
    pub(super) refused: Option<String>,
}

impl World {
    /// Starts everything, and lets the time come when the steps begin. Must run on a runtime of one thread with a
    /// paused clock.
    ///
    /// # Errors
    /// If an object is refused, or the engine cannot be created.
    pub(super) async fn start(prepared: &Prepared, recorder: Recorder) -> Result<World> {
        let scenario = &prepared.scenario;
        let began = scenario.time.checked_sub(SignedDuration::try_from(START)?)?;
        let options = Options {
            start: began,
            ..Options::default()
        };
        let server = replay::server_with(&options, scenario)?;
        let (replies, replays) = (Replies::default(), scenario.replays());
        let keys = Keys::of(&scenario.kv);
        let answers = Answers::new(&scenario.http, &recorder);
        let (watching, captured) = (recorder.clone(), replies.clone());
        let daemon = InProcess::start(InProcessParts {
            config: prepared.config.clone(),
            client: kube::Client::new(server.service(), "default"),
            watch_kube: Box::new(move |clusters| match replays {
                true => watching.watch(Arc::new(captured)),
                false => watching.watch(Arc::new(clusters)),
            }),
            key_value: prepared.has_keys.then(|| Arc::new(keys.clone()) as Arc<dyn KeyValue>),
            http: Arc::new(answers.clone()) as Arc<dyn HttpClient>,
            observer: Arc::new(recorder.clone()),
            unix_time: Duration::try_from(began.duration_since(Timestamp::UNIX_EPOCH))?,
            compiler: compiler()?,
            cache_dir: directories::cache(),
            seed: 0,
        })?;
        let mut world = World {
            server,
            daemon,
            plugin: prepared.plugin.clone(),
            recorder,
            keys,
            answers,
            replies,
            file: prepared.file(),
            refused: None,
        };
        world.begin().await?;
        Ok(world)
    }

    async fn begin(&mut self) -> Result<()> {
        let began = self.now();
        loop {
            match self.phase() {
                Some(PluginPhase::Running(_)) => break,
                Some(PluginPhase::Refused { reason }) => {
                    self.refused = Some(reason.to_string());
                    break;
                }
                _ if self.now() - began > START_MAX => {
                    anyhow::bail!("the plugin has not started within {} s", START_MAX.as_secs());
                }
                _ => self.pass(SETTLE).await,
            }
        }
        // Informers sync and first calls are made meanwhile.
        self.pass(START.saturating_sub(self.now() - began)).await;
        Ok(())
    }

    fn now(&self) -> Moment {
        self.daemon.environment().now()
    }

    async fn pass(&self, duration: Duration) {
        self.daemon.environment().sleep(duration).await;
    }

    fn phase(&self) -> Option<PluginPhase> {
        Some(self.daemon.registry().plugin(&self.plugin)?.phase())
    }

    /// The plugin, if it runs.
    fn running(&self) -> Result<Plugin> {
        match self.phase() {
            Some(PluginPhase::Running(plugin)) => Ok(plugin),
            _ => anyhow::bail!("the plugin does not run"),
        }
    }

    /// Does what a step says, and lets everything happen that needs no time.
    ///
    /// # Errors
    /// If it cannot be done.
    pub(super) async fn act(&mut self, action: &Action, version: Option<&Version>) -> Result<()> {
        match action {
            Action::Apply(objects) => objects.iter().try_for_each(|object| put(&self.server, object))?,
            Action::Patch(object) => {
                let kind = kind_of(&self.server, object)?;
                let namespace = namespace_of(object, &kind);
                let mut patch = object.value.clone();
                if let Some(members) = patch.as_object_mut() {
                    members.remove("apiVersion");
                    members.remove("kind");
                }
                let patched = self.server.patch(&resource_of(&kind), namespace, &object.name, patch);
                patched.map_err(|status| anyhow::anyhow!("{}", status.message))?;
            }
            Action::Delete(about) => {
                let deleted = self.server.delete(&about.resource, &about.namespace, &about.name);
                deleted.map_err(|status| anyhow::anyhow!("{}", status.message))?;
            }
            Action::Wait(duration) => {
                self.pass(*duration).await;
                return Ok(());
            }
            Action::Http(answers) => self.answers.replace(answers),
            Action::Replay(replay) => self.replay(replay).await?,
            Action::Swap(path) => match version.context("the new version was not prepared")? {
                Ok(version) => self.swap(path, version).await?,
                Err(reason) => self.refused = Some(reason.clone()),
            },
            Action::Requeue(about) => self.requeue(about.as_ref())?,
            Action::Trigger(about) => self.trigger(about)?,
            Action::Timer(timer) => self.run_timer(timer)?,
        }
        self.pass(SETTLE).await;
        Ok(())
    }

    /// Replaces the file of the plugin, and waits until the new version runs or was refused.
    async fn swap(&mut self, path: &Path, version: &Content) -> Result<()> {
        let before = match self.phase() {
            Some(PluginPhase::Running(plugin)) => Some(plugin),
            _ => None,
        };
        if before
            .as_ref()
            .is_some_and(|plugin| plugin.digest() == version.digest())
        {
            anyhow::bail!("{} has the content that runs already", path.display());
        }
        let last_reload = before.as_ref().and_then(|plugin| plugin.status().last_reload);
        let aside = self.file.with_extension("next");
        std::fs::write(&aside, version.bytes()).and_then(|()| std::fs::rename(&aside, &self.file))?;
        self.daemon.reload();
        let began = self.now();
        while self.now() - began < SWAP_MAX {
            self.pass(SETTLE).await;
            match self.phase() {
                Some(PluginPhase::Running(plugin)) if plugin.digest() == version.digest() => return Ok(()),
                Some(PluginPhase::Running(plugin)) => {
                    let reload = plugin
                        .status()
                        .last_reload
                        .filter(|reload| Some(reload) != last_reload.as_ref());
                    if let Some(reason) = reload.and_then(|reload| reload.refused) {
                        self.refused = Some(reason);
                        return Ok(());
                    }
                }
                Some(PluginPhase::Refused { reason }) if before.is_none() => {
                    self.refused = Some(reason.to_string());
                    return Ok(());
                }
                _ => {}
            }
        }
        anyhow::bail!("the new version was not swapped in within {} s", SWAP_MAX.as_secs())
    }

    /// The sources that the plugin receives objects of this resource from.
    fn sources_of(&self, plugin: &Plugin, resource: &str) -> Vec<Arc<Source>> {
        let mut sources = self.daemon.registry().catalog().all();
        let feed = plugin.listener();
        sources.retain(|source| feed.feed().is_attached(source.id()) && source.info().resource == resource);
        sources
    }

    fn requeue(&self, about: Option<&Reference>) -> Result<()> {
        let plugin = self.running()?;
        let (listener, now) = (plugin.listener(), self.now());
        let letters = listener.ledger().dead_letters();
        let wanted: Vec<_> = match about {
            None => letters.into_iter().map(|letter| (letter.source, letter.key)).collect(),
            Some(about) => {
                let key = Key::new(&about.namespace, &about.name);
                let sources = self.sources_of(&plugin, &about.resource);
                sources.iter().map(|source| (source.id(), key.clone())).collect()
            }
        };
        let mut is_known = about.is_none() && !wanted.is_empty();
        for (source, key) in wanted {
            let result = listener.control().requeue(source, key.as_ref(), now);
            is_known |= matches!(result, RequeueResult::Queued | RequeueResult::Waiting);
        }
        let what = about.map_or_else(
            || "the plugin has no dead letter".to_owned(),
            |about| format!("the plugin has no dead letter of {about}"),
        );
        anyhow::ensure!(is_known, what);
        Ok(())
    }

    fn run_timer(&self, timer: &str) -> Result<()> {
        let plugin = self.running()?;
        match plugin.trigger_timer(timer) {
            TimerTriggered::Queued | TimerTriggered::Waiting => Ok(()),
            TimerTriggered::Unknown => {
                let known: Vec<String> = plugin.status().timers.into_iter().map(|timer| timer.name).collect();
                anyhow::bail!("the plugin has no timer {timer:?}; it has {}", known.join(", "))
            }
        }
    }

    fn trigger(&self, about: &Reference) -> Result<()> {
        let plugin = self.running()?;
        let (key, now) = (Key::new(&about.namespace, &about.name), self.now());
        let mut found = 0;
        for source in self.sources_of(&plugin, &about.resource) {
            if source.snapshot().get(key.as_ref()).is_none() {
                continue;
            }
            let triggered = plugin
                .listener()
                .control()
                .trigger(source.id(), std::slice::from_ref(&key), now);
            found += triggered.triggered + triggered.waiting;
        }
        anyhow::ensure!(found > 0, "the plugin handles no object {about}");
        Ok(())
    }
}

/// Creates or replaces an object, in a namespace that exists then.
pub(super) fn put(server: &ApiServer, object: &Object) -> Result<()> {
    let refused = |status: informant_apiserver::Status| {
        let Object { kind, name, .. } = object;
        anyhow::anyhow!("{kind} {name}: {}", status.message)
    };
    let kind = kind_of(server, object)?;
    let namespace = namespace_of(object, &kind);
    if !namespace.is_empty() && server.get("v1/namespaces", "", namespace).map_err(refused)?.is_none() {
        let made = server.create("v1/namespaces", "", json!({ "metadata": { "name": namespace } }));
        made.map_err(refused)?;
    }
    let mut value = object.value.clone();
    if !namespace.is_empty() {
        value["metadata"]["namespace"] = namespace.into();
    }
    server.put(&resource_of(&kind), namespace, value).map_err(refused)?;
    Ok(())
}

fn kind_of(server: &ApiServer, object: &Object) -> Result<Kind> {
    let Object { api_version, kind, .. } = object;
    server.kind_of(api_version, kind).with_context(|| {
        format!(
            "the API server of scenarios does not have the kind {api_version} {kind}: add its CustomResourceDefinition \
             to `objects`"
        )
    })
}

pub(super) fn namespace_of<'o>(object: &'o Object, kind: &Kind) -> &'o str {
    match kind.namespaced {
        true => object.namespace.as_deref().unwrap_or("default"),
        false => "",
    }
}

pub(super) fn resource_of(kind: &Kind) -> String {
    format!("{}/{}", kind.api_version(), kind.plural)
}

/// The state of an object, if it exists.
pub(super) fn object_of(server: &ApiServer, object: &Object) -> Option<Value> {
    let kind = server.kind_of(&object.api_version, &object.kind)?;
    let found = server.get(&resource_of(&kind), namespace_of(object, &kind), &object.name);
    found.ok().flatten()
}
