//! What Informant passes to `describe` and `init`: JSON documents, to which members may be added.

use std::cell::RefCell;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::failure::{Failure, Result};
use crate::log::Level;

thread_local! {
    /// Set in each instance before it is called.
    static PLUGIN_NAME: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The plugin's name in config.toml.
pub(crate) fn plugin_name() -> String {
    PLUGIN_NAME.with_borrow(String::clone)
}

pub(crate) fn set_plugin_name(name: &str) {
    PLUGIN_NAME.set(name.to_owned());
}

/// The argument of [`Plugin::describe`](crate::Plugin::describe).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Describe {
    /// The plugin's name in config.toml.
    pub plugin: String,
    /// The version of Informant.
    pub informant: String,
    /// The version of the contract that Informant has. [`CONTRACT`](crate::CONTRACT) is the one of this SDK.
    pub contract: String,
    /// The interfaces that Informant provides: `store`, `kube` and so on.
    pub offers: Vec<String>,
    /// The names of the roles that Informant calls: `event-handler` and so on.
    pub roles: Vec<String>,
    /// The limits of the plugin's section.
    pub limits: Limits,
    config: Option<Box<RawValue>>,
}

/// The limits of the plugin's section that its code can respect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Limits {
    /// Of the memory of one instance. 0: Informant did not say.
    pub memory_bytes: u64,
    /// The longest that one call may take. 0: Informant did not say.
    pub call_ms: u64,
}

impl Describe {
    /// # Errors
    /// [`Failure::Permanent`] if the document is not what the contract says.
    pub(crate) fn parse(context: &[u8]) -> Result<Self> {
        parse(context)
    }

    /// Deserializes the `config` table of the plugin's section in config.toml.
    ///
    /// # Errors
    /// [`Failure::Permanent`] if the table does not match `T`. The message names the field.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T> {
        let json = self.config.as_ref().map_or("{}", |config| config.get());
        serde_json::from_str(json).map_err(|error| {
            // Line and column refer to a generated document that the reader of the message never sees.
            let text = error.to_string();
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
            Failure::permanent(format_args!("config: {text}"))
        })
    }
}

/// The argument of [`Plugin::init`](crate::Plugin::init). Has all members of [`Describe`], too: `init.config()`,
/// `init.plugin`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Init {
    /// The purpose of the instance. Index functions run in separate instances, which share no memory with the handler.
    pub role: Role,
    /// The number of this instance among those of the same role, from 0.
    pub instance: u32,
    /// How many instances of the same role there are.
    pub instances: u32,
    /// Why Informant creates the instance.
    pub because: Because,
    /// The version whose state [`restore`](crate::Stateful::restore) receives next. `None` if there is no state.
    pub previous: Option<Previous>,
    /// The lowest level that Informant logs for this plugin. `None` if it logs none.
    pub log_level: Option<Level>,
    describe: Describe,
}

impl Init {
    /// # Errors
    /// [`Failure::Permanent`] if the document is not what the contract says.
    pub(crate) fn parse(context: &[u8]) -> Result<Self> {
        let InitMembers {
            role,
            instance,
            instances,
            because,
            previous,
            log_level,
        } = parse(context)?;
        Ok(Self {
            role,
            instance,
            instances,
            because,
            previous,
            log_level: log_level.as_deref().map(level),
            describe: parse(context)?,
        })
    }

    /// The argument that `describe` had.
    pub(crate) fn describe(&self) -> &Describe {
        &self.describe
    }
}

impl Deref for Init {
    type Target = Describe;

    fn deref(&self) -> &Describe {
        &self.describe
    }
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct InitMembers {
    role: Role,
    instance: u32,
    instances: u32,
    because: Because,
    previous: Option<Previous>,
    log_level: Option<String>,
}

impl Default for InitMembers {
    fn default() -> Self {
        Self {
            role: Role::default(),
            instance: 0,
            instances: 1,
            because: Because::default(),
            previous: None,
            log_level: None,
        }
    }
}

/// The plugin whose state the new instance receives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Previous {
    /// Its version, from its manifest.
    pub version: String,
    /// The digest of its component.
    pub digest: String,
}

macro_rules! names {
    ($type:ident { $($case:ident => $name:literal,)+ }) => {
        impl $type {
            /// The name of the case in the contract.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$case => $name,)+
                    Self::Other(name) => name,
                }
            }
        }

        impl From<String> for $type {
            fn from(name: String) -> Self {
                match name.as_str() {
                    $($name => Self::$case,)+
                    _ => Self::Other(name),
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

/// The purpose of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
#[non_exhaustive]
pub enum Role {
    /// Runs the handlers.
    #[default]
    Events,
    /// Computes index values.
    Index,
    /// A purpose that this SDK does not know.
    Other(String),
}

names!(Role {
    Events => "events",
    Index => "index",
});

/// Why Informant creates an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
#[non_exhaustive]
pub enum Because {
    /// The plugin starts.
    #[default]
    Start,
    /// It replaces another version.
    Swap,
    /// It replaces an instance that trapped or took too long.
    Rebuild,
    /// An operator resumed the plugin.
    Resume,
    /// It continues the work of another Informant process. No version of Informant sends it yet.
    Takeover,
    /// A reason that this SDK does not know.
    Other(String),
}

names!(Because {
    Start => "start",
    Swap => "swap",
    Rebuild => "rebuild",
    Resume => "resume",
    Takeover => "takeover",
});

/// A level that this SDK does not know counts as the lowest: better to log too much than too little.
fn level(name: &str) -> Level {
    let levels = [Level::Debug, Level::Info, Level::Warn, Level::Error];
    levels
        .into_iter()
        .find(|level| level.as_str() == name)
        .unwrap_or(Level::Trace)
}

fn parse<T: DeserializeOwned>(context: &[u8]) -> Result<T> {
    let context = if context.is_empty() { b"{}" } else { context };
    serde_json::from_slice(context)
        .map_err(|error| Failure::permanent(format_args!("the context from Informant is not as expected: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(context: &str) -> Init {
        Init::parse(context.as_bytes()).expect("a valid context")
    }

    #[test]
    fn an_empty_context_has_defaults() {
        for context in ["", "{}"] {
            let init = init(context);
            assert_eq!((&init.role, &init.because), (&Role::Events, &Because::Start));
            assert_eq!((init.instance, init.instances), (0, 1));
            assert_eq!((init.previous.as_ref(), init.log_level), (None, None));
            assert!(init.plugin.is_empty() && init.offers.is_empty());
            assert_eq!(init.config::<serde_json::Value>(), Ok(serde_json::json!({})));
        }
    }

    #[test]
    fn a_full_context_is_read_and_unknown_members_ignored() {
        let init = init(
            r#"{
                "plugin": "p", "config": { "a": 1 }, "informant": "1.0.0", "contract": "0.3.0", "offers": ["store"],
                "role": "index", "instance": 1, "instances": 2, "because": "swap", "logLevel": "warn",
                "previous": { "version": "3", "digest": "sha256:00", "new": 1 }, "tomorrow": {}
            }"#,
        );
        assert_eq!((init.plugin.as_str(), init.informant.as_str()), ("p", "1.0.0"));
        assert_eq!(
            (init.contract.as_str(), init.offers.as_slice()),
            ("0.3.0", ["store".to_owned()].as_slice())
        );
        assert_eq!((&init.role, init.instance, init.instances), (&Role::Index, 1, 2));
        assert_eq!((&init.because, init.log_level), (&Because::Swap, Some(Level::Warn)));
        let previous = init.previous.as_ref().expect("it is there");
        assert_eq!(
            (previous.version.as_str(), previous.digest.as_str()),
            ("3", "sha256:00")
        );
        assert_eq!(init.config::<serde_json::Value>(), Ok(serde_json::json!({ "a": 1 })));
    }

    #[test]
    fn unknown_names_are_other() {
        let init = init(r#"{ "role": "timers", "because": "whim", "logLevel": "loud" }"#);
        assert_eq!((init.role.as_str(), init.because.as_str()), ("timers", "whim"));
        assert_eq!(init.role, Role::Other("timers".to_owned()));
        assert_eq!(init.log_level, Some(Level::Trace));
    }

    #[test]
    fn an_invalid_context_is_a_permanent_failure() {
        let failure = Init::parse(b"[").expect_err("it is not an object");
        assert!(matches!(failure, Failure::Permanent(_)), "{failure}");
    }
}
