//! The ways to change objects with kubectl, and to query what can be changed.

use anyhow::{Result, ensure};
use informant_tests::cluster::Cluster;

use super::{Kubectl, write};

crate::on_both_clusters!(
    kubectl_changes_objects_in_every_way,
    kubectl_asks_before_and_waits_after
);

const IMAGE: &str = "jsonpath={.spec.template.spec.containers[0].image}";

async fn kubectl_changes_objects_in_every_way(cluster: Cluster) -> Result<()> {
    let kubectl = Kubectl::of(&cluster);
    let create = ["create", "deployment", "web", "--image=nginx:1.25", "--replicas=2"];
    kubectl.expect(&create, "deployment.apps/web created").await?;
    kubectl.label_and_annotate().await?;
    kubectl.patch().await?;
    kubectl.edit_and_scale().await?;
    kubectl.replace().await?;
    kubectl.apply_on_the_server().await
}

async fn kubectl_asks_before_and_waits_after(cluster: Cluster) -> Result<()> {
    let kubectl = Kubectl::of(&cluster);
    kubectl.ask().await?;
    kubectl.select_fields().await?;
    kubectl.rehearse().await?;
    kubectl.generate_names().await?;
    kubectl.hold_deletes_back().await?;
    kubectl.use_namespaces().await
}

impl Kubectl {
    async fn label_and_annotate(&self) -> Result<()> {
        self.expect(&["label", "deploy", "web", "tier=front"], "deployment.apps/web labeled")
            .await?;
        self.expect_failure(
            &["label", "deploy", "web", "tier=back"],
            "'tier' already has a value (front), and --overwrite is false",
        )
        .await?;
        self.expect(
            &["get", "deploy", "-l", "tier=front", "-o", "name"],
            "deployment.apps/web",
        )
        .await?;
        self.expect(&["label", "deploy", "web", "tier-"], "deployment.apps/web unlabeled")
            .await?;
        self.expect(
            &["annotate", "deploy", "web", "note=x y"],
            "deployment.apps/web annotated",
        )
        .await?;
        self.expect(
            &["get", "deploy", "web", "-o", "jsonpath={.metadata.annotations.note}"],
            "x y",
        )
        .await
    }

    async fn patch(&self) -> Result<()> {
        let image = |image: &str| {
            format!(
                r#"{{"spec": {{"template": {{"spec": {{"containers": [{{"name": "nginx", "image": "{image}"}}]}}}}}}}}"#
            )
        };
        let strategic = image("nginx:1.26");
        self.expect(
            &["patch", "deploy", "web", "-p", &strategic],
            "deployment.apps/web patched",
        )
        .await?;
        self.expect(
            &["patch", "deploy", "web", "-p", &strategic],
            "deployment.apps/web patched (no change)",
        )
        .await?;
        self.expect(&["get", "deploy", "web", "-o", IMAGE], "nginx:1.26")
            .await?;
        let merge = [
            "patch",
            "deploy",
            "web",
            "--type=merge",
            "-p",
            r#"{"spec": {"paused": true}}"#,
        ];
        self.expect(&merge, "deployment.apps/web patched").await?;
        let json = r#"[{"op": "test", "path": "/spec/paused", "value": true}, {"op": "replace", "path": "/spec/replicas", "value": 3}]"#;
        self.expect(
            &["patch", "deploy", "web", "--type=json", "-p", json],
            "deployment.apps/web patched",
        )
        .await?;
        let replicas = [
            "get",
            "deploy",
            "web",
            "-o",
            "jsonpath={.spec.replicas} {.metadata.generation}",
        ];
        self.expect(&replicas, "3 5").await?;
        self.expect(
            &["set", "image", "deploy/web", "nginx=nginx:1.27"],
            "deployment.apps/web image updated",
        )
        .await
    }

    async fn edit_and_scale(&self) -> Result<()> {
        let args = ["edit", "deploy", "web"];
        let mut edit = self.command(&args);
        edit.env("KUBE_EDITOR", "sed -i s/nginx:1.27/nginx:1.28/");
        let said = self.output_of(edit, &args).await?;
        ensure!(said.trim() == "deployment.apps/web edited", "{said}");
        self.expect(&["get", "deploy", "web", "-o", IMAGE], "nginx:1.28")
            .await?;
        self.expect(
            &["scale", "deploy", "web", "--replicas=5"],
            "deployment.apps/web scaled",
        )
        .await?;
        self.expect_failure(
            &["scale", "deploy", "web", "--current-replicas=9", "--replicas=1"],
            "Expected replicas to be 9, was 5",
        )
        .await?;
        let wait = [
            "wait",
            "--for=jsonpath={.spec.replicas}=5",
            "--timeout=60s",
            "deploy/web",
        ];
        self.expect(&wait, "deployment.apps/web condition met").await
    }

    async fn replace(&self) -> Result<()> {
        let shown = self.run(&["get", "deploy", "web", "-o", "json"]).await?;
        let changed = shown.replace("nginx:1.28", "nginx:1.29");
        let changed = write(&self.folder.join("replaced.json"), &changed)?;
        self.expect(&["replace", "-f", &changed], "deployment.apps/web replaced")
            .await?;
        self.expect_failure(
            &["replace", "-f", &changed],
            "the object has been modified; please apply your changes to the latest version and try again",
        )
        .await
    }

    async fn apply_on_the_server(&self) -> Result<()> {
        let manifest = |value: &str| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: applied, namespace: default}}\ndata: {{a: \"{value}\"}}\n"
            )
        };
        let path = self.folder.join("applied.yaml");
        for value in ["1", "2"] {
            let file = write(&path, &manifest(value))?;
            let apply = ["apply", "--server-side", "-f", &file];
            self.expect(&apply, "configmap/applied serverside-applied").await?;
            self.expect(&["get", "cm", "applied", "-o", "jsonpath={.data.a}"], value)
                .await?;
        }
        Ok(())
    }

    async fn ask(&self) -> Result<()> {
        let apps = "controllerrevisions.apps\ndaemonsets.apps\ndeployments.apps\nreplicasets.apps\nstatefulsets.apps";
        self.expect(&["api-resources", "--api-group=apps", "-o", "name"], apps)
            .await?;
        let versions = self.run(&["api-versions"]).await?;
        for version in ["v1", "apps/v1", "batch/v1", "apiextensions.k8s.io/v1"] {
            ensure!(versions.lines().any(|line| line == version), "{versions}");
        }
        let explained = self.run(&["explain", "deployment.spec.replicas"]).await?;
        ensure!(explained.contains("FIELD: replicas <integer>"), "{explained}");
        Ok(())
    }

    async fn select_fields(&self) -> Result<()> {
        self.run(&["run", "a", "--image=a"]).await?;
        self.run(&["run", "b", "--image=b"]).await?;
        let by = async |selector: &str, expected: &str| {
            self.expect(&["get", "pods", "--field-selector", selector, "-o", "name"], expected)
                .await
        };
        by("metadata.name=a", "pod/a").await?;
        by("metadata.name!=a,status.phase=Pending", "pod/b").await?;
        by("spec.nodeName=x", "").await?;
        self.expect_failure(
            &["get", "pods", "--field-selector", "spec.containers=x"],
            "field label not supported: spec.containers",
        )
        .await?;
        self.expect_failure(
            &["get", "configmaps", "--field-selector", "data.a=1"],
            "\"data.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        )
        .await?;
        let described = self.run(&["describe", "pod", "a"]).await?;
        let says = |expected: [&str; 2]| described.lines().any(|line| line.split_whitespace().eq(expected));
        ensure!(says(["Image:", "a"]) && says(["Status:", "Pending"]), "{described}");
        let deleted = "pod \"a\" deleted from default namespace\npod \"b\" deleted from default namespace";
        self.expect(&["delete", "pods", "--all", "--now"], deleted).await
    }

    async fn rehearse(&self) -> Result<()> {
        let create = ["create", "configmap", "never", "--from-literal=a=1", "--dry-run=server"];
        self.expect(&create, "configmap/never created (server dry run)").await?;
        self.expect_failure(&["get", "configmap", "never"], "configmaps \"never\" not found")
            .await?;
        let misspelt = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: typo}\nspec: {replica: 2, selector: {matchLabels: {a: b}}, \
            template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n";
        let misspelt = write(&self.folder.join("misspelt.yaml"), misspelt)?;
        self.expect_failure(
            &["apply", "-f", &misspelt],
            "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown field \"spec.replica\"",
        )
        .await
    }

    async fn generate_names(&self) -> Result<()> {
        let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-, namespace: default}\n";
        let manifest = write(&self.folder.join("generated.yaml"), manifest)?;
        let said = self.run(&["create", "-f", &manifest]).await?;
        let suffix = said
            .trim()
            .strip_prefix("configmap/made-")
            .and_then(|rest| rest.strip_suffix(" created"));
        ensure!(suffix.is_some_and(|suffix| suffix.len() == 5), "{said}");
        self.run(&["delete", "configmaps", "--all"]).await?;
        self.expect(&["get", "configmaps", "-o", "name"], "").await
    }

    async fn hold_deletes_back(&self) -> Result<()> {
        let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, namespace: default, finalizers: [example.com/wait]}\n";
        let manifest = write(&self.folder.join("held.yaml"), manifest)?;
        self.run(&["create", "-f", &manifest]).await?;
        let delete = ["delete", "configmap", "held", "--wait=false"];
        self.expect(&delete, "configmap \"held\" deleted from default namespace")
            .await?;
        let marked = self
            .run(&[
                "get",
                "configmap",
                "held",
                "-o",
                "jsonpath={.metadata.deletionTimestamp}",
            ])
            .await?;
        ensure!(marked.ends_with('Z'), "{marked:?}");
        let release = [
            "patch",
            "configmap",
            "held",
            "--type=merge",
            "-p",
            r#"{"metadata": {"finalizers": null}}"#,
        ];
        self.expect(&release, "configmap/held patched").await?;
        self.run(&["wait", "--for=delete", "--timeout=60s", "configmap/held"])
            .await?;
        self.expect_failure(&["get", "configmap", "held"], "configmaps \"held\" not found")
            .await
    }

    async fn use_namespaces(&self) -> Result<()> {
        self.expect(&["create", "namespace", "staging"], "namespace/staging created")
            .await?;
        self.expect(&["get", "ns", "staging", "-o", "jsonpath={.status.phase}"], "Active")
            .await?;
        self.expect_failure(
            &["create", "namespace", "staging"],
            "namespaces \"staging\" already exists",
        )
        .await?;
        self.expect(
            &["-n", "staging", "create", "configmap", "there"],
            "configmap/there created",
        )
        .await?;
        self.expect(&["-n", "staging", "get", "configmaps", "-o", "name"], "configmap/there")
            .await?;
        self.expect_failure(
            &["-n", "nowhere", "create", "configmap", "x"],
            "namespaces \"nowhere\" not found",
        )
        .await
    }
}
