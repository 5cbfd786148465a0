//! A loaded script: its evaluated module and its functions.

use std::io::Read as _;

use rquickjs::function::Args;
use rquickjs::{Context, Ctx, Error, Function, Module, Object, Persistent, Runtime, Value};

use crate::bindings::exports::informant::plugin::event_handler::{Call, ObjectRef};
use crate::bindings::informant::plugin::types::Reason;
use crate::native;
use crate::thrown::Thrown;

/// Defines `console` and `informant`, and the functions that the runner calls.
const PRELUDE: &str = include_str!("prelude.js");

/// The name of the prelude in stack traces, which differs from every script's.
const PRELUDE_NAME: &str = "informant:prelude";

/// The most arguments of a handler: `old`, the object, the event.
const ARGUMENTS_MAX: usize = 3;

type SavedFunction = Persistent<Function<'static>>;

/// A loaded script.
pub(crate) struct Program {
    script: String,
    manifest: String,
    on_add: Option<SavedFunction>,
    on_update: Option<SavedFunction>,
    on_delete: Option<SavedFunction>,
    on_synced: Option<SavedFunction>,
    index: Option<SavedFunction>,
    /// Functions of the prelude: create an event, create a source, and validate what a handler and `index` returned.
    event: SavedFunction,
    source: SavedFunction,
    requeue: SavedFunction,
    values: SavedFunction,
    /// The engine's context. Dropped last, because it owns the functions.
    realm: Context,
}

impl Program {
    /// Reads and evaluates the script. `context` is the JSON document that `describe` and `init` receive.
    ///
    /// # Errors
    /// The reason why the script is invalid, with file, line and column.
    pub(crate) fn load(context: Vec<u8>) -> Result<Program, String> {
        let script = std::env::args()
            .nth(1)
            .ok_or("the script has no name: pass it as the first argument")?;
        let mut text = Vec::new();
        std::io::stdin()
            .read_to_end(&mut text)
            .map_err(|error| format!("{script}: cannot read the script from stdin: {error}"))?;
        if let Some(at) = text.iter().position(|byte| *byte == 0) {
            let line = text[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            return Err(format!("{script}:{line}: SyntaxError: NUL character in the script"));
        }
        let engine = |error: Error| format!("cannot start the JavaScript engine: {error}");
        let runtime = Runtime::new().map_err(engine)?;
        let realm = Context::full(&runtime).map_err(engine)?;
        realm.clone().with(|ctx| {
            let loaded = Program::evaluate(&ctx, realm, script.clone(), text, context);
            loaded.map_err(|error| Thrown::catch(&ctx, error, &script, None).message)
        })
    }

    fn evaluate(
        ctx: &Ctx<'_>,
        realm: Context,
        script: String,
        text: Vec<u8>,
        context: Vec<u8>,
    ) -> rquickjs::Result<Program> {
        let mut options = rquickjs::context::EvalOptions::default();
        options.filename = Some(PRELUDE_NAME.to_owned());
        let prelude: Function<'_> = ctx.eval_with_options(PRELUDE, options)?;
        let prelude: Object<'_> = prelude.call((native::api(ctx, &script)?,))?;
        let configure: Function<'_> = prelude.get("configure")?;
        configure.call::<_, ()>((ctx.json_parse(context)?,))?;
        let (module, evaluated) = Module::declare(ctx.clone(), script.as_str(), text)?.eval()?;
        evaluated.finish::<()>()?;
        let exports = module.namespace()?;
        let stem = script.rsplit_once('.').map_or(script.as_str(), |(stem, _)| stem);
        let describe: Function<'_> = prelude.get("describe")?;
        let manifest = describe.call((exports.clone(), stem))?;
        let prelude_function = |name: &str| saved(&prelude, name)?.ok_or(Error::Unknown);
        Ok(Program {
            on_add: saved(&exports, "onAdd")?,
            on_update: saved(&exports, "onUpdate")?,
            on_delete: saved(&exports, "onDelete")?,
            on_synced: saved(&exports, "onSynced")?,
            index: saved(&exports, "index")?,
            event: prelude_function("event")?,
            source: prelude_function("source")?,
            requeue: prelude_function("requeue")?,
            values: prelude_function("values")?,
            manifest,
            script,
            realm,
        })
    }

    /// The manifest, as JSON.
    pub(crate) fn into_manifest(self) -> String {
        self.manifest
    }

    pub(crate) fn on_add(&self, about: &ObjectRef, call: Call, object: Vec<u8>) -> Result<Option<u32>, Thrown> {
        self.call("onAdd", self.on_add.as_ref(), |ctx, arguments| {
            arguments.push_arg(native::parsed(ctx, Some(object))?)?;
            arguments.push_arg(self.event(ctx, about, call)?)
        })
    }

    pub(crate) fn on_update(
        &self,
        about: &ObjectRef,
        call: Call,
        old: Option<Vec<u8>>,
        object: Vec<u8>,
    ) -> Result<Option<u32>, Thrown> {
        self.call("onUpdate", self.on_update.as_ref(), |ctx, arguments| {
            arguments.push_arg(native::parsed(ctx, old)?)?;
            arguments.push_arg(native::parsed(ctx, Some(object))?)?;
            arguments.push_arg(self.event(ctx, about, call)?)
        })
    }

    /// `last` is absent if only the key is known.
    pub(crate) fn on_delete(
        &self,
        about: &ObjectRef,
        call: Call,
        last: Option<Vec<u8>>,
        unknown: bool,
    ) -> Result<Option<u32>, Thrown> {
        self.call("onDelete", self.on_delete.as_ref(), |ctx, arguments| {
            arguments.push_arg(native::parsed(ctx, last)?)?;
            let event = self.event(ctx, about, call)?;
            event.set("finalStateUnknown", unknown)?;
            arguments.push_arg(event)
        })
    }

    pub(crate) fn on_synced(&self, source: u32) -> Result<(), Thrown> {
        self.call("onSynced", self.on_synced.as_ref(), |ctx, arguments| {
            let make = self.source.clone().restore(ctx)?;
            arguments.push_arg(make.call::<_, Object<'_>>((source,))?)
        })
        .map(drop)
    }

    /// The values for each index, in the order of the manifest.
    pub(crate) fn index(&self, about: &ObjectRef, object: Vec<u8>) -> Result<Vec<Vec<String>>, Thrown> {
        const NO_CALL: Call = Call {
            reason: Reason::Initial,
            attempt: 0,
        };
        self.with(|ctx| {
            let Some(index) = self.index.clone() else {
                return Ok(Vec::new());
            };
            let index = index.restore(ctx).map_err(|error| self.thrown(ctx, error, None))?;
            let run = || {
                let arguments = (ctx.json_parse(object)?, self.event(ctx, about, NO_CALL)?);
                let result = settled(index.call(arguments)?)?;
                self.values.clone().restore(ctx)?.call::<_, Vec<Vec<String>>>((result,))
            };
            run().map_err(|error| self.thrown(ctx, error, Some(("index", &index))))
        })
    }

    /// Calls `function`, if the script has it, with the arguments that `fill` adds. Returns the milliseconds after
    /// which the script wants to be called again.
    fn call(
        &self,
        name: &str,
        function: Option<&SavedFunction>,
        fill: impl for<'js> FnOnce(&Ctx<'js>, &mut Args<'js>) -> rquickjs::Result<()>,
    ) -> Result<Option<u32>, Thrown> {
        let Some(function) = function else { return Ok(None) };
        self.with(|ctx| {
            let function = function
                .clone()
                .restore(ctx)
                .map_err(|error| self.thrown(ctx, error, None))?;
            let run = || {
                let mut arguments = Args::new(ctx.clone(), ARGUMENTS_MAX);
                fill(ctx, &mut arguments)?;
                let returned = settled(function.call_arg(arguments)?)?;
                if returned.is_undefined() || returned.is_null() {
                    return Ok(None);
                }
                let milliseconds: Option<f64> = self.requeue.clone().restore(ctx)?.call((name, returned))?;
                // The prelude checks that it is a whole number in the range of u32.
                Ok(milliseconds.map(|milliseconds| milliseconds as u32))
            };
            run().map_err(|error| self.thrown(ctx, error, Some((name, &function))))
        })
    }

    /// Runs `work` in the engine, and then its pending jobs.
    fn with<T>(&self, work: impl for<'js> FnOnce(&Ctx<'js>) -> T) -> T {
        self.realm.with(|ctx| {
            let result = work(&ctx);
            while ctx.execute_pending_job() {}
            result
        })
    }

    fn thrown<'js>(&self, ctx: &Ctx<'js>, error: Error, called: Option<(&str, &Function<'js>)>) -> Thrown {
        Thrown::catch(ctx, error, &self.script, called)
    }

    fn event<'js>(&self, ctx: &Ctx<'js>, about: &ObjectRef, call: Call) -> rquickjs::Result<Object<'js>> {
        self.event.clone().restore(ctx)?.call((
            about.source,
            about.namespace.as_str(),
            about.name.as_str(),
            about.uid.as_str(),
            about.resource_version.as_str(),
            reason(call.reason),
            call.attempt,
        ))
    }
}

/// The function `name` of `object`, saved for later calls.
fn saved(object: &Object<'_>, name: &str) -> rquickjs::Result<Option<SavedFunction>> {
    let function = object.get::<_, Option<Function<'_>>>(name)?;
    Ok(function.map(|function| Persistent::save(object.ctx(), function)))
}

/// The value that a function returned or, if it is a promise, the value that it resolves to.
fn settled(value: Value<'_>) -> rquickjs::Result<Value<'_>> {
    match value.as_promise() {
        Some(promise) => promise.finish(),
        None => Ok(value),
    }
}

/// The name of the case in the contract.
fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Initial => "initial",
        Reason::Watch => "watch",
        Reason::Relist => "relist",
        Reason::Resync => "resync",
        Reason::Replay => "replay",
        Reason::Requeue => "requeue",
        Reason::Reconfigured => "reconfigured",
        Reason::Restored => "restored",
        Reason::RequeueAfter => "requeue-after",
        Reason::Trigger => "trigger",
        Reason::Other => "other",
    }
}
