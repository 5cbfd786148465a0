//! How long events wait while a plugin is swapped.
//!
//! Events flow at a steady rate, while another version of the handler's component is put in place once a second. The
//! versions differ only in a custom section, and each was compiled before, so that only the swap is measured. The
//! handler logs each event with the time at which it was handled.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::Instant;

use super::control::StallMonitor;
use super::cores::Cores;
use super::figure::{median, thousands};
use super::rig::Rig;
use super::subject;
use super::targets;
use super::waits::{Handled, Waits};
use crate::daemon::Daemon;
use crate::{guests, wait};

/// Updates per second.
const EVENTS_PER_SECOND: u32 = 1_000;

/// How often the component is replaced.
const SWAP_EVERY: Duration = Duration::from_secs(1);

/// For how many seconds the wait without swaps is measured.
const USUAL_SECONDS: u32 = 10;

/// The deadline for the last events, and for a swap.
const DONE_WITHIN: Duration = Duration::from_secs(30);

/// The results of one round.
pub(super) struct Swaps {
    usual: Waits,
    with_swaps: Waits,
    swaps: u32,
    events: usize,
    /// Events that were written but not handled.
    lost: usize,
    /// From the file being in place to the new version running, the median of the swaps.
    took_us: f64,
    /// The longest wait of the events around each swap, their median.
    longest_us: f64,
}

/// When a file was put in place, and when its version ran, in microseconds since 1970.
type Swap = (u64, u64);

/// Measures one round of `swaps` swaps with `objects` pods.
pub(super) async fn measure(cores: &Cores, objects: u32, swaps: u32) -> Result<Swaps> {
    let mut rig = Rig::filled(cores, false, objects).await?;
    let folder = rig.cluster.folder().to_owned();
    let versions = guests::two_versions("guest-measured", &folder)?;
    let component = folder.join("measured.wasm");
    put_in_place(&versions[0], &component)?;
    let config = subject::swap_config(&component);
    let kubeconfig = rig.cluster.kubeconfig();
    let daemon = Daemon::start_under(&cores.subject(), &folder, &kubeconfig, &config).await?;
    daemon.wait_until_ready().await?;
    subject::wait_until_it_runs(&daemon).await?;
    // Both versions are compiled and have run once.
    for version in [&versions[1], &versions[0]] {
        swap(&daemon, version, &component).await?;
    }
    let control = StallMonitor::start(cores);
    let from = daemon.process().line_count();
    rig.load.paced(EVENTS_PER_SECOND, USUAL_SECONDS).await?;
    let usual = handled(&daemon, from, EVENTS_PER_SECOND * USUAL_SECONDS).await?;
    let from = daemon.process().line_count();
    let seconds = swaps + 1;
    let (loaded, swapped) = tokio::join!(
        rig.load.paced(EVENTS_PER_SECOND, seconds),
        swap_repeatedly(&daemon, &versions, &component, swaps)
    );
    loaded?;
    let swapped = swapped?;
    let expected = EVENTS_PER_SECOND * seconds;
    let events = handled(&daemon, from, expected).await?;
    let stalls = control.end()?;
    let waits = |events: &[Handled]| Waits::of(events, &stalls, targets::SWAP_WAIT_US);
    Ok(Swaps {
        usual: waits(&usual),
        with_swaps: waits(&events),
        swaps,
        events: events.len(),
        lost: (expected as usize).saturating_sub(events.len()),
        took_us: median(swapped.iter().map(|(put, ran)| (ran - put) as f64).collect()).unwrap_or(f64::NAN),
        longest_us: median(longest(&swapped, &events)).unwrap_or(f64::NAN),
    })
}

fn put_in_place(from: &Path, to: &Path) -> Result<()> {
    let temporary = to.with_extension("new");
    std::fs::copy(from, &temporary).with_context(|| format!("copying {}", from.display()))?;
    Ok(std::fs::rename(&temporary, to)?)
}

async fn swap_repeatedly(daemon: &Daemon, versions: &[PathBuf; 2], component: &Path, swaps: u32) -> Result<Vec<Swap>> {
    let begin = Instant::now();
    let mut made = Vec::new();
    for number in 0..swaps {
        tokio::time::sleep_until(begin + SWAP_EVERY * number + SWAP_EVERY / 2).await;
        let next = usize::from(number % 2 == 0);
        made.push(swap(daemon, &versions[next], component).await?);
    }
    Ok(made)
}

async fn swap(daemon: &Daemon, version: &Path, component: &Path) -> Result<Swap> {
    let from = daemon.process().line_count();
    let put = super::since_1970_us();
    put_in_place(version, component)?;
    let is_swapped = |line: &str| line.contains("\"plugin reloaded\"").then_some(());
    let process = daemon.process();
    process
        .wait_for_line_after(from, "a swap", DONE_WITHIN, is_swapped)
        .await?;
    Ok((put, super::since_1970_us()))
}

/// The events handled since line `from` of the log, once there are `expected` ones or none arrive any longer.
pub(super) async fn handled(daemon: &Daemon, from: usize, expected: u32) -> Result<Vec<Handled>> {
    let count = || daemon.process().lines(from, event).len();
    let all = wait::until("the last events", DONE_WITHIN, async || match count() {
        count if count >= expected as usize => Ok(()),
        count => Err(format!("{count} of {expected} events")),
    });
    // Events that are missing by then are lost, and reported as lost.
    all.await.ok();
    let events = daemon.process().lines(from, event);
    ensure!(!events.is_empty(), "no event was handled\n{}", daemon.process().tail());
    Ok(events)
}

/// The event in a line of the log of a handler with `config = { each = true }`.
pub(super) fn event(line: &str) -> Option<Handled> {
    if !line.contains("written_us") {
        return None;
    }
    let line: Value = serde_json::from_str(line).ok()?;
    serde_json::from_str(line.get("fields")?.get("message")?.as_str()?).ok()
}

/// The longest wait of the events around each swap.
fn longest(swaps: &[Swap], events: &[Handled]) -> Vec<f64> {
    let around = |(put, ran): &Swap| {
        let during = events
            .iter()
            .filter(|event| event.handled_us >= *put && event.written_us <= *ran);
        during.map(Handled::wait_us).max()
    };
    swaps.iter().filter_map(around).map(|wait| wait as f64).collect()
}

/// The medians of all rounds, in Markdown.
pub(super) fn section(rounds: &[Swaps]) -> String {
    if rounds.is_empty() {
        return String::new();
    }
    let waits = |pick: fn(&Swaps) -> Waits| Waits::median(&rounds.iter().map(pick).collect::<Vec<_>>());
    let (usual, with_swaps) = (waits(|round| round.usual), waits(|round| round.with_swaps));
    let of = |pick: fn(&Swaps) -> f64| median(rounds.iter().map(pick).collect()).unwrap_or(f64::NAN) / 1e3;
    let swaps: u32 = rounds.iter().map(|round| round.swaps).sum();
    let (events, lost) = rounds.iter().fold((0, 0), |(events, lost), round| {
        (events + round.events, lost + round.lost)
    });
    let mut text = format!(
        "\n## Swapping a plugin whose artifact is cached\n\n\
         {} events a second; once a second, another version of the component is put in place (`on-reload = \"continue\"`). \
         Time from write to handler:\n\n| | p50 | p99 | p99.9 | longest |\n|---|---|---|---|---|\n",
        thousands(f64::from(EVENTS_PER_SECOND))
    );
    for (label, waits) in [("no swaps", usual), ("with swaps", with_swaps)] {
        let cells = [waits.p50_us, waits.p99_us, waits.p999_us, waits.max_us].map(|us| format!("{:.2} ms", us / 1e3));
        let _ = writeln!(text, "| {label} | {} |", cells.join(" | "));
    }
    let valid = with_swaps.excluded <= targets::EXCLUDED_SHARE_MAX;
    let met = if valid {
        targets::word(with_swaps.in_time >= 0.999)
    } else {
        "**unknown**"
    };
    let _ = writeln!(
        text,
        "\n{swaps} swaps in {} round(s), {} events, {lost} not handled. A version ran {:.0} ms after its file was in place. The longest \
         wait around a swap was {:.1} ms (median). {:.3} % of the events waited less than {:.0} ms (at least 99.9 %: {met}). \
         Excluded because a control thread stalled for more than 10 ms: {:.1} % of the intervals of 50 ms (at most {:.0} %).",
        rounds.len(),
        thousands(events as f64),
        of(|round| round.took_us),
        of(|round| round.longest_us),
        100.0 * with_swaps.in_time,
        targets::SWAP_WAIT_US / 1e3,
        100.0 * with_swaps.excluded,
        100.0 * targets::EXCLUDED_SHARE_MAX,
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_wait_is_found_around_each_swap() {
        let event = |written_us, handled_us| Handled { written_us, handled_us };
        let events = [
            event(0, 9_000),
            event(10_000, 10_400),
            event(11_000, 14_000),
            event(30_000, 31_000),
        ];
        assert_eq!(longest(&[(10_100, 12_000)], &events), [3_000.0]);
    }

    #[test]
    fn a_logged_event_is_found_among_other_lines() {
        let line = r#"{"level":"INFO","fields":{"message":"{\"written_us\":5,\"handled_us\":7}","plugin":"measured"}}"#;
        assert_eq!(event(line).map(|event| event.wait_us()), Some(2));
        assert!(event(r#"{"fields":{"message":"plugin reloaded"}}"#).is_none());
    }
}
