//! [`Driver`]: passes time, answers and news to the state machine of a group, and sends its requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use informant_cache::{Division, Environment};
use informant_lease::{Gate, LeaseAnswer, LeaseName, Notes, ReplicaInput, ReplicaLeases, RequestId};
use tokio::sync::{mpsc, watch};

use super::lease_watch::{LeaseNews, LeaseWatch, SeenLease};
use super::{GroupParts, GroupStatus, LeaseApi};

/// What the daemon wants.
pub(super) enum Command {
    Ready(bool),
    Digest(Arc<str>),
    Notes(Notes),
    HandedOver,
    Stop,
}

/// The only shard: the work is not divided.
const WHOLE: u8 = 0;

type Answered = Pin<Box<dyn Future<Output = (LeaseName, RequestId, LeaseAnswer)> + Send>>;

pub(super) struct Driver {
    leases: LeaseApi,
    environment: Arc<dyn Environment>,
    group: Arc<str>,
    replica: ReplicaLeases,
    requests: FuturesUnordered<Answered>,
    news: mpsc::UnboundedReceiver<LeaseNews>,
    commands: mpsc::UnboundedReceiver<Command>,
    status: watch::Sender<Arc<GroupStatus>>,
    watch: LeaseWatch,
}

impl Driver {
    pub(super) fn new(
        parts: GroupParts,
        watch: LeaseWatch,
        news: mpsc::UnboundedReceiver<LeaseNews>,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Driver {
        let GroupParts {
            leases,
            group,
            pod,
            times,
            record,
            environment,
            ..
        } = parts;
        // A process that is restarted in its pod keeps the pod's name.
        let identity: Arc<str> = format!("{pod}_{:016x}", environment.random()).into();
        let now = environment.boot_now();
        let replica = ReplicaLeases::new(now, (Arc::clone(&identity), pod), times, Division::WHOLE, record);
        let status = GroupStatus {
            lease: format!("{}/{group}", leases.namespace()).into(),
            identity,
            standing: replica.first().standing(),
            content: None,
            named_is_live: false,
            predecessor: None,
            members: Vec::new(),
            other: None,
            failure: None,
            ignored: 0,
            has_ended: false,
        };
        Driver {
            leases,
            environment,
            group,
            replica,
            requests: FuturesUnordered::new(),
            news,
            commands,
            status: watch::Sender::new(Arc::new(status)),
            watch,
        }
    }

    pub(super) fn gate(&self) -> Gate {
        self.replica.first().gate().clone()
    }

    pub(super) fn status(&self) -> watch::Receiver<Arc<GroupStatus>> {
        self.status.subscribe()
    }

    /// Runs until the process has left the group, or its last handle is dropped.
    pub(super) async fn run(mut self) {
        self.step(ReplicaInput::Clock);
        while !self.replica.has_ended() {
            let now = self.environment.boot_now();
            let wake = self.replica.next_wake(now).max(now);
            let sleep = self.environment.sleep(wake - now);
            tokio::select! {
                biased;
                Some((name, id, answer)) = self.requests.next(), if !self.requests.is_empty() => {
                    self.step(ReplicaInput::Answer(name, id, answer));
                }
                command = self.commands.recv() => match command {
                    Some(command) => self.handle(command),
                    None => return,
                },
                Some(news) = self.news.recv() => self.saw(news),
                () = sleep => self.step(ReplicaInput::Clock),
            }
            self.publish();
        }
        self.publish();
    }

    fn handle(&mut self, command: Command) {
        self.step(match command {
            Command::Ready(is_ready) => ReplicaInput::Ready(is_ready),
            Command::Digest(digest) => ReplicaInput::Digest(digest),
            Command::Notes(notes) => ReplicaInput::Notes(WHOLE, notes),
            Command::HandedOver => ReplicaInput::HandedOver(WHOLE),
            Command::Stop => ReplicaInput::Stop,
        });
    }

    fn saw(&mut self, news: LeaseNews) {
        match news {
            LeaseNews::Synced => self.step(ReplicaInput::Synced),
            LeaseNews::Seen(SeenLease { name, seen }) => {
                if let Some(name) = LeaseName::parse(&self.group, &name) {
                    self.step(ReplicaInput::Seen(name, seen));
                }
            }
        }
    }

    fn step(&mut self, input: ReplicaInput) {
        for (name, request) in self.replica.step(self.environment.boot_now(), input) {
            let sent = self.leases.clone().send(name.of(&self.group).into(), request);
            self.requests.push(Box::pin(async move {
                let (id, answer) = sent.await;
                (name, id, answer)
            }));
        }
    }

    fn publish(&self) {
        let now = self.environment.boot_now();
        let before = self.status.borrow().clone();
        let (election, members, membership) = (self.replica.first(), self.replica.members(), self.replica.membership());
        let content = election.lease().map(|lease| lease.content.clone());
        let named = content.as_ref().map(|content| &content.holder);
        let status = GroupStatus {
            standing: election.standing(),
            named_is_live: members.live(now).any(|member| Some(&member.identity) == named),
            content,
            predecessor: election.predecessor().cloned(),
            members: members.iter().cloned().collect(),
            other: membership.other(now).cloned(),
            failure: membership.failure().cloned().or_else(|| self.watch.failure()),
            ignored: members.ignored(),
            has_ended: self.replica.has_ended(),
            ..(*before).clone()
        };
        self.status.send_replace(Arc::new(status));
    }
}
