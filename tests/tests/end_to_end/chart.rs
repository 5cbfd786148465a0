//! `deploy/chart` with helm itself: it refuses values that contradict each other, and what it renders otherwise is
//! valid.
//!
//! `deploy.rs` covers what is committed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::cluster::{Cluster, Kind, Login};
use informant_tests::{guests, scripts, wait};
use serde_json::{Map, Value, json};
use tokio::process::Command;

use crate::deploy::{kubectl, run};

/// A tool of `tests/tools`.
fn tool(name: &str) -> Result<PathBuf> {
    let path = guests::target_folder().join("tools").join(name).join(name);
    ensure!(
        path.is_file(),
        "{} does not exist; run `cargo xtask go-tools` first (it needs Go)",
        path.display()
    );
    Ok(path)
}

/// Helm, and files that it reads and writes.
pub(crate) struct Helm {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Helm {
    /// None where xtask found no Go to build it with (never in CI).
    pub(crate) fn new() -> Result<Option<Self>> {
        if std::env::var_os("INFORMANT_TESTS_WITHOUT_CLUSTER").is_some() {
            return Ok(None);
        }
        let program = tool("helm")?;
        let folder = tempfile::tempdir()?;
        Ok(Some(Self { program, folder }))
    }

    /// A command of helm, without its own files in the home folder.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(name, self.folder.path());
        }
        command
    }

    /// Writes values to a file, which JSON is good for, and returns its path.
    pub(crate) fn values(&self, name: &str, values: &Value) -> Result<String> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, values.to_string())?;
        Ok(path.display().to_string())
    }

    /// What `informant rbac -o helm-values` prints for a configuration with files next to it, as a file.
    pub(crate) async fn generated(&self, config: &str, files: &[&str]) -> Result<String> {
        let folder = self.folder.path().join("configuration");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("config.toml"), config)?;
        for name in files {
            std::fs::write(folder.join(name), "export function onAdd() {}\n")?;
        }
        let mut rbac = Command::new(guests::informant()?);
        let printed = run(rbac.current_dir(&folder).args(["rbac", "-o", "helm-values"])).await?;
        let path = self.folder.path().join("generated.yaml");
        std::fs::write(&path, printed)?;
        Ok(path.display().to_string())
    }

    /// Renders the chart with files of values.
    async fn render(&self, values: &[String]) -> Result<String> {
        self.render_with(values, &[]).await
    }

    /// As [`render`](Self::render), with further arguments.
    async fn render_with(&self, values: &[String], further: &[&str]) -> Result<String> {
        let chart = chart();
        let mut arguments = vec!["template", "informant", chart.as_str(), "--namespace", "informant"];
        arguments.extend(["--kube-version", "1.36"]);
        arguments.extend(values.iter().flat_map(|file| ["--values", file.as_str()]));
        arguments.extend(further);
        run(&mut self.command(&arguments)).await
    }

    /// Installs or upgrades the release `informant` in a namespace of that name.
    pub(crate) async fn upgrade(&self, cluster: &Cluster, values: &[String]) -> Result<()> {
        let chart = chart();
        let mut arguments = vec![
            "upgrade",
            "--install",
            "informant",
            chart.as_str(),
            "--create-namespace",
        ];
        arguments.extend(values.iter().flat_map(|file| ["--values", file.as_str()]));
        self.of_release(cluster, &arguments).await
    }

    /// Goes back to an earlier revision of the release.
    pub(crate) async fn rollback(&self, cluster: &Cluster, revision: &str) -> Result<()> {
        self.of_release(cluster, &["rollback", "informant", revision]).await
    }

    async fn of_release(&self, cluster: &Cluster, arguments: &[&str]) -> Result<()> {
        let kubeconfig = cluster.kubeconfig();
        let mut command = self.command(arguments);
        // No controller runs the Job of a hook.
        command.args(["--namespace", "informant", "--no-hooks", "--kubeconfig"]);
        run(command.arg(kubeconfig)).await.map(drop)
    }

    /// Why the chart refuses values.
    async fn refusal(&self, values: &[String]) -> Result<String> {
        let error = self.render(values).await.err().context("helm accepts the values")?;
        let error = error.to_string();
        let (_, reason) = error.split_once("Error: ").context("helm prints an error")?;
        let reason = reason.split_once("): \n").map_or(reason, |(_, reason)| reason);
        let lines = reason.lines().filter(|line| !line.starts_with("Use --debug"));
        Ok(lines.collect::<Vec<_>>().join("\n").trim().to_owned())
    }
}

fn chart() -> String {
    guests::workspace_folder()
        .join("deploy")
        .join("chart")
        .display()
        .to_string()
}

/// The folder of the example.
fn example() -> PathBuf {
    guests::workspace_folder().join("deploy").join("example")
}

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";
const ADMIN: &str = "[admin]\ntls = \"self-signed\"\n";
const SCRIPT: &str = "[plugin.a]\nscript = \"a.js\"\ninformers = [\"pods\"]\n";

/// A configuration, values next to those that Informant prints for it, and a part of the reason why helm refuses both.
const CONTRADICTIONS: [(&str, &str, &str); 30] = [
    (
        "",
        r#"{"config": "[admin]\ntls = \"self-signed\"\n"}"#,
        "`config` and `fromConfig` do not belong together",
    ),
    (
        "",
        r#"{"fromConfig": {"namespaceRules": {"team-b": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]}}}"#,
        "`fromConfig` has rules for the namespaces [team-b], but config needs them in []",
    ),
    (
        "[plugin.a]\nscript = \"in/a.js\"\ninformers = [\"pods\"]\n",
        "{}",
        "config names the file in/a.js, which is in neither",
    ),
    (
        "",
        r#"{"scripts": {"b.js": ""}}"#,
        "has b.js, which config does not use",
    ),
    (SCRIPT, r#"{"components": {"a.js": ""}}"#, "a.js is in both"),
    (
        SCRIPT,
        r#"{"scripts": {"a.js": "LARGE"}}"#,
        "bytes together, but a ConfigMap holds 1048576",
    ),
    (SCRIPT, r#"{"scripts": {"a.js": "\u007f"}}"#, "control character"),
    (
        "",
        r#"{"state": {"enabled": true}}"#,
        "state.enabled is true, but config has no state database",
    ),
    ("[state]\n", "{}", "a state database without a path"),
    (
        "[state]\npath = \"/var/lib/informant/s\"\n",
        "{}",
        "no volume is mounted there",
    ),
    (
        "[state]\npath = \"/data/s\"\n",
        r#"{"state": {"enabled": true}}"#,
        "/data/s, which is not below state.mountPath (/var/lib/informant)",
    ),
    (
        "[health]\nlisten = \"127.0.0.1:8090\"\n",
        "{}",
        "which the kubelet's probes cannot reach",
    ),
    ("[health]\nlisten = \"[::]:0\"\n", "{}", "the chart needs a fixed port"),
    (
        "",
        r#"{"scripts": {"a.ts": ""}}"#,
        "'/scripts': additional properties 'a.ts' not allowed",
    ),
    ("", r#"{"stat": {}}"#, "additional properties 'stat' not allowed"),
    ("", r#"{"terminationGracePeriodSeconds": 5}"#, "minimum: got 5, want 12"),
    (
        "",
        r#"{"serviceAccount": {"create": false}}"#,
        "every pod with the ServiceAccount `default` would get Informant's permissions",
    ),
    (
        "",
        r#"{"args": ["--health-listen=[::]:9090"]}"#,
        "args has --health-listen",
    ),
    (
        "",
        r#"{"args": ["--admin-listen", "[::]:9089"]}"#,
        "args has --admin-listen",
    ),
    (
        "",
        r#"{"podLabels": {"app.kubernetes.io/name": "other"}}"#,
        "podLabels has app.kubernetes.io/name",
    ),
    (
        "",
        r#"{"extraVolumes": [{"name": "config", "emptyDir": {}}]}"#,
        "extraVolumes has a volume `config`",
    ),
    (
        "",
        r#"{"extraVolumes": [{"name": "run", "emptyDir": {}}]}"#,
        "extraVolumes has a volume `run`",
    ),
    (
        "",
        r#"{"fullnameOverride": "Foo_Bar"}"#,
        "'/fullnameOverride': 'Foo_Bar' does not match pattern",
    ),
    (
        "",
        r#"{"admin": {"expose": true}}"#,
        "config has no [admin] tls with files",
    ),
    (
        "",
        r#"{"networkPolicy": {"adminFrom": [{"podSelector": {}}]}}"#,
        "adminFrom is set, but admin.expose is false",
    ),
    (
        "",
        r#"{"replicas": 2}"#,
        "replicas is 2, but config has no section [ha]: each replica would call every handler",
    ),
    (
        "[ha]\nspeed = \"fast\"\n",
        r#"{"replicas": 2, "shards": 4}"#,
        "shards is 4, but [ha] in config has no `shards`",
    ),
    (
        "[ha]\nshards = 8\n",
        r#"{"replicas": 2, "shards": 4}"#,
        "shards is 4, but [ha] in config has `shards = 8`",
    ),
    (
        "",
        r#"{"shards": 4}"#,
        "shards is 4, but [ha] in config has no `shards`",
    ),
    ("", r#"{"shards": 65}"#, "maximum: got 65, want 64"),
];

#[tokio::test]
async fn chart_refuses_contradictory_values_with_the_reason() -> Result<()> {
    let Some(helm) = Helm::new()? else { return Ok(()) };
    for (section, values, reason) in CONTRADICTIONS {
        let generated = helm.generated(&format!("{ADMIN}{PODS}{section}"), &["a.js"]).await?;
        let large = "x".repeat(1024 * 1024);
        let values: Value = serde_json::from_str(&values.replace("LARGE", &large))?;
        let values = helm.values("contradiction.json", &values)?;
        let refusal = helm.refusal(&[generated, values]).await?;
        ensure!(refusal.contains(reason), "expected {reason:?}, found {refusal:?}");
    }
    Ok(())
}

#[tokio::test]
async fn chart_refuses_an_admin_port_without_tls_unless_allowed() -> Result<()> {
    let Some(helm) = Helm::new()? else { return Ok(()) };
    let generated = helm.generated(PODS, &[]).await?;
    let refusal = helm.refusal(std::slice::from_ref(&generated)).await?;
    ensure!(refusal.starts_with("config has no [admin] tls"), "{refusal}");
    let allowed = helm.values("allowed.json", &json!({"admin": {"allowUnauthenticated": true}}))?;
    helm.render(&[generated, allowed]).await.map(drop)
}

#[tokio::test]
async fn chart_exposes_the_admin_port_with_a_mounted_certificate_only() -> Result<()> {
    let Some(helm) = Helm::new()? else { return Ok(()) };
    let files = "[admin]\ntls = { cert-file = \"/tls/tls.crt\", key-file = \"/tls/tls.key\" }\n";
    let on_loopback = helm.generated(&format!("{files}{PODS}"), &[]).await?;
    let refusal = helm.refusal(std::slice::from_ref(&on_loopback)).await?;
    ensure!(refusal.contains("names /tls/tls.crt, but no volume"), "{refusal}");
    let mut values = json!({
        "admin": {"expose": true},
        "extraVolumes": [{"name": "tls", "secret": {"secretName": "informant-tls"}}],
        "extraVolumeMounts": [{"name": "tls", "mountPath": "/tls"}],
    });
    let exposed = helm.values("exposed.json", &values)?;
    let refusal = helm.refusal(&[on_loopback, exposed.clone()]).await?;
    ensure!(refusal.contains("which nothing outside the pod can reach"), "{refusal}");
    let on_all = helm
        .generated(&format!("{files}listen = \"[::]:8089\"\n{PODS}"), &[])
        .await?;
    let refusal = helm.refusal(&[on_all.clone(), exposed]).await?;
    ensure!(refusal.contains("networkPolicy.adminFrom is empty"), "{refusal}");
    values["networkPolicy"] = json!({"adminFrom": [{"podSelector": {}}]});
    let rendered = helm.render(&[on_all, helm.values("admitted.json", &values)?]).await?;
    ensure!(
        rendered.contains("targetPort: admin") && rendered.contains("port: admin"),
        "{rendered}"
    );
    Ok(())
}

#[tokio::test]
async fn replicas_that_divide_objects_may_write_every_lease() -> Result<()> {
    let Some(helm) = Helm::new()? else { return Ok(()) };
    let config = format!("{ADMIN}[ha]\nspeed = \"fast\"\nshards = 4 # two each\n{PODS}");
    let generated = helm.generated(&config, &[]).await?;
    for values in [json!({"replicas": 2, "shards": 4}), json!({"replicas": 2})] {
        let values = helm.values("shards.json", &values)?;
        let rendered = helm.render(&[generated.clone(), values]).await?;
        ensure!(rendered.contains("\n  replicas: 2\n"), "{rendered}");
        let lease = rendered
            .split("\n---\n")
            .find(|object| object.contains("name: informant-lease"));
        let lease = lease.context("a Role for Leases")?;
        ensure!(
            lease.contains(r#"verbs: ["get", "list", "watch", "patch"]"#) && !lease.contains("resourceNames"),
            "{lease}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn access_roles_of_two_releases_have_different_names() -> Result<()> {
    let Some(helm) = Helm::new()? else { return Ok(()) };
    let only = "--show-only=templates/access-roles.yaml";
    for (namespace, prefix) in [("informant", "informant"), ("team-a", "team-a-informant")] {
        let rendered = helm.render_with(&[], &[only, "--namespace", namespace]).await?;
        for role in ["view", "operate"] {
            ensure!(rendered.contains(&format!("name: {prefix}-{role}\n")), "{rendered}");
        }
    }
    Ok(())
}

/// A configuration that uses everything that the chart supports.
const EVERYTHING: &str = r#"
[admin]
listen = "[::]:8089"
tls = { cert-file = "/tls/tls.crt", key-file = "/tls/tls.key" }
[informer.pods]
resource = "v1/pods"
[informer.deployments]
resource = "apps/v1/deployments"
namespaces = ["web"]
durable = "metadata"
[plugin.a]
script = "a.js"
informers = ["pods"]
allow.kube = [{ verbs = ["create", "patch"], resource = "v1/configmaps", namespaces = ["web"], names = ["marks"] }]
[plugin.b]
component = "b.wasm"
informers = ["deployments"]
[plugin.c]
component = "/plugins/c.wasm"
informers = ["pods"]
[state]
path = "/data/state.redb"
[health]
listen = "[::]:9090"
"#;

/// Values that change every default.
fn everything() -> Value {
    json!({
        "image": {"repository": "registry.example.com/informant", "digest": format!("sha256:{}", "0".repeat(64)), "pullPolicy": "Always",
            "python": true},
        "imagePullSecrets": [{"name": "registry"}],
        "fullnameOverride": "watcher",
        "check": {"args": ["--cluster"], "activeDeadlineSeconds": 60},
        "serviceAccount": {"name": "watcher-account", "annotations": {"example.com/role": "reader"}},
        "accessRoles": {"create": false},
        "admin": {"expose": true},
        "state": {
            "enabled": true, "mountPath": "/data", "size": "10Gi", "accessModes": ["ReadWriteOncePod"],
            "storageClassName": "fast",
        },
        "extraVolumes": [
            {"name": "plugins", "image": {"reference": "registry.example.com/plugins:1"}},
            {"name": "copied", "emptyDir": {}},
            {"name": "tls", "secret": {"secretName": "informant-tls"}},
        ],
        "extraVolumeMounts": [
            {"name": "plugins", "mountPath": "/plugins", "readOnly": true},
            {"name": "copied", "mountPath": "/copied"},
            {"name": "tls", "mountPath": "/tls", "readOnly": true},
        ],
        "initContainers": [{
            "name": "copy", "image": "registry.example.com/copy:1", "command": ["cp", "/b.wasm", "/copied"],
            "volumeMounts": [{"name": "copied", "mountPath": "/copied"}],
        }],
        "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "args": ["--log-level=debug"],
        "resources": {"limits": {"memory": "1Gi"}},
        "terminationGracePeriodSeconds": 60,
        "podAnnotations": {"example.com/owner": "team-a"},
        "podLabels": {"example.com/team": "a"},
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]},
        ]}}},
        "networkPolicy": {
            "from": [{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "adminFrom": [{"podSelector": {}}],
        },
        "podDisruptionBudget": {"maxUnavailable": 0},
        "dashboard": {"enabled": true, "annotations": {"grafana_folder": "Informant"}},
    })
}

/// Without all objects that can be left out.
fn minimum() -> Value {
    json!({
        "check": {"enabled": false}, "serviceAccount": {"create": false, "name": "existing"}, "rbac": {"create": false},
        "networkPolicy": {"enabled": false}, "podDisruptionBudget": {"enabled": false},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rendered_manifests_are_valid_for_many_values() -> Result<()> {
    let Some(helm) = Helm::new()? else { return Ok(()) };
    let cluster = Cluster::start(Kind::Real).await?;
    let schemas = cluster.folder().join("schemas");
    write_schemas(&cluster, &schemas).await?;
    // Where the objects are. The API server warns of a Job or a StatefulSet whose pods violate the policy.
    for name in ["informant", "web"] {
        let labels = json!({"pod-security.kubernetes.io/warn": "restricted"});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        cluster.client().await?.post("/api/v1/namespaces", &namespace).await?;
    }
    let generated = helm.generated(EVERYTHING, &["a.js", "b.wasm"]).await?;
    let cases = [
        ("defaults", vec![]),
        ("example", vec![example().join("values.yaml").display().to_string()]),
        ("minimum", vec![helm.values("minimum.json", &minimum())?]),
        (
            "everything",
            vec![generated, helm.values("everything.json", &everything())?],
        ),
    ];
    for (name, values) in cases {
        let rendered = helm.render(&values).await.with_context(|| name.to_owned())?;
        let file = cluster.folder().join(format!("{name}.yaml"));
        std::fs::write(&file, &rendered)?;
        let mut check = Command::new(tool("kubeconform")?);
        check.args(["-strict", "-schema-location"]);
        check
            .arg(schemas.join("{{ .ResourceKind }}{{ .KindSuffix }}.json"))
            .arg(&file);
        run(&mut check).await.with_context(|| name.to_owned())?;
        let mut apply = kubectl(&cluster);
        apply.args([
            "apply",
            "--dry-run=server",
            "--validate=strict",
            "--warnings-as-errors",
            "-f",
        ]);
        apply.arg(&file);
        run(&mut apply).await.with_context(|| name.to_owned())?;
    }
    Ok(())
}

/// Writes a file for each kind of the API server, from its own description.
async fn write_schemas(cluster: &Cluster, folder: &Path) -> Result<()> {
    let mut api = cluster.client().await?.get("/openapi/v2").await?;
    let mut definitions: Map<String, Value> = serde_json::from_value(api["definitions"].take())?;
    for (name, schema) in &mut definitions {
        if name.ends_with(".IntOrString") {
            *schema = json!({"type": ["integer", "string"]});
        } else if schema.get("properties").is_some() {
            // A misspelled field is an error.
            schema["additionalProperties"] = json!(false);
        }
    }
    std::fs::create_dir_all(folder)?;
    for (name, schema) in &definitions {
        for kind in schema["x-kubernetes-group-version-kind"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let text = |key: &str| kind[key].as_str().unwrap_or_default().to_lowercase();
            // kubeconform asks for `service-v1` and `statefulset-apps-v1`.
            let group = text("group");
            let group = group.split('.').next().filter(|group| !group.is_empty());
            let suffix = group.map(|group| format!("-{group}")).unwrap_or_default();
            let file = format!("{}{suffix}-{}.json", text("kind"), text("version"));
            let schema = json!({"$ref": format!("definitions.json#/definitions/{name}")});
            std::fs::write(folder.join(file), schema.to_string())?;
        }
    }
    let definitions = json!({"definitions": definitions});
    std::fs::write(folder.join("definitions.json"), definitions.to_string())?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helm_upgrade_restarts_only_for_sections_that_need_it() -> Result<()> {
    let Some(helm) = Helm::new()? else { return Ok(()) };
    let cluster = Cluster::start(Kind::Real).await?;
    let config = format!("{ADMIN}{PODS}{SCRIPT}");
    let path = "/apis/apps/v1/namespaces/informant/statefulsets/informant";
    let mut templates = Vec::new();
    let renamed = config.replace("[plugin.a]", "[plugin.b]");
    let hosts = config.replace(ADMIN, &format!("{ADMIN}hosts = [\"informant.example.com\"]\n"));
    for config in [config, renamed, hosts] {
        helm.upgrade(&cluster, &[helm.generated(&config, &["a.js"]).await?])
            .await?;
        let client = cluster.client().await?;
        templates.push(client.get(path).await?["spec"]["template"].clone());
        let config_map = client.get("/api/v1/namespaces/informant/configmaps/informant").await?;
        ensure!(config_map["data"]["config.toml"] == config.as_str(), "{config_map}");
    }
    ensure!(templates[0] == templates[1], "the pod would restart: {templates:?}");
    ensure!(templates[0] != templates[2], "the pod would not restart: {templates:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_passes_with_the_permissions_that_the_chart_brings() -> Result<()> {
    let Some(helm) = Helm::new()? else { return Ok(()) };
    if !scripts::can_run().await? {
        return Ok(());
    }
    let cluster = Cluster::start(Kind::Real).await?;
    let values = example().join("values.yaml").display().to_string();
    let hook = helm
        .render_with(&[values], &["--show-only=templates/check.yaml"])
        .await?;
    let file = cluster.folder().join("check.yaml");
    std::fs::write(&file, hook)?;
    run(kubectl(&cluster).args(["create", "namespace", "informant"])).await?;
    run(kubectl(&cluster).args(["apply", "-f"]).arg(&file)).await?;
    let token = run(kubectl(&cluster).args(["create", "token", "informant-check", "-n", "informant"])).await?;
    let login = Login::token(token.trim());
    let kubeconfig = cluster.kubeconfigs().write("check", cluster.address(), &login).await?;
    let check = || {
        let mut check = Command::new(guests::informant().unwrap_or_default());
        check
            .current_dir(example())
            .args(["check", "--cluster", "--kubeconfig"])
            .arg(&kubeconfig);
        check
    };
    // The authorizer has its own watch of roles.
    let within = Duration::from_secs(60);
    wait::until("the check to pass", within, async || {
        run(&mut check()).await.map_err(|error| error.to_string())
    })
    .await?;
    run(kubectl(&cluster).args(["delete", "clusterrolebinding", "informant-check"])).await?;
    wait::until("the check to fail", within, async || match run(&mut check()).await {
        Err(error)
            if error
                .to_string()
                .contains("has no permission to list and watch v1/pods") =>
        {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    })
    .await
}

/// A definition of a kind of the Prometheus operator that accepts any spec.
fn definition(kind: &str, plural: &str) -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any}});
    let group = "monitoring.coreos.com";
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version],
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn monitoring_objects_select_the_pod_and_hold_alerts() -> Result<()> {
    let Some(helm) = Helm::new()? else { return Ok(()) };
    let cluster = Cluster::start(Kind::Real).await?;
    let client = cluster.client().await?;
    let values = json!({
        "podMonitor": {"enabled": true, "interval": "15s", "labels": {"release": "prometheus"}},
        "prometheusRule": {
            "enabled": true,
            "labels": {"release": "prometheus"},
            "site": "https://docs.example.com/informant/",
        },
        "dashboard": {"enabled": true},
        "check": {"enabled": false},
    });
    let rendered = helm.render(&[helm.values("monitoring.json", &values)?]).await?;
    let file = cluster.folder().join("monitoring.yaml");
    std::fs::write(&file, rendered)?;
    for (kind, plural) in [("PodMonitor", "podmonitors"), ("PrometheusRule", "prometheusrules")] {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        client.post(definitions, &definition(kind, plural)).await?;
        let mut wait = kubectl(&cluster);
        let name = format!("crd/{plural}.monitoring.coreos.com");
        run(wait.args(["wait", "--for=condition=Established", "--timeout=60s", &name])).await?;
    }
    run(kubectl(&cluster).args(["create", "namespace", "informant"])).await?;
    run(kubectl(&cluster).args(["apply", "--validate=strict", "-f"]).arg(&file)).await?;

    let monitoring = "/apis/monitoring.coreos.com/v1/namespaces/informant";
    let monitor = client.get(&format!("{monitoring}/podmonitors/informant")).await?;
    let set = client
        .get("/apis/apps/v1/namespaces/informant/statefulsets/informant")
        .await?;
    ensure!(monitor["spec"]["selector"] == set["spec"]["selector"], "{monitor}");
    ensure!(
        monitor["spec"]["podMetricsEndpoints"][0]["port"] == "health",
        "{monitor}"
    );
    ensure!(monitor["metadata"]["labels"]["release"] == "prometheus", "{monitor}");
    let annotations = &set["spec"]["template"]["metadata"]["annotations"];
    ensure!(
        annotations["prometheus.io/scrape"].is_null(),
        "scraped twice: {annotations}"
    );
    let rule = client.get(&format!("{monitoring}/prometheusrules/informant")).await?;
    let rules = rule["spec"]["groups"][0]["rules"].as_array().context("rules")?;
    ensure!(rules.len() >= 10, "{rules:?}");
    for rule in rules {
        let url = rule["annotations"]["runbook_url"].as_str().context("a runbook")?;
        let at_site = url.starts_with("https://docs.example.com/informant/runbooks/");
        ensure!(at_site && url.ends_with(".html"), "{url}");
    }
    let dashboard = client
        .get("/api/v1/namespaces/informant/configmaps/informant-dashboard")
        .await?;
    let dashboard = dashboard["data"]["informant.json"].as_str().context("a dashboard")?;
    let dashboard: Value = serde_json::from_str(dashboard)?;
    ensure!(dashboard["panels"].is_array(), "{dashboard}");
    Ok(())
}
