//! Functions that a newer compatible contract added, linked as stubs that trap.
//!
//! Guests of some languages import whole interfaces, called or not. One built with a newer SDK then imports functions
//! that this Informant does not have. Each becomes a stub in the host's own instance of the interface, next to the
//! functions that it knows: `Linker::define_unknown_imports_as_traps` would define a second instance under the newer
//! name, which shadows these.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker};

use crate::bindings::{CONTRACT, PACKAGE};
use crate::component::Offer;
use crate::component::imports::TYPES;
use crate::component::interface_name::InterfaceName;
use crate::component::roles::offered_version;

/// A linker for `component`, if it imports functions of a newer contract that this Informant lacks, and their names.
/// None: the common linker has everything.
pub(crate) fn linker_with_stubs<T: 'static>(
    component: &Component,
    offer: &Offer<T>,
) -> wasmtime::Result<Option<(Linker<T>, Vec<String>)>> {
    let engine = component.engine();
    let ty = component.component_type();
    let (mut own, mut stubs) = (None, Vec::new());
    for (import, item) in ty.imports(engine) {
        let (Some(name), ComponentItem::ComponentInstance(functions)) = (InterfaceName::parse(import), item.ty) else {
            continue;
        };
        let is_newer = name
            .version
            .is_some_and(|version| version.is_newer_than(&offered_version()));
        if name.package != PACKAGE || !is_newer {
            continue;
        }
        let is_ours = name.interface == TYPES || offer.interfaces.contains(&name.interface);
        let instance = match is_ours {
            true => format!("{PACKAGE}/{}@{CONTRACT}", name.interface),
            false => import.to_owned(),
        };
        let linker = own.get_or_insert_with(|| offer.linker.clone());
        let mut instance = linker.instance(&instance)?;
        for (function, item) in functions.exports(engine) {
            if !matches!(item.ty, ComponentItem::ComponentFunc(_)) {
                continue;
            }
            let called = format!("{}.{function}", name.interface);
            let message = format!("{called} is not part of the contract {CONTRACT}, which this Informant has");
            // Defining it again is an error: then it is one that this Informant has.
            let stub = instance.func_new(function, move |_, _, _, _| Err(wasmtime::Error::msg(message.clone())));
            if stub.is_ok() {
                stubs.push(called);
            }
        }
    }
    Ok(own.map(|linker| (linker, stubs)))
}
