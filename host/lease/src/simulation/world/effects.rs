//! Effects: allowed by the gate, sent, and arriving or cancelled.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;

use super::super::faults::Trouble;
use super::{Event, World};
use crate::simulated::Input;

/// Something that a process does to the world.
#[derive(Debug)]
pub(super) struct Effect {
    host: usize,
    process: u64,
    identity: Arc<str>,
    epoch: u32,
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
        let (host, number) = (ended.host, ended.process);
        if arrives && !ended.is_cancelled {
            self.checker.arrived(self.now, &ended.identity, ended.epoch);
        }
        let process = self.hosts[host].process(number);
        if process.is_some_and(|process| process.in_flight.remove(&effect)) {
            self.ended_effects(host);
        }
    }

    pub(super) fn cancel_effects(&mut self, host: usize, number: u64) {
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
    pub(super) fn ended_effects(&mut self, host: usize) {
        let number = self.hosts[host].number;
        let process = self.hosts[host].process.as_ref();
        if process.is_some_and(|process| process.is_handing_over() && process.in_flight.is_empty()) {
            self.after(Duration::ZERO, Event::Input(host, number, Input::HandedOver));
        }
    }
}
