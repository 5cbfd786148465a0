//! The first view of the dashboard in a browser, with many plugins and sources, while events arrive: how long it takes,
//! and the longest task of the page. Each page is opened in a browser of its own, with nothing cached.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::print;
use crate::bench::cores::Cores;
use crate::bench::figure::median;
use crate::bench::rig::Rig;
use crate::bench::{subject, targets};
use crate::browser::Browser;
use crate::daemon::Daemon;
use crate::guests;

const PLUGINS: usize = 200;
const SOURCES: usize = 500;

/// A cluster has at most 256 watches. These are the same one.
const CLUSTERS: [&str; 2] = ["east", "west"];

/// Pods that change while the page is open, and how many per second.
const PODS: u32 = 1_000;
const EVENTS_PER_SECOND: u32 = 100;

/// How long each page stays open.
const SECONDS: u32 = 6;

/// The files of the dashboard.
const FILES: [&str; 3] = ["/dashboard/", "/dashboard/app.js", "/dashboard/app.css"];

/// The pages, their addresses, and an element that each has once it shows the daemon's data.
const PAGES: [(&str, &str, &str); 3] = [
    ("overview", "", "main .tile strong"),
    ("plugins", "plugins", "main tbody tr td"),
    ("sources", "sources", "main tbody tr td"),
];

/// Notes when the element is there and painted, and the longest task. Tasks up to 50 ms are not reported to a page.
const OBSERVER: &str = "window.longest = 0; window.viewed = null;
    new PerformanceObserver((list) => {
        for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
    }).observe({ type: 'longtask', buffered: true });
    const look = () => {
        if (!document.querySelector(SELECTOR)) requestAnimationFrame(look);
        else requestAnimationFrame(() => setTimeout(() => { window.viewed = performance.now(); }));
    };
    requestAnimationFrame(look);";

/// Milliseconds.
struct View {
    first_ms: f64,
    /// 0: none was longer than 50 ms.
    longest_task_ms: f64,
}

/// Measures `rounds` rounds, and prints them. Returns whether the medians meet the targets.
pub(super) async fn measure(cores: &Cores, rounds: u32) -> Result<bool> {
    let mut rig = Rig::filled(cores, false, PODS).await?;
    let kubeconfig = rig.cluster.kubeconfig();
    let config = config(&kubeconfig)?;
    let daemon = Daemon::start_under(&cores.subject(), rig.cluster.folder(), &kubeconfig, &config).await?;
    daemon.wait_until_ready().await?;
    subject::wait_until_it_runs(&daemon).await?;
    println!("\npage: {PLUGINS} plugins, {SOURCES} sources, {EVENTS_PER_SECOND} events/s; all of it on all CPUs");
    let mut is_met = size(&daemon).await?;
    for (page, address, selector) in PAGES {
        let mut views = Vec::new();
        for _ in 0..rounds {
            views.push(view(cores, &mut rig, &daemon, (address, selector)).await?);
        }
        let of = |pick: fn(&View) -> f64| median(views.iter().map(pick).collect()).unwrap_or(f64::NAN);
        let (first, longest) = (of(|view| view.first_ms), of(|view| view.longest_task_ms));
        let each = |pick: fn(&View) -> f64| {
            let texts = views.iter().map(|view| format!("{:.0}", pick(view)));
            texts.collect::<Vec<_>>().join(", ")
        };
        let text = format!("{first:.0} ms ({})", each(|view| view.first_ms));
        is_met &= print(format!("first view of {page}"), &text, first, targets::FIRST_VIEW_MS);
        let text = match longest {
            0.0 => "none over 50 ms".to_owned(),
            _ => format!("{longest:.0} ms"),
        };
        let text = format!("{text} ({})", each(|view| view.longest_task_ms));
        is_met &= print(format!("longest task of {page}"), &text, longest, targets::PAGE_TASK_MS);
    }
    Ok(is_met)
}

/// One plugin handles the changing pods; the others have nothing to do.
fn config(kubeconfig: &Path) -> Result<String> {
    let mut text = subject::config_of("", &guests::component("guest-measured")?, "");
    for cluster in CLUSTERS {
        write!(text, "\n[cluster.{cluster}]\nkubeconfig = {kubeconfig:?}\n")?;
    }
    let component = guests::component("image-mark")?;
    for number in 1..SOURCES / CLUSTERS.len() {
        write!(
            text,
            "\n[informer.team-{number:03}]\nresource = \"v1/configmaps\"\nnamespaces = [\"team-{number:03}\"]\n"
        )?;
    }
    for number in 1..PLUGINS {
        write!(
            text,
            "\n[plugin.mark-{number:03}]\ncomponent = {component:?}\ninformers = [\"team-{number:03}\"]\n\
             allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/pods\", namespaces = [\"default\"] }}]\n"
        )?;
    }
    Ok(text)
}

/// Prints the size of what a browser loads, uncompressed.
async fn size(daemon: &Daemon) -> Result<bool> {
    let mut bytes = 0;
    for file in FILES {
        let (status, text) = daemon.http_get(file).await?;
        ensure!(status.is_success(), "GET {file}: {status}; is the dashboard built?");
        bytes += text.len();
    }
    Ok(print(
        "the dashboard's files",
        &format!("{bytes} bytes"),
        bytes as f64,
        targets::DASHBOARD_BYTES,
    ))
}

async fn view(cores: &Cores, rig: &mut Rig, daemon: &Daemon, (address, selector): (&str, &str)) -> Result<View> {
    let browser = Browser::start_under(&cores.all()).await?;
    browser.appear(false, 1600).await?;
    browser
        .before_each_page(&OBSERVER.replace("SELECTOR", &format!("{selector:?}")))
        .await?;
    let url = format!("http://{}/dashboard/#/{address}", daemon.address());
    // Pages that are opened by a driver are shown at once; the load continues meanwhile.
    let (opened, loaded) = tokio::join!(browser.open(&url), rig.load.paced(EVENTS_PER_SECOND, SECONDS));
    opened?;
    loaded?;
    let number = async |script: &str| {
        let value = browser.run(script).await?;
        match value.as_f64() {
            Some(number) => Ok(number),
            None => bail!(
                "{url}: `{script}` is {value}; the page shows\n{}",
                browser.text().await?
            ),
        }
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    let view = View {
        first_ms: number("return window.viewed").await?,
        longest_task_ms: number("return window.longest").await?,
    };
    browser.close().await?;
    Ok(view)
}
