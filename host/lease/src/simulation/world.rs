//! Hosts with processes, the network between them and the API server, and true time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;

use super::clauses::{Checker, Clause};
use super::faults::{Edit, Fault, Planned, Target, Trouble};
use super::process::{Input, Process};
use super::rng::Rng;
use super::server::{Name, Server};
use crate::{LeaseAnswer, LeaseContent, LeaseRequest, LeaseTimes, RequestId, Seen};

/// One way through a network without trouble.
const WAY_MAX: Duration = Duration::from_millis(20);

/// How long effects may run after a hand-over was begun; then they are cancelled.
const EFFECTS_END: Duration = Duration::from_secs(10);

/// After what time an orderly stop becomes a kill.
const STOP_MAX: Duration = Duration::from_secs(25);

/// How often a step may be due again at once.
const STEPS_AT_ONCE_MAX: usize = 8;

#[derive(Debug)]
enum Event {
    Start(usize),
    Ready(usize, u64),
    /// A request arrives at the server.
    Request(usize, u64, Name, LeaseRequest),
    Input(usize, u64, Input),
    /// A watch with this number delivers something.
    Watch(usize, u64, Name, Seen),
    Synced(usize, u64),
    Relist(usize, u64),
    Wake(usize, u64, Moment),
    /// The process asks its gate, if it acts.
    Try(usize, u64),
    /// An effect is sent, after it was allowed.
    Send(usize),
    /// It arrives, or its request ends.
    End(usize, bool),
    CancelEffects(usize, u64),
    StopIsLate(usize, u64),
    Fault(Target, Fault, Duration),
    Quiet,
    Look,
}

/// Something that a process does to the world.
#[derive(Debug)]
struct Effect {
    host: usize,
    process: u64,
    identity: Arc<str>,
    epoch: u32,
    /// When its process cancels its request, in true time.
    request_end: Moment,
    is_cancelled: bool,
}

#[derive(Debug)]
struct Host {
    /// The number of its process, or of the last one.
    number: u64,
    process: Option<Process>,
    /// What its clock says at the start of true time.
    offset: Duration,
    troubles: Vec<Trouble>,
    version: &'static str,
    watch: u64,
    /// When its process wants to be woken.
    wake: Moment,
    /// A watch delivers in order.
    delivered: Moment,
    known: BTreeSet<Name>,
    /// What arrives while the process is paused, and the time that it had read before.
    mailbox: Vec<Input>,
    read_before_pause: Option<Moment>,
    /// It is paused when it has received its next input and read the clock.
    pauses_at_input: bool,
    /// Since when nothing has disturbed it; never while something does.
    healthy_since: Moment,
}

impl Host {
    fn has(&self, trouble: Trouble) -> bool {
        self.troubles.contains(&trouble)
    }

    fn local(&self, now: Moment) -> Moment {
        now + self.offset
    }

    fn process(&mut self, number: u64) -> Option<&mut Process> {
        self.process.as_mut().filter(|_| self.number == number)
    }
}

#[derive(Debug)]
pub(super) struct World {
    times: LeaseTimes,
    rng: Rng,
    now: Moment,
    queue: BinaryHeap<Reverse<(Moment, u64)>>,
    events: std::collections::BTreeMap<u64, Event>,
    sequence: u64,
    server: Server,
    hosts: Vec<Host>,
    effects: Vec<Effect>,
    has_errors: bool,
    is_quiet: bool,
    /// When a process was last seen to act.
    acted: Moment,
    pub(super) longest_gap: Duration,
    pub(super) checker: Checker,
    /// What happened, if somebody wants to read it.
    pub(super) lines: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64, hosts: usize, times: LeaseTimes) -> World {
        let mut rng = Rng::new(seed);
        let hosts = (0..hosts).map(|_| Host {
            number: 0,
            process: None,
            offset: rng.up_to(Duration::from_secs(1_000)),
            troubles: Vec::new(),
            version: "0.1.0",
            watch: 0,
            wake: Moment::NEVER,
            delivered: Moment::ZERO,
            known: BTreeSet::new(),
            mailbox: Vec::new(),
            read_before_pause: None,
            pauses_at_input: false,
            healthy_since: Moment::NEVER,
        });
        World {
            times,
            hosts: hosts.collect(),
            rng,
            now: Moment::ZERO,
            queue: BinaryHeap::new(),
            events: std::collections::BTreeMap::new(),
            sequence: 0,
            server: Server::default(),
            effects: Vec::new(),
            has_errors: false,
            is_quiet: false,
            acted: Moment::ZERO,
            longest_gap: Duration::ZERO,
            checker: Checker::default(),
            lines: None,
        }
    }

    pub(super) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    pub(super) fn start(&mut self, host: usize, at: Moment) {
        self.at(at, Event::Start(host));
    }

    pub(super) fn plan(&mut self, planned: Planned) {
        self.at(planned.at, Event::Fault(planned.target, planned.fault, planned.lasts));
    }

    /// All faults end at this time.
    pub(super) fn quiet(&mut self, at: Moment) {
        self.at(at, Event::Quiet);
    }

    /// From this time on some process must act.
    pub(super) fn must_act(&mut self, from: Moment) {
        self.acted = from;
        self.at(from, Event::Look);
    }

    pub(super) fn run(&mut self, until: Moment) {
        while let Some(Reverse((at, sequence))) = self.queue.pop() {
            if at > until {
                break;
            }
            let Some(event) = self.events.remove(&sequence) else {
                continue;
            };
            self.now = at;
            self.handle(event);
            let hosts = self.hosts.iter_mut();
            let gates = hosts.filter_map(|host| {
                let (local, is_paused) = (host.local(at), host.has(Trouble::Paused));
                Some((host.process.as_mut()?, local, is_paused))
            });
            self.checker.gates(at, &self.times, &self.server, gates);
            if self.checker.violations.len() > 3 {
                break;
            }
        }
    }

    fn at(&mut self, at: Moment, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((at, self.sequence)));
        self.events.insert(self.sequence, event);
    }

    fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now + wait, event);
    }

    fn line(&mut self, line: impl FnOnce(&World) -> String) {
        if self.lines.is_some() {
            let line = format!("{:>12?} {}", self.now.since(Moment::ZERO), line(self));
            self.lines.get_or_insert_default().push(line);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Start(host) => self.start_process(host),
            Event::Ready(host, number) => self.make_ready(host, number),
            Event::Request(host, number, name, request) => self.serve(host, number, name, request),
            Event::Input(host, number, input) => self.input(host, number, input),
            Event::Watch(host, watch, name, seen) => {
                if self.hosts[host].watch == watch {
                    match seen {
                        Seen::Record(_) => self.hosts[host].known.insert(name),
                        Seen::Absent(_) => self.hosts[host].known.remove(&name),
                    };
                    self.input(host, self.hosts[host].number, Input::Seen(name, seen));
                }
            }
            Event::Synced(host, watch) => {
                if self.hosts[host].watch == watch {
                    self.input(host, self.hosts[host].number, Input::Synced);
                }
            }
            Event::Relist(host, number) => {
                if self.hosts[host].number == number {
                    self.relist(host);
                }
            }
            Event::Wake(host, number, wake) if self.hosts[host].wake == wake => self.input(host, number, Input::Clock),
            Event::Wake(..) => {}
            Event::Try(host, number) => self.try_effect(host, number),
            Event::Send(effect) => self.send_effect(effect),
            Event::End(effect, arrives) => self.end_effect(effect, arrives),
            Event::CancelEffects(host, number) => self.cancel_effects(host, number),
            Event::StopIsLate(host, number) => {
                if self.hosts[host].number == number {
                    self.kill(host);
                }
            }
            Event::Fault(target, fault, lasts) => self.fault(target, fault, lasts),
            Event::Quiet => self.end_all_faults(),
            Event::Look => self.look(),
        }
    }

    // Processes.

    fn start_process(&mut self, host: usize) {
        if self.hosts[host].process.is_some() {
            return;
        }
        self.sequence += 1;
        let number = self.sequence;
        let (now, times) = (self.now, self.times);
        let one = &mut self.hosts[host];
        one.number = number;
        one.process = Some(Process::new(one.local(now), host, number as usize, one.version, times));
        one.mailbox.clear();
        one.read_before_pause = None;
        one.known.clear();
        self.recover(host);
        self.line(|world| format!("host {host} starts process {number} of {}", world.hosts[host].version));
        self.relist(host);
        let sync = match self.is_quiet {
            true => times.retry,
            false => self.rng.up_to(times.duration * 2),
        };
        self.after(sync, Event::Ready(host, number));
        self.after(sync, Event::Try(host, number));
        self.input(host, number, Input::Clock);
    }

    fn make_ready(&mut self, host: usize, number: u64) {
        let is_ready = !self.hosts[host].has(Trouble::NotReady);
        self.input(host, number, Input::Ready(is_ready));
    }

    fn kill(&mut self, host: usize) {
        self.line(|_| format!("host {host} has no process any more"));
        self.hosts[host].process = None;
        self.hosts[host].watch += 1;
    }

    fn input(&mut self, host: usize, number: u64, input: Input) {
        let one = &mut self.hosts[host];
        if one.number != number || one.process.is_none() {
            return;
        }
        if std::mem::take(&mut one.pauses_at_input) {
            one.troubles.push(Trouble::Paused);
            one.read_before_pause = Some(one.local(self.now));
            one.mailbox.push(input);
            return;
        }
        if one.has(Trouble::Paused) {
            if !matches!(input, Input::Clock) {
                one.mailbox.push(input);
            }
            return;
        }
        self.step(host, self.hosts[host].local(self.now), input);
    }

    /// Steps a process that believes that it is `believed`.
    fn step(&mut self, host: usize, believed: Moment, input: Input) {
        let (now, number) = (self.now, self.hosts[host].number);
        let local = self.hosts[host].local(now);
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let before = process.election.standing();
        let mut requests = process.step(believed, input);
        let mut steps = 0;
        while process.next_wake(local) <= local && steps < STEPS_AT_ONCE_MAX {
            requests.extend(process.step(local, Input::Clock));
            steps += 1;
        }
        if process.is_ready() {
            process.last_ready = now;
        }
        let (wake, after) = (process.next_wake(local), process.election.standing());
        let (has_ended, hands_over) = (process.has_ended(), process.is_handing_over());
        let identity = Arc::clone(&process.identity);
        if wake <= local {
            let text = format!("{identity} is due again at once");
            self.checker.violate(Clause::NeverSpins, now, text);
            return;
        }
        if before != after {
            self.line(|_| format!("{identity}: {after:?}"));
        }
        if hands_over && !matches!(before, crate::Standing::HandingOver { .. }) {
            self.after(EFFECTS_END, Event::CancelEffects(host, number));
            self.ended_effects(host);
        }
        for (name, request) in requests {
            self.send(host, number, name, request);
        }
        self.hosts[host].wake = wake;
        if wake != Moment::NEVER {
            self.after(wake.since(local), Event::Wake(host, number, wake));
        }
        if has_ended {
            self.kill(host);
        }
    }

    // The network.

    fn way(&mut self, host: usize) -> Duration {
        let max = match self.hosts[host].has(Trouble::Slow) {
            true if self.rng.percent(30) => self.times.request_max() * 3 / 2,
            true => self.times.request_max() / 3,
            false => WAY_MAX,
        };
        self.rng.up_to(max)
    }

    fn send(&mut self, host: usize, number: u64, name: Name, request: LeaseRequest) {
        self.line(|_| format!("host {host} sends {name:?} {request:?}"));
        // Half of the callers report that a request was not answered; the others leave that to the machine.
        if self.rng.percent(50) {
            let failed = LeaseAnswer::Failed("no answer".into());
            self.after(
                request.within,
                Event::Input(host, number, Input::Answer(name, request.id, failed)),
            );
        }
        if !self.hosts[host].has(Trouble::CutToServer) && !self.hosts[host].has(Trouble::LeasesCut) {
            let way = self.way(host);
            self.after(way, Event::Request(host, number, name, request));
        }
    }

    fn serve(&mut self, host: usize, number: u64, name: Name, request: LeaseRequest) {
        if self.hosts[host].has(Trouble::Refused) {
            return self.answer(host, number, name, request.id, LeaseAnswer::Refused("forbidden".into()));
        }
        let error = match self.has_errors && self.rng.percent(60) {
            true if self.rng.percent(20) => Some(LeaseAnswer::Conflict),
            true => Some(LeaseAnswer::Failed("500".into())),
            false => None,
        };
        // An error may come after the request has had its effect.
        if error.is_some() && self.rng.percent(70) {
            return self.answer(host, number, name, request.id, error.unwrap_or(LeaseAnswer::Conflict));
        }
        let (answer, seen) = self.server.apply(name, request.kind);
        if let (Name::Work, Some(Seen::Record(record))) = (name, &seen) {
            let long = self.times.duration * 2;
            let hosts = &self.hosts;
            let now = self.now;
            let healthy = |identity: &str| {
                let mut of_process = hosts.iter().filter(|host| {
                    let process = host.process.as_ref();
                    process.is_some_and(|process| *process.identity == *identity && process.is_candidate())
                });
                of_process.any(|host| host.healthy_since + long <= now) && !self.has_errors
            };
            self.checker.written(now, &record.content, healthy);
        }
        self.publish(name, seen);
        self.answer(host, number, name, request.id, error.unwrap_or(answer));
    }

    fn answer(&mut self, host: usize, number: u64, name: Name, id: RequestId, answer: LeaseAnswer) {
        if self.hosts[host].has(Trouble::CutFromServer) {
            return;
        }
        self.line(|_| format!("host {host} is answered {name:?} {id:?} {answer:?}"));
        let way = self.way(host);
        self.after(way, Event::Input(host, number, Input::Answer(name, id, answer)));
    }

    fn publish(&mut self, name: Name, seen: Option<Seen>) {
        let Some(seen) = seen else {
            return;
        };
        for host in 0..self.hosts.len() {
            self.deliver(host, name, seen.clone());
        }
    }

    /// Delivers to the watch of a host, unless it is cut off: then a relist follows.
    fn deliver(&mut self, host: usize, name: Name, seen: Seen) {
        let one = &self.hosts[host];
        if !one.has(Trouble::CutFromServer) && !one.has(Trouble::WatchStalls) {
            let at = self.in_order(host);
            self.at(at, Event::Watch(host, self.hosts[host].watch, name, seen));
        }
    }

    fn in_order(&mut self, host: usize) -> Moment {
        let at = self.now + self.way(host);
        let at = at.max(self.hosts[host].delivered);
        self.hosts[host].delivered = at;
        at
    }

    /// Lists all Leases, and watches from there.
    fn relist(&mut self, host: usize) {
        let one = &mut self.hosts[host];
        if one.has(Trouble::CutToServer) || one.has(Trouble::CutFromServer) || one.has(Trouble::WatchStalls) {
            return;
        }
        one.watch += 1;
        let watch = one.watch;
        one.delivered = self.now;
        let version = self.server.version();
        let mut names: BTreeSet<Name> = one.known.clone();
        names.insert(Name::Work);
        names.extend(self.server.leases.keys());
        for name in names {
            let seen = match self.server.leases.get(&name) {
                Some(record) => Seen::Record(record.clone()),
                None => Seen::Absent(Some(version.clone())),
            };
            self.deliver(host, name, seen);
        }
        let at = self.in_order(host);
        self.at(at, Event::Synced(host, watch));
    }

    // Effects.

    fn try_effect(&mut self, host: usize, number: u64) {
        let local = self.hosts[host].local(self.now);
        let is_paused = self.hosts[host].has(Trouble::Paused);
        let Some(process) = self.hosts[host].process(number) else {
            return;
        };
        if process.is_acting() && !is_paused {
            self.begin_effect(host, local);
        }
        let pause = self.rng.between(self.times.retry / 20, self.times.retry / 4);
        self.after(pause, Event::Try(host, number));
    }

    /// A process that believes that it is `believed` asks its gate, and sends something a little later.
    fn begin_effect(&mut self, host: usize, believed: Moment) {
        let (now, number) = (self.now, self.hosts[host].number);
        let local = self.hosts[host].local(now);
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let Some(permit) = process.election.gate().permit(believed) else {
            return;
        };
        process.in_flight.insert(self.effects.len());
        self.effects.push(Effect {
            host,
            process: number,
            identity: Arc::clone(&process.identity),
            epoch: permit.epoch,
            request_end: now + permit.request_end.since(local),
            is_cancelled: false,
        });
        let wait = self.rng.up_to(Duration::from_millis(5));
        self.after(wait, Event::Send(self.effects.len() - 1));
    }

    fn send_effect(&mut self, effect: usize) {
        let (host, request_end) = (self.effects[effect].host, self.effects[effect].request_end);
        let is_of_process = self.hosts[host].number == self.effects[effect].process;
        if is_of_process && self.hosts[host].process.is_none() {
            return;
        }
        if is_of_process && self.hosts[host].has(Trouble::Paused) {
            // It is sent when the process continues.
            return self.after(self.times.retry / 10, Event::Send(effect));
        }
        // Some arrive at the last moment.
        let way = match self.rng.percent(20) {
            true => (request_end - self.now).saturating_sub(self.rng.up_to(self.times.retry)),
            false => self.way(host),
        };
        let is_cut = self.hosts[host].has(Trouble::CutToServer);
        let arrives = self.now + way <= request_end && !is_cut;
        let end = if arrives {
            self.now + way
        } else {
            request_end.max(self.now)
        };
        self.at(end, Event::End(effect, arrives));
    }

    fn end_effect(&mut self, effect: usize, arrives: bool) {
        let ended = &self.effects[effect];
        let (host, number) = (ended.host, ended.process);
        if arrives && !ended.is_cancelled {
            self.checker.arrived(self.now, &ended.identity, ended.epoch);
        }
        let process = self.hosts[host].process(number);
        if process.is_some_and(|process| process.in_flight.remove(&effect)) {
            self.ended_effects(host);
        }
    }

    fn cancel_effects(&mut self, host: usize, number: u64) {
        if self.hosts[host].has(Trouble::Paused) {
            return self.after(self.times.retry / 10, Event::CancelEffects(host, number));
        }
        let process = self.hosts[host]
            .process(number)
            .filter(|process| process.is_handing_over());
        let in_flight = process.map(|process| std::mem::take(&mut process.in_flight));
        for effect in in_flight.unwrap_or_default() {
            self.effects[effect].is_cancelled = true;
        }
        self.ended_effects(host);
    }

    /// Reports that a hand-over may continue, if nothing is in flight.
    fn ended_effects(&mut self, host: usize) {
        let number = self.hosts[host].number;
        let process = self.hosts[host].process.as_ref();
        if process.is_some_and(|process| process.is_handing_over() && process.in_flight.is_empty()) {
            self.after(Duration::ZERO, Event::Input(host, number, Input::HandedOver));
        }
    }

    // Faults.

    fn fault(&mut self, target: Target, fault: Fault, lasts: Duration) {
        let acting = self
            .hosts
            .iter()
            .position(|host| host.process.as_ref().is_some_and(Process::is_acting));
        let on = |host| match target {
            Target::Holder => acting.unwrap_or(host),
            Target::Host(host) => host,
        };
        self.line(|_| format!("{target:?} {fault:?} for {lasts:?}"));
        match fault {
            Fault::Trouble(host, trouble, true) => {
                let host = on(host);
                self.begin_trouble(host, trouble);
                let end = Fault::Trouble(host, trouble, false);
                self.after(lasts, Event::Fault(Target::Host(host), end, Duration::ZERO));
            }
            Fault::Trouble(host, trouble, false) => self.end_trouble(host, trouble),
            Fault::Kill(host, down) => {
                let host = on(host);
                self.kill(host);
                self.after(down, Event::Start(host));
            }
            Fault::Stop(host, down) => {
                let host = on(host);
                self.hosts[host].version = "0.2.0";
                let number = self.hosts[host].number;
                self.input(host, number, Input::Stop);
                self.after(STOP_MAX, Event::StopIsLate(host, number));
                self.after(STOP_MAX + down, Event::Start(host));
            }
            Fault::Errors(true) => {
                self.has_errors = true;
                self.after(lasts, Event::Fault(target, Fault::Errors(false), Duration::ZERO));
            }
            Fault::Errors(false) => {
                self.has_errors = false;
                (0..self.hosts.len()).for_each(|host| self.recover(host));
            }
            Fault::Edit(edit) => self.edit(edit),
        }
    }

    fn begin_trouble(&mut self, host: usize, trouble: Trouble) {
        let at_input = self.rng.percent(50);
        let one = &mut self.hosts[host];
        one.healthy_since = Moment::NEVER;
        if trouble == Trouble::Paused && !one.has(trouble) && at_input {
            one.pauses_at_input = true;
            return;
        }
        one.troubles.push(trouble);
        if trouble == Trouble::NotReady {
            self.make_ready(host, self.hosts[host].number);
        }
    }

    fn end_trouble(&mut self, host: usize, trouble: Trouble) {
        let one = &mut self.hosts[host];
        if trouble == Trouble::Paused {
            one.pauses_at_input = false;
        }
        if let Some(at) = one.troubles.iter().position(|has| *has == trouble) {
            one.troubles.swap_remove(at);
        }
        let number = one.number;
        self.recover(host);
        match trouble {
            Trouble::Paused if !self.hosts[host].has(trouble) => self.resume(host),
            Trouble::NotReady => self.make_ready(host, number),
            Trouble::CutFromServer | Trouble::WatchStalls | Trouble::CutToServer => {
                let pause = self.rng.up_to(self.times.retry);
                self.after(pause, Event::Relist(host, number));
            }
            _ => {}
        }
    }

    /// A trouble has ended. If no other one lasts, the host is healthy from now on.
    fn recover(&mut self, host: usize) {
        let one = &mut self.hosts[host];
        if one.troubles.is_empty() {
            one.healthy_since = self.now;
        }
    }

    /// The process continues: with what it was about to do, and a time that it has read before, if it did.
    fn resume(&mut self, host: usize) {
        let read = self.hosts[host].read_before_pause.take();
        let local = self.hosts[host].local(self.now);
        if read.is_some() && self.hosts[host].process.as_ref().is_some_and(Process::is_acting) {
            self.begin_effect(host, read.unwrap_or(local));
        }
        let mut mailbox = std::mem::take(&mut self.hosts[host].mailbox);
        mailbox.push(Input::Clock);
        for (number, input) in mailbox.into_iter().enumerate() {
            let believed = read.filter(|_| number == 0).unwrap_or(local);
            self.step(host, believed, input);
        }
    }

    fn edit(&mut self, edit: Edit) {
        let seen = match edit {
            Edit::Delete => self.server.delete(Name::Work),
            Edit::DeleteMember(host) => {
                let seen = self.server.delete(Name::Member(host));
                return self.publish(Name::Member(host), seen);
            }
            edit => {
                let holder = match edit {
                    Edit::Holder(host) => self.hosts[host]
                        .process
                        .as_ref()
                        .map(|process| Arc::clone(&process.identity)),
                    Edit::Stranger => Some("stranger".into()),
                    Edit::Empty => Some("".into()),
                    _ => None,
                };
                self.server.edit(Name::Work, |content: &mut LeaseContent| {
                    content.holder = holder.unwrap_or_else(|| Arc::clone(&content.holder));
                    match edit {
                        Edit::Duration(duration) => content.duration = duration,
                        Edit::Transitions(transitions) => content.transitions = transitions,
                        _ => {}
                    }
                })
            }
        };
        self.checker.edited();
        self.publish(Name::Work, seen);
    }

    fn end_all_faults(&mut self) {
        self.line(|_| "all faults end".to_owned());
        self.is_quiet = true;
        for host in 0..self.hosts.len() {
            while let Some(trouble) = self.hosts[host].troubles.last().copied() {
                self.end_trouble(host, trouble);
            }
            self.start_process(host);
        }
        self.has_errors = false;
    }

    /// Looks whether some process acts, ten times a renewal.
    fn look(&mut self) {
        let now = self.now;
        let acts = |host: &Host| {
            let process = host.process.as_ref();
            process.is_some_and(|process| process.election.gate().permit(host.local(now)).is_some())
        };
        if self.hosts.iter().any(acts) {
            self.acted = now;
        }
        self.longest_gap = self.longest_gap.max(now - self.acted);
        self.after(self.times.retry / 10, Event::Look);
    }
}
