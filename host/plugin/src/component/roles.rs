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

use crate::bindings::exports::informant::plugin::reconciler::Request;
use crate::bindings::exports::informant::plugin::timer_handler::Tick;
use crate::bindings::exports::informant::plugin::{
    event_handler, index_funcs, lifecycle, reconciler, state, sync_handler, timer_handler,
};
use crate::bindings::informant::plugin::types::{Call, Failure, ObjectRef};
use crate::bindings::{CONTRACT, PACKAGE};
use crate::component::binary::{SdkInfo, Surface};
use crate::component::interface_name::{InterfaceName, InterfaceVersion, is_canonical};
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

            /// The functions of `instance` for those of these `roles` that it has.
            pub(crate) fn load<T>(
                &self,
                store: &mut Store<T>,
                instance: &Instance,
                roles: Roles,
            ) -> wasmtime::Result<Exports> {
                Ok(Exports {
                    lifecycle: self.lifecycle.load(&mut *store, instance)?,
                    $($field: {
                        let found = self.$field.as_ref().filter(|_| roles.has(Role::$role));
                        found.map(|found| found.load(&mut *store, instance)).transpose()?
                    },)*
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
    /// It is called for an object when that, or one that leads to it, has changed.
    Reconciler = "reconciler", reconciler: reconciler {
        "reconcile": (ObjectRef<'_>, Request, Option<&[u8]>) -> Handled;
    }
    /// It is called on a schedule.
    TimerHandler = "timer-handler", timer: timer_handler {
        "on-timer": (Tick<'_>) -> Answer;
    }
    /// It is called when the initial list of a source was delivered.
    SyncHandler = "sync-handler", sync: sync_handler {
        "on-synced": (u32, Call) -> Answer;
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

    /// Whether it is called for objects (or the end of an initial list).
    #[must_use]
    pub const fn wants_events(self) -> bool {
        self.has(Role::EventHandler) || self.has(Role::Reconciler) || self.has(Role::SyncHandler)
    }

    /// Whether it handles anything: objects, or times.
    pub(crate) const fn has_handler(self) -> bool {
        self.wants_events() || self.has(Role::TimerHandler)
    }

    /// Whether it can be called. `state` alone is not enough.
    pub(crate) const fn is_called(self) -> bool {
        self.has_handler() || self.has(Role::IndexFuncs)
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
    let mut ours: Vec<&str> = Vec::new();
    for export in &surface.exports {
        let Some(name) = InterfaceName::parse(export) else {
            if is_canonical(export) {
                return Err(LoadProblem::CanonicalName { name: export.clone() });
            }
            continue;
        };
        if (name.package, name.interface) == ("wasi:cli", "run") {
            return Err(LoadProblem::Command(export.clone()));
        }
        if name.package != PACKAGE {
            continue;
        }
        let version = check_version(name.version, surface.sdk.as_ref())?;
        // Of two versions of an interface one would never be called.
        let is_same =
            |other: &&&str| InterfaceName::parse(other).is_some_and(|other| other.interface == name.interface);
        if let Some(other) = ours.iter().find(is_same) {
            return Err(LoadProblem::RoleTwice {
                first: (*other).to_owned(),
                second: export.clone(),
            });
        }
        ours.push(export);
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
    let [major, minor, patch] = numbers(CONTRACT);
    InterfaceVersion {
        major,
        minor,
        patch,
        prerelease: "",
    }
}

/// The numbers of a version without a prerelease.
const fn numbers(version: &str) -> [u64; 3] {
    let bytes = version.as_bytes();
    let (mut numbers, mut part, mut at) = ([0; 3], 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'.' => part += 1,
            digit => numbers[part] = numbers[part] * 10 + (digit - b'0') as u64,
        }
        at += 1;
    }
    numbers
}

/// Rejects another contract version, of a component that was built with `sdk` if that is known. An interface without a
/// version is never ours.
pub(crate) fn check_version<'v>(
    version: Option<InterfaceVersion<'v>>,
    sdk: Option<&SdkInfo>,
) -> Result<InterfaceVersion<'v>, LoadProblem> {
    let offered = offered_version();
    let older = |found: String| LoadProblem::OlderContract {
        found,
        sdk: match sdk {
            Some(SdkInfo { language, .. }) => format!("the SDK for {language}"),
            None => "the SDK".to_owned(),
        },
    };
    match version {
        Some(version) if version.is_compatible_with(&offered) => Ok(version),
        Some(version) if version.is_newer_than(&offered) => Err(LoadProblem::NewerContract {
            found: version.to_string(),
        }),
        Some(version) => Err(older(version.to_string())),
        None => Err(older("without a version".to_owned())),
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

/// What `init`, `on-timer`, `on-synced` and `restore` return.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(exports: &[&str], language: Option<&str>) -> String {
        let surface = Surface {
            exports: exports.iter().map(|export| (*export).to_owned()).collect(),
            sdk: language.map(|language| SdkInfo {
                language: language.to_owned(),
                sdk: "0.1.0".to_owned(),
                contract: "0.2.0".to_owned(),
            }),
            ..Surface::default()
        };
        check_names(&surface).unwrap_err().to_string()
    }

    #[test]
    fn an_older_component_names_the_sdk_to_rebuild_with() {
        let exports = ["informant:plugin/lifecycle@0.2.0"];
        insta::assert_snapshot!(refusal(&exports, Some("rust")), @"built for the older contract 0.2.0, but this Informant supports 0.3.0; rebuild it with the SDK for rust of this Informant (version 0.1.0)");
        insta::assert_snapshot!(refusal(&exports, None), @"built for the older contract 0.2.0, but this Informant supports 0.3.0; rebuild it with the SDK of this Informant (version 0.1.0)");
    }

    #[test]
    fn names_that_would_never_be_called_are_rejected() {
        let twice = [
            "informant:plugin/event-handler@0.3.0",
            "informant:plugin/event-handler@0.3.1",
        ];
        insta::assert_snapshot!(refusal(&twice, None), @"exports informant:plugin/event-handler@0.3.0 and informant:plugin/event-handler@0.3.1, of which only one could be called; leave out the older one");
        let canonical = ["informant:plugin/lifecycle@0.3"];
        insta::assert_snapshot!(refusal(&canonical, None), @"imports or exports informant:plugin/lifecycle@0.3, which has a canonical name; build it with tools that write the whole version (without `--emit-canonical-names`), as informant:plugin/…@0.3.0");
    }

    #[test]
    fn the_offered_version_is_that_of_the_contract() {
        assert_eq!(offered_version().to_string(), CONTRACT);
    }
}
