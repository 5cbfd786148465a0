//! Effects: allowed by the gate, sent, and arriving or cancelled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;

use super::super::clauses::{KEYS, key};
use super::super::faults::Trouble;
use super::super::process::Process;
use super::{Event, World};
use crate::ReplicaInput as Input;

/// Something that a process does to the world.
#[derive(Debug)]
pub(super) struct Effect {
    host: usize,
    process: u64,
    identity: Arc<str>,
    shard: u8,
    epoch: u32,
    key: usize,
    /// When its process cancels its request, in true time.
    request_end: Moment,
    is_cancelled: bool,
}

impl World {
    pub(super) fn try_effect(&mut self, host: usize, number: u64) {
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
    pub(super) fn begin_effect(&mut self, host: usize, believed: Moment) {
        let (now, number) = (self.now, self.hosts[host].number);
        let local = self.hosts[host].local(now);
        let number_of_key = self.rng.below(KEYS);
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let mut held = process.held();
        let of_key = held.find(|(shard, layout, _)| process.shard_of(*layout, &key(number_of_key)) == *shard);
        let permit = of_key.and_then(|(shard, _, election)| Some((shard, election.gate().permit(believed)?)));
        let Some((shard, permit)) = permit else {
            return;
        };
        drop(held);
        process.in_flight.entry(shard).or_default().insert(self.effects.len());
        self.effects.push(Effect {
            host,
            process: number,
            identity: Arc::clone(&process.identity),
            shard,
            epoch: permit.epoch,
            key: number_of_key,
            request_end: now + permit.request_end.since(local),
            is_cancelled: false,
        });
        let wait = self.rng.up_to(Duration::from_millis(5));
        self.after(wait, Event::Send(self.effects.len() - 1));
    }

    pub(super) fn send_effect(&mut self, effect: usize) {
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

    pub(super) fn end_effect(&mut self, effect: usize, arrives: bool) {
        let ended = &self.effects[effect];
        let (host, number, shard) = (ended.host, ended.process, ended.shard);
        if arrives && !ended.is_cancelled {
            let term = (shard, Arc::clone(&ended.identity), ended.epoch);
            self.checker.arrived(self.now, ended.key, term);
        }
        let in_flight = self.hosts[host]
            .process(number)
            .and_then(|process| process.in_flight.get_mut(&shard));
        if in_flight.is_some_and(|in_flight| in_flight.remove(&effect)) {
            self.ended_effects(host, shard);
        }
    }

    pub(super) fn cancel_effects(&mut self, host: usize, number: u64, shard: u8) {
        if self.hosts[host].has(Trouble::Paused) {
            return self.after(self.times.retry / 10, Event::CancelEffects(host, number, shard));
        }
        let process = self.hosts[host]
            .process(number)
            .filter(|process| process.is_handing_over(shard));
        let in_flight = process.and_then(|process| process.in_flight.remove(&shard));
        for effect in in_flight.unwrap_or_default() {
            self.effects[effect].is_cancelled = true;
        }
        self.ended_effects(host, shard);
    }

    /// Reports that a hand-over may continue, if nothing is in flight.
    pub(super) fn ended_effects(&mut self, host: usize, shard: u8) {
        let number = self.hosts[host].number;
        let process = self.hosts[host].process.as_ref();
        let is_idle = |process: &Process| process.in_flight.get(&shard).is_none_or(BTreeSet::is_empty);
        if process.is_some_and(|process| process.is_handing_over(shard) && is_idle(process)) {
            self.after(Duration::ZERO, Event::Input(host, number, Input::HandedOver(shard)));
        }
    }
}
