//! CustomResourceDefinitions and their resources through kubectl.

use anyhow::{Result, ensure};
use informant_tests::cluster::Cluster;

use super::{Kubectl, write};

crate::on_both_clusters!(kubectl_applies_definitions_and_their_resources);

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    selectableFields: [{jsonPath: .spec.color}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What is wanted.
            required: [size]
            properties:
              size: {type: integer, minimum: 1, maximum: 10, description: How large it is.}
              color: {type: string, enum: [red, green], default: red}
              name: {type: string, pattern: '^[a-z]+$'}
              replicas: {type: integer}
          status:
            type: object
            properties:
              replicas: {type: integer}
              conditions: {type: array, items: {type: object, properties: {type: {type: string}, status: {type: string}}}}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"#;

const WIDGET: &str = r#"
apiVersion: example.com/v1
kind: Widget
metadata: {name: first, namespace: default, labels: {app: test}}
spec: {size: 3, replicas: 2}
"#;

async fn kubectl_applies_definitions_and_their_resources(cluster: Cluster) -> Result<()> {
    let kubectl = Kubectl::of(&cluster);
    let definition = write(&cluster.folder().join("definition.yaml"), DEFINITION)?;
    let widget = write(&cluster.folder().join("widget.yaml"), WIDGET)?;
    kubectl.define(&definition).await?;
    kubectl.apply_widgets(&widget).await?;
    kubectl.change_widgets().await?;
    kubectl.refuse_widgets().await?;
    kubectl.undefine(&definition).await
}

impl Kubectl {
    async fn define(&self, definition: &str) -> Result<()> {
        let name = "customresourcedefinition.apiextensions.k8s.io/widgets.example.com";
        self.expect(&["apply", "-f", definition], &format!("{name} created"))
            .await?;
        let wait = [
            "wait",
            "--for=condition=established",
            "--timeout=60s",
            "crd/widgets.example.com",
        ];
        self.expect(&wait, &format!("{name} condition met")).await?;
        self.expect(&["apply", "-f", definition], &format!("{name} unchanged"))
            .await?;
        let resources = self
            .run(&["api-resources", "--api-group=example.com", "--no-headers"])
            .await?;
        let resources: Vec<&str> = resources.split_whitespace().collect();
        ensure!(
            resources == ["widgets", "wd", "example.com/v1", "true", "Widget"],
            "{resources:?}"
        );
        Ok(())
    }

    async fn apply_widgets(&self, widget: &str) -> Result<()> {
        self.expect(&["apply", "-f", widget], "widget.example.com/first created")
            .await?;
        self.expect(&["apply", "-f", widget], "widget.example.com/first unchanged")
            .await?;
        self.expect(&["get", "wd"], "NAME    SIZE   READY\nfirst   3").await?;
        let status = r#"{"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"size": 9}}"#;
        self.run(&[
            "patch",
            "wd",
            "first",
            "--subresource=status",
            "--type=merge",
            "-p",
            status,
        ])
        .await?;
        let wide = "NAME    SIZE   READY   COLOR\nfirst   3      True    red";
        self.expect(&["get", "wd", "-o", "wide"], wide).await?;
        let wait = ["wait", "--for=condition=Ready", "--timeout=60s", "wd/first"];
        self.expect(&wait, "widget.example.com/first condition met").await?;
        let old = [
            "get",
            "widgets.v1beta1.example.com",
            "first",
            "-o",
            "jsonpath={.apiVersion} {.spec.color}",
        ];
        self.expect(&old, "example.com/v1beta1 red").await?;
        let described = self.run(&["explain", "widgets.spec"]).await?;
        ensure!(
            described.contains("size\t<integer> -required-\n    How large it is."),
            "{described}"
        );
        Ok(())
    }

    async fn change_widgets(&self) -> Result<()> {
        self.expect(
            &["scale", "wd", "first", "--replicas=4"],
            "widget.example.com/first scaled",
        )
        .await?;
        self.expect(&["label", "wd", "first", "tier=x"], "widget.example.com/first labeled")
            .await?;
        let merge = [
            "patch",
            "wd",
            "first",
            "--type=merge",
            "-p",
            r#"{"spec": {"color": "green"}}"#,
        ];
        self.expect(&merge, "widget.example.com/first patched").await?;
        let json = r#"[{"op": "replace", "path": "/spec/size", "value": 5}]"#;
        self.expect(
            &["patch", "wd", "first", "--type=json", "-p", json],
            "widget.example.com/first patched",
        )
        .await?;
        let spec = ["get", "wd", "first", "-o", "jsonpath={.metadata.generation} {.spec}"];
        self.expect(&spec, r#"4 {"color":"green","replicas":4,"size":5}"#)
            .await?;
        let green = ["get", "wd", "--field-selector", "spec.color=green", "-o", "name"];
        self.expect(&green, "widget.example.com/first").await?;
        self.expect(
            &["get", "wd", "--field-selector", "spec.color!=green", "-o", "name"],
            "",
        )
        .await
    }

    async fn refuse_widgets(&self) -> Result<()> {
        let patch = async |patch: &str, expected: &str| {
            let args = ["patch", "wd", "first", "--type=merge", "-p", patch];
            self.expect_failure(&args, &format!("The Widget \"first\" is invalid: {expected}"))
                .await
        };
        patch(
            r#"{"spec": {"size": 11}}"#,
            "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
        )
        .await?;
        patch(
            r#"{"spec": {"size": "big"}}"#,
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        )
        .await?;
        patch(r#"{"spec": {"size": null}}"#, "spec.size: Required value").await?;
        patch(
            r#"{"spec": {"color": "blue"}}"#,
            "spec.color: Unsupported value: \"blue\": supported values: \"red\", \"green\"",
        )
        .await?;
        patch(
            r#"{"spec": {"name": "A"}}"#,
            "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'",
        )
        .await?;
        let misspelt = WIDGET.replace("size: 3", "size: 3, sise: 3").replace("first", "second");
        let misspelt = write(&self.folder.join("misspelt.yaml"), &misspelt)?;
        self.expect_failure(
            &["apply", "-f", &misspelt],
            "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.sise\"",
        )
        .await?;
        self.expect_failure(
            &["get", "wd", "--field-selector", "spec.size=5"],
            "field label not supported: spec.size",
        )
        .await
    }

    async fn undefine(&self, definition: &str) -> Result<()> {
        let deleted = "customresourcedefinition.apiextensions.k8s.io \"widgets.example.com\" deleted";
        self.expect(&["delete", "-f", definition], deleted).await?;
        // kubectl has cached the resource, so that the server refuses.
        self.expect_failure(
            &["get", "--raw", "/apis/example.com/v1/widgets"],
            "the server could not find the requested resource",
        )
        .await
    }
}
