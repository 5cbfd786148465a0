//! A loaded script: its evaluated module and its functions.

use std::io::Read as _;

use rquickjs::function::{Args, IntoArgs};
use rquickjs::{Context, Ctx, Error, FromJs, Function, Module, Object, Persistent, Runtime, Value};

use crate::bindings::exports::informant::plugin::event_handler::{Call, ObjectRef};
use crate::bindings::exports::informant::plugin::reconciler::Request;
use crate::bindings::exports::informant::plugin::timer_handler::Tick;
use crate::bindings::informant::plugin::log::{Level, log};
use crate::bindings::informant::plugin::types::Reason;
use crate::native;
use crate::prelude::{Imports, Prelude, SavedFunction};
use crate::rejections::Rejections;
use crate::thrown::{Source, Thrown};

/// The most arguments of a handler: the object and the event.
const ARGUMENTS_MAX: usize = 2;

/// The call of `index`, which is about no event.
const NO_CALL: Call = Call {
    reason: Reason::Initial,
    attempt: 0,
};

/// A loaded script.
pub(crate) struct Program {
    source: Source,
    manifest: String,
    on_add: Option<Handler>,
    on_update: Option<Handler>,
    on_delete: Option<Handler>,
    reconcile: Option<Handler>,
    on_timer: Option<Handler>,
    on_synced: Option<Handler>,
    index: Option<Handler>,
    save: Option<Handler>,
    restore: Option<Handler>,
    prelude: Prelude,
    rejections: Rejections,
    /// The engine's context. Dropped last, because it owns the functions.
    realm: Context,
}

/// A function that the script exports.
struct Handler {
    name: &'static str,
    function: SavedFunction,
    /// Whether it has a parameter for the object.
    reads_object: bool,
}

impl Program {
    /// Reads and evaluates the script. `context` is the JSON document that `describe` and `init` receive.
    ///
    /// # Errors
    /// The reason why the script is invalid, with file, line and column.
    pub(crate) fn load(context: Vec<u8>) -> Result<Program, String> {
        let name = std::env::args()
            .nth(1)
            .ok_or("the script has no name: pass it as the first argument")?;
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| format!("{name}: cannot read the script from stdin: {error}"))?;
        if let Some((before, _)) = text.split_once('\0') {
            let line = before.matches('\n').count() + 1;
            return Err(format!("{name}:{line}: SyntaxError: NUL character in the script"));
        }
        let source = Source { name, text };
        let engine = |error: Error| format!("cannot start the JavaScript engine: {error}");
        let runtime = Runtime::new().map_err(engine)?;
        runtime.set_loader(Imports, Imports);
        let rejections = Rejections::of(&runtime);
        let realm = Context::full(&runtime).map_err(engine)?;
        realm.clone().with(|ctx| {
            let thrown = |error, prelude: Option<&Prelude>| Thrown::catch(&ctx, error, &source, prelude, None).message;
            let prelude = Prelude::load(&ctx, context).map_err(|error| thrown(error, None))?;
            let exports = evaluate(&ctx, &source).map_err(|error| thrown(error, Some(&prelude)))?;
            let described = describe(&exports, &prelude, &source).map_err(|error| thrown(error, Some(&prelude)))?;
            let handler = |name| Handler::find(&exports, &prelude, name).map_err(|error| thrown(error, Some(&prelude)));
            Ok(Program {
                manifest: described,
                on_add: handler("onAdd")?,
                on_update: handler("onUpdate")?,
                on_delete: handler("onDelete")?,
                reconcile: handler("reconcile")?,
                on_timer: handler("onTimer")?,
                on_synced: handler("onSynced")?,
                index: handler("index")?,
                save: handler("save")?,
                restore: handler("restore")?,
                source: source.without_text(),
                prelude,
                rejections,
                realm,
            })
        })
    }

    /// The manifest, as JSON.
    pub(crate) fn into_manifest(self) -> String {
        self.manifest
    }

    pub(crate) fn on_add(&self, about: &ObjectRef, call: Call, object: Vec<u8>) -> Result<Option<u32>, Thrown> {
        self.call(self.on_add.as_ref(), |ctx, handler, arguments| {
            arguments.push_arg(handler.object(ctx, Some(object))?)?;
            arguments.push_arg(self.event(ctx, about, call, None)?)
        })
    }

    pub(crate) fn on_update(
        &self,
        about: &ObjectRef,
        call: Call,
        old: Option<Vec<u8>>,
        object: Vec<u8>,
    ) -> Result<Option<u32>, Thrown> {
        // Nothing changed, somebody asked for the call: a script that handles adds only does so again.
        let is_asked_for = matches!(call.reason, Reason::Trigger | Reason::RequeueAfter);
        let on_add = self.on_add.as_ref().filter(|_| is_asked_for);
        self.call(self.on_update.as_ref().or(on_add), |ctx, handler, arguments| {
            arguments.push_arg(handler.object(ctx, Some(object))?)?;
            arguments.push_arg(self.event(ctx, about, call, old)?)
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
        self.call(self.on_delete.as_ref(), |ctx, handler, arguments| {
            arguments.push_arg(handler.object(ctx, last)?)?;
            let event = self.event(ctx, about, call, None)?;
            event.set("finalStateUnknown", unknown)?;
            arguments.push_arg(event)
        })
    }

    /// `object` is absent if it is gone.
    pub(crate) fn reconcile(
        &self,
        about: &ObjectRef,
        request: Request,
        object: Option<Vec<u8>>,
    ) -> Result<Option<u32>, Thrown> {
        let call = Call {
            reason: request.reason,
            attempt: request.attempt,
        };
        self.call(self.reconcile.as_ref(), |ctx, handler, arguments| {
            arguments.push_arg(handler.object(ctx, object)?)?;
            let event = self.event(ctx, about, call, None)?;
            event.set("cacheIsBehind", request.cache_is_behind)?;
            arguments.push_arg(event)
        })
    }

    pub(crate) fn on_timer(&self, tick: &Tick) -> Result<(), Thrown> {
        self.call(self.on_timer.as_ref(), |ctx, _, arguments| {
            let members = (tick.name.as_str(), tick.scheduled.as_str(), tick.missed, tick.attempt);
            arguments.push_arg(call_saved::<_, Object<'_>>(ctx, &self.prelude.tick, members)?)
        })
        .map(drop)
    }

    pub(crate) fn on_synced(&self, source: u32, call: Call) -> Result<(), Thrown> {
        self.call(self.on_synced.as_ref(), |ctx, _, arguments| {
            arguments.push_arg(call_saved::<_, Object<'_>>(ctx, &self.prelude.source, (source,))?)?;
            let event = Object::new(ctx.clone())?;
            event.set("reason", native::reason_name(call.reason))?;
            event.set("attempt", call.attempt)?;
            arguments.push_arg(event)
        })
        .map(drop)
    }

    /// The values for each index, in the order of the manifest.
    pub(crate) fn index(&self, about: &ObjectRef, object: Vec<u8>) -> Result<Vec<Vec<String>>, Thrown> {
        let Some(handler) = &self.index else {
            return Ok(Vec::new());
        };
        self.with(Some(handler), |ctx| {
            let event = self.event(ctx, about, NO_CALL, None)?;
            let returned = self.settled(handler.on(ctx)?.call((handler.object(ctx, Some(object))?, event))?)?;
            call_saved(ctx, &self.prelude.values, (returned,))
        })
    }

    /// The document of the script's state.
    pub(crate) fn save(&self) -> Result<Vec<u8>, Thrown> {
        let Some(handler) = &self.save else {
            return Ok(b"null".to_vec());
        };
        self.with(Some(handler), |ctx| {
            let state = self.settled(handler.on(ctx)?.call(())?)?;
            let text: String = call_saved(ctx, &self.prelude.saved_state, (state,))?;
            Ok(text.into_bytes())
        })
    }

    /// Passes the document that the previous version saved.
    pub(crate) fn restore(&self, document: Vec<u8>) -> Result<(), Thrown> {
        let Some(handler) = &self.restore else { return Ok(()) };
        self.with(Some(handler), |ctx| {
            let state = native::parsed(ctx, Some(document))?;
            self.settled(handler.on(ctx)?.call((state,))?).map(drop)
        })
    }

    /// Logs the rejections of promises while the script was loaded.
    pub(crate) fn finish_loading(&self) {
        self.realm.with(|ctx| self.finish_jobs(&ctx));
    }

    /// Calls `handler`, if the script has it, with the arguments that `fill` adds. Returns the milliseconds after which
    /// the script wants to be called again.
    fn call(
        &self,
        handler: Option<&Handler>,
        fill: impl for<'js> FnOnce(&Ctx<'js>, &Handler, &mut Args<'js>) -> rquickjs::Result<()>,
    ) -> Result<Option<u32>, Thrown> {
        let Some(handler) = handler else { return Ok(None) };
        self.with(Some(handler), |ctx| {
            let mut arguments = Args::new(ctx.clone(), ARGUMENTS_MAX);
            fill(ctx, handler, &mut arguments)?;
            let returned = self.settled(handler.on(ctx)?.call_arg(arguments)?)?;
            if returned.is_undefined() || returned.is_null() {
                return Ok(None);
            }
            let milliseconds: Option<f64> = call_saved(ctx, &self.prelude.requeue_after, (handler.name, returned))?;
            // The prelude checks that it is a whole number in the range of u32.
            Ok(milliseconds.map(|milliseconds| milliseconds as u32))
        })
    }

    /// Runs `work`, which calls `handler`, and then the jobs that are left.
    fn with<T>(
        &self,
        handler: Option<&Handler>,
        work: impl for<'js> FnOnce(&Ctx<'js>) -> rquickjs::Result<T>,
    ) -> Result<T, Thrown> {
        self.realm.with(|ctx| {
            let result = work(&ctx).map_err(|error| {
                let called = handler.and_then(|handler| Some((handler.name, handler.on(&ctx).ok()?)));
                let called = called.as_ref().map(|(name, function)| (*name, function));
                Thrown::catch(&ctx, error, &self.source, Some(&self.prelude), called)
            });
            if result.is_err() {
                self.abandon_requests(&ctx);
            }
            self.finish_jobs(&ctx);
            result
        })
    }

    /// Runs a job that is left or, if there is none, waits for requests of `fetch`. Returns whether there was either.
    fn advance(&self, ctx: &Ctx<'_>) -> bool {
        if ctx.execute_pending_job() {
            return true;
        }
        let ended = native::http::wait();
        let has_ended = !ended.is_empty();
        for ended in ended {
            let settled = self.prelude.settle.clone().restore(ctx).and_then(|settle| {
                let mut arguments = Args::new(ctx.clone(), native::http::ENDED_ARGUMENTS);
                ended.push(ctx, &mut arguments)?;
                settle.call_arg::<()>(arguments)
            });
            if let Err(error) = settled {
                log(
                    Level::Error,
                    &format!("cannot return a response to the script: {error}"),
                    &[],
                );
            }
        }
        has_ended
    }

    /// Ends the requests of a call that failed.
    fn abandon_requests(&self, ctx: &Ctx<'_>) {
        if native::http::abandon() {
            // It only clears lists.
            let _ = call_saved::<_, ()>(ctx, &self.prelude.forget, ());
        }
    }

    fn finish_jobs(&self, ctx: &Ctx<'_>) {
        while self.advance(ctx) {}
        let (reasons, others) = self.rejections.take();
        for reason in reasons {
            let Ok(reason) = reason.restore(ctx) else { continue };
            let thrown = Thrown::catch(ctx, ctx.throw(reason), &self.source, Some(&self.prelude), None);
            log(
                Level::Error,
                &format!("{} (a promise that nothing awaits)", thrown.message),
                &[],
            );
        }
        if others > 0 {
            log(
                Level::Error,
                &format!("{others} more rejected promises that nothing awaits"),
                &[],
            );
        }
    }

    /// The value that a function returned or, if it is a promise, the value that it resolves to.
    fn settled<'js>(&self, returned: Value<'js>) -> rquickjs::Result<Value<'js>> {
        let Some(promise) = returned.as_promise() else {
            return Ok(returned);
        };
        let value = loop {
            match promise.result() {
                Some(value) => break value,
                None if self.advance(returned.ctx()) => {}
                None => break Err(Error::WouldBlock),
            }
        };
        if value.is_err() {
            self.rejections.forget(&returned);
        }
        value
    }

    fn event<'js>(
        &self,
        ctx: &Ctx<'js>,
        about: &ObjectRef,
        call: Call,
        old: Option<Vec<u8>>,
    ) -> rquickjs::Result<Object<'js>> {
        // Parsed by the event's getter.
        let document = old.as_deref().map(str::from_utf8).transpose()?;
        let mut arguments = Args::new(ctx.clone(), 8);
        arguments.push_arg(about.source)?;
        arguments.push_arg(about.namespace.as_str())?;
        arguments.push_arg(about.name.as_str())?;
        arguments.push_arg(about.uid.as_str())?;
        arguments.push_arg(about.resource_version.as_str())?;
        arguments.push_arg(native::reason_number(call.reason))?;
        arguments.push_arg(call.attempt)?;
        arguments.push_arg(document)?;
        self.prelude.event.clone().restore(ctx)?.call_arg(arguments)
    }
}

impl Handler {
    /// The function `name` of the script's exports, if there is one.
    fn find(exports: &Object<'_>, prelude: &Prelude, name: &'static str) -> rquickjs::Result<Option<Handler>> {
        let Some(function) = exports.get::<_, Option<Function<'_>>>(name)? else {
            return Ok(None);
        };
        let ctx = exports.ctx();
        Ok(Some(Handler {
            name,
            reads_object: call_saved(ctx, &prelude.reads_object, (function.clone(),))?,
            function: Persistent::save(ctx, function),
        }))
    }

    fn on<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Function<'js>> {
        self.function.clone().restore(ctx)
    }

    /// The object of `document`, if the function reads it.
    fn object<'js>(&self, ctx: &Ctx<'js>, document: Option<Vec<u8>>) -> rquickjs::Result<Value<'js>> {
        native::parsed(ctx, document.filter(|_| self.reads_object))
    }
}

/// Evaluates the script. Returns its exports.
fn evaluate<'js>(ctx: &Ctx<'js>, source: &Source) -> rquickjs::Result<Object<'js>> {
    let (module, evaluated) = Module::declare(ctx.clone(), source.name.as_str(), source.text.as_str())?.eval()?;
    evaluated.finish::<()>()?;
    module.namespace()
}

fn describe(exports: &Object<'_>, prelude: &Prelude, source: &Source) -> rquickjs::Result<String> {
    let stem = source
        .name
        .rsplit_once('.')
        .map_or(source.name.as_str(), |(stem, _)| stem);
    call_saved(exports.ctx(), &prelude.describe, (exports.clone(), stem))
}

fn call_saved<'js, A: IntoArgs<'js>, R: FromJs<'js>>(
    ctx: &Ctx<'js>,
    function: &SavedFunction,
    arguments: A,
) -> rquickjs::Result<R> {
    function.clone().restore(ctx)?.call(arguments)
}
