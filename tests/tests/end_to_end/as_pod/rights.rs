//! The rights that RBAC gives a service account, one by one.

use std::time::Duration;

use anyhow::{Context, Result};
use informant_tests::client::Client;
use informant_tests::wait;
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A change of a role takes effect when the authorizer's own watch has delivered it.
const IN_EFFECT_WITHIN: Duration = Duration::from_secs(30);

/// A service account.
#[derive(Debug)]
pub(crate) struct Account {
    namespace: String,
    name: String,
}

/// One verb on one resource, as a role grants it.
#[derive(Debug)]
pub(super) struct Right {
    /// The path of the role.
    role: String,
    /// The namespace in which it holds; empty: everywhere.
    namespace: String,
    /// A rule of one verb, one group and one resource.
    rule: Value,
}

impl Account {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Its name as a user.
    pub(super) fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// All its rights: those of the roles that are bound to it by name.
    pub(super) async fn rights(&self, client: &Client) -> Result<Vec<Right>> {
        let mut rights = Vec::new();
        for kind in ["clusterrolebindings", "rolebindings"] {
            let bindings = client.get(&format!("{RBAC}/{kind}")).await?;
            let own = |binding: &&Value| {
                let mut subjects = list(&binding["subjects"]).iter();
                subjects.any(|subject| subject["name"] == *self.name && subject["namespace"] == *self.namespace)
            };
            for binding in list(&bindings["items"]).iter().filter(own) {
                let namespace = binding["metadata"]["namespace"].as_str().unwrap_or_default();
                let name = binding["roleRef"]["name"].as_str().context("a role")?;
                let role = if binding["roleRef"]["kind"] == "ClusterRole" {
                    format!("{RBAC}/clusterroles/{name}")
                } else {
                    format!("{RBAC}/namespaces/{namespace}/roles/{name}")
                };
                for rule in single(&client.get(&role).await?["rules"]) {
                    let (role, namespace) = (role.clone(), namespace.to_owned());
                    rights.push(Right { role, namespace, rule });
                }
            }
        }
        Ok(rights)
    }

    /// Takes a right away, and waits until the API server refuses it.
    pub(super) async fn lose(&self, client: &Client, right: &Right) -> Result<()> {
        let role = client.get(&right.role).await?;
        let mut rules = single(&role["rules"]);
        rules.retain(|rule| *rule != right.rule);
        self.set(client, right, role, rules, false).await
    }

    /// Gives it back.
    pub(super) async fn regain(&self, client: &Client, right: &Right) -> Result<()> {
        let role = client.get(&right.role).await?;
        let mut rules = single(&role["rules"]);
        rules.push(right.rule.clone());
        self.set(client, right, role, rules, true).await
    }

    async fn set(&self, client: &Client, right: &Right, mut role: Value, rules: Vec<Value>, has: bool) -> Result<()> {
        role["rules"] = rules.into();
        client.put(&right.role, &role).await?;
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": self.user(),
                "groups": [
                    "system:authenticated", "system:serviceaccounts", format!("system:serviceaccounts:{}", self.namespace),
                ],
                "resourceAttributes": right.attributes(),
            },
        });
        let what = format!("{right:?} to be {}", if has { "granted" } else { "refused" });
        wait::until(&what, IN_EFFECT_WITHIN, async || {
            let answer = client
                .post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review)
                .await;
            let status = answer.map_err(|error| format!("{error:#}"))?["status"].clone();
            // Still allowed may also mean: by another rule.
            if status["allowed"] == has {
                Ok(())
            } else {
                Err(status.to_string())
            }
        })
        .await
    }
}

impl Right {
    fn attributes(&self) -> Value {
        let (resource, subresource) = {
            let resource = self.rule["resources"][0].as_str().unwrap_or_default();
            resource.split_once('/').unwrap_or((resource, ""))
        };
        json!({
            "namespace": self.namespace, "verb": self.rule["verbs"][0], "group": self.rule["apiGroups"][0],
            "resource": resource, "subresource": subresource, "name": self.rule["resourceNames"][0],
        })
    }
}

/// Rules of one verb, one group and one resource each, with the same meaning.
fn single(rules: &Value) -> Vec<Value> {
    let mut single = Vec::new();
    for rule in list(rules) {
        for verb in list(&rule["verbs"]) {
            for group in list(&rule["apiGroups"]) {
                for resource in list(&rule["resources"]) {
                    let mut one = rule.clone();
                    one["verbs"] = json!([verb]);
                    one["apiGroups"] = json!([group]);
                    one["resources"] = json!([resource]);
                    single.push(one);
                }
            }
        }
    }
    single
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
