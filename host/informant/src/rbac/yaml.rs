//! Permissions as YAML. Strings are written as in JSON, which is valid YAML.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::{Permissions, Rule, RuleTarget, VERBS};
use crate::escape;

/// The ServiceAccount, and the name of all objects.
#[derive(Debug, Clone)]
pub(crate) struct Subject<'a> {
    /// The name of the ServiceAccount, the roles and the bindings.
    pub name: &'a str,
    pub namespace: &'a str,
}

/// The objects of one ServiceAccount.
struct Account<'a> {
    subject: Subject<'a>,
    /// The name of its roles and bindings.
    roles: String,
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// The ServiceAccount, its roles and its bindings.
#[must_use]
pub(crate) fn yaml(permissions: &Permissions, subject: &Subject<'_>) -> String {
    let mut text = String::new();
    let own = Account {
        subject: subject.clone(),
        roles: subject.name.to_owned(),
    };
    // Writing into a String does not fail.
    let _ = write(&mut text, permissions, &own);
    for (account, permissions) in &permissions.identities {
        let subject = Subject {
            name: &account.name,
            namespace: &account.namespace,
        };
        // ServiceAccounts of several namespaces may have one name, and ClusterRoles are in none. No name has a colon.
        let roles = format!("{}:{}:{}", own.roles, account.namespace, account.name);
        text.push_str("---\n");
        let _ = write(&mut text, permissions, &Account { subject, roles });
    }
    text
}

fn write(out: &mut String, permissions: &Permissions, account: &Account<'_>) -> fmt::Result {
    let Account { subject, roles } = account;
    let Subject { name, namespace } = subject;
    writeln!(out, "apiVersion: v1\nkind: ServiceAccount")?;
    metadata(out, name, Some(namespace))?;
    for (scope, rules) in permissions.by_scope() {
        let prefix = if scope.is_some() { "" } else { "Cluster" };
        writeln!(out, "---\napiVersion: {RBAC}/v1\nkind: {prefix}Role")?;
        metadata(out, roles, scope.as_deref())?;
        writeln!(out, "rules:")?;
        write_rules(out, "", &rules)?;
        writeln!(out, "---\napiVersion: {RBAC}/v1\nkind: {prefix}RoleBinding")?;
        metadata(out, roles, scope.as_deref())?;
        writeln!(
            out,
            "roleRef:\n  apiGroup: {RBAC}\n  kind: {prefix}Role\n  name: {}",
            quoted(roles)
        )?;
        writeln!(
            out,
            "subjects:\n- kind: ServiceAccount\n  name: {}\n  namespace: {}",
            quoted(name),
            quoted(namespace)
        )?;
    }
    Ok(())
}

fn metadata(out: &mut String, name: &str, namespace: Option<&str>) -> fmt::Result {
    writeln!(out, "metadata:\n  name: {}", quoted(name))?;
    if let Some(namespace) = namespace {
        writeln!(out, "  namespace: {}", quoted(namespace))?;
    }
    writeln!(out, "  labels: {{app.kubernetes.io/name: informant}}")
}

/// The rules as a list, each line after `indent`.
pub(super) fn write_rules(out: &mut String, indent: &str, rules: &BTreeMap<RuleTarget, Rule>) -> fmt::Result {
    for (target, rule) in rules {
        let needed_by: Vec<&str> = rule.needed_by.iter().map(String::as_str).collect();
        writeln!(out, "{indent}# {}", escape::line(&needed_by.join(", ")))?;
        writeln!(out, "{indent}- apiGroups: {}", list(&[&target.group]))?;
        writeln!(out, "{indent}  resources: {}", list(&[&target.resource]))?;
        if !target.names.is_empty() {
            writeln!(out, "{indent}  resourceNames: {}", list(&target.names))?;
        }
        let verbs: Vec<&str> = VERBS.into_iter().filter(|verb| rule.verbs.contains(verb)).collect();
        writeln!(out, "{indent}  verbs: {}", list(&verbs))?;
    }
    Ok(())
}

fn list(words: &[impl AsRef<str>]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
    format!("[{}]", words.join(", "))
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
