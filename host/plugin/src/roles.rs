//! Which roles a component plays, and whether it plays them by the contract's rules.
//!
//! Judged twice: by names before anything is compiled ([`judge_names`]), then by types ([`judge_types`]). A role is
//! absent only if the component does not name its interface. One that it names, of another version or with other types,
//! is refused: a plugin that is never called would be worse than one that does not load.

use std::fmt;

use wasmtime::component::types::{self, ComponentItem};
use wasmtime::component::{Component, ComponentNamedList, Lift, Lower};

use crate::binary::Surface;
use crate::bindings::informant::plugin::types::{Call, Failure, InstanceRole, ObjectRef};
use crate::error::Problem;
use crate::interface_name::{InterfaceName, Version};

/// The version of the contract that this Informant speaks.
pub const CONTRACT: &str = "0.1.0";

/// The contract's package.
pub(crate) const PACKAGE: &str = "informant:plugin";

/// What a component can be called for, besides `lifecycle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// It is told about each change.
    pub event_handler: bool,
    /// It is told when a source has been shown completely.
    pub sync_handler: bool,
    /// It computes index values.
    pub index_funcs: bool,
    /// It hands over what it remembers when another version is swapped in.
    pub state: bool,
}

impl Roles {
    /// Whether it has to be given events (or the end of an initial list).
    #[must_use]
    pub fn wants_events(self) -> bool {
        self.event_handler || self.sync_handler
    }

    /// Whether there is anything to call it for. A state alone is nothing.
    fn is_called(self) -> bool {
        self.wants_events() || self.index_funcs
    }

    /// Names of the roles, as the contract writes them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (self.event_handler, "event-handler"),
            (self.sync_handler, "sync-handler"),
            (self.index_funcs, "index-funcs"),
            (self.state, "state"),
        ]
        .into_iter()
        .filter_map(|(has, name)| has.then_some(name))
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, name) in self.names().enumerate() {
            f.write_str(if number == 0 { "" } else { ", " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

/// Finds the roles in the names that a component exports.
///
/// # Errors
/// A command, another version of the contract, no `lifecycle`, no role.
pub(crate) fn judge_names(surface: &Surface) -> Result<Roles, Problem> {
    let mut roles = Roles::default();
    let mut lifecycle = false;
    for export in &surface.exports {
        let Some(name) = InterfaceName::parse(export) else {
            continue;
        };
        if (name.package, name.interface) == ("wasi:cli", "run") {
            return Err(Problem::Command(export.clone()));
        }
        if name.package != PACKAGE {
            continue;
        }
        judge_version(name.version)?;
        match name.interface {
            "lifecycle" => lifecycle = true,
            "event-handler" => roles.event_handler = true,
            "sync-handler" => roles.sync_handler = true,
            "index-funcs" => roles.index_funcs = true,
            "state" => roles.state = true,
            // A role of a later minor version, which this Informant does without.
            _ => {}
        }
    }
    match (lifecycle, roles.is_called()) {
        (false, _) => Err(Problem::NoLifecycle {
            exports: listed(&surface.exports),
        }),
        (true, false) => Err(Problem::NoRole),
        (true, true) => Ok(roles),
    }
}

/// Refuses what is made for another contract. An interface without a version is never one of ours.
pub(crate) fn judge_version(version: Option<Version<'_>>) -> Result<(), Problem> {
    let Some(offered) = Version::parse(CONTRACT) else {
        return Ok(());
    };
    match version {
        Some(version) if version.is_compatible_with(&offered) => Ok(()),
        Some(version) if version.is_newer_than(&offered) => Err(Problem::NewerContract {
            found: version.to_string(),
        }),
        Some(version) => Err(Problem::OlderContract {
            found: version.to_string(),
        }),
        None => Err(Problem::OlderContract {
            found: "without a version".to_owned(),
        }),
    }
}

fn listed(names: &[String]) -> String {
    const SHOWN_MAX: usize = 5;
    match names {
        [] => "none".to_owned(),
        names if names.len() > SHOWN_MAX => format!("{}, …", names[..SHOWN_MAX].join(", ")),
        names => names.join(", "),
    }
}

/// Holds each function of each role against the contract.
///
/// # Errors
/// [`Problem::RoleType`] naming the first function that is missing or of another type.
pub(crate) fn judge_types(component: &Component) -> Result<(), Problem> {
    let engine = component.engine();
    let ty = component.component_type();
    for (export, item) in ty.exports(engine) {
        let Some(name) = InterfaceName::parse(export).filter(|name| name.package == PACKAGE) else {
            continue;
        };
        let ComponentItem::ComponentInstance(functions) = item.ty else {
            continue;
        };
        let judge = |name: &'static str| Judge {
            component: &ty,
            interface: export,
            name,
            found: functions.get_export(engine, name).map(|item| item.ty),
        };
        match name.interface {
            "lifecycle" => {
                judge("describe").typed::<(), (Vec<u8>,)>()?;
                judge("init").typed::<(InstanceRole, &[u8]), (Answer,)>()?;
            }
            "event-handler" => {
                judge("on-add").typed::<(ObjectRef<'_>, Call, &[u8]), (Answer,)>()?;
                judge("on-update").typed::<(ObjectRef<'_>, Call, Option<&[u8]>, &[u8]), (Answer,)>()?;
                judge("on-delete").typed::<(ObjectRef<'_>, Call, &[u8], bool), (Answer,)>()?;
            }
            "sync-handler" => judge("on-synced").typed::<(u32,), (Answer,)>()?,
            "index-funcs" => judge("index").typed::<(ObjectRef<'_>, &[u8]), (IndexAnswer,)>()?,
            "state" => {
                judge("save").typed::<(), (Saved,)>()?;
                judge("restore").typed::<(&[u8],), (Answer,)>()?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// What `save` returns.
type Saved = Result<Vec<u8>, Failure>;

/// What handlers and `init` return.
type Answer = Result<(), Failure>;

/// What `index` returns.
pub(crate) type IndexAnswer = Result<Vec<(String, Vec<String>)>, String>;

/// A function that a role must have, and what the component has under its name.
struct Judge<'a> {
    component: &'a types::Component,
    interface: &'a str,
    name: &'static str,
    found: Option<ComponentItem>,
}

impl Judge<'_> {
    fn typed<Params, Return>(self) -> Result<(), Problem>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift,
    {
        let cause = match &self.found {
            None => "is missing".to_owned(),
            Some(ComponentItem::ComponentFunc(found)) => {
                match found.typecheck::<Params, Return>(&self.component.instance_type()) {
                    Ok(()) => return Ok(()),
                    Err(error) => format!("has another type: {error:#}"),
                }
            }
            Some(_) => "is not a function".to_owned(),
        };
        Err(Problem::RoleType {
            interface: self.interface.to_owned(),
            function: self.name.to_owned(),
            cause,
        })
    }
}
