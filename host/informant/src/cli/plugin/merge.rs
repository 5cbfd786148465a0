//! One row for each plugin, of what each replica has of it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::admin::plugins::{
    RETRIES_SHOWN_MAX, ReloadView, RetryView, SLOWED_SHOWN_MAX, SUSPECTS_SHOWN_MAX, SlowedView,
};
use crate::admin::{LoadedView, PluginView};

/// The state of a plugin where another replica acts.
const STANDBY: &str = "standby";

/// The states of plugins, the worst first.
const STATES: [&str; 12] = [
    "refused",
    "quarantined",
    "failing",
    "stopped",
    "draining",
    "restarting",
    "not-ready",
    "loading",
    "paused",
    "loaded",
    "running",
    STANDBY,
];

/// The plugins of all replicas, by name. A plugin is shown as where it acts, with the sums of its numbers and its worst
/// state.
pub(in crate::cli) fn merged(mut parts: Vec<(Option<String>, Vec<PluginView>)>) -> Vec<PluginView> {
    if let [(_, only)] = &mut parts[..] {
        return std::mem::take(only);
    }
    let mut by_name: BTreeMap<String, Vec<(String, PluginView)>> = BTreeMap::new();
    for (replica, plugins) in parts {
        let replica = replica.unwrap_or_default();
        for plugin in plugins {
            let views = by_name.entry(plugin.name.clone()).or_default();
            views.push((replica.clone(), plugin));
        }
    }
    by_name.into_values().filter_map(of_one).collect()
}

/// One plugin, in one replica or several.
fn of_one(views: Vec<(String, PluginView)>) -> Option<PluginView> {
    let (standby, acting): (Vec<_>, Vec<_>) = views.into_iter().partition(|(_, view)| view.state == STANDBY);
    let views = if acting.is_empty() { standby } else { acting };
    let (replica, worst) = views.iter().min_by_key(|(_, view)| badness(&view.state))?;
    let states_differ = views.iter().any(|(_, view)| view.state != worst.state);
    let reasons_differ = views.iter().any(|(_, view)| view.because != worst.because);
    let because = match &worst.because {
        Some(why) if states_differ || reasons_differ => Some(format!("on {replica}: {why}")),
        None if states_differ => Some(format!("on {replica}")),
        because => because.clone(),
    };
    let named = |replica: &str, problem: &str| match views.len() {
        1 => problem.to_owned(),
        _ => format!("{replica}: {problem}"),
    };
    let problems = views.iter().flat_map(|(replica, view)| {
        let problems = view.problems.iter();
        problems.map(|problem| named(replica, problem)).collect::<Vec<_>>()
    });
    let view = PluginView {
        because,
        problems: problems.collect(),
        loaded: None,
        ..worst.clone()
    };
    let loaded = views
        .into_iter()
        .filter_map(|(_, view)| view.loaded)
        .reduce(|mut all, one| {
            add(&mut all, one);
            all
        });
    Some(PluginView { loaded, ..view })
}

fn badness(state: &str) -> usize {
    STATES.iter().position(|known| *known == state).unwrap_or(STATES.len())
}

/// Adds what another replica has of the same plugin. What describes the component stays: it is that of the first one.
fn add(all: &mut LoadedView, one: LoadedView) {
    add_counters(all, &one);
    all.oldest_pending_ms = all.oldest_pending_ms.max(one.oldest_pending_ms);
    all.writes_paused_ms = all.writes_paused_ms.max(one.writes_paused_ms);
    all.rate_held |= one.rate_held;
    all.dry_run |= one.dry_run;
    all.paused |= one.paused;
    all.keyed |= one.keyed;
    all.compiling = all.compiling.take().or(one.compiling);
    all.kv = all.kv.or(one.kv);
    if all.timers.is_empty() {
        all.timers = one.timers;
    }
    add_lists(all, one.retries, one.slowed_objects, one.suspect_namespaces);
    all.writes_spaced_keys.extend(one.writes_spaced_keys);
    all.writes_spaced_keys.truncate(SLOWED_SHOWN_MAX);
    for closed in one.closed_hosts {
        match all.closed_hosts.iter_mut().find(|known| known.host == closed.host) {
            Some(known) => known.left_ms = known.left_ms.max(closed.left_ms),
            None => all.closed_hosts.push(closed),
        }
    }
    all.stuck_on = pick(all.stuck_on.take(), one.stuck_on, |call| call.for_ms);
    all.last_dead_letter = pick(all.last_dead_letter.take(), one.last_dead_letter, |letter| {
        newer(letter.age_ms)
    });
    all.last_error = pick(all.last_error.take(), one.last_error, |error| newer(error.age_ms));
    // One that was refused somewhere matters more.
    let order = |reload: &ReloadView| (reload.error.is_some(), newer(reload.age_ms));
    all.last_reload = pick(all.last_reload.take(), one.last_reload, order);
}

fn add_counters(all: &mut LoadedView, one: &LoadedView) {
    for (sum, number) in [
        (&mut all.cpu_ms, one.cpu_ms),
        (&mut all.kube_requests, one.kube_requests),
        (&mut all.kube_sent_bytes, one.kube_sent_bytes),
        (&mut all.kube_received_bytes, one.kube_received_bytes),
        (&mut all.effects, one.effects),
        (&mut all.restarts, one.restarts),
        (&mut all.reloads, one.reloads),
        (&mut all.delivered, one.delivered),
        (&mut all.coalesced, one.coalesced),
    ] {
        *sum = sum.saturating_add(number);
    }
    for (sum, number) in [
        (&mut all.memory_bytes, one.memory_bytes),
        (&mut all.instances, one.instances),
        (&mut all.pending, one.pending),
        (&mut all.in_flight, one.in_flight),
        (&mut all.failing, one.failing),
        (&mut all.spaced, one.spaced),
        (&mut all.waiting, one.waiting),
        (&mut all.suspect, one.suspect),
        (&mut all.suspects, one.suspects),
        (&mut all.requeues, one.requeues),
        (&mut all.slowed, one.slowed),
        (&mut all.writes_waiting, one.writes_waiting),
        (&mut all.writes_waiting_events, one.writes_waiting_events),
        (&mut all.writes_spaced, one.writes_spaced),
        (&mut all.dead_letters, one.dead_letters),
    ] {
        *sum = sum.saturating_add(number);
    }
}

/// The first objects of each list, as one replica shows them.
fn add_lists(all: &mut LoadedView, retries: Vec<RetryView>, slowed: Vec<SlowedView>, suspects: Vec<String>) {
    all.retries.extend(retries);
    all.retries.sort_by_key(|retry| Reverse(retry.age_ms));
    all.retries.truncate(RETRIES_SHOWN_MAX);
    all.slowed_objects.extend(slowed);
    all.slowed_objects.truncate(SLOWED_SHOWN_MAX);
    all.suspect_namespaces.extend(suspects);
    all.suspect_namespaces.sort_unstable();
    all.suspect_namespaces.dedup();
    all.suspect_namespaces.truncate(SUSPECTS_SHOWN_MAX);
}

/// The one with the greater order; the first of equal ones.
fn pick<T, O: Ord>(first: Option<T>, second: Option<T>, order: impl Fn(&T) -> O) -> Option<T> {
    match (first, second) {
        (Some(first), Some(second)) if order(&second) > order(&first) => Some(second),
        (first, second) => first.or(second),
    }
}

/// The greater, the less time ago.
fn newer(age_ms: u64) -> Reverse<u64> {
    Reverse(age_ms)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn plugin(state: &str, because: Option<&str>, loaded: Option<LoadedView>) -> PluginView {
        PluginView {
            name: "greeter".to_owned(),
            state: state.to_owned(),
            because: because.map(str::to_owned),
            informers: vec!["pods".to_owned()],
            loaded,
            ..PluginView::default()
        }
    }

    fn shown(views: Vec<PluginView>) -> String {
        let parts = views.into_iter().enumerate();
        let parts = parts.map(|(number, view)| (Some(format!("informant-{number}")), vec![view]));
        let mut out = Vec::new();
        super::super::show(&mut out, &merged(parts.collect())).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn loaded(pending: usize, oldest_pending_ms: Option<u64>, failing: &[u64]) -> LoadedView {
        let retry = |age_ms: &u64| RetryView {
            object: Some(format!("web/failing-for-{age_ms}")),
            event: "update".to_owned(),
            attempts: 2,
            error: "no such team".to_owned(),
            age_ms: *age_ms,
            ..RetryView::default()
        };
        LoadedView {
            instances: 1,
            pending,
            oldest_pending_ms,
            failing: failing.len(),
            retries: failing.iter().map(retry).collect(),
            ..LoadedView::default()
        }
    }

    #[test]
    fn rows_have_the_sums_of_all_replicas() {
        let views = vec![
            plugin("running", None, Some(loaded(3, Some(2_000), &[1_000, 3_000]))),
            plugin("running", None, Some(loaded(4, Some(9_000), &[4_000, 2_000]))),
            plugin("standby", None, Some(LoadedView::default())),
        ];
        insta::assert_snapshot!(shown(views), @"
        PLUGIN    STATE     INSTANCES   PENDING   OLDEST   DEAD   RESTARTS   RELOAD   INFORMERS
        greeter   running   2           7         9.0s     0      0          -        pods
        greeter failed on 4 objects and is retrying (`informant plugin retries greeter` lists all) (informant explain events-stuck)
          update of web/failing-for-4000: 2 attempts in 4.0s, next when it is its turn: no such team
          update of web/failing-for-3000: 2 attempts in 3.0s, next when it is its turn: no such team
          update of web/failing-for-2000: 2 attempts in 2.0s, next when it is its turn: no such team
        ");
    }

    #[test]
    fn the_worst_state_is_shown_with_its_replica() {
        let views = |second: PluginView| vec![plugin("running", None, Some(loaded(0, None, &[]))), second];
        insta::assert_snapshot!(shown(views(plugin("refused", Some("no such file"), None))), @"
        PLUGIN    STATE     INSTANCES   PENDING   OLDEST   DEAD   RESTARTS   RELOAD   INFORMERS
        greeter   refused   1           0         -        0      0          -        pods
        greeter is refused: on informant-1: no such file
        ");
        insta::assert_snapshot!(shown(views(plugin("paused", None, Some(loaded(5, None, &[]))))), @"
        PLUGIN    STATE    INSTANCES   PENDING   OLDEST   DEAD   RESTARTS   RELOAD   INFORMERS
        greeter   paused   2           5         -        0      0          -        pods
        greeter is paused: on informant-1
        ");
    }

    #[test]
    fn a_plugin_that_runs_once_is_shown_where_it_runs() {
        let views = vec![
            plugin("standby", Some("another replica acts"), Some(LoadedView::default())),
            plugin("running", None, Some(loaded(5, None, &[]))),
        ];
        insta::assert_snapshot!(shown(views), @"
        PLUGIN    STATE     INSTANCES   PENDING   OLDEST   DEAD   RESTARTS   RELOAD   INFORMERS
        greeter   running   1           5         -        0      0          -        pods
        ");
    }

    /// A new counter must be added, too.
    #[test]
    fn every_number_is_merged() {
        let mut document = serde_json::to_value(LoadedView::default()).unwrap();
        let numbers = document
            .as_object_mut()
            .unwrap()
            .values_mut()
            .filter(|value| value.is_number());
        numbers.for_each(|number| *number = 1.into());
        let one: LoadedView = serde_json::from_value(document.clone()).unwrap();
        let mut all = one.clone();
        add(&mut all, one);
        let sums = serde_json::to_value(all).unwrap();
        for (name, value) in document
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, value)| value.is_number())
        {
            assert_eq!(sums[name], Value::from(value.as_u64().unwrap() * 2), "{name}");
        }
    }
}
