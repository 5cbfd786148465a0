//! What is news about a container.

use crate::pod::ContainerStatus;

/// What was said of a container. The default is: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Whether it was crash-looping when last looked at.
    pub(crate) is_looping: bool,
    /// How often it was seen OOM-killed. A kill between two looks, with another end after it, is not seen.
    pub(crate) oom_kills: u32,
    /// The restarts it had when it was last reported as crash-looping.
    looping_at: Option<u32>,
    /// The restarts before the run whose OOM kill was reported last.
    oom_killed_at: Option<u32>,
}

impl Known {
    /// Takes in what the container is like now, and gives one line for each piece of news.
    ///
    /// A crash loop is news once for each restart, from `min_restarts` on; an OOM kill is news once for each run.
    pub(crate) fn look_at(&mut self, container: &ContainerStatus, min_restarts: u32) -> Vec<String> {
        let restarts = container.restart_count;
        // The kubelet counts from what it still remembers of a container: after it was restarted itself, perhaps from
        // 0.
        if self
            .looping_at
            .max(self.oom_killed_at)
            .is_some_and(|said| restarts < said)
        {
            *self = Self::default();
        }
        let mut news = Vec::new();
        for (run, ended) in container.ended_runs() {
            if ended.reason == "OOMKilled" && self.oom_killed_at.is_none_or(|said| run > said) {
                self.oom_killed_at = Some(run);
                self.oom_kills += 1;
                let (code, times) = (ended.exit_code, times(self.oom_kills));
                news.push(format!(
                    "was OOM-killed: exit code {code}, seen {times}, {}",
                    count(restarts)
                ));
            }
        }
        self.is_looping = container.is_backing_off() && restarts >= min_restarts;
        if self.is_looping && self.looping_at.is_none_or(|said| restarts > said) {
            self.looping_at = Some(restarts);
            let how = container.ended_runs().last().map(|(_, ended)| ended);
            let how = how.map(|ended| format!(", last exit code {} ({})", ended.exit_code, ended.reason));
            news.push(format!(
                "is crash-looping: {}{}",
                count(restarts),
                how.unwrap_or_default()
            ));
        }
        news
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
