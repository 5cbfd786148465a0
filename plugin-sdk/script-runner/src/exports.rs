//! The contract's exports, which Informant calls, implemented by the script.

use std::cell::RefCell;

use crate::bindings::exports::informant::plugin::event_handler::{self, Call, ObjectRef};
use crate::bindings::exports::informant::plugin::lifecycle::{self, Failure};
use crate::bindings::exports::informant::plugin::{index_funcs, reconciler, state, sync_handler, timer_handler};
use crate::bindings::informant::plugin::log::{Level, log};
use crate::program::Program;
use crate::thrown::Thrown;

/// The plugin: runs the script that it receives.
pub(crate) struct Runner;

thread_local! {
    static PROGRAM: RefCell<Option<Program>> = const { RefCell::new(None) };
}

impl lifecycle::Guest for Runner {
    fn describe(context: Vec<u8>) -> Result<Vec<u8>, String> {
        report_panics();
        let program = Program::load(context)?;
        program.finish_loading();
        Ok(program.into_manifest().into_bytes())
    }

    fn init(context: Vec<u8>) -> Result<(), Failure> {
        report_panics();
        let program = Program::load(context).map_err(Failure::Permanent)?;
        program.finish_loading();
        PROGRAM.set(Some(program));
        Ok(())
    }
}

impl event_handler::Guest for Runner {
    fn on_add(about: ObjectRef, call: Call, object: Vec<u8>) -> Result<Option<u32>, Failure> {
        handle(&about, |program| program.on_add(&about, call, object))
    }

    fn on_update(about: ObjectRef, call: Call, old: Option<Vec<u8>>, object: Vec<u8>) -> Result<Option<u32>, Failure> {
        handle(&about, |program| program.on_update(&about, call, old, object))
    }

    fn on_delete(
        about: ObjectRef,
        call: Call,
        last: Option<Vec<u8>>,
        final_state_unknown: bool,
    ) -> Result<Option<u32>, Failure> {
        handle(&about, |program| {
            program.on_delete(&about, call, last, final_state_unknown)
        })
    }
}

impl reconciler::Guest for Runner {
    fn reconcile(
        about: ObjectRef,
        request: reconciler::Request,
        object: Option<Vec<u8>>,
    ) -> Result<Option<u32>, Failure> {
        handle(&about, |program| program.reconcile(&about, request, object))
    }
}

impl timer_handler::Guest for Runner {
    fn on_timer(tick: timer_handler::Tick) -> Result<(), Failure> {
        with_program(|program| program.on_timer(&tick)).map_err(|thrown| reported(thrown, &format!("{}: ", tick.name)))
    }
}

impl sync_handler::Guest for Runner {
    fn on_synced(source: u32, call: Call) -> Result<(), Failure> {
        with_program(|program| program.on_synced(source, call)).map_err(|thrown| reported(thrown, ""))
    }
}

impl index_funcs::Guest for Runner {
    fn index(about: ObjectRef, object: Vec<u8>) -> Result<Vec<Vec<String>>, String> {
        with_program(|program| program.index(&about, object)).map_err(|thrown| thrown.message)
    }
}

impl state::Guest for Runner {
    fn save() -> Result<Vec<u8>, Failure> {
        with_program(Program::save).map_err(|thrown| reported(thrown, ""))
    }

    fn restore(state: Vec<u8>) -> Result<(), Failure> {
        with_program(|program| program.restore(state)).map_err(|thrown| reported(thrown, ""))
    }
}

/// Calls the script for `about`. An exception becomes a failure, and the instance keeps running.
fn handle<T>(about: &ObjectRef, function: impl FnOnce(&Program) -> Result<T, Thrown>) -> Result<T, Failure> {
    with_program(function).map_err(|thrown| {
        let separator = if about.namespace.is_empty() { "" } else { "/" };
        reported(thrown, &format!("{}{separator}{}: ", about.namespace, about.name))
    })
}

/// The failure of `thrown`, with what it is about in the log. The host logs failures: the first, and then summaries.
fn reported(thrown: Thrown, about: &str) -> Failure {
    log(Level::Debug, &format!("{about}{}", thrown.message), &[]);
    thrown.into_failure()
}

fn with_program<T>(call: impl FnOnce(&Program) -> Result<T, Thrown>) -> Result<T, Thrown> {
    PROGRAM.with_borrow(|program| match program {
        Some(program) => call(program),
        None => Err(Thrown::new("the plugin was called before init".to_owned())),
    })
}

/// Logs a panic of the runner itself before it traps.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| log(Level::Error, &panic.to_string(), &[])));
}
