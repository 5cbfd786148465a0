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
    /// Functions of the prelude: create an event, create a source, and validate the result of `index`.
    event: SavedFunction,
    source: SavedFunction,
    values: SavedFunction,
    /// Dropped last, because it owns the functions.
    context: Context,
}

impl Program {
    /// Reads and evaluates the script. `config` is absent in `describe`.
    ///
    /// # Errors
    /// The reason why the script is invalid, with file, line and column.
    pub(crate) fn load(config: Option<Vec<u8>>) -> Result<Program, String> {
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
        let context = Context::full(&runtime).map_err(engine)?;
        context.clone().with(|ctx| {
            let loaded = Program::evaluate(&ctx, context, script.clone(), text, config);
            loaded.map_err(|error| Thrown::catch(&ctx, error, &script, None).message)
        })
    }

    fn evaluate(
        ctx: &Ctx<'_>,
        context: Context,
        script: String,
        text: Vec<u8>,
        config: Option<Vec<u8>>,
    ) -> rquickjs::Result<Program> {
        let mut options = rquickjs::context::EvalOptions::default();
        options.filename = Some(PRELUDE_NAME.to_owned());
        let prelude: Function<'_> = ctx.eval_with_options(PRELUDE, options)?;
        let prelude: Object<'_> = prelude.call((native::api(ctx, &script)?,))?;
        if let Some(config) = config {
            let configure: Function<'_> = prelude.get("configure")?;
            configure.call::<_, ()>((ctx.json_parse(config)?,))?;
        }
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
            values: prelude_function("values")?,
            manifest,
            script,
            context,
        })
    }

    /// The manifest, as JSON.
    pub(crate) fn into_manifest(self) -> String {
        self.manifest
    }

    pub(crate) fn on_add(&self, o: &ObjectRef, c: Call, object: Vec<u8>) -> Result<(), Thrown> {
        self.call("onAdd", self.on_add.as_ref(), |ctx, arguments| {
            arguments.push_arg(ctx.json_parse(object)?)?;
            arguments.push_arg(self.event(ctx, o, c)?)
        })
    }

    pub(crate) fn on_update(
        &self,
        o: &ObjectRef,
        c: Call,
        old: Option<Vec<u8>>,
        object: Vec<u8>,
    ) -> Result<(), Thrown> {
        self.call("onUpdate", self.on_update.as_ref(), |ctx, arguments| {
            match old {
                Some(old) => arguments.push_arg(ctx.json_parse(old)?)?,
                None => arguments.push_arg(Value::new_undefined(ctx.clone()))?,
            }
            arguments.push_arg(ctx.json_parse(object)?)?;
            arguments.push_arg(self.event(ctx, o, c)?)
        })
    }

    /// `last` is empty if only the key is known.
    pub(crate) fn on_delete(&self, o: &ObjectRef, c: Call, last: Vec<u8>, unknown: bool) -> Result<(), Thrown> {
        self.call("onDelete", self.on_delete.as_ref(), |ctx, arguments| {
            if last.is_empty() {
                let (object, metadata) = (Object::new(ctx.clone())?, Object::new(ctx.clone())?);
                metadata.set("namespace", o.namespace.as_str())?;
                metadata.set("name", o.name.as_str())?;
                object.set("metadata", metadata)?;
                arguments.push_arg(object)?;
            } else {
                arguments.push_arg(ctx.json_parse(last)?)?;
            }
            let event = self.event(ctx, o, c)?;
            event.set("finalStateUnknown", unknown)?;
            arguments.push_arg(event)
        })
    }

    pub(crate) fn on_synced(&self, source: u32) -> Result<(), Thrown> {
        self.call("onSynced", self.on_synced.as_ref(), |ctx, arguments| {
            let make = self.source.clone().restore(ctx)?;
            arguments.push_arg(make.call::<_, Object<'_>>((source,))?)
        })
    }

    /// Pairs of index name and values.
    pub(crate) fn index(&self, o: &ObjectRef, object: Vec<u8>) -> Result<Vec<(String, Vec<String>)>, Thrown> {
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
                let arguments = (ctx.json_parse(object)?, self.event(ctx, o, NO_CALL)?);
                let result = settled(index.call(arguments)?)?;
                self.values.clone().restore(ctx)?.call::<_, Vec<Vec<String>>>((result,))
            };
            let lists = run().map_err(|error| self.thrown(ctx, error, Some(("index", &index))))?;
            let pairs = lists.into_iter().map(|mut list| {
                let values = list.split_off(1);
                (list.pop().unwrap_or_default(), values)
            });
            Ok(pairs.collect())
        })
    }

    /// Calls `function`, if the script has it, with the arguments that `fill` adds.
    fn call(
        &self,
        name: &str,
        function: Option<&SavedFunction>,
        fill: impl for<'js> FnOnce(&Ctx<'js>, &mut Args<'js>) -> rquickjs::Result<()>,
    ) -> Result<(), Thrown> {
        let Some(function) = function else { return Ok(()) };
        self.with(|ctx| {
            let function = function
                .clone()
                .restore(ctx)
                .map_err(|error| self.thrown(ctx, error, None))?;
            let run = || {
                let mut arguments = Args::new(ctx.clone(), ARGUMENTS_MAX);
                fill(ctx, &mut arguments)?;
                settled(function.call_arg(arguments)?).map(drop)
            };
            run().map_err(|error| self.thrown(ctx, error, Some((name, &function))))
        })
    }

    /// Runs `work` in the engine, and then its pending jobs.
    fn with<T>(&self, work: impl for<'js> FnOnce(&Ctx<'js>) -> T) -> T {
        self.context.with(|ctx| {
            let result = work(&ctx);
            while ctx.execute_pending_job() {}
            result
        })
    }

    fn thrown<'js>(&self, ctx: &Ctx<'js>, error: Error, called: Option<(&str, &Function<'js>)>) -> Thrown {
        Thrown::catch(ctx, error, &self.script, called)
    }

    fn event<'js>(&self, ctx: &Ctx<'js>, o: &ObjectRef, c: Call) -> rquickjs::Result<Object<'js>> {
        self.event.clone().restore(ctx)?.call((
            o.source,
            o.namespace.as_str(),
            o.name.as_str(),
            o.uid.as_str(),
            o.resource_version.as_str(),
            reason(c.reason),
            c.attempt,
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
    }
}
