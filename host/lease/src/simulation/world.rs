//! Hosts with processes, the network between them and the API server, and true time.

mod effects;
mod network;
mod trouble;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Division, Moment};

use self::effects::Effect;
use super::clauses::{Checker, Clause, KEYS};
use super::faults::{self, Fault, Planned, Target, Trouble};
use super::process::Process;
use super::rng::Rng;
use crate::simulated::Server;
use crate::{LeaseName, LeaseRequest, LeaseTimes, ReplicaInput as Input, Seen};

/// How long effects may run after a hand-over was begun; then they are cancelled.
pub(super) const EFFECTS_END: Duration = Duration::from_secs(10);

/// How often a step may be due again at once.
const STEPS_AT_ONCE_MAX: usize = 8;

#[derive(Debug)]
enum Event {
    Start(usize),
    Ready(usize, u64),
    /// A request arrives at the server.
    Request(usize, u64, LeaseName, LeaseRequest),
    Input(usize, u64, Input),
    /// A watch with this number delivers something.
    Watch(usize, u64, LeaseName, Seen),
    Synced(usize, u64),
    Relist(usize, u64),
    Wake(usize, u64, Moment),
    /// The process asks its gate, if it acts.
    Try(usize, u64),
    /// An effect is sent, after it was allowed.
    Send(usize),
    /// It arrives, or its request ends.
    End(usize, bool),
    CancelEffects(usize, u64, u8),
    /// The process is replaced by one with this division.
    Replace(usize, Division),
    StopIsLate(usize, u64),
    Fault(Target, Fault, Duration),
    Quiet,
    Look,
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
    known: BTreeSet<LeaseName>,
    /// What its next process is configured for.
    division: Division,
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
    /// When a process was last seen to act for each key.
    acted: [Moment; KEYS],
    pub(super) longest_gap: Duration,
    pub(super) checker: Checker,
    /// What happened, if somebody wants to read it.
    pub(super) lines: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64, hosts: usize, times: LeaseTimes, is_divided: bool) -> World {
        let mut rng = Rng::new(seed);
        let division = match is_divided {
            true => faults::division(&mut rng),
            false => Division::WHOLE,
        };
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
            division,
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
            acted: [Moment::ZERO; KEYS],
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
        self.acted = [from; KEYS];
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
                        Seen::Record(_) => self.hosts[host].known.insert(name.clone()),
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
            Event::CancelEffects(host, number, shard) => self.cancel_effects(host, number, shard),
            Event::Replace(..) if self.is_quiet => {}
            Event::Replace(host, division) => {
                self.hosts[host].division = division;
                self.fault(Target::Host(host), Fault::Stop(host, Duration::ZERO), Duration::ZERO);
            }
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

    fn start_process(&mut self, host: usize) {
        if self.hosts[host].process.is_some() {
            return;
        }
        self.sequence += 1;
        let number = self.sequence;
        let (now, times) = (self.now, self.times);
        let one = &mut self.hosts[host];
        one.number = number;
        let of_host = (host, number as usize, one.version);
        one.process = Some(Process::new(one.local(now), of_host, times, one.division));
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
        let before = process.standings();
        let mut requests = process.step(believed, input);
        let mut steps = 0;
        while process.next_wake(local) <= local && steps < STEPS_AT_ONCE_MAX {
            requests.extend(process.step(local, Input::Clock));
            steps += 1;
        }
        if process.is_ready() {
            process.last_ready = now;
        }
        let (wake, after) = (process.next_wake(local), process.standings());
        let has_ended = process.has_ended();
        let identity = Arc::clone(&process.identity);
        if wake <= local {
            let text = format!("{identity} is due again at once");
            self.checker.violate(Clause::NeverSpins, now, text);
            return;
        }
        for (shard, standing) in after.iter().filter(|standing| !before.contains(standing)) {
            self.line(|_| format!("{identity}, shard {shard}: {standing:?}"));
            if matches!(standing, crate::Standing::HandingOver { .. }) {
                self.after(EFFECTS_END, Event::CancelEffects(host, number, *shard));
                self.ended_effects(host, *shard);
            }
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

    /// Looks whether some process acts for each key, ten times a renewal.
    fn look(&mut self) {
        let now = self.now;
        let mut acts = 0;
        for host in &self.hosts {
            let (local, process) = (host.local(now), host.process.as_ref());
            for (shard, layout, election) in process.into_iter().flat_map(Process::held) {
                if election.gate().permit(local).is_some() {
                    acts |= self.checker.keys_of(layout.division, shard);
                }
            }
        }
        for (key, acted) in self.acted.iter_mut().enumerate() {
            if acts >> key & 1 == 1 {
                *acted = now;
            }
            self.longest_gap = self.longest_gap.max(now - *acted);
        }
        self.after(self.times.retry / 10, Event::Look);
    }

    /// All faults have ended long ago: the layout is the wanted one, and each process has as many shards as every other
    /// one.
    pub(super) fn look_at_shares(&mut self) {
        let now = self.now;
        let processes = || self.hosts.iter().filter_map(|host| host.process.as_ref());
        let division = self.hosts[0].division;
        let held: Vec<usize> = processes()
            .map(|process| {
                process
                    .held()
                    .filter(|(_, layout, _)| layout.division == division)
                    .count()
            })
            .collect();
        let (least, most) = (held.iter().min().copied(), held.iter().max().copied());
        let is_fair = least.zip(most).is_some_and(|(least, most)| most - least <= 1);
        if held.iter().sum::<usize>() != usize::from(division.shards) {
            let text = format!("{held:?} shards are held by {division}");
            self.checker.violate(Clause::LayoutFollows, now, text);
        } else if !is_fair {
            let text = format!("members hold {held:?} shards");
            self.checker.violate(Clause::EqualShares, now, text);
        }
    }
}
