//! Keeps the client of one cluster: reads its kubeconfig, logs in, and follows its section.
//!
//! A login may run a program that hangs or fails; that is this cluster's trouble and nobody else's. It is tried again
//! at a stated pace. A section that changed is logged in to beside the client that is in use, which stays until the new
//! one is there.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::clusters::{ClusterEntry, ClusterPhase};
use super::configuration::Section;
use super::informer_keeper::jitter;
use super::order::{Order, Outcome};
use crate::cluster::{Cluster, ClusterError};
use crate::config::ClusterSection;

/// The pause after the first login that failed; it doubles with each further one.
pub const LOGIN_RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest pause between logins.
pub const LOGIN_RETRY_MAX: Duration = Duration::from_secs(30);

/// How long a changed section may take to log in before the change of the configuration counts as partial. The login
/// goes on.
pub const LOGIN_AWAITED_MAX: Duration = Duration::from_secs(10);

type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What it takes to keep a cluster.
pub(super) struct ClusterKeeper {
    pub(super) entry: Arc<ClusterEntry>,
    pub(super) section: Arc<ClusterSection>,
    pub(super) board: Board,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) orders: mpsc::UnboundedReceiver<Order<ClusterSection>>,
    pub(super) stop: CancellationToken,
}

/// A login that is under way.
struct Login {
    attempt: Later<Result<Cluster, ClusterError>>,
    /// When it has taken long.
    late: Option<Later<()>>,
    /// Who waits for what becomes of the section.
    asked: Option<oneshot::Sender<Outcome>>,
    /// Before the next attempt.
    pause: Duration,
}

enum Next {
    Order(Order<ClusterSection>),
    LoggedIn(Result<Cluster, ClusterError>),
    Late,
}

impl ClusterKeeper {
    /// Runs until the section is gone or `stop`. With `connected` the first login has been done.
    pub(super) async fn run(mut self, connected: Option<Cluster>) {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.keep(connected) => {}
        }
    }

    async fn keep(&mut self, connected: Option<Cluster>) {
        let mut login = match connected {
            Some(cluster) => {
                self.connected(cluster);
                None
            }
            None => Some(self.login(None)),
        };
        loop {
            match self.next(&mut login).await {
                Next::Order(Order::Change(section, asked)) => {
                    self.section = section;
                    login = Some(self.login(Some(asked)));
                }
                Next::Order(Order::Remove(_, done)) => {
                    self.board.clusters().remove(&self.entry);
                    self.note(None);
                    let _ = done.send(Ok(()));
                    return;
                }
                Next::LoggedIn(Ok(cluster)) => {
                    self.connected(cluster);
                    self.note(None);
                    answer(login.take().and_then(|login| login.asked), Ok(()));
                }
                Next::LoggedIn(Err(error)) => self.failed(&mut login, &error),
                Next::Late => {
                    let seconds = LOGIN_AWAITED_MAX.as_secs();
                    self.trouble(
                        &mut login,
                        format!("the login has not ended within {seconds} s, and is waited for"),
                    );
                }
            }
        }
    }

    async fn next(&mut self, login: &mut Option<Login>) -> Next {
        let orders = &mut self.orders;
        let order = async {
            match orders.recv().await {
                Some(order) => order,
                // Nobody gives orders any more: the daemon ends.
                None => std::future::pending().await,
            }
        };
        let Some(login) = login else {
            return Next::Order(order.await);
        };
        tokio::select! {
            biased;
            order = order => Next::Order(order),
            result = &mut login.attempt => Next::LoggedIn(result),
            () = when_late(&mut login.late) => {
                login.late = None;
                Next::Late
            }
        }
    }

    fn login(&self, asked: Option<oneshot::Sender<Outcome>>) -> Login {
        Login {
            attempt: self.attempt(Duration::ZERO),
            late: Some(self.environment.sleep(LOGIN_AWAITED_MAX)),
            asked,
            pause: LOGIN_RETRY_FIRST,
        }
    }

    /// One login, after a pause.
    fn attempt(&self, pause: Duration) -> Later<Result<Cluster, ClusterError>> {
        let (environment, section) = (Arc::clone(&self.environment), Arc::clone(&self.section));
        Box::pin(async move {
            if !pause.is_zero() {
                environment.sleep(pause).await;
            }
            Cluster::connect(&section).await
        })
    }

    fn connected(&self, cluster: Cluster) {
        tracing::info!(cluster = %self.entry.name, url = %cluster.url, "cluster can be asked");
        self.entry.set_phase(ClusterPhase::Connected(Arc::new(cluster)));
    }

    fn failed(&self, login: &mut Option<Login>, error: &ClusterError) {
        self.trouble(login, error.to_string());
        let Some(login) = login else { return };
        let pause = login.pause.mul_f64(jitter(self.environment.random()));
        login.pause = (login.pause * 2).min(LOGIN_RETRY_MAX);
        login.attempt = self.attempt(pause);
        login.late = Some(self.environment.sleep(pause + LOGIN_AWAITED_MAX));
    }

    /// Says what keeps the section from being used. What is in use stays in use.
    fn trouble(&self, login: &mut Option<Login>, reason: String) {
        tracing::warn!(cluster = %self.entry.name, %reason, "cluster cannot be logged in to yet");
        let reason: Arc<str> = reason.into();
        if !matches!(self.entry.phase(), ClusterPhase::Connected(_)) {
            let trouble = Some(Arc::clone(&reason));
            self.entry.set_phase(ClusterPhase::Connecting { trouble });
        }
        let asked = login.as_mut().and_then(|login| login.asked.take());
        if asked.is_some() {
            self.note(Some(Arc::clone(&reason)));
        }
        answer(asked, Err(reason));
    }

    fn note(&self, waits: Option<Arc<str>>) {
        let section = Section::Cluster(self.entry.name.clone());
        self.board.configuration().note(section, waits);
    }
}

fn answer(asked: Option<oneshot::Sender<Outcome>>, outcome: Outcome) {
    if let Some(asked) = asked {
        // Whoever waits for the outcome may have gone.
        let _ = asked.send(outcome);
    }
}

async fn when_late(late: &mut Option<Later<()>>) {
    match late {
        Some(late) => late.await,
        None => std::future::pending().await,
    }
}
