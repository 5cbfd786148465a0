//! The sections of config.toml that a scenario of a plugin needs, as they are written.

use std::path::Path;

use informant_config::{Config, SourceFile};
use informant_spec::PluginSpec;
use serde_json::{Map, Value};

use crate::admin::error::{AdminError, Code};
use crate::config_file;
use crate::daemon::{PluginEntry, StatusRegistry};

/// Keys of a plugin's section that mean nothing in a scenario.
const LEFT_OUT_OF_PLUGIN: [&str; 3] = ["paused", "required", "sha256"];

/// Keys of an informer's section that mean nothing in a scenario. Captured objects have their hashes already.
const LEFT_OUT_OF_INFORMER: [&str; 7] = [
    "clusters",
    "digest",
    "durable",
    "durable-key-file",
    "durable-secrets",
    "max-bytes",
    "required",
];

/// The sections.
#[derive(Debug)]
pub(super) struct Sections {
    pub(super) plugin: String,
    pub(super) of_plugin: Map<String, Value>,
    /// By name.
    pub(super) of_informers: Map<String, Value>,
}

impl Sections {
    /// Reads the sections that run.
    ///
    /// # Errors
    /// If the file cannot be read, or has other ones.
    pub(super) async fn read(registry: &StatusRegistry, entry: &PluginEntry) -> Result<Sections, AdminError> {
        let path = registry.configuration().path.clone();
        let shown = path.display().to_string();
        let not_ready = |message: String| AdminError::new(Code::NotReady, message);
        let read = tokio::task::spawn_blocking(move || config_file::read(&path)).await;
        let read = read.map_err(|_| not_ready("Informant is stopping".to_owned()))?;
        let file = read.map_err(|error| not_ready(format!("{shown} {error}: repair it first")))?;
        let name = &entry.name;
        match Config::parse(&file)
            .ok()
            .and_then(|config| config.plugins.get(name).cloned())
        {
            Some(section) if runs(&section.spec, &entry.section().spec) => {
                Ok(Sections::of(&file, name, &entry.section().spec))
            }
            _ => Err(not_ready(format!(
                "the section [plugin.{name}] of {shown} is not the one that runs: `informant status` says why"
            ))),
        }
    }

    /// The sections in `file`; `spec` is what runs.
    pub(super) fn of(file: &SourceFile, plugin: &str, spec: &PluginSpec) -> Sections {
        let table = |value: Option<Value>| match value {
            Some(Value::Object(table)) => table,
            _ => Map::new(),
        };
        let mut of_plugin = table(Config::written(file, "plugin").remove(plugin));
        of_plugin.retain(|key, _| !LEFT_OUT_OF_PLUGIN.contains(&&**key));
        // That of what runs, also if it is by a flag, as that of `informant dev`: the call's writes changed nothing.
        of_plugin.remove("dry-run");
        if spec.is_dry_run {
            of_plugin.insert("dry-run".to_owned(), true.into());
        }
        for key in ["component", "script"] {
            // The path of this machine means nothing where the scenario runs.
            if let Some(Value::String(path)) = of_plugin.get_mut(key) {
                let name = Path::new(&*path)
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned());
                *path = name.unwrap_or_default();
            }
        }
        let mut informers = Config::written(file, "informer");
        let mut of_informers = Map::new();
        for (_, informer) in &spec.informers {
            let mut section = table(informers.remove(informer));
            section.retain(|key, _| !LEFT_OUT_OF_INFORMER.contains(&&**key));
            if !section.is_empty() {
                of_informers.insert(informer.clone(), section.into());
            }
        }
        Sections {
            plugin: plugin.to_owned(),
            of_plugin,
            of_informers,
        }
    }
}

/// Whether what a call depends on is the same in both.
fn runs(file: &PluginSpec, running: &PluginSpec) -> bool {
    file.config == running.config
        && file.informers == running.informers
        && file.selection == running.selection
        && file.allow_kube == running.allow_kube
        && file.allow_informers == running.allow_informers
        && file.allow_http == running.allow_http
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_lose_what_only_their_daemon_needs() {
        let text = r#"
[informer.pods]
resource = "v1/pods"
clusters = ["east"]
durable = "metadata"
digest = ["/data"]
label-selector = "app=web"

[informer.others]
resource = "v1/nodes"

[cluster.east]
context = "east"

[state]

[plugin.greeter]
script = "plugins/greeter.js"
informers = ["pods"]
paused = true
config = { greeting = "hello" }
allow.kube = [{ resource = "v1/pods", verbs = ["get"] }]
"#;
        let file = SourceFile::new("config.toml", text);
        let config = Config::parse(&file).unwrap();
        let sections = Sections::of(&file, "greeter", &config.plugins["greeter"].spec);
        let shown = [Value::from(sections.of_informers), sections.of_plugin.into()];
        insta::assert_snapshot!(serde_json::to_string(&shown).unwrap(), @r#"[{"pods":{"label-selector":"app=web","resource":"v1/pods"}},{"allow":{"kube":[{"resource":"v1/pods","verbs":["get"]}]},"config":{"greeting":"hello"},"informers":["pods"],"script":"greeter.js"}]"#);
        let in_dry_run = PluginSpec {
            is_dry_run: true,
            ..config.plugins["greeter"].spec.clone()
        };
        let sections = Sections::of(&file, "greeter", &in_dry_run);
        assert_eq!(sections.of_plugin["dry-run"], true);
    }
}
