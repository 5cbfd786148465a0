//! The demo's steps, each with what it checks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, interval};

use crate::client::Client;
use crate::cluster::{Cluster, Kind};
use crate::daemon::Daemon;
use crate::objects::{pod, pods};
use crate::{guests, readme, scripts, wait};

use super::reports::{self, Reports};
use super::terminal::Terminal;

/// How many pods the demo has.
const PODS: u32 = 20;

/// How often each pod is killed while the handler is swapped, and the kills per second.
const KILLS: u32 = 30;
const KILLS_PER_SECOND: u64 = 200;

/// The deadline of every wait in a step.
const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// The environment of the demo: an API server with pods, and a folder with the components.
pub(super) struct Setup {
    folder: PathBuf,
    cluster: Cluster,
    client: Client,
    next: PathBuf,
    /// None: this build has no script runner.
    script: Option<String>,
    terminal: Terminal,
}

impl Setup {
    pub(super) async fn prepare(handler: Option<&Path>) -> Result<Self> {
        let mut terminal = Terminal::default();
        terminal.say("1. Start an API server and Informant");
        let shown = match handler {
            Some(file) => file.to_path_buf(),
            None => guests::component("crash-loop")?,
        };
        let cluster = Cluster::start(Kind::Embedded).await?;
        let folder = guests::target_folder().join("demo");
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        std::fs::copy(cluster.kubeconfig(), folder.join("kubeconfig"))?;
        put(&shown, &folder.join("crash-loop.wasm"))?;
        put(&guests::component("who-runs")?, &folder.join("who-runs.wasm"))?;
        std::fs::write(folder.join("handler.js"), FIRST_SCRIPT)?;
        let client = cluster.client().await?;
        for number in 0..PODS {
            let image = if number % 4 == 0 { "nginx:1.25" } else { "shop:1" };
            client.post(&pods(""), &pod(&name(number), image)).await?;
        }
        let next = guests::component("guest-crash-loop-next")?;
        let script = match scripts::can_run().await? {
            true => Some(readme::first_block(&readme::of("")?, "js")?),
            false => None,
        };
        Ok(Self {
            folder,
            cluster,
            client,
            next,
            script,
            terminal,
        })
    }
}

pub(super) struct Demo {
    folder: PathBuf,
    cluster: Cluster,
    client: Client,
    daemon: Daemon,
    /// The component that replaces the handler in step 4.
    next: PathBuf,
    pub(super) script: Option<String>,
    pub(super) terminal: Terminal,
}

/// Writes a temporary file and renames it, so that no half-written file is seen.
fn put(from: &Path, to: &Path) -> Result<()> {
    let temporary = to.with_extension("new");
    std::fs::copy(from, &temporary).with_context(|| format!("copying {}", from.display()))?;
    std::fs::rename(&temporary, to).with_context(|| format!("renaming {}", temporary.display()))
}

/// A status in which the only container runs again after it was OOM-killed.
fn killed(restarts: u32) -> Value {
    json!({"status": {"phase": "Running", "containerStatuses": [{
        "name": "app", "image": "shop:1", "imageID": "shop:1", "ready": true, "restartCount": restarts,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
    }]}})
}

const CONFIG: &str = r#"[informer.pods]
resource = "v1/pods"

[plugin.crash-loop]
component = "crash-loop.wasm"
informers = ["pods"]
on-reload = "continue"
required = true

[plugin.who-runs]
component = "who-runs.wasm"
informers = ["pods"]
required = true
"#;

/// Added if the program has its script runner.
const CONFIG_OF_SCRIPT: &str = r#"
[plugin.handler]
script = "handler.js"
informers = ["pods"]
on-reload = "replay"
allow.kube = [{ verbs = ["patch"], resource = "v1/pods" }]
"#;

/// The initial script.
const FIRST_SCRIPT: &str = "// Edit this file: a saved version runs at once. See docs/guides/scripts.md.\nexport function onAdd(pod, event) {}\n";

impl Demo {
    /// Starts Informant with both plugins.
    pub(super) async fn start(setup: Setup) -> Result<Self> {
        let Setup {
            folder,
            cluster,
            client,
            next,
            script,
            mut terminal,
        } = setup;
        let config = match script {
            Some(_) => format!("{CONFIG}{CONFIG_OF_SCRIPT}"),
            None => CONFIG.to_owned(),
        };
        terminal.say(format_args!("   {PODS} pods, and this target/demo/config.toml:\n"));
        config
            .lines()
            .for_each(|line| terminal.say(format_args!("     {line}")));
        let begin = Instant::now();
        let daemon = Daemon::start(&folder, &folder.join("kubeconfig"), &config).await?;
        tokio::select! {
            biased;
            ready = daemon.wait_until_ready() => ready?,
            reason = refusal(&daemon) => bail!("a plugin was refused: {}", reason?),
        }
        terminal.say(format_args!(
            "\n   ready after {:.1} s, including the compilation of the plugins",
            begin.elapsed().as_secs_f64()
        ));
        Ok(Self {
            folder,
            cluster,
            client,
            daemon,
            next,
            script,
            terminal,
        })
    }

    pub(super) async fn crashes_are_reported(&mut self) -> Result<()> {
        self.terminal
            .say("\n2. Three pods run out of memory; the handler reports it");
        let from = self.daemon.process().line_count();
        let mut expected = Reports::new();
        for number in 0..3 {
            self.client
                .merge(&format!("{}/status", pods(&name(number))), &killed(1))
                .await?;
            expected.insert((name(number), 1), 1);
        }
        self.wait_for(&expected, from).await?;
        // It also logs that its source is synced, sooner or later.
        let of_a_pod =
            |line: &str| reports::message(line, "crash-loop").filter(|message| message.starts_with("default/"));
        for message in self.daemon.process().lines(from, of_a_pod) {
            self.terminal.say(format_args!("   {message}"));
        }
        Ok(())
    }

    pub(super) async fn the_index_answers(&mut self) -> Result<()> {
        self.terminal.say("\n3. Ask the index plugin which pods run nginx:1.25");
        self.terminal.say("   $ informant get pods --index image=nginx:1.25");
        let expected: Vec<String> = (0..PODS)
            .step_by(4)
            .map(|number| format!("pod/{}", name(number)))
            .collect();
        wait::until("the index to answer", SEEN_WITHIN, async || {
            let args = ["get", "pods", "--index", "image=nginx:1.25", "-o", "name"];
            let (code, out, err) = self.daemon.command(&args).await.map_err(|error| format!("{error:#}"))?;
            let mut found: Vec<&str> = out.lines().collect();
            found.sort_unstable();
            let mut wanted: Vec<&str> = expected.iter().map(String::as_str).collect();
            wanted.sort_unstable();
            if code == 0 && found == wanted {
                Ok(())
            } else {
                Err(format!("exit {code}: {out}{err}"))
            }
        })
        .await?;
        let (_, table, _) = self
            .daemon
            .command(&["get", "pods", "--index", "image=nginx:1.25"])
            .await?;
        table
            .lines()
            .for_each(|line| self.terminal.say(format_args!("   {line}")));
        Ok(())
    }

    pub(super) async fn a_swap_loses_nothing(&mut self) -> Result<()> {
        let all = PODS * KILLS;
        self.terminal.say(format_args!(
            "\n4. Replace the handler's file during {all} changes at {KILLS_PER_SECOND} a second"
        ));
        let from = self.daemon.process().line_count();
        let load = tokio::spawn(kill_all(self.client.clone()));
        tokio::time::sleep(Duration::from_millis(u64::from(all) * 500 / KILLS_PER_SECOND)).await;
        put(&self.next, &self.folder.join("crash-loop.wasm"))?;
        let expected = load.await??;
        self.wait_for(&expected, from).await?;
        // The handler that ran before may have reported the last changes.
        let said = wait::until("the handler to be swapped", SEEN_WITHIN, async || {
            let labels = &["plugin=\"crash-loop\"", "result=\"ok\""];
            let swaps = self.daemon.metric("informant_plugin_reloads_total", labels).await;
            let swaps = swaps.map_err(|error| format!("{error:#}"))?;
            let takes_over =
                |line: &str| reports::message(line, "crash-loop").filter(|message| message.contains("takes over"));
            let said = self.daemon.process().lines(from, takes_over);
            if swaps == Some(1.0) && !said.is_empty() {
                return Ok(said);
            }
            Err(format!("reloads: {swaps:?}\n{}", self.daemon.process().tail()))
        })
        .await?;
        self.terminal
            .say(format_args!("   the handler logged: {}", said.join(", ")));
        self.terminal.say(format_args!(
            "   {all} of {all} changes were reported exactly once: none lost, none repeated"
        ));
        Ok(())
    }

    pub(super) async fn a_script_runs_when_it_is_saved(&mut self) -> Result<()> {
        self.terminal.say("\n5. Save the README's handler as handler.js");
        let Some(script) = &self.script else {
            self.terminal
                .say("   skipped: this informant was built without its script runner");
            return Ok(());
        };
        let from = self.daemon.process().line_count();
        let file = self.folder.join("handler.js");
        let temporary = file.with_extension("new");
        std::fs::write(&temporary, script)?;
        let begin = Instant::now();
        std::fs::rename(&temporary, &file)?;
        let said = |line: &str| scripts::said(line, "handler");
        let process = self.daemon.process();
        process
            .wait_for_line_after(from, "the script's first line", SEEN_WITHIN, said)
            .await?;
        self.terminal.say(format_args!(
            "   its first line was logged after {} ms",
            begin.elapsed().as_millis()
        ));
        let has_no_team = format!("default/{} has no team", name(7));
        process
            .wait_for_line_after(from, "its line about a pod", SEEN_WITHIN, |line| {
                said(line).filter(|message| *message == has_no_team)
            })
            .await?;
        // The line comes from the call; the deferred patch is sent after it.
        wait::until("the label from the script", SEEN_WITHIN, async || {
            let labeled = self
                .client
                .get(&pods(&name(7)))
                .await
                .map_err(|error| error.to_string())?;
            match &labeled["metadata"]["labels"]["team"] {
                team if team == "unassigned" => Ok(()),
                team => Err(format!("the pod's label team is {team}")),
            }
        })
        .await?;
        self.terminal.say(format_args!(
            "   $ kubectl get pod {} --show-labels\n   team=unassigned",
            name(7)
        ));
        Ok(())
    }

    /// Waits until everything expected was reported, and checks that nothing else was.
    async fn wait_for(&self, expected: &Reports, from: usize) -> Result<()> {
        wait::until("the handler's reports", SEEN_WITHIN, async || {
            let reports = reports::out_of_memory(self.daemon.process(), from);
            let missing = expected.keys().find(|report| !reports.contains_key(*report));
            match missing {
                None => Ok(()),
                Some((pod, restarts)) => {
                    let count = expected.keys().filter(|report| !reports.contains_key(*report)).count();
                    Err(format!(
                        "{count} of {} are missing, {pod} at restart {restarts} among them",
                        expected.len()
                    ))
                }
            }
        })
        .await?;
        let reports = reports::out_of_memory(self.daemon.process(), from);
        let twice = reports
            .iter()
            .find(|(report, times)| expected.get(*report) != Some(*times));
        ensure!(twice.is_none(), "reported {twice:?}, which was not expected");
        Ok(())
    }

    /// Stays up for the user's own kubectl, until Ctrl-C.
    pub(super) async fn stay(&mut self) -> Result<()> {
        let kubeconfig = self.folder.join("kubeconfig");
        println!("\nTry it yourself, until Ctrl-C:");
        println!("   kubectl --kubeconfig {} get pods", kubeconfig.display());
        println!(
            "   kubectl --kubeconfig {} run mine --image=nginx:1.25",
            kubeconfig.display()
        );
        println!(
            "   {} get pods --index image=nginx:1.25 --admin {}",
            guests::informant()?.display(),
            self.daemon.address()
        );
        println!("   curl http://{}/metrics", self.daemon.address());
        if self.script.is_some() {
            println!(
                "   edit {}: it runs when you save it",
                self.folder.join("handler.js").display()
            );
        }
        println!(
            "   replace {} with a handler of your own\n",
            self.folder.join("crash-loop.wasm").display()
        );
        let mut shown = self.daemon.process().line_count();
        let mut look = interval(Duration::from_millis(200));
        let end = tokio::signal::ctrl_c();
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                ended = &mut end => {
                    ended?;
                    break;
                }
                _ = look.tick() => {}
            }
            let count = self.daemon.process().line_count();
            for plugin in ["crash-loop", "handler"] {
                let of_it = |line: &str| reports::refusal(line, plugin).or_else(|| reports::message(line, plugin));
                for message in self.daemon.process().lines(shown, of_it) {
                    println!("   {plugin}: {message}");
                }
            }
            shown = count;
            ensure!(
                self.daemon.process_mut().is_running(),
                "informant ended\n{}",
                self.daemon.process().tail()
            );
        }
        println!(
            "\nThe cluster in {} ends with the demo.",
            self.cluster.folder().display()
        );
        Ok(())
    }
}

/// Returns once a plugin is refused, with Informant's log lines about it.
async fn refusal(daemon: &Daemon) -> Result<String> {
    wait::until("a plugin to be refused", Duration::MAX, async || {
        let refused = daemon
            .metric("informant_plugin_refused", &[])
            .await
            .map_err(|error| format!("{error:#}"))?;
        let said = daemon
            .process()
            .lines(0, |line| line.contains("plugin refused").then(|| line.to_owned()));
        if refused >= Some(1.0) {
            Ok(said.join("\n"))
        } else {
            Err("no plugin is refused".to_owned())
        }
    })
    .await
}

fn name(number: u32) -> String {
    format!("shop-{number}")
}

/// Kills each pod in turn, many times; returns the expected reports.
async fn kill_all(client: Client) -> Result<Reports> {
    let mut pace = interval(Duration::from_micros(1_000_000 / KILLS_PER_SECOND));
    let mut expected = Reports::new();
    for kill in 0..KILLS {
        for number in 0..PODS {
            pace.tick().await;
            // The first three have one restart already.
            let restarts = kill + 2;
            client
                .merge(&format!("{}/status", pods(&name(number))), &killed(restarts))
                .await?;
            expected.insert((name(number), restarts), 1);
        }
    }
    Ok(expected)
}
