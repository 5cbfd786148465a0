//! The roles that a component exports, checked against the contract.
//!
//! Checked twice: by name before compiling ([`check_names`]), then by type ([`check_types`]). A role is absent only if
//! the component does not export its interface. An interface of another version or with other types is rejected, and so
//! is a role that this Informant does not know, unless the manifest leaves it out: a plugin that is never called would
//! be worse than one that does not load.

use std::fmt;

use informant_cache::index_feed::ValuesByIndex;
use wasmtime::component::types::{self, ComponentItem};
use wasmtime::component::{Component, ComponentNamedList, Lift, Lower};

use crate::component::binary::Surface;
use crate::component::interface_name::{InterfaceName, InterfaceVersion};
use crate::error::LoadProblem;
use crate::instance::bindings::informant::plugin::types::{Call, Failure, ObjectRef};

/// The contract version that this Informant supports.
pub const CONTRACT: &str = "0.2.0";

/// The contract's package.
pub(crate) const PACKAGE: &str = "informant:plugin";

/// The roles of a component, in addition to `lifecycle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// It receives each change.
    pub event_handler: bool,
    /// It is called when the initial list of a source was delivered.
    pub sync_handler: bool,
    /// It computes index values.
    pub index_funcs: bool,
    /// It saves its state for the next version.
    pub state: bool,
}

impl Roles {
    /// Whether it receives events (or the end of an initial list).
    #[must_use]
    pub fn wants_events(self) -> bool {
        self.event_handler || self.sync_handler
    }

    /// Whether it can be called. `state` alone is not enough.
    pub(crate) fn is_called(self) -> bool {
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

/// What a component exports of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExportedRoles {
    pub(crate) roles: Roles,
    /// The names of roles that this Informant does not know.
    pub(crate) unknown: Vec<String>,
    /// The contract version of `lifecycle`.
    pub(crate) contract: String,
}

/// Finds the roles in the names that a component exports.
///
/// # Errors
/// A command, another contract version, no `lifecycle`, no role.
pub(crate) fn check_names(surface: &Surface) -> Result<ExportedRoles, LoadProblem> {
    let (mut roles, mut unknown) = (Roles::default(), Vec::new());
    let mut lifecycle = None;
    for export in &surface.exports {
        let Some(name) = InterfaceName::parse(export) else {
            continue;
        };
        if (name.package, name.interface) == ("wasi:cli", "run") {
            return Err(LoadProblem::Command(export.clone()));
        }
        if name.package != PACKAGE {
            continue;
        }
        let version = check_version(name.version)?;
        match name.interface {
            "lifecycle" => lifecycle = Some(version.to_string()),
            "event-handler" => roles.event_handler = true,
            "sync-handler" => roles.sync_handler = true,
            "index-funcs" => roles.index_funcs = true,
            "state" => roles.state = true,
            // Checked when the manifest is known, which may leave it out.
            role => unknown.push(role.to_owned()),
        }
    }
    let Some(contract) = lifecycle else {
        return Err(LoadProblem::NoLifecycle {
            exports: listed(&surface.exports),
        });
    };
    if !roles.is_called() && unknown.is_empty() {
        return Err(LoadProblem::NoRole);
    }
    Ok(ExportedRoles {
        roles,
        unknown,
        contract,
    })
}

/// The contract version that this Informant supports, parsed.
pub(crate) const fn offered_version() -> InterfaceVersion<'static> {
    InterfaceVersion {
        major: 0,
        minor: 2,
        patch: 0,
        prerelease: "",
    }
}

/// Rejects another contract version. An interface without a version is never ours.
pub(crate) fn check_version(version: Option<InterfaceVersion<'_>>) -> Result<InterfaceVersion<'_>, LoadProblem> {
    let offered = offered_version();
    match version {
        Some(version) if version.is_compatible_with(&offered) => Ok(version),
        Some(version) if version.is_newer_than(&offered) => Err(LoadProblem::NewerContract {
            found: version.to_string(),
        }),
        Some(version) => Err(LoadProblem::OlderContract {
            found: version.to_string(),
        }),
        None => Err(LoadProblem::OlderContract {
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

/// Checks the type of each function of each role.
///
/// # Errors
/// [`LoadProblem::RoleType`] with the first function that is missing or has another type.
pub(crate) fn check_types(component: &Component) -> Result<(), LoadProblem> {
    let engine = component.engine();
    let ty = component.component_type();
    for (export, item) in ty.exports(engine) {
        let Some(name) = InterfaceName::parse(export).filter(|name| name.package == PACKAGE) else {
            continue;
        };
        let ComponentItem::ComponentInstance(functions) = item.ty else {
            continue;
        };
        let check = |name: &'static str| FunctionCheck {
            component: &ty,
            interface: export,
            name,
            found: functions.get_export(engine, name).map(|item| item.ty),
        };
        match name.interface {
            "lifecycle" => {
                check("describe").typed::<(&[u8],), (Described,)>()?;
                check("init").typed::<(&[u8],), (Answer,)>()?;
            }
            "event-handler" => {
                check("on-add").typed::<(ObjectRef<'_>, Call, &[u8]), (Handled,)>()?;
                check("on-update").typed::<(ObjectRef<'_>, Call, Option<&[u8]>, &[u8]), (Handled,)>()?;
                check("on-delete").typed::<(ObjectRef<'_>, Call, Option<&[u8]>, bool), (Handled,)>()?;
            }
            "sync-handler" => check("on-synced").typed::<(u32,), (Answer,)>()?,
            "index-funcs" => check("index").typed::<(ObjectRef<'_>, &[u8]), (IndexAnswer,)>()?,
            "state" => {
                check("save").typed::<(), (Saved,)>()?;
                check("restore").typed::<(&[u8],), (Answer,)>()?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// What `describe` returns.
type Described = Result<Vec<u8>, String>;

/// What `save` returns.
type Saved = Result<Vec<u8>, Failure>;

/// What `init`, `on-synced` and `restore` return.
type Answer = Result<(), Failure>;

/// What event handlers return: after how many milliseconds they want to be called again.
pub(crate) type Handled = Result<Option<u32>, Failure>;

/// What `index` returns.
pub(crate) type IndexAnswer = Result<ValuesByIndex, String>;

/// A function that a role must have, and the component's export of that name.
struct FunctionCheck<'a> {
    component: &'a types::Component,
    interface: &'a str,
    name: &'static str,
    found: Option<ComponentItem>,
}

impl FunctionCheck<'_> {
    fn typed<Params, Return>(self) -> Result<(), LoadProblem>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift,
    {
        let cause = match &self.found {
            None => "is missing".to_owned(),
            Some(ComponentItem::ComponentFunc(found)) => {
                match found.typecheck::<Params, Return>(&self.component.instance_type()) {
                    Ok(()) => return Ok(()),
                    Err(error) => format!("has the wrong type: {error:#}"),
                }
            }
            Some(_) => "is not a function".to_owned(),
        };
        Err(LoadProblem::RoleType {
            interface: self.interface.to_owned(),
            function: self.name.to_owned(),
            cause,
        })
    }
}
