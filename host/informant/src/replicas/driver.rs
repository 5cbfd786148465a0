//! [`Driver`]: passes time, answers and news to the state machine of a group, and sends its requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use informant_cache::{Environment, Moment};
use informant_lease::{Election, Gate, LeaseAnswer, LeaseName, Notes, ReplicaInput, ReplicaLeases, RequestId};
use tokio::sync::{mpsc, watch};

use super::lease_watch::{LeaseNews, LeaseWatch, SeenLease};
use super::{GroupParts, GroupStatus, LeaseApi, ShardStatus};

/// What the daemon wants.
pub(super) enum Command {
    Ready(bool),
    Digest(Arc<str>),
    Notes(u8, Notes),
    HandedOver(u8),
    Stop,
}

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
            division,
            record,
            environment,
            ..
        } = parts;
        // A process that is restarted in its pod keeps the pod's name.
        let identity: Arc<str> = format!("{pod}_{:016x}", environment.random()).into();
        let now = environment.boot_now();
        let replica = ReplicaLeases::new(now, (Arc::clone(&identity), pod), times, division, record);
        let status = GroupStatus {
            lease: format!("{}/{group}", leases.namespace()).into(),
            identity,
            standing: replica.first().standing(),
            content: None,
            named_is_live: false,
            predecessor: None,
            layout: replica.layout().0,
            next_layout: None,
            shards: Vec::new(),
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
            Command::Notes(shard, notes) => ReplicaInput::Notes(shard, notes),
            Command::HandedOver(shard) => ReplicaInput::HandedOver(shard),
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
        let (layout, next_layout) = self.replica.layout();
        let status = GroupStatus {
            standing: election.standing(),
            named_is_live: members.live(now).any(|member| Some(&member.identity) == named),
            content,
            predecessor: election.predecessor().cloned(),
            layout,
            next_layout,
            shards: self.shards(now),
            members: members.iter().cloned().collect(),
            other: membership.other(now).cloned(),
            failure: membership.failure().cloned().or_else(|| self.watch.failure()),
            ignored: members.ignored(),
            has_ended: self.replica.has_ended(),
            ..(*before).clone()
        };
        self.status.send_replace(Arc::new(status));
    }

    fn shards(&self, now: Moment) -> Vec<ShardStatus> {
        let members = self.replica.members();
        let shard = |(shard, election): (u8, &Election)| {
            let content = election.lease().map(|lease| &lease.content);
            let holder = content.map(|content| Arc::clone(&content.holder));
            let is_live = |holder: &Arc<str>| members.live(now).any(|member| member.identity == *holder);
            ShardStatus {
                shard,
                standing: election.standing(),
                layout: election.term_layout(),
                holder: holder.filter(is_live),
                transitions: content.map_or(0, |content| content.transitions),
                content: content.cloned(),
                predecessor: election.predecessor().cloned(),
                gate: election.gate().clone(),
            }
        };
        self.replica.elections().map(shard).collect()
    }
}
