//! The dashboard in a browser: each page, what it does, what it refuses, and what text of others cannot do in it.

mod access;
mod many;
mod pictures;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use informant_tests::browser::{self, Browser};
use informant_tests::client::Client;
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps};
use informant_tests::process::Process;
use informant_tests::{guests, scripts, wait};
use serde_json::json;

/// The deadline of every wait.
const WITHIN: Duration = Duration::from_secs(60);

/// Writes into `target` what it was called for. Fails for the object `hostile`, with its text.
const WRITER: &str = r#"import { kube } from "informant";
const write = (map, event) => {
  console.log(`called for ${event.name}: ${map.data.value}`);
  if (event.name === "hostile") throw new Error(`cannot write ${map.data.value}`);
  kube.defer.patch({ resource: "v1/configmaps", namespace: "default", name: "target" }, { data: { of: event.name } });
};
export const onAdd = write;
export const onUpdate = write;
"#;

/// Text that would run if it was taken for HTML, and that hides what it is.
const HOSTILE: &str = "<img src=x onerror=\"window.ran=1\"><script>window.ran=1</script>\u{202e}gpj.exe\u{2066}";

fn config() -> String {
    "[informer.maps]\nresource = \"v1/configmaps\"\nnamespaces = [\"default\"]\nlabel-selector = \"app=test\"\n\
     index = { value = \"/data/value\" }\n\n\
     [plugin.writer]\nscript = \"writer.js\"\ninformers = [\"maps\"]\nrequired = true\nretry = { initial = \"100ms\", attempts = 1 }\n\
     allow.kube = [{ verbs = [\"patch\"], resource = \"v1/configmaps\", namespaces = [\"default\"] }]\n\n\
     [plugin.broken]\nscript = \"broken.js\"\ninformers = [\"maps\"]\n"
        .to_owned()
}

/// `informant dashboard`, and the address that it printed.
async fn dashboard(args: &[&str]) -> Result<(Process, String)> {
    let args = [&["dashboard", "--no-browser"], args].concat();
    let mut process = Process::start(&guests::informant()?, args)?;
    let url = process
        .wait_for_line("the dashboard's address", WITHIN, |line| {
            let (_, rest) = line.split_once("the dashboard is at ")?;
            rest.split_whitespace().next().map(str::to_owned)
        })
        .await?;
    Ok((process, url))
}

/// A daemon that has written one object, and has failed for a hostile one.
async fn daemon_with_work(cluster: &Cluster) -> Result<(Daemon, Client)> {
    let client = cluster.client().await?;
    let mut target = config_map("target", "0");
    target["metadata"]["labels"] = json!({"app": "test"});
    client.post(&config_maps(""), &target).await?;
    std::fs::write(cluster.folder().join("writer.js"), WRITER)?;
    std::fs::write(cluster.folder().join("broken.js"), "export function onAdd(")?;
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config()).await?;
    daemon.wait_until_ready().await?;
    client.post(&config_maps(""), &config_map("hostile", HOSTILE)).await?;
    client.post(&config_maps(""), &config_map("web", "1")).await?;
    wait::until("a write and a dead letter", WITHIN, async || {
        let get = async |path: &str| daemon.json(path).await.map_err(|error| format!("{error:#}"));
        let letters = get("/api/v1/dead-letters").await?;
        // By the short name.
        let effects = get("/api/v1/why/cm?name=target&namespace=default").await?;
        let has = |list: &serde_json::Value| list["items"].as_array().is_some_and(|items| !items.is_empty());
        if has(&letters) && has(&effects) {
            Ok(())
        } else {
            Err(format!("{letters} {effects}"))
        }
    })
    .await?;
    Ok((daemon, client))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_is_accessible_and_shows_hostile_text_as_text() {
    if let Some(cluster) = embedded().await.unwrap() {
        pages(cluster).await.unwrap();
    }
}

/// A cluster for a test with a browser and scripts, if there are both.
async fn embedded() -> Result<Option<Cluster>> {
    if !browser::is_there() || !scripts::can_run().await? {
        return Ok(None);
    }
    Ok(crate::cluster(Kind::Embedded).await)
}

/// The name of a page's picture, the page, and what it shows.
const PAGES: &[(&str, &str, &[&str])] = &[
    ("overview", "", &["Effects", "Memory", "Live"]),
    ("plugins", "plugins", &["writer", "Live"]),
    (
        "plugin",
        "plugins/writer",
        &["called for hostile", "cannot write", "Requeue", "target"],
    ),
    ("refused", "plugins/broken", &["refused", "broken.js"]),
    ("sources", "sources", &["configmaps", "Live"]),
    ("form", "object", &["Enter an object"]),
    (
        "object",
        "object/v1%2Fconfigmaps/default/target",
        &["add", "writer", "patch", "\"of\""],
    ),
    (
        "hostile",
        "object/v1%2Fconfigmaps/default/hostile",
        &["<img src=x", "cannot write"],
    ),
    ("replicas", "replicas", &["This replica", "alone"]),
];

async fn pages(cluster: Cluster) -> Result<()> {
    let (daemon, _) = daemon_with_work(&cluster).await?;
    let browser = Browser::start().await?;
    let base = format!("http://{}/dashboard/", daemon.address());
    for (is_dark, width, appearance) in [(false, 360, "narrow"), (true, 1600, "dark")] {
        browser.appear(is_dark, width).await?;
        for (name, page, texts) in PAGES {
            browser.open(&format!("{base}#/{page}")).await?;
            browser.wait_for(texts).await?;
            browser.ensure_accessible().await?;
            ensure_harmless(&browser, name).await?;
            if *name == "object" {
                let values = browser
                    .run("return document.querySelectorAll('.values li').length")
                    .await?;
                ensure!(values == 2, "values of the indexes namespace and value: {values}");
            }
            browser.picture(&format!("{name}-{appearance}")).await?;
        }
    }
    browser.close().await
}

/// Nothing of an object ran, became an element, or turned the text around, and the page is no wider than the window.
async fn ensure_harmless(browser: &Browser, page: &str) -> Result<()> {
    let found = browser
        .run(
            "return [window.ran ?? null, document.querySelectorAll('#app img, #app script, #app iframe').length,
                 document.documentElement.scrollWidth <= innerWidth]",
        )
        .await?;
    ensure!(found == json!([null, 0, true]), "{page}: {found}");
    let text = browser.text().await?;
    let hides = |character: char| matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    ensure!(!text.contains(hides), "{page}: {text:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_of_the_page_reach_the_daemon() {
    if let Some(cluster) = embedded().await.unwrap() {
        actions(cluster).await.unwrap();
    }
}

async fn actions(cluster: Cluster) -> Result<()> {
    let (daemon, client) = daemon_with_work(&cluster).await?;
    let (_proxy, url) = dashboard(&["--admin", daemon.address()]).await?;
    let browser = Browser::start().await?;
    browser.appear(false, 1200).await?;
    browser.open(&format!("{url}#/plugins/writer")).await?;
    for (label, done, is_paused) in [("Pause", "writer paused.", true), ("Resume", "writer resumed.", false)] {
        browser.press(label).await?;
        // It asks first.
        browser.press(label).await?;
        browser.wait_for(&[done]).await?;
        let plugin = daemon.json("/api/v1/plugins/writer").await?;
        ensure!(plugin["paused"] == is_paused, "{plugin}");
    }
    client.put(&config_maps("hostile"), &config_map("hostile", "2")).await?;
    browser.press("Requeue default/hostile").await?;
    browser.press("Requeue").await?;
    browser
        .wait_for(&["default/hostile requeued: it is called again now, and listed here if it fails."])
        .await?;
    browser.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_reports_a_lost_daemon_and_finds_the_next() {
    if let Some(cluster) = embedded().await.unwrap() {
        restart(cluster).await.unwrap();
    }
}

async fn restart(cluster: Cluster) -> Result<()> {
    let (daemon, _) = daemon_with_work(&cluster).await?;
    let address = daemon.address().to_owned();
    let (_proxy, url) = dashboard(&["--admin", &address]).await?;
    let browser = Browser::start().await?;
    browser.appear(false, 1200).await?;
    browser.open(&format!("{url}#/plugins")).await?;
    browser.wait_for(&["writer", "Live"]).await?;
    let config = daemon.config().to_owned();
    drop(daemon);
    // What was known stays.
    browser.wait_for(&["Connection lost, trying again.", "writer"]).await?;
    browser.ensure_accessible().await?;
    let _next = start_at(&config, &cluster.kubeconfig(), &address).await?;
    browser
        .wait_until("the page to find the daemon", |shown| {
            !shown.contains("Connection lost") && shown.contains("Live") && shown.contains("writer")
        })
        .await?;
    browser.close().await
}

/// Starts a daemon whose admin API is at `address`.
async fn start_at(config: &Path, kubeconfig: &Path, address: &str) -> Result<Daemon> {
    let text = std::fs::read_to_string(config)?.replacen("127.0.0.1:0", address, 1);
    std::fs::write(config, text)?;
    let mut command = tokio::process::Command::new(guests::informant()?);
    command.args(["run", "--log-format=json", "--health-listen=127.0.0.1:0"]);
    command.arg("--config").arg(config).arg("--kubeconfig").arg(kubeconfig);
    Daemon::start_command(command, config.to_owned()).await
}
