//! The first page of the dashboard: whether all is well, and the last hour.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::admin::plugins::{self, PluginView};
use crate::admin::stream::rows;
use crate::admin::{AdminState, health};
use crate::daemon::history::{POINTS_MAX, STEP, ShownSeries};
use crate::daemon::{ReplicasStatus, StatusRegistry};
use crate::memory_limit::memory_limit_bytes;
use crate::metrics::resident_bytes;
use crate::replicas::pod_of;
use crate::runbooks;

/// Problems that are listed: 50. The last line says how many more there are.
const PROBLEMS_MAX: usize = 50;

/// After the first message, the points of these steps are sent, so that a late one is not missed.
const POINTS_AGAIN: usize = 2;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Overview {
    pub(crate) time: String,
    pub(crate) version: String,
    /// This replica; null without `[ha]`.
    pub(crate) pod: Option<String>,
    pub(crate) ready: bool,
    /// What readiness waits for.
    pub(crate) not_ready: Vec<String>,
    pub(crate) configuration: ConfigurationState,
    pub(crate) problems: Vec<Problem>,
    pub(crate) memory: Memory,
    pub(crate) counts: Counts,
    /// Left out by clients that print the others.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub(crate) series: serde_json::Value,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ConfigurationState {
    pub(crate) path: String,
    pub(crate) state: String,
    pub(crate) problem: Option<String>,
    pub(crate) code: Option<String>,
}

/// Something that somebody should look at.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    pub(crate) text: String,
    /// The runbook: `informant explain CODE`.
    pub(crate) code: Option<String>,
    pub(crate) plugin: Option<String>,
    pub(crate) source: Option<u32>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Memory {
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) cache_bytes: usize,
    pub(crate) cache_max_bytes: Option<usize>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Counts {
    pub(crate) plugins: usize,
    pub(crate) plugins_not_well: usize,
    pub(crate) sources: usize,
    pub(crate) sources_not_live: usize,
    pub(crate) objects: usize,
    pub(crate) dead_letters: usize,
}

/// The overview, first with the whole hour, then with each new point. `sent`: the time of the last point, in seconds.
pub(super) fn message(state: &AdminState, sent: &mut u64) -> Option<String> {
    let is_first = *sent == 0;
    let points = if is_first { POINTS_MAX } else { POINTS_AGAIN };
    let series = state.registry.history().of_process(points);
    let end = series
        .end
        .map_or(1, |end| u64::try_from(end.as_second()).unwrap_or(1).max(1));
    if !is_first && end == *sent {
        return None;
    }
    *sent = end;
    Some(json!(overview(state, &series)).to_string())
}

/// Series as JSON.
pub(in crate::admin) fn series_json(series: &ShownSeries) -> serde_json::Value {
    json!({
        "stepSeconds": STEP.as_secs(),
        "end": series.end.map(|end| end.to_string()),
        "names": series.names,
        "values": series.values,
    })
}

fn overview(state: &AdminState, series: &ShownSeries) -> Overview {
    let registry = &state.registry;
    let (plugins, sources) = (plugins::views(state), rows::source_rows(state));
    let mut counts = Counts {
        plugins: plugins.len(),
        sources: sources.len(),
        ..Counts::default()
    };
    let configuration = configuration(registry);
    let mut problems = Vec::new();
    if let Some(problem) = &configuration.problem {
        problems.push(Problem {
            text: format!("config.toml is {}: {problem}", configuration.state),
            code: configuration.code.clone(),
            ..Problem::default()
        });
    }
    for plugin in &plugins {
        let of_plugin = plugin_problems(plugin);
        counts.plugins_not_well += usize::from(!of_plugin.is_empty());
        counts.dead_letters += plugin.loaded.as_ref().map_or(0, |loaded| loaded.dead_letters);
        problems.extend(of_plugin);
    }
    for source in &sources {
        let problem = source.problem();
        counts.sources_not_live += usize::from(problem.is_some());
        counts.objects += source.objects();
        problems.extend(problem.map(|(text, code, source)| Problem {
            text,
            code,
            source,
            ..Problem::default()
        }));
    }
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    if more > 0 {
        problems.truncate(PROBLEMS_MAX);
        problems.push(Problem {
            text: format!("{more} more problems"),
            ..Problem::default()
        });
    }
    let budget = registry.catalog().budget();
    Overview {
        time: format!("{:.0}", Timestamp::now()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pod: match registry.replicas() {
            ReplicasStatus::Joined(group) => Some(pod_of(&group.identity).to_owned()),
            ReplicasStatus::Alone | ReplicasStatus::NotJoined { .. } => None,
        },
        ready: health::is_ready(registry),
        not_ready: health::not_ready(registry),
        configuration,
        problems,
        memory: Memory {
            resident_bytes: resident_bytes(),
            limit_bytes: memory_limit_bytes(Path::new("/")),
            cache_bytes: budget.used_bytes(),
            cache_max_bytes: budget.max_bytes(),
        },
        counts,
        series: series_json(series),
    }
}

fn configuration(registry: &StatusRegistry) -> ConfigurationState {
    let configuration = registry.configuration().clone();
    let waiting = configuration.waiting.iter().next();
    let waiting = waiting.map(|(section, reason)| format!("[{section}] is pending: {reason}"));
    let problem = configuration.unreadable.as_ref().map(ToString::to_string);
    let problem = problem
        .or_else(|| configuration.refused.as_ref().map(ToString::to_string))
        .or(waiting);
    ConfigurationState {
        path: configuration.path.display().to_string(),
        state: configuration.state().to_owned(),
        code: problem.as_ref().map(|_| runbooks::CONFIG_NOT_APPLIED.code.to_owned()),
        problem,
    }
}

/// What is wrong with a plugin, the worst first.
fn plugin_problems(plugin: &PluginView) -> Vec<Problem> {
    let name = &plugin.name;
    let mut problems = Vec::new();
    let mut add = |text: String, code: Option<&str>| {
        problems.push(Problem {
            text,
            code: code.map(str::to_owned),
            plugin: Some(name.clone()),
            source: None,
        });
    };
    let is_well = matches!(plugin.state.as_str(), "running" | "paused" | "standby" | "draining");
    if !is_well {
        let because = plugin
            .because
            .as_ref()
            .map_or_else(String::new, |because| format!(": {because}"));
        add(format!("{name} is {}{because}", plugin.state), plugin.code.as_deref());
    }
    for remark in plugins::remarks(plugin).iter().filter(|remark| remark.is_problem) {
        add(remark.sentence(), remark.code);
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwell_plugin_is_a_problem_with_its_runbook() {
        let plugin = |state: &str| PluginView {
            name: "greeter".to_owned(),
            state: state.to_owned(),
            because: Some("it crashed 5 times".to_owned()),
            code: Some("plugin-quarantined".to_owned()),
            ..PluginView::default()
        };
        assert_eq!(plugin_problems(&plugin("running")), []);
        let problems = plugin_problems(&plugin("quarantined"));
        assert_eq!(problems[0].text, "greeter is quarantined: it crashed 5 times");
        assert_eq!(problems[0].code.as_deref(), Some("plugin-quarantined"));
    }
}
