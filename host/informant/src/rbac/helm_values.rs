//! The values of the chart in `deploy/chart` that follow from a configuration, as YAML.
//!
//! ```text
//! config.toml, scripts, components ──▶ config, scripts, components     what the chart puts into its ConfigMap
//!                        └───────────▶ fromConfig                      permissions and facts that the chart needs
//! ```
//!
//! The chart renders nothing unless `fromConfig.sha256` is the hash of `config`, so the permissions cannot belong to
//! another configuration. Texts are block scalars: a diff of the values shows what changed. Pure: no input or output.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use informant_spec::Digest;

use super::Permissions;
use super::yaml::{quoted, write_rules};
use crate::escape;

/// What the chart needs to know about a configuration.
#[derive(Debug)]
pub(crate) struct HelmValues<'a> {
    pub config: &'a str,
    /// The texts of the scripts next to config.toml, by file name.
    pub scripts: BTreeMap<String, String>,
    /// The components next to config.toml, by file name.
    pub components: BTreeMap<String, Vec<u8>>,
    /// The files of plugins below the folder of config.toml, with their folders.
    pub files: BTreeSet<String>,
    /// Whether one of several replicas acts.
    pub ha: bool,
    /// Whether what plugins remember is in Secrets of Informant's namespace.
    pub shared_state: bool,
    /// The state database, if the configuration uses one; without a path at the default location.
    pub state: Option<Option<&'a Path>>,
    pub health_listen: SocketAddr,
    pub admin_listen: SocketAddr,
    /// Whether its callers have to authenticate.
    pub admin_tls: bool,
    /// The certificate and the key of the admin server, if its TLS has files.
    pub admin_tls_files: Vec<&'a Path>,
    /// The sections that Informant reads only when it starts, in any form that differs when they do.
    pub restart_sections: String,
    /// What Informant and its plugins may do.
    pub permissions: &'a Permissions,
}

impl HelmValues<'_> {
    #[must_use]
    pub(crate) fn yaml(&self) -> String {
        let mut text = String::new();
        // Writing into a String does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        write_text(out, 0, "config", self.config)?;
        write_map(out, 0, "scripts", &self.scripts, |out, name, text| {
            write_text(out, 2, &quoted(name), text)
        })?;
        write_map(out, 0, "components", &self.components, |out, name, bytes| {
            writeln!(out, "  {}: {}", quoted(name), quoted(&STANDARD.encode(bytes)))
        })?;
        writeln!(out, "fromConfig:\n  sha256: {}", quoted(&config_sha256(self.config)))?;
        let files: Vec<String> = self.files.iter().map(|name| quoted(name)).collect();
        writeln!(out, "  files: [{}]", files.join(", "))?;
        writeln!(out, "  ha: {}\n  sharedState: {}", self.ha, self.shared_state)?;
        let path = self.state.flatten().map(Path::to_string_lossy).unwrap_or_default();
        writeln!(
            out,
            "  usesState: {}\n  statePath: {}",
            self.state.is_some(),
            quoted(&path)
        )?;
        writeln!(out, "  healthListen: {}", quoted(&self.health_listen.to_string()))?;
        writeln!(out, "  adminListen: {}", quoted(&self.admin_listen.to_string()))?;
        writeln!(out, "  adminTls: {}", self.admin_tls)?;
        let files: Vec<String> = self
            .admin_tls_files
            .iter()
            .map(|path| quoted(&path.to_string_lossy()))
            .collect();
        writeln!(out, "  adminTlsFiles: [{}]", files.join(", "))?;
        let restart = Digest::of(self.restart_sections.as_bytes()).to_string();
        writeln!(out, "  restartSha256: {}", quoted(&restart))?;
        self.write_permissions(out)
    }

    fn write_permissions(&self, out: &mut String) -> fmt::Result {
        let mut rules = self.permissions.by_scope();
        match rules.remove(&None) {
            Some(rules) => {
                writeln!(out, "  clusterRules:")?;
                write_rules(out, "  ", &rules)?;
            }
            None => writeln!(out, "  clusterRules: []")?,
        }
        let of_namespaces = rules.into_iter().filter_map(|(scope, rules)| Some((scope?, rules)));
        let of_namespaces: BTreeMap<String, _> = of_namespaces.collect();
        // Helm merges maps of several values files, but not lists: the chart finds namespaces of other files by this.
        let names: Vec<String> = of_namespaces.keys().map(|name| quoted(name)).collect();
        writeln!(out, "  namespaces: [{}]", names.join(", "))?;
        write_map(out, 2, "namespaceRules", &of_namespaces, |out, name, rules| {
            writeln!(out, "    {}:", quoted(name))?;
            write_rules(out, "    ", rules)
        })
    }
}

/// The SHA-256 of config.toml as the chart computes it: over the text with Unix line ends and without white space at
/// both ends. YAML and `helm --set-file` may change those, but nothing else.
fn config_sha256(text: &str) -> String {
    Digest::of(text.replace("\r\n", "\n").trim().as_bytes()).to_string()
}

fn write_map<T>(
    out: &mut String,
    indent: usize,
    key: &str,
    map: &BTreeMap<String, T>,
    write_entry: impl Fn(&mut String, &str, &T) -> fmt::Result,
) -> fmt::Result {
    let empty = if map.is_empty() { " {}" } else { "" };
    writeln!(out, "{:indent$}{key}:{empty}", "")?;
    map.iter().try_for_each(|(name, value)| write_entry(out, name, value))
}

/// A text as a block scalar, or as a string in quotes if it has characters that a block cannot contain.
fn write_text(out: &mut String, indent: usize, key: &str, text: &str) -> fmt::Result {
    write!(out, "{:indent$}{key}: ", "")?;
    let is_plain = |line: &str| escape::is_harmless(&line.replace('\t', ""));
    if text.trim().is_empty() || !text.split('\n').all(is_plain) {
        return writeln!(out, "{}", quoted(text));
    }
    // A first line that begins with white space would hide how far the block is indented.
    let indentation = if text.starts_with([' ', '\t', '\n']) { "2" } else { "" };
    let (lines, line_ends) = match text.strip_suffix('\n') {
        None => (text, "-"),
        Some(lines) if lines.ends_with('\n') => (lines, "+"),
        Some(lines) => (lines, ""),
    };
    writeln!(out, "|{indentation}{line_ends}")?;
    for line in lines.split('\n') {
        let indent = if line.is_empty() { 0 } else { indent + 2 };
        writeln!(out, "{:indent$}{line}", "")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "[informer.pods]\nresource = \"v1/pods\"\n\n[plugin.a]\nscript = \"a.js\"\n";

    fn values(config: &str, script: &str) -> String {
        let mut permissions = Permissions::default();
        permissions.add_informer("pods", "", "pods", None);
        permissions.add_informer("jobs", "batch", "jobs", Some("web"));
        let values = HelmValues {
            config,
            scripts: BTreeMap::from([("a.js".to_owned(), script.to_owned())]),
            components: BTreeMap::from([("b.wasm".to_owned(), b"\0asm".to_vec())]),
            files: ["a.js", "b.wasm"].map(str::to_owned).into(),
            ha: false,
            shared_state: false,
            state: Some(Some(Path::new("/var/lib/informant/state.redb"))),
            health_listen: "[::]:8090".parse().unwrap(),
            admin_listen: "127.0.0.1:8089".parse().unwrap(),
            admin_tls: true,
            admin_tls_files: vec![Path::new("/tls/tls.crt"), Path::new("/tls/tls.key")],
            restart_sections: "a = 1\nb = 2".to_owned(),
            permissions: &permissions,
        };
        values.yaml()
    }

    #[test]
    fn values_hold_texts_permissions_and_facts() {
        insta::assert_snapshot!(values(CONFIG, "export function onAdd() {\n\n\tlog();\n}"), @r#"
        config: |
          [informer.pods]
          resource = "v1/pods"

          [plugin.a]
          script = "a.js"
        scripts:
          "a.js": |-
            export function onAdd() {

            	log();
            }
        components:
          "b.wasm": "AGFzbQ=="
        fromConfig:
          sha256: "a4c831eb65e085f185c1bc6cddd6e0bafaa13e74c2f84cdced81bb16180007dc"
          files: ["a.js", "b.wasm"]
          ha: false
          sharedState: false
          usesState: true
          statePath: "/var/lib/informant/state.redb"
          healthListen: "[::]:8090"
          adminListen: "127.0.0.1:8089"
          adminTls: true
          adminTlsFiles: ["/tls/tls.crt", "/tls/tls.key"]
          restartSha256: "8f0b3641c33c75bcaff73cf4e89a903ab38cc1f4f09a27d4db8abce7b0171898"
          clusterRules:
          # [informer.pods]
          - apiGroups: [""]
            resources: ["pods"]
            verbs: ["list", "watch"]
          namespaces: ["web"]
          namespaceRules:
            "web":
            # [informer.jobs]
            - apiGroups: ["batch"]
              resources: ["jobs"]
              verbs: ["list", "watch"]
        "#);
    }

    #[test]
    fn texts_that_a_block_would_change_are_quoted() {
        let text = |text: &str| {
            let mut out = String::new();
            write_text(&mut out, 0, "t", text).unwrap();
            out
        };
        insta::assert_snapshot!(text("a\r\nb\n"), @r#"t: "a\r\nb\n""#);
        insta::assert_snapshot!(text("a\u{202e}\n"), @"t: \"a\u{202e}\\n\"");
        insta::assert_snapshot!(text("\n"), @r#"t: "\n""#);
        assert_eq!(text("  a\nb"), "t: |2-\n    a\n  b\n");
        assert_eq!(text("a\n\n"), "t: |+\n  a\n\n");
    }

    #[test]
    fn line_ends_do_not_change_the_hash() {
        let expected = config_sha256("a = 1\nb = 2");
        for text in ["a = 1\nb = 2\n", "a = 1\r\nb = 2\r\n", "\na = 1\nb = 2\n\n"] {
            assert_eq!(config_sha256(text), expected, "{text:?}");
        }
        assert_ne!(config_sha256("a = 1\n\nb = 2"), expected);
        // As `printf 'a = 1\nb = 2' | sha256sum` prints it.
        assert!(expected.starts_with("8f0b3641"), "{expected}");
    }
}
