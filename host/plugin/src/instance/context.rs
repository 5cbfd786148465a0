//! The contexts that `describe` and `init` receive: JSON documents, to which members may be added.

use informant_spec::{Digest, PluginSpec};
use serde::Serialize;
use serde_json::Value;
use tracing::Level;

use crate::bindings::CONTRACT;
use crate::capability;
use crate::component::roles::Role;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DescribeContext {
    pub(crate) plugin: String,
    /// The `config` table of its section.
    pub(crate) config: Value,
    informant: &'static str,
    contract: &'static str,
    offers: Vec<&'static str>,
    roles: Vec<&'static str>,
    limits: ContextLimits,
}

/// The limits of the plugin's section that its own code can respect.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContextLimits {
    /// Of one instance.
    memory_bytes: usize,
    /// The longest that one call may take.
    call_ms: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InitContext<'a> {
    #[serde(flatten)]
    describe: &'a DescribeContext,
    #[serde(flatten)]
    start: &'a InstanceStart,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_level: Option<&'static str>,
}

/// Which instance is initialized, and why.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceStart {
    /// `events` or `index`.
    pub(crate) role: &'static str,
    /// Its number, from 0.
    pub(crate) instance: u32,
    /// How many instances there are.
    pub(crate) instances: u32,
    pub(crate) because: StartCause,
    /// The version whose state it restores next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<PreviousVersion>,
}

/// Why an instance is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StartCause {
    /// The plugin starts.
    Start,
    /// Another version or section is swapped in.
    Swap,
    /// The instance before was lost.
    Rebuild,
    /// A quarantine was ended by command.
    Resume,
}

/// The version that runs before a swap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PreviousVersion {
    pub(crate) version: String,
    #[serde(serialize_with = "as_text")]
    pub(crate) digest: Digest,
}

impl DescribeContext {
    pub(crate) fn new(spec: &PluginSpec) -> DescribeContext {
        DescribeContext {
            plugin: spec.name.clone(),
            config: spec.config.clone(),
            informant: env!("CARGO_PKG_VERSION"),
            contract: CONTRACT,
            offers: capability::interfaces(),
            roles: Role::ALL.iter().map(|role| role.name()).collect(),
            limits: ContextLimits {
                memory_bytes: spec.limits.memory_bytes,
                call_ms: u64::try_from(spec.limits.call.as_millis()).unwrap_or(u64::MAX),
            },
        }
    }

    /// Whether the plugin's section has a `config` with members.
    pub(crate) fn has_config(&self) -> bool {
        self.config.as_object().is_some_and(|config| !config.is_empty())
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        json(self)
    }

    pub(crate) fn to_init_json(&self, start: &InstanceStart) -> Vec<u8> {
        json(&InitContext {
            describe: self,
            start,
            log_level: log_level(),
        })
    }
}

/// Values of JSON and text always have a JSON form.
fn json(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).unwrap_or_else(|_| b"{}".to_vec())
}

fn as_text<S: serde::Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(digest)
}

/// The lowest level of guests' lines that is logged now.
fn log_level() -> Option<&'static str> {
    use crate::output::GUEST_TARGET;
    // The level of a callsite is a constant, so that each has its own.
    let enabled = [
        (tracing::enabled!(target: GUEST_TARGET, Level::TRACE), "trace"),
        (tracing::enabled!(target: GUEST_TARGET, Level::DEBUG), "debug"),
        (tracing::enabled!(target: GUEST_TARGET, Level::INFO), "info"),
        (tracing::enabled!(target: GUEST_TARGET, Level::WARN), "warn"),
        (tracing::enabled!(target: GUEST_TARGET, Level::ERROR), "error"),
    ];
    enabled
        .into_iter()
        .find_map(|(is_enabled, name)| is_enabled.then_some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_the_documents_of_the_contract() {
        let context = DescribeContext::new(&PluginSpec {
            config: serde_json::json!({ "greeting": "hi" }),
            ..PluginSpec::new("greeter", "greeter.wasm")
        });
        let start = InstanceStart {
            role: "events",
            instance: 0,
            instances: 1,
            because: StartCause::Swap,
            previous: Some(PreviousVersion {
                version: "1.3.0".to_owned(),
                digest: Digest::of(b"before"),
            }),
        };
        let text = |json: Vec<u8>| {
            String::from_utf8(json)
                .unwrap()
                .replace(env!("CARGO_PKG_VERSION"), "VERSION")
        };
        insta::assert_snapshot!(text(context.to_json()), @r#"{"plugin":"greeter","config":{"greeting":"hi"},"informant":"VERSION","contract":"0.3.0","offers":["store","kube","kv","metrics","recorder","log"],"roles":["event-handler","reconciler","timer-handler","sync-handler","index-funcs","state"],"limits":{"memoryBytes":67108864,"callMs":30000}}"#);
        insta::assert_snapshot!(text(context.to_init_json(&start)), @r#"{"plugin":"greeter","config":{"greeting":"hi"},"informant":"VERSION","contract":"0.3.0","offers":["store","kube","kv","metrics","recorder","log"],"roles":["event-handler","reconciler","timer-handler","sync-handler","index-funcs","state"],"limits":{"memoryBytes":67108864,"callMs":30000},"role":"events","instance":0,"instances":1,"because":"swap","previous":{"version":"1.3.0","digest":"6db7d803e74f1ffa7d8f5adc0bf95b3e15bf4c8373fffadf546227cc6c6742cb"}}"#);
    }
}
