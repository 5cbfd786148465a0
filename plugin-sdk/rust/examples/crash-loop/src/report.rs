//! Decides what to report about a container.

use crate::pod::ContainerStatus;

/// The reports about a container. The default is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reported {
    /// Whether the container is crash-looping.
    pub(crate) is_looping: bool,
    /// The number of OOM kills seen. A kill is missed if the container ends again before the next event.
    pub(crate) oom_kills: u32,
    /// The number of restarts at the last report of a crash loop.
    looping_at: Option<u32>,
    /// The number of restarts before the run whose OOM kill was reported last.
    oom_killed_at: Option<u32>,
}

impl Reported {
    /// Updates the state from the current status, and returns the new reports.
    ///
    /// A crash loop is reported once for each restart, from `min_restarts` on. An OOM kill is reported once for each
    /// run.
    pub(crate) fn update(&mut self, container: &ContainerStatus, min_restarts: u32) -> Vec<String> {
        let restarts = container.restart_count;
        // After a restart of the kubelet, the count of a container may start again from a lower number.
        if self
            .looping_at
            .max(self.oom_killed_at)
            .is_some_and(|reported| restarts < reported)
        {
            *self = Self::default();
        }
        let mut reports = Vec::new();
        for (run, ended) in container.ended_runs() {
            if ended.reason == "OOMKilled" && self.oom_killed_at.is_none_or(|reported| run > reported) {
                self.oom_killed_at = Some(run);
                self.oom_kills += 1;
                let (code, times) = (ended.exit_code, times(self.oom_kills));
                reports.push(format!(
                    "was OOM-killed: exit code {code}, seen {times}, {}",
                    count(restarts)
                ));
            }
        }
        self.is_looping = container.is_backing_off() && restarts >= min_restarts;
        if self.is_looping && self.looping_at.is_none_or(|reported| restarts > reported) {
            self.looping_at = Some(restarts);
            let how = container.ended_runs().last().map(|(_, ended)| ended);
            let how = how.map(|ended| format!(", last exit code {} ({})", ended.exit_code, ended.reason));
            reports.push(format!(
                "is crash-looping: {}{}",
                count(restarts),
                how.unwrap_or_default()
            ));
        }
        reports
    }
}

fn count(restarts: u32) -> String {
    if restarts == 1 {
        "1 restart".to_owned()
    } else {
        format!("{restarts} restarts")
    }
}

fn times(number: u32) -> String {
    if number == 1 {
        "once".to_owned()
    } else {
        format!("{number} times")
    }
}
