//! What is to be said about a loaded plugin, for `informant status`, `informant plugin list` and the dashboard: what is
//! wrong with it, and what its events wait for.

use informant_cache::listener::SUSPECT_SHARE_PERCENT;

use super::{LoadedView, PluginView, RetryView};
use crate::age;
use crate::phrase::{count, in_cluster};
use crate::runbooks::{self, Runbook};

/// Shorter calls are not worth a remark: 1 s.
const STUCK_MS: u64 = 1_000;

/// Failing for less is no problem yet, as most failures pass: 60 s.
const FAILING_MS: u64 = 60_000;

/// A sentence about a plugin.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Remark {
    /// Begins with the name of the plugin, and has no ages.
    pub(crate) text: String,
    /// ` for 3s`, ` 2m ago`; empty if it does not matter.
    pub(crate) age: String,
    /// What it is about, one line each.
    pub(crate) details: Vec<String>,
    /// The command that tells more, or helps.
    pub(crate) command: Option<String>,
    pub(crate) code: Option<&'static str>,
    /// Whether somebody should look at it; otherwise it passes.
    pub(crate) is_problem: bool,
}

impl Remark {
    fn note(text: String) -> Remark {
        Remark {
            text,
            ..Remark::default()
        }
    }

    fn problem(text: String, runbook: Option<Runbook>) -> Remark {
        Remark {
            is_problem: true,
            code: runbook.map(|runbook| runbook.code),
            ..Remark::note(text)
        }
    }

    /// With its details, but without a command, which a page has buttons for.
    pub(super) fn with_details(&self) -> String {
        let lines = std::iter::once(self.sentence()).chain(self.details.iter().cloned());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// On one line.
    pub(crate) fn sentence(&self) -> String {
        format!("{}{}", self.text, self.age)
    }
}

/// What is to be said, the worst first. Its state and the reason for that are not repeated.
pub(crate) fn remarks(plugin: &PluginView) -> Vec<Remark> {
    let Some(loaded) = &plugin.loaded else {
        return Vec::new();
    };
    let name = &plugin.name;
    let notes = [
        (loaded.spaced > 0).then(|| {
            let objects = count(loaded.spaced, "object");
            format!("{name}: events of {objects} wait for the end of `min-interval`")
        }),
        (loaded.waiting > 0).then(|| {
            let objects = count(loaded.waiting, "object");
            format!("{name}: events of {objects} wait for a source or an index that was not ready")
        }),
        loaded.rate_held.then(|| format!("{name}: events wait for `max-rate`")),
        (loaded.requeues > 0).then(|| {
            let objects = count(loaded.requeues, "object");
            format!("{name} will be called for {objects} without a change: requeued or triggered")
        }),
    ];
    let compiling = loaded.compiling.as_ref();
    stuck(name, loaded)
        .into_iter()
        .chain(dry_run(name, loaded))
        .chain(retries(plugin, loaded))
        .chain(suspects(name, loaded))
        .chain(notes.into_iter().flatten().map(Remark::note))
        .chain(slowed(name, loaded))
        .chain(writes(name, loaded))
        .chain(closed_hosts(name, loaded))
        .chain(dead_letters(name, loaded))
        .chain(compiling.map(|what| Remark::note(format!("{name} has a new version: {what}"))))
        .chain(not_reloaded(name, loaded))
        .collect()
}

fn stuck(name: &str, loaded: &LoadedView) -> Option<Remark> {
    let stuck = loaded.stuck_on.as_ref().filter(|stuck| stuck.for_ms >= STUCK_MS)?;
    let object = stuck.object.as_ref().map_or(String::new(), |key| {
        format!(" of {}{}", object(&stuck.resource, key), in_cluster(&stuck.cluster))
    });
    let text = format!("{name} is stuck on {}{object}", stuck.event);
    Some(Remark {
        age: format!(" for {}", age::duration(stuck.for_ms)),
        ..Remark::problem(text, Some(runbooks::EVENTS_STUCK))
    })
}

fn dry_run(name: &str, loaded: &LoadedView) -> Option<Remark> {
    loaded.dry_run.then(|| Remark {
        command: Some(format!("`informant plugin effects {name}` lists it")),
        ..Remark::note(format!("{name} is in dry run: what it would change is withheld"))
    })
}

/// The keys under retry, and those of them that failed first.
fn retries(plugin: &PluginView, loaded: &LoadedView) -> Option<Remark> {
    let name = &plugin.name;
    let objects = (loaded.failing > 0).then(|| count(loaded.failing, "object"))?;
    if loaded.paused || plugin.state == "quarantined" {
        let text = format!("{name} failed on {objects}; it retries when it is resumed");
        return Some(Remark::note(text));
    }
    let has_more = loaded.failing > loaded.retries.len();
    let oldest = loaded.retries.iter().map(|retry| retry.age_ms).max();
    Some(Remark {
        command: has_more.then(|| format!("`informant plugin retries {name}` lists all")),
        details: loaded.retries.iter().map(retry).collect(),
        is_problem: oldest.is_some_and(|age| age >= FAILING_MS),
        ..Remark::problem(
            format!("{name} failed on {objects} and is retrying"),
            Some(runbooks::EVENTS_STUCK),
        )
    })
}

fn retry(retry: &RetryView) -> String {
    let object = match (&retry.timer, &retry.object) {
        (Some(timer), _) => format!("timer {timer}"),
        (None, Some(key)) => format!("{} of {}", retry.event, object(&retry.resource, key)),
        (None, None) => format!("{} of all objects", retry.event),
    };
    let cluster = in_cluster(&retry.cluster);
    let (attempts, age) = (retry.attempts, age::duration(retry.age_ms));
    let attempts = count(attempts, "attempt");
    let next = match retry.next_ms {
        // The limit of retries, or a call that runs, holds it.
        0 => "when it is its turn".to_owned(),
        wait => format!("in {}", age::duration(wait)),
    };
    let error = retry.error.lines().next().unwrap_or_default();
    format!("{object}{cluster}: {attempts} in {age}, next {next}: {error}")
}

/// The namespaces whose objects crashed the plugin or held it up, and what waits for that.
fn suspects(name: &str, loaded: &LoadedView) -> Option<Remark> {
    let first = loaded.suspect_namespaces.join(", ");
    let rest = match loaded.suspects.saturating_sub(loaded.suspect_namespaces.len()) {
        _ if loaded.suspects == 0 => return None,
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    let waiting = match loaded.suspect {
        0 => String::new(),
        1 => "; 1 object waits".to_owned(),
        many => format!("; {many} objects wait"),
    };
    let text = format!(
        "{name} crashed on or waited for objects of {first}{rest}; their calls get at most {SUSPECT_SHARE_PERCENT}% of \
         its time{waiting}"
    );
    Some(Remark::problem(text, Some(runbooks::EVENTS_STUCK)))
}

/// The objects whose requeues are spaced, and the first of them.
fn slowed(name: &str, loaded: &LoadedView) -> Option<Remark> {
    let objects = (loaded.slowed > 0).then(|| count(loaded.slowed, "object"))?;
    let first = loaded.slowed_objects.iter().map(|slowed| {
        let (object, cluster) = (object(&slowed.resource, &slowed.object), in_cluster(&slowed.cluster));
        let (requeues, next) = (slowed.requeues, age::duration(slowed.next_ms));
        format!("{object}{cluster}: {requeues} calls in a row, next in {next}")
    });
    let text = format!(
        "{name} keeps asking for calls for {objects} without a change; at least 10s pass between them: let it return a \
         longer delay, or none"
    );
    Some(Remark {
        details: first.collect(),
        ..Remark::problem(text, None)
    })
}

/// The deferred writes that wait, whether the API server asked for that, and the keys that are spaced.
fn writes(name: &str, loaded: &LoadedView) -> Vec<Remark> {
    let mut remarks = Vec::new();
    if loaded.writes_waiting > 0 {
        let events = count(loaded.writes_waiting_events, "event");
        let waiting = match loaded.writes_waiting {
            1 => format!("1 deferred write waits ({events})"),
            many => format!("{many} deferred writes wait ({events})"),
        };
        let pause = loaded.writes_paused_ms.map(age::duration);
        let pause = pause.map_or(String::new(), |pause| {
            format!("; the API server asked for a pause of {pause}")
        });
        remarks.push(Remark::note(format!("{name}: {waiting}{pause}")));
    }
    if loaded.writes_spaced > 0 {
        let objects = count(loaded.writes_spaced, "object");
        let text = format!(
            "{name} writes again and again when called for {objects}; calls are spaced: let it compare before it writes"
        );
        let keys = loaded.writes_spaced_keys.iter().map(|key| {
            let (object, cluster) = (object(&key.resource, &key.object), in_cluster(&key.cluster));
            let (target, wait) = (&key.target, age::duration(key.wait_ms));
            format!("{object}{cluster}: writes to {target}, {wait} between calls")
        });
        remarks.push(Remark {
            details: keys.collect(),
            ..Remark::problem(text, None)
        });
    }
    remarks
}

fn closed_hosts(name: &str, loaded: &LoadedView) -> Vec<Remark> {
    let closed = loaded.closed_hosts.iter().map(|closed| Remark {
        age: format!(" for {}", age::duration(closed.left_ms)),
        ..Remark::problem(
            format!("{name}: {} asked for a pause and is closed", closed.host),
            Some(runbooks::HTTP_HOST_CLOSED),
        )
    });
    closed.collect()
}

fn dead_letters(name: &str, loaded: &LoadedView) -> Option<Remark> {
    let letter = loaded.last_dead_letter.as_ref()?;
    let object = object(&letter.resource, &letter.object);
    let (event, error, cluster) = (&letter.event, &letter.error, in_cluster(&letter.cluster));
    let them = match loaded.dead_letters {
        ..=1 => "it".to_owned(),
        many => format!("all {many}, `informant plugin dead-letters {name}` lists them"),
    };
    Some(Remark {
        age: format!(", {} ago", age::ago(letter.age_ms)),
        command: Some(format!("`informant plugin requeue {name} --all` redelivers {them}")),
        ..Remark::problem(
            format!("{name} dead-lettered {event} of {object}{cluster}: {error}"),
            Some(runbooks::DEAD_LETTERS),
        )
    })
}

fn not_reloaded(name: &str, loaded: &LoadedView) -> Option<Remark> {
    let error = loaded.last_reload.as_ref()?.error.as_ref()?;
    let text = format!("{name} was not reloaded: {error}");
    Some(Remark::problem(text, Some(runbooks::PLUGIN_NOT_RELOADED)))
}

/// `v1/pods default/web-0`; the key alone if the source is gone.
fn object(resource: &str, key: &str) -> String {
    match resource {
        "" => key.to_owned(),
        resource => format!("{resource} {key}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_becomes_a_problem_after_a_minute() {
        let retrying = |age_ms| {
            let loaded = LoadedView {
                failing: 1,
                retries: vec![RetryView {
                    age_ms,
                    ..RetryView::default()
                }],
                ..LoadedView::default()
            };
            remarks(&PluginView {
                name: "greeter".to_owned(),
                loaded: Some(loaded),
                ..PluginView::default()
            })
        };
        assert_eq!([59_999, 60_000].map(|age| retrying(age)[0].is_problem), [false, true]);
    }
}
