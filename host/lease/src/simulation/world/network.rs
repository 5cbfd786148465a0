//! Requests, answers and watches on their way between hosts and the API server.

use std::collections::BTreeSet;
use std::time::Duration;

use informant_cache::Moment;

use super::super::faults::Trouble;
use super::{Event, World};
use crate::{LeaseAnswer, LeaseName, LeaseRequest, ReplicaInput as Input, RequestId, Seen};

/// One way through a network without trouble.
const WAY_MAX: Duration = Duration::from_millis(20);

impl World {
    pub(super) fn way(&mut self, host: usize) -> Duration {
        let max = match self.hosts[host].has(Trouble::Slow) {
            true if self.rng.percent(30) => self.times.request_max() * 3 / 2,
            true => self.times.request_max() / 3,
            false => WAY_MAX,
        };
        self.rng.up_to(max)
    }

    pub(super) fn send(&mut self, host: usize, number: u64, name: LeaseName, request: LeaseRequest) {
        self.line(|_| format!("host {host} sends {name:?} {request:?}"));
        // Half of the callers report that a request was not answered; the others leave that to the machine.
        if self.rng.percent(50) {
            let failed = LeaseAnswer::Failed("no answer".into());
            self.after(
                request.within,
                Event::Input(host, number, Input::Answer(name.clone(), request.id, failed)),
            );
        }
        if !self.hosts[host].has(Trouble::CutToServer) && !self.hosts[host].has(Trouble::LeasesCut) {
            let way = self.way(host);
            self.after(way, Event::Request(host, number, name, request));
        }
    }

    pub(super) fn serve(&mut self, host: usize, number: u64, name: LeaseName, request: LeaseRequest) {
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
        let (answer, seen) = self.server.apply(&name, request.kind);
        if let (LeaseName::Shard(shard), Some(Seen::Record(record))) = (&name, &seen) {
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
            self.checker.written(now, *shard, &record.content, healthy);
        }
        self.publish(&name, seen);
        self.answer(host, number, name, request.id, error.unwrap_or(answer));
    }

    pub(super) fn answer(&mut self, host: usize, number: u64, name: LeaseName, id: RequestId, answer: LeaseAnswer) {
        if self.hosts[host].has(Trouble::CutFromServer) {
            return;
        }
        self.line(|_| format!("host {host} is answered {name:?} {id:?} {answer:?}"));
        let way = self.way(host);
        self.after(way, Event::Input(host, number, Input::Answer(name, id, answer)));
    }

    pub(super) fn publish(&mut self, name: &LeaseName, seen: Option<Seen>) {
        let Some(seen) = seen else {
            return;
        };
        for host in 0..self.hosts.len() {
            self.deliver(host, name.clone(), seen.clone());
        }
    }

    /// Delivers to the watch of a host, unless it is cut off: then a relist follows.
    pub(super) fn deliver(&mut self, host: usize, name: LeaseName, seen: Seen) {
        let one = &self.hosts[host];
        if !one.has(Trouble::CutFromServer) && !one.has(Trouble::WatchStalls) {
            let at = self.in_order(host);
            self.at(at, Event::Watch(host, self.hosts[host].watch, name, seen));
        }
    }

    pub(super) fn in_order(&mut self, host: usize) -> Moment {
        let at = self.now + self.way(host);
        let at = at.max(self.hosts[host].delivered);
        self.hosts[host].delivered = at;
        at
    }

    /// Lists all Leases, and watches from there.
    pub(super) fn relist(&mut self, host: usize) {
        let one = &mut self.hosts[host];
        if one.has(Trouble::CutToServer) || one.has(Trouble::CutFromServer) || one.has(Trouble::WatchStalls) {
            return;
        }
        one.watch += 1;
        let watch = one.watch;
        one.delivered = self.now;
        let version = self.server.version();
        let mut names: BTreeSet<LeaseName> = one.known.clone();
        names.insert(LeaseName::Shard(0));
        names.extend(self.server.leases.keys().cloned());
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
}
