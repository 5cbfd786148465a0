//! Faults of the server, its watches and its answers.

use std::sync::Arc;
use std::time::Duration;

use informant_apiserver::{Action, Answer, Ending, Filter, Injection, Rule};

use super::super::watched::Watched;
use super::super::world::{locked, version_of};
use super::Schedule;

/// A restore takes back at least this many versions: there must be time for sources to notice it before the server has
/// the same version again.
const RESTORED_WRITES_MIN: u64 = 6;

impl Schedule {
    pub(super) fn fault(&mut self) {
        let name = match self.rng.below(12) {
            0..4 => self.watch_fault(),
            4..7 => self.server_fault(),
            _ => self.request_fault(),
        };
        self.world.note(name);
    }

    /// A fault of the open watches.
    fn watch_fault(&mut self) -> String {
        let (faults, any) = (self.world.server().faults(), Filter::any());
        match self.rng.below(6) {
            5 => self.replay_the_past(),
            0 | 1 => {
                let endings = [
                    Ending::Clean,
                    Ending::Reset,
                    Ending::MidLine,
                    Ending::MidLineClean,
                    Ending::Expired,
                ];
                let ending = self.rng.pick(&endings);
                faults.drop_watches(&any, ending);
                format!("drop watches: {ending:?}")
            }
            2 => {
                faults.freeze_watches(&any);
                "freeze watches".into()
            }
            3 => {
                faults.thaw_watches(&any);
                "thaw watches".into()
            }
            _ => {
                let injections = [Injection::Garbage, Injection::NotJson, Injection::UnknownType];
                let injection = &injections[self.rng.below(3) as usize];
                faults.inject(&any, injection);
                format!("inject {injection:?}")
            }
        }
    }

    /// Watches send a state again that is older than what their informers have seen, as after a reconnect to a server
    /// with an older history. Not among the initial events of a WatchList: those are a list, and no API server shows an
    /// older state there.
    fn replay_the_past(&mut self) -> String {
        let newest_of = |watched: &Arc<Watched>| watched.stored().iter().map(|object| object.version).max();
        let informers = self.world.informers();
        let seen = informers.iter().map(newest_of).min().flatten().unwrap_or(0);
        let past: Vec<_> = {
            let all = locked(&self.world.past);
            all.iter()
                .filter(|state| version_of(state).version < seen)
                .cloned()
                .collect()
        };
        if past.is_empty() {
            return "no older state to send again".into();
        }
        let state = &past[self.rng.below(past.len() as u64) as usize];
        let line = serde_json::json!({"type": "MODIFIED", "object": state}).to_string();
        let all_namespaces = Filter::any().namespace("");
        self.world
            .server()
            .faults()
            .inject(&all_namespaces, &Injection::RawAfterInitialEvents(line));
        format!("send {} again", version_of(state))
    }

    /// A fault of the server.
    fn server_fault(&mut self) -> String {
        if self.restores && self.rng.percent(30) {
            return self.back_up_or_restore();
        }
        let faults = self.world.server().faults();
        match self.rng.below(10) {
            0..3 => {
                faults.compact();
                "compact".into()
            }
            3 => {
                let revision = self.world.server().revision();
                let before = revision.saturating_sub(self.rng.below(5));
                faults.compact_before(before);
                format!("compact before {before}")
            }
            _ => {
                let down = Duration::from_millis(self.rng.below(5_000));
                let empty = self.rng.percent(50);
                faults.restart(down, empty);
                format!("restart for {down:?}, history emptied: {empty}")
            }
        }
    }

    /// Takes a backup; once enough was written since, the server's database goes back to it.
    fn back_up_or_restore(&mut self) -> String {
        let revision = self.world.server().revision();
        match self.backup.take() {
            Some(backup) if backup.revision() + RESTORED_WRITES_MIN <= revision => {
                self.world.restore(&backup, self.rng.below(u64::MAX));
                let down = Duration::from_millis(self.rng.below(5_000));
                self.world.server().faults().restart(down, true);
                format!(
                    "back to version {} from {revision}, down for {down:?}",
                    backup.revision()
                )
            }
            backup => {
                let backup = backup.unwrap_or_else(|| self.world.server().snapshot());
                let name = format!("a backup of version {}", backup.revision());
                self.backup = Some(backup);
                name
            }
        }
    }

    /// A fault of the next requests.
    fn request_fault(&mut self) -> String {
        let times = 1 + self.rng.below(3) as u32;
        let filter = match self.rng.below(4) {
            0 => Filter::any().verb("list"),
            1 => Filter::any().verb("watch"),
            _ => Filter::any(),
        };
        let action = match self.rng.below(9) {
            0 => Action::DelayMs(self.rng.below(20_000)),
            1 => Action::CutBodyBytes(self.rng.below(2_000) as usize),
            2 => Action::SplitFramesBytes(1 + self.rng.below(300) as usize),
            3 => Action::Freeze,
            4 => Action::LoseAnswer,
            _ => Action::Answer(self.answer()),
        };
        let verb = filter.verb.clone().unwrap_or_default();
        let name = format!("the next {times} {verb} requests: {action:?}");
        self.world.server().faults().rule(Rule {
            filter,
            times: Some(times),
            action,
        });
        name
    }

    fn answer(&mut self) -> Answer {
        match self.rng.below(8) {
            0 => Answer::too_many_requests(2),
            1 => Answer::internal_error(),
            2 => Answer::expired(),
            3 => Answer::html(200),
            4 => Answer::html(502),
            5 => Answer::forbidden("scripted"),
            6 => Answer::unauthorized(),
            _ => Answer::Reset,
        }
    }
}
