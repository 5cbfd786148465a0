//! [`Driver`]: passes time, answers and news to the state machines of a group, and sends their requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use informant_cache::{Environment, Moment};
use informant_lease::{
    Candidates, Election, ElectionInput, Gate, LeaseAnswer, LeaseRequest, MemberRecord, Members, Membership,
    MembershipInput, Notes, ReleaseReason, RequestId, Seen, Standing,
};
use tokio::sync::{mpsc, watch};

use super::lease_watch::{LeaseNews, LeaseWatch, SeenLease};
use super::{GroupParts, GroupStatus, LeaseApi};

/// What the daemon wants.
pub(super) enum Command {
    Ready(bool),
    Digest(Arc<str>),
    Notes(Notes),
    Release(ReleaseReason),
    HandedOver,
}

/// Which of the two Leases a request is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// Who acts.
    Work,
    /// The own member Lease.
    Member,
}

type Answered = Pin<Box<dyn Future<Output = (About, RequestId, LeaseAnswer)> + Send>>;

pub(super) struct Driver {
    leases: LeaseApi,
    environment: Arc<dyn Environment>,
    /// The name of the Lease that says who acts.
    work: Arc<str>,
    /// What the names of member Leases begin with.
    member_prefix: Arc<str>,
    pod: Arc<str>,
    record: MemberRecord,
    election: Election,
    membership: Membership,
    members: Members,
    candidates: Candidates,
    /// Its member Lease is being released.
    leaves: bool,
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
        let election = Election::new(environment.boot_now(), Arc::clone(&identity), times);
        let membership = Membership::new(Arc::clone(&identity), times, &record);
        let status = GroupStatus {
            lease: format!("{}/{group}", leases.namespace()).into(),
            identity: Arc::clone(&identity),
            standing: election.standing(),
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
            member_prefix: format!("{group}-member-").into(),
            work: group,
            pod,
            record,
            election,
            membership,
            members: Members::new(identity, times),
            candidates: Candidates::default(),
            leaves: false,
            requests: FuturesUnordered::new(),
            news,
            commands,
            status: watch::Sender::new(Arc::new(status)),
            watch,
        }
    }

    pub(super) fn gate(&self) -> Gate {
        self.election.gate().clone()
    }

    pub(super) fn status(&self) -> watch::Receiver<Arc<GroupStatus>> {
        self.status.subscribe()
    }

    /// Runs until the process has left the group, or its last handle is dropped.
    pub(super) async fn run(mut self) {
        self.election(ElectionInput::Clock);
        self.membership(MembershipInput::Clock);
        while !self.has_ended() {
            let now = self.environment.boot_now();
            let sleep = self.environment.sleep(self.next_wake(now) - now);
            tokio::select! {
                biased;
                Some((about, id, answer)) = self.requests.next(), if !self.requests.is_empty() => match about {
                    About::Work => self.election(ElectionInput::Answer(id, answer)),
                    About::Member => self.member_answered(id, answer),
                },
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                Some(news) = self.news.recv() => self.saw(news),
                () = sleep => {
                    self.election(ElectionInput::Clock);
                    self.membership(MembershipInput::Clock);
                }
            }
            self.look_for_candidates();
            self.publish();
        }
        self.publish();
    }

    fn has_ended(&self) -> bool {
        self.election.has_ended() && self.membership.has_ended()
    }

    fn next_wake(&self, now: Moment) -> Moment {
        let machines = self.election.next_wake().min(self.membership.next_wake());
        machines.min(self.members.next_change(now)).max(now)
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Ready(is_ready) => {
                self.change_record(|record| record.is_ready = is_ready);
                self.election(ElectionInput::Ready(is_ready));
            }
            Command::Digest(digest) => self.change_record(|record| record.digest = digest),
            Command::Notes(notes) => self.election(ElectionInput::Notes(notes)),
            Command::Release(reason) => {
                self.election(ElectionInput::Release(reason));
            }
            Command::HandedOver => self.election(ElectionInput::HandedOver),
        }
    }

    fn change_record(&mut self, change: impl FnOnce(&mut MemberRecord)) {
        let before = self.record.clone();
        change(&mut self.record);
        if before != self.record {
            self.membership(MembershipInput::Record(self.record.clone()));
        }
    }

    fn saw(&mut self, news: LeaseNews) {
        let now = self.environment.boot_now();
        match news {
            LeaseNews::Synced => self.members.set_synced(),
            LeaseNews::Seen(SeenLease { name, seen }) if *name == *self.work => {
                self.election(ElectionInput::Seen(seen));
            }
            LeaseNews::Seen(SeenLease { name, seen }) => {
                let Some(pod) = name.strip_prefix(&*self.member_prefix) else {
                    return;
                };
                let lease = match &seen {
                    Seen::Record(record) => Some(record),
                    Seen::Absent(_) => None,
                };
                self.members.observe(now, pod, lease);
                if *pod == *self.pod {
                    self.membership(MembershipInput::Seen(seen));
                }
            }
        }
    }

    /// What this process has written into its member Lease is known at once.
    fn member_answered(&mut self, id: RequestId, answer: LeaseAnswer) {
        if let LeaseAnswer::Record(record) = &answer {
            let (now, pod) = (self.environment.boot_now(), Arc::clone(&self.pod));
            self.members.observe(now, &pod, Some(record));
        }
        self.membership(MembershipInput::Answer(id, answer));
    }

    fn look_for_candidates(&mut self) {
        let now = self.environment.boot_now();
        let candidates = self.members.candidates(now, &self.work);
        if candidates != self.candidates {
            self.candidates = candidates.clone();
            self.election(ElectionInput::Candidates(candidates));
        }
        // Ignored if it has handed over a short time ago.
        if self.candidates.newer.is_some() && matches!(self.election.standing(), Standing::Acting { .. }) {
            self.election(ElectionInput::Release(ReleaseReason::Preferred));
        }
    }

    fn election(&mut self, input: ElectionInput) {
        let request = self.election.step(self.environment.boot_now(), input);
        self.send(About::Work, request);
        // Not earlier: its member Lease says that it is there while it acts.
        if self.election.has_ended() && !std::mem::replace(&mut self.leaves, true) {
            self.membership(MembershipInput::Stop);
        }
    }

    fn membership(&mut self, input: MembershipInput) {
        let request = self.membership.step(self.environment.boot_now(), input);
        self.send(About::Member, request);
    }

    fn send(&mut self, about: About, request: Option<LeaseRequest>) {
        let Some(request) = request else { return };
        let name = match about {
            About::Work => Arc::clone(&self.work),
            About::Member => format!("{}{}", self.member_prefix, self.pod).into(),
        };
        let sent = self.leases.clone().send(name, request);
        self.requests.push(Box::pin(async move {
            let (id, answer) = sent.await;
            (about, id, answer)
        }));
    }

    fn publish(&self) {
        let now = self.environment.boot_now();
        let before = self.status.borrow().clone();
        let content = self.election.lease().map(|lease| lease.content.clone());
        let named = content.as_ref().map(|content| &content.holder);
        let status = GroupStatus {
            standing: self.election.standing(),
            named_is_live: self.members.live(now).any(|member| Some(&member.identity) == named),
            content,
            predecessor: self.election.predecessor().cloned(),
            members: self.members.iter().cloned().collect(),
            other: self.membership.other(now).cloned(),
            failure: self.membership.failure().cloned().or_else(|| self.watch.failure()),
            ignored: self.members.ignored(),
            has_ended: self.has_ended(),
            ..(*before).clone()
        };
        self.status.send_replace(Arc::new(status));
    }
}
