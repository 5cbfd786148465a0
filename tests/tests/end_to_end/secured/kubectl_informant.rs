//! `kubectl informant`, as two users type it: the real kubectl, and the admin port with TLS. A port-forward needs a
//! kubelet, so here the commands name the port; what the API server decides before it asks a kubelet is tested.

use std::ffi::OsString;
use std::path::PathBuf;

use informant_tests::cluster::tools_folder;
use informant_tests::guests::workspace_folder;
use informant_tests::readme;
use tokio::process::Command;

use super::*;

/// kubectl with the plugin on its search path.
struct Plugin {
    search_path: OsString,
    /// Everything that was printed.
    printed: String,
}

impl Plugin {
    /// Links the program under its other name, as the guide says.
    fn install(cluster: &Cluster) -> Result<Self> {
        let folder = cluster.folder().join("bin");
        std::fs::create_dir_all(&folder)?;
        std::os::unix::fs::symlink(guests::informant()?, folder.join("kubectl-informant"))?;
        let search_path = std::env::join_paths([folder, tools_folder()])?;
        Ok(Self {
            search_path,
            printed: String::new(),
        })
    }

    /// Runs `kubectl ARGS`. Returns its exit code and output.
    async fn kubectl(&mut self, args: &[&str]) -> Result<(i32, String)> {
        let mut command = Command::new(tools_folder().join("kubectl"));
        let output = command.args(args).env("PATH", &self.search_path).output().await?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        self.printed.push_str(&text);
        Ok((output.status.code().unwrap_or(-1), text))
    }
}

/// A user of the plugin: the flags that say who it is, and to which server.
struct Caller<'a> {
    plugin: &'a mut Plugin,
    flags: Vec<String>,
}

impl Caller<'_> {
    /// Runs `kubectl informant ARGS FLAGS`. The output must contain all of `expected`.
    async fn run(&mut self, args: &str, code: i32, expected: &[&str]) -> Result<String> {
        let flags = self.flags.iter().map(String::as_str);
        let all: Vec<&str> = ["informant"].into_iter().chain(args.split(' ')).chain(flags).collect();
        let (found, output) = self.plugin.kubectl(&all).await?;
        let missing: Vec<_> = expected.iter().filter(|text| !output.contains(**text)).collect();
        ensure!(
            found == code && missing.is_empty(),
            "{args}: {found}, without {missing:?}:\n{output}"
        );
        Ok(output)
    }

    /// Runs it until it ends as expected.
    async fn run_until(&mut self, args: &str, code: i32, expected: &[&str]) -> Result<()> {
        let deadline = tokio::time::Instant::now() + WITHIN;
        while let Err(error) = self.run(args, code, expected).await {
            ensure!(tokio::time::Instant::now() < deadline, "{error:#}");
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_plugin_shows_two_users_what_each_may_see() {
    if let Some(cluster) = crate::cluster(Kind::Real).await {
        two_callers(cluster).await.unwrap();
    }
}

async fn two_callers(cluster: Cluster) -> Result<()> {
    prepare(&cluster).await?;
    let (process, _, admin) = informant(&cluster).await?;
    let kubeconfigs = cluster.kubeconfigs();
    let secret = token(&cluster, "alice", &[]).await?;
    let of_alice = kubeconfigs
        .write("alice", cluster.address(), &Login::token(&secret))
        .await?;
    let [of_alice, of_admin] = [of_alice, cluster.kubeconfig()].map(|path| path.display().to_string());
    let mut plugin = Plugin::install(&cluster)?;
    let server = [
        format!("--admin=https://{admin}"),
        "--insecure-skip-tls-verify".to_owned(),
    ];
    let flags = |more: &[&str]| {
        [
            &server[..],
            &more.iter().map(|flag| (*flag).to_owned()).collect::<Vec<_>>(),
        ]
        .concat()
    };

    let alice = Caller {
        plugin: &mut plugin,
        flags: flags(&["--kubeconfig", &of_alice]),
    };
    alice_sees_her_team(alice, &of_alice).await?;
    let bob = Caller {
        plugin: &mut plugin,
        flags: flags(&["--kubeconfig", &of_admin, "--service-account", "default/bob"]),
    };
    bob_sees_his_team(bob).await?;
    let forged = cluster.folder().join("forged");
    std::fs::write(&forged, "forged-token")?;
    let mut forger = Caller {
        plugin: &mut plugin,
        flags: flags(&["--token-file", &forged.display().to_string()]),
    };
    forger
        .run("status", 1, &["does not accept the token", "it may have expired"])
        .await?;
    port_forward(&cluster, &mut plugin, &of_alice).await?;
    let leaks = |text: &str| {
        [secret.as_str(), "forged-token"]
            .iter()
            .any(|token| text.contains(token))
    };
    ensure!(!leaks(&plugin.printed), "a token was printed");
    let logged = process.lines(0, |line| leaks(line).then_some(()));
    ensure!(logged.is_empty(), "a token is in the log");
    Ok(())
}

/// With the token of her kubeconfig.
async fn alice_sees_her_team(mut alice: Caller<'_>, of_alice: &str) -> Result<()> {
    synced(&mut alice).await?;
    alice.run("get pods -n team-a -o name", 0, &["pod/web"]).await?;
    let check = "check: kubectl auth can-i list pods -n team-b";
    let refused = [
        "cannot list resource \"pods\"",
        check,
        "ask for: a Role or ClusterRole with this right",
    ];
    alice.run("get pods -n team-b", 1, &refused).await?;
    alice.run("get pods", 1, &["can-i list pods --all-namespaces"]).await?;
    alice.run("status", 0, &["Configuration", "v1/secrets"]).await?;
    alice.run("plugin pause none", 1, &["no plugin"]).await?;
    let hidden = alice.run("get secrets db -n team-a -o yaml", 0, &["<7 bytes>"]).await?;
    ensure!(!hidden.contains("aHVudGVyMg=="), "{hidden}");
    alice
        .run("get secrets db -n team-a -o yaml --show-secrets", 0, &["aHVudGVyMg=="])
        .await?;
    // The commands that the messages show.
    for (namespace, answer) in [("team-a", "yes"), ("team-b", "no")] {
        let can_i = [
            "auth",
            "can-i",
            "list",
            "pods",
            "-n",
            namespace,
            "--kubeconfig",
            of_alice,
        ];
        let (_, output) = alice.plugin.kubectl(&can_i).await?;
        ensure!(output.trim() == answer, "{namespace}: {output}");
    }
    Ok(())
}

/// With a token that an administrator requests for him.
async fn bob_sees_his_team(mut bob: Caller<'_>) -> Result<()> {
    bob.run("get pods -n team-b -o name", 0, &["pod/web"]).await?;
    let check = "can-i list pods -n team-a --as system:serviceaccount:default:bob";
    bob.run("get pods -n team-a", 1, &[check]).await?;
    bob.run("status", 0, &["Configuration"]).await?;
    let refused = [
        "can-i update plugins.informant.dev/none --subresource pause",
        "the ClusterRole informant-operate",
    ];
    bob.run("plugin pause none", 1, &refused).await?;
    Ok(())
}

/// Waits until the first lists are in the cache.
async fn synced(alice: &mut Caller<'_>) -> Result<()> {
    for (resource, name) in [("pods", "web"), ("secrets", "db")] {
        alice
            .run_until(&format!("get {resource} -n team-a"), 0, &[name])
            .await?;
    }
    Ok(())
}

/// Without --admin: the rights that a port-forward needs are those in the guide.
async fn port_forward(cluster: &Cluster, plugin: &mut Plugin, of_alice: &str) -> Result<()> {
    let mut alice = Caller {
        plugin,
        flags: vec!["--kubeconfig".to_owned(), of_alice.to_owned()],
    };
    alice
        .run("status", 1, &["you need `list` on pods in namespace informant"])
        .await?;
    kubectl(cluster, &["create", "namespace", "informant"]).await?;
    let guide = std::fs::read_to_string(workspace_folder().join("docs/guides/kubectl.md"))?;
    let role: PathBuf = cluster.folder().join("connect.yaml");
    std::fs::write(&role, readme::first_block(&guide, "yaml")?)?;
    kubectl(cluster, &["apply", "-f", &role.display().to_string()]).await?;
    let bind = [
        "create",
        "rolebinding",
        "alice",
        "-n",
        "informant",
        "--role",
        "informant-connect",
    ];
    kubectl(cluster, &[&bind[..], &["--serviceaccount", "default:alice"]].concat()).await?;
    let path = "/api/v1/namespaces/informant/pods";
    let client = cluster.client().await?;
    let pod = json!({
        "metadata": {"name": "informant-0", "labels": {"app.kubernetes.io/name": "informant"}},
        "spec": {"containers": [{"name": "informant", "image": "informant"}]},
    });
    client.post(path, &pod).await?;
    let pending = ["no pod of Informant in namespace informant is Ready: informant-0 (Pending)"];
    // The authorizer has its own watch of roles.
    alice.run_until("status", 1, &pending).await?;
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    client.merge(&format!("{path}/informant-0/status"), &ready).await?;
    // There is no node, which the API server finds out once it has checked the rights.
    alice
        .run_until("status -n informant", 1, &["does not have a host assigned"])
        .await?;
    Ok(())
}
