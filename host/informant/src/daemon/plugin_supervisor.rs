//! Supervises one plugin: loads it, attaches it to its informers, and applies changes of its section and its component.
//!
//! ```text
//! command ──────────▶ read ──▶ prepare next to the running version ──▶ swap in between two calls ──▶ reply
//! ContentFollower ──▶ new? ──▶ prepare … ▲
//! ```
//!
//! A refused version changes nothing that runs: at start the plugin is missing and its status says why; later the
//! previous version keeps running. The next change of the section or of the file is the next attempt, so that a section
//! whose component arrives a moment later is applied then. Newer text of the section, or another content of the file,
//! replaces what is being read and prepared. Only a swap that has begun is completed first.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use informant_cache::ExpectedIndexes;
use informant_config::PluginSection;
use informant_plugin_host::{LoadError, LoadProblem, Plugin, PluginHost, PluginState, PreparedChange, Swapped};
use informant_spec::{Content, Digest};
use tokio::sync::{Notify, watch};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::STOP_MAX;
use super::acting::{Acting, Term};
use super::config_reader::ConfigChecks;
use super::configuration::Section;
use super::durable_state::DurableState;
use super::file_watch::FileWatch;
use super::plugin_attachments::{AttachmentNews, PluginAttachments};
use super::plugin_content::{ContentFollower, ContentRead};
use super::section_command::{COMPILES, CommandReceiver, Reply, SectionCommand, SectionResult};
use super::status_registry::{PluginEntry, PluginPhase, StatusRegistry};
use super::{or_never, until};
use crate::metrics::Metrics;

pub(super) struct PluginSupervisor {
    pub(super) entry: Arc<PluginEntry>,
    /// The plugin as configured; an older version may be running.
    pub(super) wanted: Arc<PluginSection>,
    pub(super) registry: StatusRegistry,
    pub(super) host: PluginHost,
    pub(super) metrics: Metrics,
    pub(super) durables: DurableState,
    pub(super) commands: CommandReceiver<PluginSection>,
    pub(super) watch: FileWatch,
    pub(super) checks: ConfigChecks,
    /// Notified when the plugin may have stopped using an informer.
    pub(super) released: Arc<Notify>,
    pub(super) stop: CancellationToken,
}

struct Running {
    attachments: PluginAttachments,
    applied: Arc<PluginSection>,
}

/// The plugin's content, and what is being done about it.
struct Attempt {
    content: ContentFollower,
    /// The indexes that the plugin may have, by informer, while it is being loaded.
    expected: BTreeMap<String, ExpectedIndexes>,
    preparing: Option<Preparing>,
    /// The term in which loading began.
    term: Option<Arc<Term>>,
    /// Answers the command that is being handled.
    reply: Option<Reply>,
}

/// A version that is being prepared. A task of its own: it holds locks of the host that others may wait for.
struct Preparing {
    task: AbortOnDropHandle<Prepared>,
    tried_before: Option<Digest>,
}

enum Prepared {
    Loaded(Result<Plugin, LoadError>),
    Change {
        /// Whether the section changed, or only the content of its file.
        for_section: bool,
        change: Result<PreparedChange, LoadError>,
    },
}

enum PluginEvent {
    Command(SectionCommand<PluginSection>),
    Prepared(Result<Prepared, JoinError>),
    Read(ContentRead),
    Attachments(AttachmentNews),
    /// Whether this process acts has changed.
    Acting(Acting),
    ProbationEnded,
}

impl PluginSupervisor {
    /// Runs until the section is removed or `stop`. On `stop`, [`Daemon::stop`](super::Daemon::stop) stops the plugin.
    ///
    /// `first` receives the result of the first attempt.
    pub(super) async fn run(mut self, first: Reply) {
        until(self.stop.clone(), self.supervise(first)).await;
    }

    async fn supervise(&mut self, first: Reply) {
        let mut acting = self.acting();
        let mut running = None;
        let mut attempt = Attempt {
            content: self.content(),
            expected: BTreeMap::new(),
            preparing: None,
            term: None,
            reply: Some(first),
        };
        attempt.read(true);
        loop {
            match self.next(&mut running, &mut attempt, &mut acting).await {
                PluginEvent::Command(SectionCommand::Change(wanted, reply)) => {
                    self.change(&mut running, &mut attempt, wanted, reply).await;
                }
                // Nothing uses a plugin.
                PluginEvent::Command(SectionCommand::Revert(_)) => {}
                PluginEvent::Command(SectionCommand::Remove(_, reply)) => {
                    drop(attempt);
                    reply.set_step("waits for the plugin to handle the events that it has accepted");
                    self.remove(running).await;
                    let section = Section::Plugin(self.entry.name.clone());
                    self.registry.answer(section, Some(reply), Ok(()));
                    return;
                }
                PluginEvent::Prepared(prepared) => {
                    attempt.preparing = None;
                    match prepared {
                        Ok(prepared) => self.apply(&mut running, &mut attempt, prepared).await,
                        // It panicked, which the log shows.
                        Err(error) => {
                            attempt.expected.clear();
                            let reason: Arc<str> = error.to_string().into();
                            if running.is_none() {
                                let reason = Arc::clone(&reason);
                                self.entry.set_phase(PluginPhase::Refused { reason });
                            }
                            self.answer(&mut attempt, Err(reason));
                        }
                    }
                }
                PluginEvent::Read(read) => self.handle_read(running.as_ref(), &mut attempt, read),
                PluginEvent::Attachments(news) => {
                    if let Some(running) = &mut running {
                        running.attachments.update(news).await;
                    }
                }
                PluginEvent::Acting(acting) => {
                    if let Some(running) = &mut running {
                        running.attachments.set_acting(&acting).await;
                    }
                }
                PluginEvent::ProbationEnded => {
                    if let Some(running) = &mut running {
                        conclude_probation(&mut running.attachments).await;
                    }
                }
            }
        }
    }

    /// Commands take precedence over files: when both change at once, the new section belongs to the new component.
    async fn next(
        &self,
        running: &mut Option<Running>,
        attempt: &mut Attempt,
        acting: &mut watch::Receiver<Acting>,
    ) -> PluginEvent {
        let plugin = running.as_ref().map(|running| running.attachments.plugin.clone());
        let news = or_never(running.as_mut().map(|running| running.attachments.next()));
        let probation = or_never(plugin.as_ref().map(|plugin| plugin.probation_ends()));
        let prepared = or_never(attempt.preparing.as_mut().map(|preparing| &mut preparing.task));
        tokio::select! {
            biased;
            command = self.commands.next() => PluginEvent::Command(command),
            prepared = prepared => PluginEvent::Prepared(prepared),
            // An error: the registry, which this has, is gone.
            _ = acting.changed() => PluginEvent::Acting(acting.borrow_and_update().clone()),
            read = attempt.content.next() => PluginEvent::Read(read),
            news = news => PluginEvent::Attachments(news),
            () = probation => PluginEvent::ProbationEnded,
        }
    }

    /// Whether this process acts, for a plugin as the section says: another version of it is divided alike.
    fn acting(&self) -> watch::Receiver<Acting> {
        self.registry.acting(self.wanted.spec.is_divided)
    }

    /// The content that the section names, which was not read yet.
    fn content(&self) -> ContentFollower {
        ContentFollower::new(&self.wanted.spec.content, &self.watch, &self.checks)
    }

    /// Applies another version of the section, or begins to.
    async fn change(
        &mut self,
        running: &mut Option<Running>,
        attempt: &mut Attempt,
        wanted: Arc<PluginSection>,
        reply: Reply,
    ) {
        // What is being read or prepared was for the previous section.
        if let Some(Preparing { tried_before, .. }) = attempt.preparing.take() {
            attempt.content.tried = tried_before;
        }
        attempt.content.abandon();
        let is_other_content = wanted.spec.content != self.wanted.spec.content;
        self.wanted = wanted;
        if is_other_content {
            let tried = attempt.content.tried;
            attempt.content = self.content();
            attempt.content.tried = tried;
        }
        attempt.reply = Some(reply);
        let Some(running) = running else {
            return attempt.read(true);
        };
        match running.attachments.plugin.reconfigure_in_place(&self.wanted.spec).await {
            true => {
                self.reconfigured(running, attempt, None).await;
                // It may have changed together with the section.
                attempt.read(false);
            }
            false => attempt.read(true),
        }
    }

    fn handle_read(&self, running: Option<&Running>, attempt: &mut Attempt, read: ContentRead) {
        let ContentRead {
            content,
            for_section,
            is_news,
        } = read;
        match content {
            Ok(content) => {
                if is_news {
                    let component = content.origin();
                    tracing::info!(plugin = %self.entry.name, %component, "plugin file readable again");
                    let running = running.map(|running| &running.attachments.plugin);
                    if let Some(plugin) = running.filter(|plugin| plugin.digest() == content.digest()) {
                        plugin.clear_refusal();
                    }
                }
                let is_tried = attempt.content.tried == Some(content.digest());
                match running {
                    _ if is_tried && !for_section => {}
                    Some(running) if self.runs(running, &content) => self.keep(running, attempt, &content),
                    _ => self.prepare(running, attempt, content),
                }
            }
            Err(error) if is_news || for_section => {
                self.handle_unreadable(running, attempt, error.of_plugin(&self.entry.name));
            }
            Err(_) => {}
        }
    }

    /// Whether that content is running, with the section as configured.
    fn runs(&self, running: &Running, content: &Content) -> bool {
        let plugin = &running.attachments.plugin;
        Arc::ptr_eq(&running.applied, &self.wanted)
            && plugin.digest() == content.digest()
            && plugin.status().state != PluginState::Quarantined
    }

    /// The file has the running version again: another one that is being prepared is given up.
    fn keep(&self, running: &Running, attempt: &mut Attempt, content: &Content) {
        attempt.preparing = None;
        attempt.content.tried = Some(content.digest());
        running.attachments.plugin.clear_refusal();
        let (component, digest) = (content.origin(), content.digest().short());
        tracing::info!(plugin = %self.entry.name, %component, %digest, "plugin file has the running version; nothing to reload");
    }

    /// Prepares the version in `content` next to the running one.
    fn prepare(&self, running: Option<&Running>, attempt: &mut Attempt, content: Content) {
        let digest = content.digest();
        match running {
            None => self.load(attempt, Ok(content)),
            Some(Running { attachments, applied }) => {
                let (plugin, spec) = (attachments.plugin.clone(), self.wanted.spec.clone());
                let for_section = !Arc::ptr_eq(applied, &self.wanted);
                attempt.spawn(async move {
                    let change = match for_section {
                        true => plugin.prepare_section(spec, content).await,
                        false => plugin.prepare_version(content).await,
                    };
                    Prepared::Change { for_section, change }
                });
            }
        }
        attempt.content.tried = Some(digest);
    }

    /// Loads the plugin, or the last good version if it is refused.
    fn load(&self, attempt: &mut Attempt, content: Result<Content, LoadError>) {
        self.entry.set_section(Arc::clone(&self.wanted));
        self.entry.set_phase(PluginPhase::Loading(self.host.clone()));
        let catalog = self.registry.catalog();
        let expect = |name: &str| (name.to_owned(), catalog.expect_indexes(name));
        attempt.expected = self.wanted.informers().map(|(name, _)| expect(name)).collect();
        attempt.term = self.acting().borrow().term().cloned();
        let (host, spec) = (self.host.clone(), self.wanted.spec.clone());
        attempt.spawn(async move {
            let loaded = match content {
                Ok(content) => host.load(spec.clone(), content).await,
                Err(error) => Err(error),
            };
            Prepared::Loaded(match loaded {
                Ok(plugin) => Ok(plugin),
                Err(refused) => host.load_last_good(spec, &refused).await.ok_or(refused),
            })
        });
    }

    /// The running version continues, if there is one.
    fn handle_unreadable(&self, running: Option<&Running>, attempt: &mut Attempt, error: LoadError) {
        let (name, component) = (&self.entry.name, &self.wanted.spec.content);
        let Some(Running { attachments, applied }) = running else {
            self.load(attempt, Err(error));
            attempt.content.tried = None;
            return;
        };
        if !Arc::ptr_eq(applied, &self.wanted) {
            // Any content is the next attempt.
            attempt.content.tried = None;
            let error = attachments.plugin.refuse(error);
            self.refused_section(attempt, &error);
        } else if is_missing(&error) {
            // It may be about to be replaced.
            tracing::warn!(plugin = %name, %component, %error, "plugin file missing; keeping the running version");
        } else {
            let error = attachments.plugin.refuse(error);
            tracing::error!(plugin = %name, %component, %error, code = "plugin-not-reloaded", "plugin reload refused; keeping the previous version");
        }
    }

    /// Starts the plugin, or applies the version to the running one.
    async fn apply(&self, running: &mut Option<Running>, attempt: &mut Attempt, prepared: Prepared) {
        match (prepared, running) {
            (Prepared::Loaded(Ok(plugin)), running) => {
                let name = &self.entry.name;
                self.metrics.daemon.loaded(name, true);
                tracing::info!(plugin = %name, version = %plugin.manifest().version, digest = %plugin.digest().short(), roles = %plugin.roles(), "plugin loaded");
                plugin.start().await;
                let mut attachments = PluginAttachments::new(
                    plugin.clone(),
                    &self.entry,
                    &self.registry,
                    self.wanted.informers().map(|(name, _)| name),
                    std::mem::take(&mut attempt.expected),
                );
                attachments.begin(attempt.term.take().as_ref()).await;
                self.entry.set_phase(PluginPhase::Running(plugin));
                let running = running.insert(Running {
                    attachments,
                    applied: Arc::clone(&self.wanted),
                });
                self.applied_section(running, attempt);
            }
            (Prepared::Loaded(Err(error)), _) => {
                attempt.expected.clear();
                attempt.forget_if_blameless(Some(&error));
                self.metrics.daemon.loaded(&self.entry.name, false);
                let component = &self.wanted.spec.content;
                tracing::error!(
                    plugin = %self.entry.name,
                    %component,
                    %error,
                    code = "plugin-refused",
                    "plugin refused; will retry when its file or section changes"
                );
                let reason: Arc<str> = error.to_string().into();
                self.entry.set_phase(PluginPhase::Refused {
                    reason: Arc::clone(&reason),
                });
                self.answer(attempt, Err(reason));
            }
            (Prepared::Change { for_section, change }, Some(running)) => {
                if let Some(reply) = &attempt.reply {
                    reply.set_step("waits for the running call to end, to swap in the new version");
                }
                let plugin = running.attachments.plugin.clone();
                let swapped = match change {
                    Ok(change) => plugin.apply(change).await,
                    Err(error) => Err(error),
                };
                attempt.forget_if_blameless(swapped.as_ref().err());
                match (swapped, for_section) {
                    (Ok(swapped), true) => self.reconfigured(running, attempt, swapped.as_ref()).await,
                    (Ok(swapped), false) => self.reloaded(running, swapped.as_ref()).await,
                    (Err(error), true) => self.refused_section(attempt, &error),
                    (Err(error), false) => {
                        let component = &self.wanted.spec.content;
                        tracing::error!(
                            plugin = %self.entry.name,
                            %component,
                            %error,
                            code = "plugin-not-reloaded",
                            "plugin reload refused; keeping the previous version"
                        );
                    }
                }
            }
            // A plugin runs until it is removed.
            (Prepared::Change { .. }, None) => {}
        }
    }

    /// Another section is applied, with a new instance if something was swapped in.
    async fn reconfigured(&self, running: &mut Running, attempt: &mut Attempt, swapped: Option<&Swapped>) {
        let attachments = &mut running.attachments;
        if let Some(swapped) = swapped {
            attachments.apply_swap(swapped).await;
        }
        attachments.set_informers(self.wanted.informers().map(|(name, _)| name));
        running.applied = Arc::clone(&self.wanted);
        let digest = running.attachments.plugin.digest().short();
        tracing::info!(plugin = %self.entry.name, %digest, new_instance = swapped.is_some(), "plugin reconfigured");
        self.applied_section(running, attempt);
    }

    async fn reloaded(&self, running: &mut Running, swapped: Option<&Swapped>) {
        let attachments = &mut running.attachments;
        if let Some(swapped) = swapped {
            attachments.apply_swap(swapped).await;
        }
        let component = &self.wanted.spec.content;
        let (version, digest) = (
            &attachments.plugin.manifest().version,
            attachments.plugin.digest().short(),
        );
        tracing::info!(plugin = %self.entry.name, %component, %version, %digest, "plugin reloaded");
    }

    /// The section as configured is running.
    fn applied_section(&self, running: &Running, attempt: &mut Attempt) {
        self.entry.set_section(Arc::clone(&running.applied));
        let listener = running.attachments.plugin.listener();
        self.durables
            .name(&listener, &self.entry.name, running.applied.spec.on_start);
        self.answer(attempt, Ok(()));
        self.released.notify_one();
    }

    fn refused_section(&self, attempt: &mut Attempt, error: &LoadError) {
        tracing::error!(
            plugin = %self.entry.name,
            %error,
            code = "plugin-not-reloaded",
            "plugin reconfiguration refused; keeping the previous section"
        );
        self.answer(attempt, Err(error.to_string().into()));
    }

    fn answer(&self, attempt: &mut Attempt, result: SectionResult) {
        let section = Section::Plugin(self.entry.name.clone());
        self.registry.answer(section, attempt.reply.take(), result);
    }

    /// Removes the plugin: delivers what it has accepted, stops it, and removes its metrics.
    async fn remove(&self, running: Option<Running>) {
        let name = &self.entry.name;
        if let Some(Running { mut attachments, .. }) = running {
            let plugin: Plugin = attachments.plugin.clone();
            let undelivered = plugin.stop(STOP_MAX).await.undelivered;
            attachments.set_informers(std::iter::empty());
            self.durables.forget_name(&plugin.listener());
            tracing::info!(plugin = %name, undelivered, "plugin removed");
        }
        self.entry.set_phase(PluginPhase::Stopped);
        self.registry.remove_plugin(name);
        self.metrics.daemon.forget_plugin(name);
        self.released.notify_one();
    }
}

impl Attempt {
    fn read(&mut self, for_section: bool) {
        if let Some(reply) = &self.reply {
            reply.set_step("waits for its file to be read");
        }
        self.content.read(for_section);
    }

    /// If the content was refused because of its runner's file, the same content is the next attempt.
    fn forget_if_blameless(&mut self, refused: Option<&LoadError>) {
        let is_of_file =
            |problem: &LoadProblem| matches!(problem, LoadProblem::Runner(problem) if problem.is_of_file());
        if refused.is_some_and(|error| is_of_file(error.problem())) {
            self.content.tried = None;
        }
    }

    /// Prepares a version in a task of its own, in place of another one.
    fn spawn(&mut self, prepare: impl Future<Output = Prepared> + Send + 'static) {
        let before = self.preparing.take();
        let tried_before = before.map_or(self.content.tried, |before| before.tried_before);
        if let Some(reply) = &self.reply {
            reply.set_step(COMPILES);
        }
        self.preparing = Some(Preparing {
            task: AbortOnDropHandle::new(tokio::spawn(prepare)),
            tried_before,
        });
    }
}

/// Whether there is no file, which a writer that replaces it may be about to change.
fn is_missing(error: &LoadError) -> bool {
    matches!(error.problem(), LoadProblem::Unreadable(cause) if cause.kind() == ErrorKind::NotFound)
}

/// Rolls back to the last good version if the running one has failed its probation.
async fn conclude_probation(attachments: &mut PluginAttachments) {
    if let Some(swapped) = attachments.plugin.conclude_probation().await {
        attachments.apply_swap(&swapped).await;
    }
}
