//! The commands of the documentation, page by page, against a small cluster that has what the pages talk about.
//!
//! Pages about an installation run on the one that the manifests make: its configuration with TLS, its arguments and
//! environment, and commands that `kubectl exec` would run in the pod. For the other pages, a daemon runs next to the
//! reader.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::console::{Page, pages};
use informant_tests::daemon::Daemon;
use informant_tests::installation::Installation;
use informant_tests::{guests, wait};
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use crate::deploy::{kubectl, run};
use crate::quick_start::{can_run_commands, reader_path};

/// How long the commands of one page may take.
const PAGE_ENDS_WITHIN: Duration = Duration::from_secs(60);

const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// The addresses in the documentation: of the admin API, and of the embedded API server.
const SHOWN_ADMIN: &str = "127.0.0.1:8089";
const SHOWN_APISERVER: &str = "127.0.0.1:8088";

/// Pages and folders about the installation that the chart makes.
pub(crate) const OF_INSTALLATION: [&str; 5] = [
    "docs/guides/install.md",
    "docs/guides/monitor.md",
    "docs/guides/secure.md",
    "docs/guides/troubleshooting.md",
    "docs/runbooks",
];

/// How the documentation reaches Informant in a pod: its commands, its configuration, and its health port.
pub(crate) const SHOWN_EXEC: &str = "kubectl -n informant exec informant-0 -- ";
const SHOWN_FOLDER: &str = "/etc/informant/";
const SHOWN_PORT_FORWARD: &str = "kubectl -n informant port-forward informant-0 8090 &";
const SHOWN_HEALTH: &str = "127.0.0.1:8090";

/// What runs a command in the pod.
const IN_POD: &str = "in_pod";

/// What the pages' commands are about: `pods`, `greeter`, indexes by image and node. The manifests watch pods, too.
const INFORMER: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

const PLUGINS: &str = r#"
[state]
path = "state.redb"

[plugin.greeter]
script = "handler.js"
informers = ["pods"]
required = true
allow.http = ["http://127.0.0.1:9"]

[plugin.cleaner]
script = "cleaner.js"
informers = ["pods"]
required = true
dry-run = true
allow.kube = [{ verbs = ["delete"], resource = "v1/pods" }]
"#;

/// Refuses `web-0` for good, so that it has a dead letter.
const GREETER: &str = r#"
import { Permanent, fetch, kv } from "informant";

export async function onAdd(pod, event) {
  if (event.name === "web-0") throw new Permanent("web-0 is not greeted");
  kv.set(`greeted/${event}`, "yes");
  if (event.name === "web-1") await fetch("http://127.0.0.1:9/").catch((error) => console.warn(error));
  console.log(`${event} is ${pod.status?.phase}`);
}

export const onUpdate = onAdd;

export function index(pod) {
  return { image: pod.spec.containers.map((container) => container.image), node: [pod.spec.nodeName ?? ""] };
}
"#;

const CLEANER: &str = r#"
import { kube } from "informant";

export function onAdd(pod, event) {
  if (event.name === "old") kube.defer.delete(event);
}
"#;

/// A cluster with a running Informant, and the folder in which a reader types.
struct Stage {
    cluster: Cluster,
    /// None: the daemon runs next to the reader.
    installation: Option<Installation>,
    daemon: Daemon,
    reader: PathBuf,
}

/// Applies the manifests, and starts what they describe, with the plugins of the pages in addition.
async fn install(cluster: &Cluster, cache: &Path) -> Result<(Installation, Daemon)> {
    let manifests = guests::workspace_folder().join("deploy").join("informant.yaml");
    run(kubectl(cluster).args(["apply", "-f"]).arg(manifests)).await?;
    let client = cluster.client().await?;
    let set = client.get("/apis/apps/v1/namespaces/informant/statefulsets/informant");
    let stored = client.get("/api/v1/namespaces/informant/configmaps/informant");
    let (set, stored) = (set.await?, stored.await?);
    let text = |name: &str| {
        let text = stored["data"][name].as_str();
        text.with_context(|| format!("{name} in the ConfigMap"))
    };
    let (folder, program) = (cluster.folder().join("pod"), guests::informant()?);
    let installation = Installation::new(&set, &folder, cache, &cluster.kubeconfig(), &program)?;
    let config = format!("{}{PLUGINS}", text("config.toml")?);
    let scripts = [
        ("oom.js", text("oom.js")?),
        ("handler.js", GREETER),
        ("cleaner.js", CLEANER),
    ];
    let daemon = installation.start(&config, &scripts).await?;
    Ok((installation, daemon))
}

impl Stage {
    /// For `page`, with compiled components in `cache` if it is about an installation.
    async fn start(page: &Page, cache: &Path) -> Result<Self> {
        let cluster = Cluster::start(Kind::Embedded).await?;
        let client = cluster.client().await?;
        for name in ["web-0", "web-1", "old"] {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": name, "namespace": "default", "labels": { "app": "web" } },
                "spec": { "nodeName": "node-1", "containers": [{ "name": "app", "image": "nginx:1.25" }] },
            });
            client.post("/api/v1/namespaces/default/pods", &pod).await?;
        }
        let folder = cluster.folder();
        let save = |folder: &Path| {
            std::fs::write(folder.join("handler.js"), GREETER)?;
            std::fs::write(folder.join("cleaner.js"), CLEANER)
        };
        save(folder)?;
        let config = format!("{INFORMER}{PLUGINS}");
        let (installation, daemon) = if OF_INSTALLATION.iter().any(|path| page.path.starts_with(path)) {
            let (installation, daemon) = install(&cluster, cache).await?;
            (Some(installation), daemon)
        } else {
            (None, Daemon::start(folder, &cluster.kubeconfig(), &config).await?)
        };
        daemon.wait_until_ready().await?;
        wait::until("the dead letter of web-0", SEEN_WITHIN, async || {
            let letters = daemon.metric("informant_dead_letters", &["plugin=\"greeter\""]).await;
            match letters.map_err(|error| format!("{error:#}"))? {
                Some(number) if number >= 1.0 => Ok(()),
                letters => Err(format!("{letters:?} dead letters")),
            }
        })
        .await?;
        let reader = folder.join("reader");
        std::fs::create_dir(&reader)?;
        save(&reader)?;
        // The programs of the pages for beginners.
        std::fs::copy(reader.join("handler.js"), reader.join("hello.js"))?;
        std::fs::copy(guests::component("crash_loop")?, reader.join("crash-loop.wasm"))?;
        let config = format!("[admin]\nlisten = \"{}\"\n{config}", daemon.address());
        std::fs::write(reader.join("config.toml"), config)?;
        Ok(Self {
            cluster,
            installation,
            daemon,
            reader,
        })
    }

    /// The commands of the page as a script. A command that fails ends it, after its line was printed.
    fn script(&self, page: &Page) -> Result<String> {
        let mut script = String::from("set -eu -o pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
        let (exec, folder) = match &self.installation {
            Some(installation) => {
                script += &installation.shell_function(IN_POD)?;
                let folder = installation.config_folder()?.display();
                (format!("{IN_POD} "), format!("{folder}/"))
            }
            None => (String::new(), String::new()),
        };
        for (line, command) in page.commands() {
            let command = command.replace(SHOWN_EXEC, &exec).replace(SHOWN_FOLDER, &folder);
            let command = command.replace(SHOWN_PORT_FORWARD, ":");
            let command = command.replace(SHOWN_HEALTH, self.daemon.health_address());
            let command = command.replace(SHOWN_ADMIN, self.daemon.address());
            let command = command.replace(SHOWN_APISERVER, &self.cluster.address().to_string());
            writeln!(script, "echo ':: {}:{line}'\n{command}", page.path.display())?;
        }
        Ok(script)
    }

    async fn run(&self, page: &Page) -> Result<()> {
        let shell = Command::new("bash")
            .args(["-c", &self.script(page)?])
            .current_dir(&self.reader)
            .env("PATH", reader_path()?)
            .env("HOME", &self.reader)
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(PAGE_ENDS_WITHIN, shell)
            .await
            .with_context(|| format!("{}: its commands did not end", page.path.display()))??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(
            output.status.success(),
            "{}: {}\n{}\n{}",
            page.path.display(),
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_of_the_documentation_succeed() {
    if can_run_commands().await.unwrap() {
        run_pages().await.unwrap();
    }
}

async fn run_pages() -> Result<()> {
    let mut failures = Vec::new();
    // The script runner is compiled once for all pages.
    let cache = tempfile::tempdir()?;
    for page in pages()?.iter().filter(|page| page.is_run()) {
        // Each page begins with a cluster that no other has changed.
        let stage = Stage::start(page, cache.path()).await?;
        if let Err(failure) = stage.run(page).await {
            failures.push(format!("{failure:#}"));
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

/// How many blocks are run, and how many are not, by reason: a change of these numbers is a decision.
#[test]
fn blocks_that_no_test_runs_are_counted() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for block in pages().unwrap().iter().flat_map(|page| &page.blocks) {
        let kind = block
            .not_run
            .map_or_else(|| "run".to_owned(), |reason| format!("not run: {reason}"));
        *counts.entry(kind).or_default() += 1;
    }
    insta::assert_debug_snapshot!(counts);
}
