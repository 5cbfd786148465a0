//! `informant dev`: a plugin is run while it is being written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::world::{World, artifacts, until};

/// From a saved script to its first call: far above what it takes on a machine that does nothing else.
const SWAPPED_WITHIN: Duration = Duration::from_secs(20);

/// For what is refused at once.
const REFUSED_WITHIN: Duration = Duration::from_secs(60);

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: { name: web-0 }
---
apiVersion: v1
kind: Node
metadata: { name: node-1 }
";

/// A folder of a plugin, and one for temporary files.
struct Author {
    plugin: TempDir,
    temporary: TempDir,
}

/// `informant dev`, and what it has printed.
struct Dev {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Author {
    fn new(files: &[(&str, &str)]) -> Self {
        let author = Self {
            plugin: tempfile::tempdir().unwrap(),
            temporary: tempfile::tempdir().unwrap(),
        };
        files.iter().for_each(|(name, text)| author.save(name, text));
        author
    }

    fn path(&self, name: &str) -> PathBuf {
        self.plugin.path().join(name)
    }

    /// As many editors do: with a new file in place of the old one.
    fn save(&self, name: &str, text: &str) {
        let (aside, path) = (self.path(".aside"), self.path(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&aside, text).unwrap();
        fs::rename(aside, path).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_informant"));
        command
            .arg("dev")
            .args(args)
            .current_dir(&self.plugin)
            .env("TMPDIR", self.temporary.path())
            .env("XDG_CACHE_HOME", artifacts())
            .env_remove("INFORMANT_LOG")
            .env_remove("KUBECONFIG")
            .kill_on_drop(true);
        command
    }

    fn start(&self, args: &[&str]) -> Dev {
        let mut child = self.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut read = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let printed = Arc::clone(&lines);
        tokio::spawn(async move {
            while let Ok(Some(line)) = read.next_line().await {
                printed.lock().unwrap().push(line);
            }
        });
        Dev { child, lines }
    }

    /// Exit code and error of a run that ends at once.
    async fn refusal(&self, args: &[&str]) -> String {
        let output = tokio::time::timeout(REFUSED_WITHIN, self.command(args).output()).await;
        let output = output.unwrap_or_else(|_| panic!("it runs: {args:?}")).unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let text = text.replace(&self.plugin.path().display().to_string(), "FOLDER");
        format!("{} {text}", output.status.code().unwrap())
    }
}

impl Dev {
    /// Waits for a line that contains `parts`, and returns it. It forgets the lines up to it.
    async fn line(&self, parts: &[&str]) -> String {
        until(&format!("{parts:?}"), async || {
            let mut lines = self.lines.lock().unwrap();
            let found = lines
                .iter()
                .position(|line| parts.iter().all(|part| line.contains(part)));
            match found {
                Some(number) => Ok(lines.drain(..=number).next_back().unwrap()),
                None => Err(lines.join("\n")),
            }
        })
        .await
    }

    /// Waits for all lines, in any order, each given by its parts. It forgets the lines up to the last of them.
    async fn lines(&self, all: &[&[&str]]) {
        until(&format!("{all:?}"), async || {
            let mut lines = self.lines.lock().unwrap();
            let find = |parts: &&[&str]| {
                lines
                    .iter()
                    .position(|line| parts.iter().all(|part| line.contains(part)))
            };
            let found: Option<Vec<usize>> = all.iter().map(find).collect();
            match found.and_then(|found| found.into_iter().max()) {
                Some(last) => {
                    lines.drain(..=last);
                    Ok(())
                }
                None => Err(lines.join("\n")),
            }
        })
        .await;
    }

    /// Ctrl-C.
    async fn interrupt(mut self) -> ExitStatus {
        let process = rustix::process::Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        self.child.wait().await.unwrap()
    }
}

fn without_scripts() -> bool {
    std::env::var_os("INFORMANT_TESTS_WITHOUT_SCRIPTS").is_some()
}

fn greets(word: &str) -> String {
    format!("export const onAdd = (pod, event) => console.log(`{word} ${{event}}`);\nexport const onUpdate = onAdd;\n")
}

const CONFIG: &str = "
[cluster]
kubeconfig = \"absent\"
[informer.pods]
resource = \"v1/pods\"
[plugin.greeter]
script = \"handler.js\"
informers = [\"pods\"]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_script_is_swapped_in_an_error_is_not() {
    if without_scripts() {
        return;
    }
    let author = Author::new(&[
        ("config.toml", CONFIG),
        ("handler.js", &greets("hello")),
        ("objects.yaml", PODS),
    ]);
    let dev = author.start(&[".", "--objects", "objects.yaml", "--replay"]);
    dev.line(&[
        "dev",
        "embedded API server at http://127.0.0.1:",
        "kubectl --kubeconfig ",
    ])
    .await;
    dev.line(&["warning", "no informer watches Node objects, such as node-1"])
        .await;
    dev.line(&["log     greeter INFO hello default/web-0"]).await;
    dev.line(&["call    greeter add v1/pods default/web-0 in ", " ms: ok"])
        .await;

    let saved = Instant::now();
    author.save("handler.js", &greets("bye"));
    dev.line(&["log     greeter INFO bye default/web-0"]).await;
    let took = saved.elapsed();
    assert!(took < SWAPPED_WITHIN, "{took:?}");

    author.save("handler.js", "export const onAdd = (pod => {};\n");
    dev.line(&[
        "error",
        "plugin reload refused; keeping the previous version",
        "handler.js:1:",
    ])
    .await;
    author.save(
        "objects.yaml",
        &PODS.replace("name: web-0", "name: web-0, labels: { a: b }"),
    );
    dev.lines(&[
        &["applied 1 object"],
        &["log     greeter INFO bye default/web-0"],
        &["call    greeter update v1/pods default/web-0 in ", " ms: ok"],
    ])
    .await;

    author.save("objects.yaml", "a: [");
    dev.line(&["error", "objects not applied: objects.yaml is neither YAML nor JSON"])
        .await;
    assert!(dev.interrupt().await.success());
    assert!(is_empty(author.temporary.path()));
}

const LABELS: &str = r#"
import { kube, kv } from "informant";
export const manifest = {
  name: "labels",
  events: [{ apiVersion: "v1", kind: "Pod" }],
  needs: [{ kube: { verbs: ["patch"], resource: "v1/pods" } }],
};
export function onAdd(pod, event) {
  if (pod.metadata.labels?.seen) return;
  kv.set("seen", event.name);
  kube.defer.patch(event, { metadata: { labels: { seen: "yes" } } });
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn effects_are_shown_and_withheld_from_your_own_cluster() {
    if without_scripts() {
        return;
    }
    let author = Author::new(&[("labels.js", LABELS), ("objects.yaml", PODS)]);
    let dev = author.start(&["labels.js", "--objects", "objects.yaml"]);
    dev.line(&["dev", "there is no config.toml, so this one is used"]).await;
    dev.line(&[r#"  resource = "Pod""#]).await;
    dev.line(&[r#"  allow.kube = [{ verbs = ["patch"], resource = "v1/pods" }]"#])
        .await;
    dev.line(&["effect  labels kv set seen 7 B"]).await;
    dev.line(&[r#"effect  labels kube patch v1/pods default/web-0 {"metadata""#])
        .await;
    assert!(dev.interrupt().await.success());

    let world = World::start().await;
    world.create_pod("web-1", "nginx");
    let kubeconfig = world.kubeconfig().display().to_string();
    let dev = author.start(&["labels.js", "--kubeconfig", &kubeconfig]);
    dev.line(&["your own cluster, in dry run"]).await;
    dev.line(&["effect  labels kube patch v1/pods default/web-1 (dry run) "])
        .await;
    assert!(dev.interrupt().await.success());
    let seen =
        || world.server.get("v1/pods", "default", "web-1").unwrap().unwrap()["metadata"]["labels"]["seen"].clone();
    assert!(seen().is_null());

    let dev = author.start(&["labels.js", "--kubeconfig", &kubeconfig, "--write"]);
    dev.line(&[r#"effect  labels kube patch v1/pods default/web-1 {"metadata""#])
        .await;
    assert!(dev.interrupt().await.success());
    assert_eq!(seen(), "yes");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_run_is_refused_at_once() {
    let author = Author::new(&[
        ("config.toml", "[informer.pods]\nresnyc = 1\n"),
        ("handler.js", "export const onAdd = () => {};"),
        ("objects.yaml", "kind: Pod"),
        ("plugin.rb", ""),
        ("rust/Cargo.toml", "[package]\nname = \"greeter\"\n"),
        ("scripts/handler.js", "export const onAdd = () => {};"),
    ]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let mut refusals = Vec::new();
    for args in [
        &["absent"][..],
        &["plugin.rb"],
        &["."],
        &["scripts", "--write"],
        &["scripts", "--context", "absent", "--objects", "objects.yaml"],
        &["scripts", "--objects", "objects.yaml"],
        &["scripts", "--objects", "absent.yaml"],
        &["scripts", "--listen", &taken],
        &["scripts", "--conditions", "browser"],
    ] {
        refusals.push(author.refusal(args).await.replace(&taken, "ADDRESS"));
    }
    insta::assert_snapshot!(refusals.join(""), @r#"
    1 error: absent is not a file or folder; `informant plugin new --lang LANGUAGE NAME` creates a plugin
    1 error: plugin.rb has no suffix that this command knows (js, ts, py, rs, go, c, wasm). For another language compile a core module, and run `informant plugin build core.wasm -o plugin.wasm`
    3 error: ./config.toml:1:11: [informer.pods] lacks `resource`
      help: set what to watch: resource = "v1/pods"
    error: ./config.toml:2:1: unknown key `resnyc` in [informer.pods]
      help: did you mean `resync`?
    1 error: --write is for a cluster of your own (--no-apiserver, --kubeconfig, --context): on the embedded API server plugins write anyway
    1 error: --objects and --kubeconfig-out are for the embedded API server: leave them out, and use `kubectl apply`
    1 error: objects.yaml: an object needs `apiVersion` and `kind`
    1 error: cannot read absent.yaml: No such file or directory (os error 2)
    1 error: cannot listen on ADDRESS: Address already in use (os error 98)
    1 error: scripts is not built: leave out --conditions and --sdk
    "#);
    let empty = tempfile::tempdir().unwrap();
    let output = author
        .command(&["rust"])
        .env("PATH", empty.path())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("error: cargo is not installed, which compiles rust/Cargo.toml"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(is_empty(author.temporary.path()));
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}
