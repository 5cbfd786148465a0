//! The lines above the tables: how the daemon is, in all.

use super::columns::{SortBy, rate, size};
use super::known::{Known, is_live};
use crate::admin::{Memory, Overview};
use crate::cli::plugin::bytes;
use crate::cli::{count, table};
use crate::escape;

/// `informant-0: ready, 12.5 calls/s, lag 0ms, CPU 0.031, memory 84MiB of 512MiB`, and what there is.
pub(super) fn lines(known: &Known) -> [String; 2] {
    [activity(known), contents(known)]
}

/// Of plugins the sum, and the largest lag.
fn activity(known: &Known) -> String {
    let plugins = known.plugins((SortBy::Name, false));
    let (mut calls, mut cpu, mut lag_ms) = (0.0, 0.0, 0);
    for plugin in plugins {
        calls += plugin.per_second.unwrap_or_default();
        cpu += plugin.cpu.unwrap_or_default();
        lag_ms = lag_ms.max(plugin.lag_ms);
    }
    let activity = format!(
        "{} calls/s, lag {}, CPU {cpu:.3}",
        rate(Some(calls)),
        table::duration(lag_ms)
    );
    let Some(overview) = &known.overview else {
        return format!("informant: {activity}");
    };
    let name = escape::line(overview.pod.as_deref().unwrap_or("informant"));
    let ready = if overview.ready { "ready" } else { "not ready" };
    let Memory {
        resident_bytes,
        limit_bytes,
        ..
    } = &overview.memory;
    let memory = resident_bytes.map(|resident| format!(", memory {}{}", bytes(resident), of(limit_bytes.map(bytes))));
    format!("{name}: {ready}, {activity}{}", memory.unwrap_or_default())
}

/// `3 plugins, 2 sources (1 not live), 1204 objects, 13.0 events/s, cache 12MiB of 64MiB`
fn contents(known: &Known) -> String {
    let sources = known.sources();
    let (mut objects, mut events, mut not_live) = (0, 0.0, 0);
    for source in &sources {
        objects += source.objects;
        events += source.per_second.unwrap_or_default();
        not_live += usize::from(!is_live(source));
    }
    let not_live = match not_live {
        0 => String::new(),
        not_live => format!(" ({not_live} not live)"),
    };
    let cache = known.overview.as_ref().map(|overview| {
        let memory = &overview.memory;
        format!(
            ", cache {}{}",
            size(memory.cache_bytes),
            of(memory.cache_max_bytes.map(size))
        )
    });
    format!(
        "{}, {}{not_live}, {}, {} events/s{}",
        count(known.plugins((SortBy::Name, false)).len(), "plugin"),
        count(sources.len(), "source"),
        count(objects, "object"),
        rate(Some(events)),
        cache.unwrap_or_default(),
    )
}

/// ` of 512MiB`, if there is a limit.
fn of(max: Option<String>) -> String {
    max.map_or_else(String::new, |max| format!(" of {max}"))
}

/// What somebody should look at first: a lost connection, what readiness waits for, a problem.
pub(super) fn alert(known: &Known) -> Option<String> {
    let text = match (&known.lost, &known.overview) {
        (Some(why), _) => format!("Connection lost, trying again: {why}"),
        (None, Some(overview)) => trouble(overview)?,
        (None, None) => return None,
    };
    Some(escape::line(&text).into_owned())
}

fn trouble(overview: &Overview) -> Option<String> {
    if let Some(first) = overview.problems.first() {
        let more = match overview.problems.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more: informant status)"),
        };
        return Some(format!("{}{more}", first.text));
    }
    let waits = overview.not_ready.join(", ");
    (!overview.ready && !waits.is_empty()).then(|| format!("Not ready: {waits}"))
}
