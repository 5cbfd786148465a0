//! The roles that a component exports, checked against the contract.
//!
//! Checked twice: by name before compiling ([`check_names`]), then by type ([`check_types`]). A role is absent only if
//! the component does not export its interface. An interface of another version or with other types is rejected, and so
//! is a role that this Informant does not know, unless the manifest leaves it out: a plugin that is never called would
//! be worse than one that does not load.

use std::fmt;

use informant_cache::index_feed::ValuesByIndex;
use serde::Deserialize;
use wasmtime::Store;
use wasmtime::component::types::{self, ComponentItem};
use wasmtime::component::{Component, ComponentNamedList, Instance, InstancePre, Lift, Lower};

use crate::bindings::PACKAGE;
use crate::bindings::exports::informant::plugin::{event_handler, index_funcs, lifecycle, state, sync_handler};
use crate::bindings::informant::plugin::types::{Call, Failure, ObjectRef};
use crate::component::binary::Surface;
use crate::component::interface_name::{InterfaceName, InterfaceVersion};
use crate::error::LoadProblem;

/// The table of roles: of each its name, the interface of the bindings, and the functions with their types. Everything
/// that differs between roles is made from it; the calls themselves are in `instance`.
macro_rules! roles {
    ($(
        $(#[$doc:meta])* $role:ident = $name:literal, $field:ident: $interface:ident {
            $($function:literal: ($($param:ty),*) -> $answer:ty;)*
        }
    )*) => {
        /// A role of a component, in addition to `lifecycle`.
        #[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
        #[serde(rename_all = "kebab-case")]
        pub enum Role { $($(#[$doc])* $role,)* }

        impl Role {
            /// All roles, in the order in which they are listed.
            pub const ALL: &[Role] = &[$(Role::$role),*];

            /// The name of its interface in the contract.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Role::$role => $name,)* }
            }

            fn check_types<'a>(self, check: impl Fn(&'static str) -> FunctionCheck<'a>) -> Result<(), LoadProblem> {
                match self { $(Role::$role => { $(check($function).typed::<($($param,)*), ($answer,)>()?;)* })* }
                Ok(())
            }
        }

        /// The export indices of each role's functions.
        #[derive(Clone)]
        pub(crate) struct Indices {
            lifecycle: lifecycle::GuestIndices,
            $($field: Option<$interface::GuestIndices>,)*
        }

        /// The functions that an instance exports, by role.
        pub(crate) struct Exports {
            pub(crate) lifecycle: lifecycle::Guest,
            $(pub(crate) $field: Option<$interface::Guest>,)*
        }

        impl Indices {
            pub(crate) fn find<T>(pre: &InstancePre<T>, roles: Roles) -> wasmtime::Result<Indices> {
                Ok(Indices {
                    lifecycle: lifecycle::GuestIndices::new(pre)?,
                    $($field: roles.has(Role::$role).then(|| $interface::GuestIndices::new(pre)).transpose()?,)*
                })
            }

            /// Without the roles that are not in `roles`.
            pub(crate) fn retain(&mut self, roles: Roles) {
                $(self.$field = self.$field.take().filter(|_| roles.has(Role::$role));)*
            }

            pub(crate) fn load<T>(&self, store: &mut Store<T>, instance: &Instance) -> wasmtime::Result<Exports> {
                Ok(Exports {
                    lifecycle: self.lifecycle.load(&mut *store, instance)?,
                    $($field: self.$field.as_ref().map(|found| found.load(&mut *store, instance)).transpose()?,)*
                })
            }
        }
    };
}

roles! {
    /// It receives each change.
    EventHandler = "event-handler", events: event_handler {
        "on-add": (ObjectRef<'_>, Call, &[u8]) -> Handled;
        "on-update": (ObjectRef<'_>, Call, Option<&[u8]>, &[u8]) -> Handled;
        "on-delete": (ObjectRef<'_>, Call, Option<&[u8]>, bool) -> Handled;
    }
    /// It is called when the initial list of a source was delivered.
    SyncHandler = "sync-handler", sync: sync_handler {
        "on-synced": (u32) -> Answer;
    }
    /// It computes index values.
    IndexFuncs = "index-funcs", index: index_funcs {
        "index": (ObjectRef<'_>, &[u8]) -> IndexAnswer;
    }
    /// It saves its state for the next version.
    State = "state", state: state {
        "save": () -> Saved;
        "restore": (&[u8]) -> Answer;
    }
}

/// The roles of a component, in addition to `lifecycle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// These roles.
    #[must_use]
    pub const fn of(roles: &[Role]) -> Roles {
        let (mut bits, mut next) = (0, 0);
        while next < roles.len() {
            bits |= 1 << roles[next] as u8;
            next += 1;
        }
        Roles(bits)
    }

    #[must_use]
    pub const fn has(self, role: Role) -> bool {
        self.0 & (1 << role as u8) != 0
    }

    /// Those that are in `others`, too.
    pub(crate) const fn and(self, others: Roles) -> Roles {
        Roles(self.0 & others.0)
    }

    /// Whether it receives events (or the end of an initial list).
    #[must_use]
    pub const fn wants_events(self) -> bool {
        self.has(Role::EventHandler) || self.has(Role::SyncHandler)
    }

    /// Whether it can be called. `state` alone is not enough.
    pub(crate) const fn is_called(self) -> bool {
        self.wants_events() || self.has(Role::IndexFuncs)
    }

    /// Names of the roles, as the contract writes them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Role::ALL
            .iter()
            .filter(move |role| self.has(**role))
            .map(|role| role.name())
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
/// Errors: a command, another contract version, no `lifecycle`, no role.
pub(crate) fn check_names(surface: &Surface) -> Result<ExportedRoles, LoadProblem> {
    let (mut roles, mut unknown) = (Vec::new(), Vec::new());
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
            name => match Role::ALL.iter().find(|role| role.name() == name) {
                Some(role) => roles.push(*role),
                // Checked when the manifest is known, which may leave it out.
                None => unknown.push(name.to_owned()),
            },
        }
    }
    let Some(contract) = lifecycle else {
        return Err(LoadProblem::NoLifecycle {
            exports: listed(&surface.exports),
        });
    };
    let roles = Roles::of(&roles);
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
/// Errors: [`LoadProblem::RoleType`] with the first function that is missing or has another type.
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
            name => {
                if let Some(role) = Role::ALL.iter().find(|role| role.name() == name) {
                    role.check_types(check)?;
                }
            }
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
