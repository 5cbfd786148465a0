//! Faults: they begin and end.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Division, Moment};

use super::super::faults::{Edit, Fault, Target, Trouble};
use super::super::process::{Process, pod_of};
use super::{Event, World};
use crate::{LeaseContent, LeaseName, ReplicaInput as Input};

/// After what time an orderly stop becomes a kill.
const STOP_MAX: Duration = Duration::from_secs(25);

impl World {
    pub(super) fn fault(&mut self, target: Target, fault: Fault, lasts: Duration) {
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
            Fault::Edit(shard, edit) => self.edit(shard, edit),
            Fault::Configure(division) => self.configure(division),
        }
    }

    pub(super) fn begin_trouble(&mut self, host: usize, trouble: Trouble) {
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

    pub(super) fn end_trouble(&mut self, host: usize, trouble: Trouble) {
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
    pub(super) fn recover(&mut self, host: usize) {
        let one = &mut self.hosts[host];
        if one.troubles.is_empty() {
            one.healthy_since = self.now;
        }
    }

    /// The process continues: with what it was about to do, and a time that it has read before, if it did.
    pub(super) fn resume(&mut self, host: usize) {
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

    /// Replaces all processes, the last one first, as a StatefulSet does.
    fn configure(&mut self, division: Division) {
        let mut at = Duration::ZERO;
        for host in (0..self.hosts.len()).rev() {
            self.after(at, Event::Replace(host, division));
            at += STOP_MAX + self.rng.up_to(self.times.duration);
        }
    }

    pub(super) fn edit(&mut self, shard: u8, edit: Edit) {
        let name = LeaseName::Shard(shard);
        let seen = match edit {
            Edit::Delete => self.server.delete(&name),
            Edit::DeleteMember(host) => {
                let name = LeaseName::Member(pod_of(host));
                let seen = self.server.delete(&name);
                return self.publish(&name, seen);
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
                self.server.edit(&name, |content: &mut LeaseContent| {
                    content.holder = holder.unwrap_or_else(|| Arc::clone(&content.holder));
                    match edit {
                        Edit::Duration(duration) => content.duration = duration,
                        Edit::Transitions(transitions) => content.transitions = transitions,
                        Edit::Layout(layout) => content.layout = layout,
                        _ => {}
                    }
                })
            }
        };
        self.checker.edited();
        self.publish(&name, seen);
    }

    pub(super) fn end_all_faults(&mut self) {
        self.line(|_| "all faults end".to_owned());
        self.is_quiet = true;
        let division = self.hosts[0].division;
        for host in 0..self.hosts.len() {
            self.hosts[host].division = division;
            let process = self.hosts[host].process.as_ref();
            if process.is_some_and(|process| process.division != division) {
                self.kill(host);
            }
            while let Some(trouble) = self.hosts[host].troubles.last().copied() {
                self.end_trouble(host, trouble);
            }
            self.start_process(host);
        }
        self.has_errors = false;
    }
}
