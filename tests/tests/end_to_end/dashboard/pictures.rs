//! The pictures of the dashboard in the documentation.
//!
//! Two pictures of a page are never the same bytes: clocks, hashes and fonts differ. A picture is old if its outline
//! changed, the headings and labels that the page shows, which is in a file of its own; or if it looks different from
//! afar. `cargo xtask pictures` replaces both.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use informant_tests::browser::Browser;
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::objects::config_maps;
use informant_tests::{guests, pictures, readme, wait};
use serde_json::{Value, json};

use super::WITHIN;

const CONFIG: &str = r#"[informer.namespaces]
resource = "v1/namespaces"

[informer.workloads]
resource = "apps/v1/*"
exclude = ["apps/v1/replicasets", "apps/v1/controllerrevisions"]

[informer.configmaps]
resource = "v1/configmaps"
digest = ["/data", "/binaryData"]

[informer.secrets]
resource = "v1/secrets"
metadata-only = true

[informer.pods]
resource = "v1/pods"

[plugin.reloader]
script = "reloader.js"
informers = ["workloads", "configmaps", "secrets"]
required = true
allow.kube = [{ verbs = ["patch"], resource = "apps/v1/deployments" }]

[plugin.owner-labels]
script = "owner_labels.js"
informers = ["namespaces", "workloads"]
config = { labels = ["team"] }
required = true
allow.kube = [{ verbs = ["patch"], resource = "apps/v1/deployments" }]
"#;

/// Those in Rust.
const COMPONENTS: [&str; 2] = ["crash-loop", "who-runs"];

/// The Deployment whose page is shown.
const WEB: &str = "apps/v1/deployments?name=web&namespace=default";
const WEB_PAGE: &str = "object/apps%2Fv1%2Fdeployments/default/web";

/// A test cannot wait for an hour: the page gets one that is made up, of a cluster with more objects. All else is real.
const HOUR: &str = "const parse = JSON.parse;
JSON.parse = (text, ...rest) => {
  const data = parse(text, ...rest);
  if (!data?.series?.names || !data.counts) return data;
  const MIB = 1048576;
  const wave = (at, period) => Math.sin((2 * Math.PI * at) / period);
  const rough = (at) => (wave(at, 7.3) + wave(at, 11.9) + wave(at, 3.1)) / 3;
  const peak = (at, top, width) => Math.exp(-(((at - top) / width) ** 2));
  const made = {
    events: (at) => 42 + 9 * wave(at, 310) + 5 * rough(at) + 61 * peak(at, 245, 9) + 24 * peak(at, 90, 16),
    effects: (at) => Math.max(0, 1.6 + wave(at, 140) + 0.9 * rough(at) + 6 * peak(at, 247, 8)),
    lag: (at) => 0.004 + 0.001 * rough(at) + 0.046 * peak(at, 245, 5) + 0.011 * peak(at, 91, 8),
    memory: (at) => (104 + at / 30 + 0.8 * rough(at) + 5 * peak(at, 262, 30)) * MIB,
    cache: (at) => (47 + at / 45) * MIB,
    cpu: (at) => 0.021 + 0.004 * wave(at, 310) + 0.003 * rough(at) + 0.034 * peak(at, 245, 9),
  };
  const time = '2026-05-04T10:30:00Z';
  data.time = time;
  data.series.end = time;
  data.series.values = data.series.names.map((name) => Array.from({ length: 360 }, (_, at) => made[name](at)));
  data.configuration.path = '/etc/informant/config.toml';
  data.memory = { residentBytes: made.memory(359), limitBytes: 256 * MIB, cacheBytes: made.cache(359),
    cacheMaxBytes: 128 * MIB };
  data.counts.objects = 12480;
  return data;
};";

/// The page's headings and labels, each once.
const OUTLINE: &str = "const labels = 'header a, h1, h2, label, th[scope=col], dt, figcaption > span:first-child, \
     .tile .label, .tile .note, .step, main button';
 const lines = [...document.querySelectorAll(labels)]
     .filter((element) => element.checkVisibility() && element.getBoundingClientRect().top < innerHeight)
     .map((element) => `${element.tagName.toLowerCase()}: ${element.textContent.trim()}`);
 return [...new Set(lines)].join('\\n') + '\\n';";

const WIDTH: u32 = 1200;

/// The most by which a picture may differ: the share of its areas with another color.
const DIFFERENCE_MAX: f64 = 0.1;

/// How much a picture in the repository may weigh.
const BYTES_MAX: usize = 50_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_in_the_documentation_show_the_dashboard_as_it_is() {
    if let Some(cluster) = super::embedded().await.unwrap() {
        take(cluster).await.unwrap();
    }
}

async fn take(cluster: Cluster) -> Result<()> {
    let (daemon, _client) = daemon_with_history(&cluster).await?;
    let browser = Browser::start().await?;
    browser.before_each_page(HOUR).await?;
    let base = format!("http://{}/dashboard/#/", daemon.address());
    browser.hide_scrollbars().await?;
    for (name, page, height, is_dark, texts) in [
        ("dashboard-overview", "", 740, false, ["Healthy", "CPU of plugins"]),
        ("dashboard-object", WEB_PAGE, 626, true, ["3 effects", "reloads"]),
    ] {
        browser.appear_in(is_dark, WIDTH, height).await?;
        browser.open(&format!("{base}{page}")).await?;
        browser.wait_for(&texts).await?;
        browser.ensure_accessible().await?;
        let outline = browser.run(OUTLINE).await?;
        let picture = std::fs::read(browser.picture(name).await?)?;
        check(&browser, name, outline.as_str().unwrap_or_default(), &picture).await?;
    }
    browser.close().await
}

/// Plugins that have written the Deployment `web`, each for another reason.
async fn daemon_with_history(cluster: &Cluster) -> Result<(Daemon, Client)> {
    let client = cluster.client().await?;
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
        "data": {"COLOR": "blue"}});
    client.post(&config_maps(""), &settings).await?;
    let mut config = CONFIG.to_owned();
    for name in ["reloader", "owner-labels"] {
        readme::install_example(name, cluster.folder())?;
    }
    for name in COMPONENTS {
        let file = guests::component(name)?;
        write!(
            config,
            "\n[plugin.{name}]\ncomponent = {file:?}\ninformers = [\"pods\"]\n"
        )?;
    }
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    handled_settings(&daemon).await?;
    // Now, so that this event is the only one for which it is written.
    client
        .post("/apis/apps/v1/namespaces/default/deployments", &web())
        .await?;
    effects(&daemon, 1).await?;
    let team = json!({"metadata": {"labels": {"team": "payments"}}});
    client.merge("/api/v1/namespaces/default", &team).await?;
    effects(&daemon, 2).await?;
    client
        .merge(&config_maps("settings"), &json!({"data": {"COLOR": "green"}}))
        .await?;
    effects(&daemon, 3).await?;
    Ok((daemon, client))
}

/// Waits until the reloader was called for the ConfigMap, which nothing uses yet.
async fn handled_settings(daemon: &Daemon) -> Result<()> {
    wait::until("the first call of the reloader", WITHIN, async || {
        let labels = ["plugin=\"reloader\"", "event=\"add\"", "result=\"ok\""];
        let calls = daemon.metric("informant_handler_events_total", &labels).await;
        match calls.map_err(|error| format!("{error:#}"))? {
            Some(calls) if calls >= 1.0 => Ok(()),
            calls => Err(format!("{calls:?}")),
        }
    })
    .await
}

fn web() -> Value {
    let container = json!({"name": "web", "image": "nginx:1.29", "envFrom": [{"configMapRef": {"name": "settings"}}]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "annotations": {"informant/reload": "true"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    })
}

/// Waits until plugins have written the Deployment so often.
async fn effects(daemon: &Daemon, count: usize) -> Result<()> {
    wait::until(&format!("{count} effects"), WITHIN, async || {
        let why = daemon.json(&format!("/api/v1/why/{WEB}")).await;
        let why = why.map_err(|error| format!("{error:#}"))?;
        let is_ok = |item: &&Value| item["result"] == "ok";
        match why["items"].as_array().map(|items| items.iter().filter(is_ok).count()) {
            Some(found) if found == count => Ok(()),
            _ => Err(why.to_string()),
        }
    })
    .await
}

/// Compares a page with its picture in the repository, or replaces that if it is old.
async fn check(browser: &Browser, name: &str, outline: &str, picture: &[u8]) -> Result<()> {
    let file = pictures::file(&format!("{name}.webp"));
    let outline_file = format!("{name}.txt");
    let there = std::fs::read(&file).unwrap_or_default();
    let difference = browser.difference(&there, picture).await?;
    let outline_there = std::fs::read_to_string(pictures::file(&outline_file)).unwrap_or_default();
    let is_old = difference > DIFFERENCE_MAX || outline_there != outline;
    if is_old && pictures::are_replaced() {
        let compressed = browser.compressed(picture).await?;
        ensure!(compressed.len() <= BYTES_MAX, "{name} has {} bytes", compressed.len());
        std::fs::write(&file, compressed).with_context(|| format!("writing {}", file.display()))?;
    } else {
        ensure!(
            difference <= DIFFERENCE_MAX,
            "docs/images/{name}.webp differs in {:.0} % of its areas from target/screenshots/{name}.png: run `cargo \
             xtask pictures`",
            100.0 * difference
        );
    }
    pictures::check(&outline_file, outline, |there, now| there == now)
}
