//! The contract's exports, which Informant calls, implemented by the script.

use std::cell::RefCell;

use crate::bindings::exports::informant::plugin::event_handler::{self, Call, ObjectRef};
use crate::bindings::exports::informant::plugin::lifecycle::{self, Failure, InstanceRole};
use crate::bindings::exports::informant::plugin::{index_funcs, sync_handler};
use crate::bindings::informant::plugin::log::{Level, log};
use crate::program::Program;
use crate::refusal;
use crate::thrown::Thrown;

/// The plugin: runs the script that it receives.
pub(crate) struct Runner;

thread_local! {
    static PROGRAM: RefCell<Option<Program>> = const { RefCell::new(None) };
}

impl lifecycle::Guest for Runner {
    fn describe() -> Vec<u8> {
        report_panics();
        match Program::load(None) {
            Ok(program) => program.into_manifest(),
            Err(reason) => refusal::manifest(&reason),
        }
        .into_bytes()
    }

    fn init(_: InstanceRole, config: Vec<u8>) -> Result<(), Failure> {
        report_panics();
        let program = Program::load(Some(config)).map_err(Failure::Permanent)?;
        PROGRAM.set(Some(program));
        Ok(())
    }
}

impl event_handler::Guest for Runner {
    fn on_add(o: ObjectRef, c: Call, object: Vec<u8>) -> Result<(), Failure> {
        call(&o, |program| program.on_add(&o, c, object))
    }

    fn on_update(o: ObjectRef, c: Call, old: Option<Vec<u8>>, object: Vec<u8>) -> Result<(), Failure> {
        call(&o, |program| program.on_update(&o, c, old, object))
    }

    fn on_delete(o: ObjectRef, c: Call, last: Vec<u8>, final_state_unknown: bool) -> Result<(), Failure> {
        call(&o, |program| program.on_delete(&o, c, last, final_state_unknown))
    }
}

impl sync_handler::Guest for Runner {
    fn on_synced(source: u32) -> Result<(), Failure> {
        with_program(|program| program.on_synced(source)).map_err(|thrown| {
            log(Level::Error, &thrown.message);
            thrown.into_failure()
        })
    }
}

impl index_funcs::Guest for Runner {
    fn index(o: ObjectRef, object: Vec<u8>) -> Result<Vec<(String, Vec<String>)>, String> {
        with_program(|program| program.index(&o, object)).map_err(|thrown| thrown.message)
    }
}

/// Calls the script for `o`. An exception is logged and becomes a failure: the instance keeps running.
fn call(o: &ObjectRef, function: impl FnOnce(&Program) -> Result<(), Thrown>) -> Result<(), Failure> {
    with_program(function).map_err(|thrown| {
        let separator = if o.namespace.is_empty() { "" } else { "/" };
        log(
            Level::Error,
            &format!("{}{separator}{}: {}", o.namespace, o.name, thrown.message),
        );
        thrown.into_failure()
    })
}

fn with_program<T>(call: impl FnOnce(&Program) -> Result<T, Thrown>) -> Result<T, Thrown> {
    PROGRAM.with_borrow(|program| match program {
        Some(program) => call(program),
        None => Err(Thrown::new("the plugin was called before init".to_owned())),
    })
}

/// Logs a panic of the runner itself before it traps.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| log(Level::Error, &panic.to_string())));
}
