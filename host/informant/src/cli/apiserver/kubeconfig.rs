//! The kubeconfig of the embedded API server.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// One server, as a cluster and a context of the same name.
pub(in crate::cli) struct KubeconfigEntry {
    name: String,
    address: SocketAddr,
}

impl KubeconfigEntry {
    pub(in crate::cli) fn new(name: impl Into<String>, address: SocketAddr) -> Self {
        Self {
            name: name.into(),
            address,
        }
    }

    /// The address for a client on this machine: "any address" becomes loopback.
    fn reachable(&self) -> SocketAddr {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        SocketAddr::new(ip, self.address.port())
    }
}

pub(in crate::cli) struct Kubeconfig<'a> {
    /// The authority's certificate, if the server speaks TLS.
    pub(in crate::cli) authority_pem: Option<&'a str>,
    pub(in crate::cli) first: KubeconfigEntry,
    pub(in crate::cli) replica: Option<KubeconfigEntry>,
}

impl Kubeconfig<'_> {
    /// Writes to a temporary file and renames it, so that no reader sees half a file.
    pub(in crate::cli) fn write(&self, path: &Path) -> Result<()> {
        let failed = || format!("cannot write {}", path.display());
        let aside = path.with_added_extension("tmp");
        std::fs::write(&aside, self.text()).with_context(failed)?;
        std::fs::rename(&aside, path).with_context(failed)
    }

    fn text(&self) -> String {
        let all = || std::iter::once(&self.first).chain(&self.replica);
        let scheme = if self.authority_pem.is_some() { "https" } else { "http" };
        let user = quoted(&self.first.name);
        let mut text = format!("apiVersion: v1\nkind: Config\ncurrent-context: {user}\nclusters:\n");
        // Writing into a String does not fail.
        for served in all() {
            let (name, address) = (quoted(&served.name), served.reachable());
            let _ = writeln!(text, "- name: {name}\n  cluster:\n    server: {scheme}://{address}");
            if let Some(pem) = self.authority_pem {
                let _ = writeln!(text, "    certificate-authority-data: {}", STANDARD.encode(pem));
            }
        }
        text.push_str("contexts:\n");
        for served in all() {
            let name = quoted(&served.name);
            let _ = writeln!(
                text,
                "- name: {name}\n  context:\n    cluster: {name}\n    user: {user}\n    namespace: default"
            );
        }
        // Over TLS kubectl prompts for a user name unless it has credentials; the server accepts any.
        let login = if self.authority_pem.is_some() {
            "{token: anything}"
        } else {
            "{}"
        };
        let _ = writeln!(text, "users:\n- name: {user}\n  user: {login}");
        text
    }
}

/// A name as a YAML string, so that `yes` and `1` stay strings.
fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubeconfig_has_a_context_for_each_replica() {
        let address = "0.0.0.0:8088".parse().expect("an address");
        let config = Kubeconfig {
            authority_pem: Some("PEM"),
            first: KubeconfigEntry::new("informant", address),
            replica: Some(KubeconfigEntry::new(
                "informant-replica",
                "127.0.0.1:8090".parse().expect("an address"),
            )),
        };
        insta::assert_snapshot!(config.text(), @r#"
        apiVersion: v1
        kind: Config
        current-context: "informant"
        clusters:
        - name: "informant"
          cluster:
            server: https://127.0.0.1:8088
            certificate-authority-data: UEVN
        - name: "informant-replica"
          cluster:
            server: https://127.0.0.1:8090
            certificate-authority-data: UEVN
        contexts:
        - name: "informant"
          context:
            cluster: "informant"
            user: "informant"
            namespace: default
        - name: "informant-replica"
          context:
            cluster: "informant-replica"
            user: "informant"
            namespace: default
        users:
        - name: "informant"
          user: {token: anything}
        "#);
    }

    #[test]
    fn kubeconfigs_with_different_names_merge_without_conflicts() {
        let text = |name: &str| {
            let first = KubeconfigEntry::new(name, "127.0.0.1:8088".parse().expect("an address"));
            let config = Kubeconfig {
                authority_pem: None,
                first,
                replica: None,
            };
            config.text()
        };
        let read = |name: &str| kube::config::Kubeconfig::from_yaml(&text(name)).expect("a kubeconfig");
        // kubectl and kube both keep the first of two entries with the same name.
        let both = read("east")
            .merge(read("yes"))
            .expect("two kubeconfigs that fit together");
        let clusters: Vec<_> = both.clusters.iter().map(|it| it.name.as_str()).collect();
        let contexts: Vec<_> = both.contexts.iter().map(|it| it.name.as_str()).collect();
        let users: Vec<_> = both.auth_infos.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((clusters, contexts), (vec!["east", "yes"], vec!["east", "yes"]));
        assert_eq!(users, ["east", "yes"]);
        assert_eq!(both.current_context.as_deref(), Some("east"));
    }
}
