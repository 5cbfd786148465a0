//! `informant rbac -o helm-values`: the values of the chart, with the scripts and components next to config.toml.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use informant_config::{AdminSection, AdminTls, Config, HaSection, KeyStore, SourceFile, show_size};

use crate::files::{ReadFileError, read_regular_file};
use crate::rbac::{CONFIG_MAP_BYTES_MAX, HelmValues, POD_CONFIG_FOLDER, Permissions};

/// The values of the chart for `config`, whose text is `text`.
pub(super) fn helm_values(config: &Config, text: &str, permissions: &Permissions) -> Result<String> {
    // The paths as they are in the pod, where config.toml is in another folder.
    let in_pod = Config::parse(&SourceFile::new(Path::new(POD_CONFIG_FOLDER).join("config.toml"), text))?;
    let is_durable = in_pod.informers.values().any(|section| section.durable.is_some());
    let mut values = HelmValues {
        config: text,
        scripts: BTreeMap::new(),
        components: BTreeMap::new(),
        files: BTreeSet::new(),
        ha: in_pod.ha.is_some(),
        shared_state: in_pod.key_store() == KeyStore::Secrets,
        state: (in_pod.key_store() == KeyStore::File || is_durable).then_some(in_pod.state.path.as_deref()),
        health_listen: in_pod.health.listen,
        admin_listen: in_pod.admin.listen,
        admin_tls: in_pod.admin.tls.is_some(),
        admin_tls_files: match in_pod.admin.tls.as_ref().map(|tls| &tls.value) {
            Some(AdminTls::Files { certificate, key }) => vec![certificate.as_path(), key.as_path()],
            _ => Vec::new(),
        },
        restart_sections: restart_sections(&in_pod),
        permissions,
    };
    let mut bytes_total = text.len();
    for section in in_pod.plugins.values() {
        let Ok(file) = section.spec.content.path().strip_prefix(POD_CONFIG_FOLDER) else {
            // It is on a volume, or in the image.
            continue;
        };
        let name = file.to_string_lossy().into_owned();
        // A ConfigMap has no folders. The chart refuses such a file, unless a volume is mounted there.
        if !values.files.insert(name.clone()) || !is_config_map_key(&name) {
            continue;
        }
        let path = config.folder().join(file);
        let bytes = read(&path)?;
        bytes_total += bytes.len();
        if bytes_total > CONFIG_MAP_BYTES_MAX {
            bail!(
                "{}",
                too_large(&path, "with config.toml and the other files it has", bytes_total)
            );
        }
        if section.spec.content.language().is_script() {
            let text = String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8", path.display()))?;
            values.scripts.insert(name, text);
        } else {
            values.components.insert(name, bytes);
        }
    }
    Ok(values.yaml())
}

/// The sections whose change is pending until a restart, as text. Not their positions in the file.
fn restart_sections(config: &Config) -> String {
    let http = &config.http;
    let ca_file = http.ca_file.as_ref().map(|file| &file.value);
    let http = (ca_file, &http.proxy, &http.no_proxy);
    let AdminSection {
        listen,
        socket,
        hosts,
        tls,
        cluster,
    } = &config.admin;
    let admin = (listen, socket, hosts, tls.as_ref().map(|tls| &tls.value), cluster);
    let runners = &config.script_runners;
    let mut sections = format!("{:?}", (admin, &config.health, http, runners, &config.state));
    if let Some(HaSection {
        speed,
        shards,
        hash,
        group,
        namespace,
        cluster,
        position: _,
    }) = &config.ha
    {
        // Writing into a String does not fail.
        let _ = write!(sections, "{:?}", (speed, shards, hash, group, namespace, cluster));
    }
    sections
}

fn is_config_map_key(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    name.bytes().all(is_part)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    match read_regular_file(path, CONFIG_MAP_BYTES_MAX) {
        Ok(bytes) => Ok(bytes),
        Err(ReadFileError::TooLarge { bytes }) => bail!("{}", too_large(path, "it has", bytes)),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}

fn too_large(path: &Path, what: &str, bytes: usize) -> String {
    format!(
        "{} does not fit into the chart's ConfigMap: {what} {}, and a ConfigMap holds {}. Put components into an image \
         volume or on another volume, and write their absolute path into config.toml: docs/guides/ship-plugins.md",
        path.display(),
        show_size(bytes as u64),
        show_size(CONFIG_MAP_BYTES_MAX as u64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values for a configuration with `files` next to it.
    fn values(config: &str, files: &[(&str, &[u8])]) -> Result<String> {
        let folder = tempfile::tempdir()?;
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes)?;
        }
        let config_file = SourceFile::new(folder.path().join("config.toml"), config);
        let values = helm_values(&Config::parse(&config_file)?, config, &Permissions::default());
        let folder = folder.path().display().to_string();
        values.map_err(|error| anyhow::anyhow!(format!("{error:#}").replace(&folder, "DIR")))
    }

    const PLUGINS: &str = r#"
[informer.pods]
resource = "v1/pods"
[plugin.script]
script = "./a.js"
informers = ["pods"]
[plugin.component]
component = "b.wasm"
informers = ["pods"]
[plugin.same-component]
component = "b.wasm"
informers = ["pods"]
[plugin.on-a-volume]
component = "/plugins/c.wasm"
informers = ["pods"]
[plugin.in-a-folder]
component = "plugins/d.wasm"
informers = ["pods"]
[state]
path = "state.redb"
"#;

    #[test]
    fn files_next_to_the_configuration_become_values() {
        let found = values(PLUGINS, &[("a.js", b"export {};\n"), ("b.wasm", b"\0asm")]).unwrap();
        let (_, found) = found.split_once("scripts:").unwrap();
        let (found, _) = found.split_once("  healthListen").unwrap();
        insta::assert_snapshot!(found, @r#"

          "a.js": |
            export {};
        components:
          "b.wasm": "AGFzbQ=="
        fromConfig:
          sha256: "3fded9997ba5b7f0e270899a6243a5774f29683fdcb47cf8737e5a7ca7ad551d"
          files: ["a.js", "b.wasm", "plugins/d.wasm"]
          ha: false
          sharedState: false
          usesState: true
          statePath: "/etc/informant/state.redb"
        "#);
    }

    #[test]
    fn only_sections_that_need_a_restart_change_their_hash() {
        const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";
        let hash = |config: &str| {
            let values = values(config, &[]).unwrap();
            let (_, hash) = values.split_once("restartSha256: ").unwrap();
            hash.lines().next().unwrap().to_owned()
        };
        let expected = hash(PODS);
        assert_eq!(hash(&format!("{PODS}namespaces = [\"web\"]\n")), expected);
        for section in [
            "[admin]\ntls = \"self-signed\"\n",
            "[health]\nlisten = \"[::]:9090\"\n",
            "[http]\nca-file = \"/ca.pem\"\n",
            "[state]\n",
        ] {
            assert_ne!(hash(&format!("{PODS}{section}")), expected, "{section}");
        }
        let with_ca = |before: &str| hash(&format!("{before}[http]\nca-file = \"/ca.pem\"\n"));
        assert_eq!(with_ca(PODS), with_ca(&format!("{PODS}\n")));
    }

    #[test]
    fn files_that_exceed_a_config_map_are_refused() {
        let large = vec![0; CONFIG_MAP_BYTES_MAX + 1];
        let error = |files: &[(&str, &[u8])]| values(PLUGINS, files).unwrap_err().to_string();
        insta::assert_snapshot!(error(&[("a.js", b""), ("b.wasm", &large)]), @"DIR/b.wasm does not fit into the chart's ConfigMap: it has 1048577B, and a ConfigMap holds 1MiB. Put components into an image volume or on another volume, and write their absolute path into config.toml: docs/guides/ship-plugins.md");
        let script = vec![b' '; CONFIG_MAP_BYTES_MAX / 2];
        insta::assert_snapshot!(error(&[("a.js", &script), ("b.wasm", &script)]), @"DIR/a.js does not fit into the chart's ConfigMap: with config.toml and the other files it has 1048967B, and a ConfigMap holds 1MiB. Put components into an image volume or on another volume, and write their absolute path into config.toml: docs/guides/ship-plugins.md");
        insta::assert_snapshot!(error(&[("a.js", b"\xff"), ("b.wasm", b"")]), @"DIR/a.js is not UTF-8: invalid utf-8 sequence of 1 bytes from index 0");
        insta::assert_snapshot!(error(&[("a.js", b"")]), @"failed to read DIR/b.wasm: No such file or directory (os error 2)");
    }
}
