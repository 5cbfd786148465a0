//! Supervises the client of one cluster: reads its kubeconfig, authenticates, and applies changes of its section.
//!
//! A login may run a program that hangs or fails; that affects only this cluster. It is retried with back-off. When the
//! section changes, the current client stays in use until the new login succeeds. A reload reads the kubeconfig again;
//! if it is unchanged, only tokens are read again.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Backoff, BackoffOptions, Environment};
use informant_config::ClusterSection;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cluster_registry::{ClusterEntry, ClusterPhase};
use super::configuration::Section;
use super::section_command::{CommandReceiver, Reply, SectionCommand, SectionResult};
use super::status_registry::StatusRegistry;
use super::{or_never, until};
use crate::activities::Activities;
use crate::cluster::{Cluster, ClusterError, EffectGate};
use crate::logging::cluster_field;

/// The delay after the first failed login; it doubles with each further failure.
pub(super) const LOGIN_RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest delay between logins.
pub(super) const LOGIN_RETRY_MAX: Duration = Duration::from_secs(30);

/// How long a changed section may take to log in before the configuration change counts as partial. The login
/// continues.
pub(super) const LOGIN_WAIT_MAX: Duration = Duration::from_secs(10);

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(super) struct ClusterSupervisor {
    pub(super) entry: Arc<ClusterEntry>,
    pub(super) section: Arc<ClusterSection>,
    pub(super) registry: StatusRegistry,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) activities: Activities,
    /// The cluster, if it is in this process and needs no login.
    pub(super) in_process: Option<Arc<Cluster>>,
    /// The gate of the effects of plugins.
    pub(super) effects: EffectGate,
    pub(super) commands: CommandReceiver<ClusterSection>,
    pub(super) reloads: watch::Receiver<u64>,
    pub(super) stop: CancellationToken,
}

struct Login {
    attempt: Later<Result<Arc<Cluster>, ClusterError>>,
    /// Fires when it takes long.
    late: Option<Later<()>>,
    reply: Option<Reply>,
    backoff: Backoff,
    /// The last error in the log.
    logged: Option<String>,
}

enum ClusterEvent {
    Command(SectionCommand<ClusterSection>),
    Reload,
    LoggedIn(Result<Arc<Cluster>, ClusterError>),
    Late,
}

impl ClusterSupervisor {
    /// Runs until the section is removed or `stop`.
    pub(super) async fn run(mut self) {
        until(self.stop.clone(), self.supervise()).await;
    }

    async fn supervise(&mut self) {
        let mut login = Some(self.login(None));
        loop {
            match self.next(&mut login).await {
                ClusterEvent::Reload => {
                    let reply = login.take().and_then(|login| login.reply);
                    login = Some(self.login(reply));
                }
                ClusterEvent::Command(SectionCommand::Change(section, reply)) => {
                    self.section = section;
                    login = Some(self.login(Some(reply)));
                }
                // A cluster's section does not stay in use.
                ClusterEvent::Command(SectionCommand::Revert(_)) => {}
                ClusterEvent::Command(SectionCommand::Remove(_, reply)) => {
                    self.registry.clusters().remove(&self.entry);
                    self.answer(Some(reply), Ok(()));
                    return;
                }
                ClusterEvent::LoggedIn(Ok(cluster)) => {
                    self.connected(cluster);
                    self.answer(login.take().and_then(|login| login.reply), Ok(()));
                }
                ClusterEvent::LoggedIn(Err(error)) => self.failed(&mut login, &error),
                ClusterEvent::Late => {
                    let seconds = LOGIN_WAIT_MAX.as_secs();
                    self.report_login_error(&mut login, format!("the login is still pending after {seconds} s"));
                }
            }
        }
    }

    async fn next(&mut self, login: &mut Option<Login>) -> ClusterEvent {
        let (commands, reloads) = (&self.commands, &mut self.reloads);
        let command = async {
            tokio::select! {
                biased;
                command = commands.next() => ClusterEvent::Command(command),
                Ok(()) = reloads.changed() => ClusterEvent::Reload,
            }
        };
        let Some(login) = login else {
            return command.await;
        };
        tokio::select! {
            biased;
            command = command => command,
            result = &mut login.attempt => ClusterEvent::LoggedIn(result),
            () = or_never(login.late.as_mut()) => {
                login.late = None;
                ClusterEvent::Late
            }
        }
    }

    fn login(&self, reply: Option<Reply>) -> Login {
        Login {
            attempt: self.attempt(Duration::ZERO),
            late: Some(self.environment.sleep(LOGIN_WAIT_MAX)),
            reply,
            backoff: Backoff::new(BackoffOptions::around(LOGIN_RETRY_FIRST, LOGIN_RETRY_MAX)),
            logged: None,
        }
    }

    /// One login, after a delay.
    fn attempt(&self, delay: Duration) -> Later<Result<Arc<Cluster>, ClusterError>> {
        let (environment, section) = (Arc::clone(&self.environment), Arc::clone(&self.section));
        let (entry, activities) = (Arc::clone(&self.entry), self.activities.clone());
        let effects = self.effects.clone();
        if let Some(cluster) = self.in_process.clone() {
            return Box::pin(async { Ok(cluster) });
        }
        Box::pin(async move {
            if !delay.is_zero() {
                environment.sleep(delay).await;
            }
            let _activity = activities.begin(match &*entry.name {
                "" => "cluster: login".to_owned(),
                name => format!("cluster {name}: login"),
            });
            match entry.phase() {
                ClusterPhase::Connected(current) => Cluster::reconnect(&section, &current, effects).await,
                _ => Cluster::connect_gated(&section, effects).await.map(Arc::new),
            }
        })
    }

    fn connected(&self, cluster: Arc<Cluster>) {
        if let ClusterPhase::Connected(current) = self.entry.phase()
            && Arc::ptr_eq(&current, &cluster)
        {
            return;
        }
        let name = cluster_field(&self.entry.name);
        tracing::info!(cluster = name, url = %cluster.url, "cluster client ready");
        if cluster.insecure {
            tracing::warn!(
                cluster = name,
                url = %cluster.url,
                "API server certificate not verified; remove insecure-skip-tls-verify from the kubeconfig"
            );
        }
        self.entry.set_phase(ClusterPhase::Connected(cluster));
    }

    fn failed(&self, login: &mut Option<Login>, error: &ClusterError) {
        self.report_login_error(login, error.to_string());
        let Some(login) = login else { return };
        let (now, random) = (self.environment.now(), self.environment.random());
        let delay = login.backoff.after_failure(now, random);
        login.attempt = self.attempt(delay);
        login.late = Some(self.environment.sleep(delay + LOGIN_WAIT_MAX));
    }

    /// Reports why the section is not in use yet. The current client stays in use.
    fn report_login_error(&self, login: &mut Option<Login>, reason: String) {
        let name = cluster_field(&self.entry.name);
        let login_before = login.as_mut().map(|login| &mut login.logged);
        // The same error once; status and readiness show it as long as it lasts.
        if login_before.is_none_or(|logged| logged.replace(reason.clone()).as_ref() != Some(&reason)) {
            tracing::warn!(cluster = name, error = %reason, code = "watch-not-live", "cannot authenticate to cluster; retrying");
        }
        let reason: Arc<str> = reason.into();
        if !matches!(self.entry.phase(), ClusterPhase::Connected(_)) {
            let last_error = Some(Arc::clone(&reason));
            self.entry.set_phase(ClusterPhase::Connecting { last_error });
        }
        if let Some(reply) = login.as_mut().and_then(|login| login.reply.take()) {
            self.answer(Some(reply), Err(reason));
        }
    }

    fn answer(&self, reply: Option<Reply>, result: SectionResult) {
        let section = Section::Cluster(self.entry.name.clone());
        self.registry.answer(section, reply, result);
    }
}
