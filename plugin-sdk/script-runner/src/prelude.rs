//! The modules that scripts import, in JavaScript, and the functions in them that the runner calls.

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::{Declared, Evaluated};
use rquickjs::{Ctx, Error, Function, Module, Object, Persistent, Result};

use crate::native;

/// The modules, each after those that it imports. Scripts import only the last one ([`Imports`]).
const MODULES: [(&str, &str); 12] = [
    ("informant:globals", include_str!("../../javascript/prelude/globals.js")),
    ("informant:errors", include_str!("../../javascript/prelude/errors.js")),
    ("informant:log", include_str!("../../javascript/prelude/log.js")),
    ("informant:store", include_str!("../../javascript/prelude/store.js")),
    (
        "informant:reconciler",
        include_str!("../../javascript/prelude/reconciler.js"),
    ),
    ("informant:kube", include_str!("../../javascript/prelude/kube.js")),
    ("informant:kv", include_str!("../../javascript/prelude/kv.js")),
    ("informant:metrics", include_str!("../../javascript/prelude/metrics.js")),
    (
        "informant:recorder",
        include_str!("../../javascript/prelude/recorder.js"),
    ),
    ("informant:http", include_str!("../../javascript/prelude/http.js")),
    ("informant:exports", include_str!("../../javascript/prelude/exports.js")),
    (MODULE, include_str!("../../javascript/prelude/informant.js")),
];

/// The module that scripts import.
pub(crate) const MODULE: &str = "informant";

/// What the names of the other modules begin with.
const PRIVATE: &str = "informant:";

/// Lets the modules of the prelude import each other, and a script only [`MODULE`]. All are there before a script is.
pub(crate) struct Imports;

impl Resolver for Imports {
    fn resolve<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        match name == MODULE || base == MODULE || base.starts_with(PRIVATE) {
            true => Ok(name.to_owned()),
            false => Err(Error::new_resolving(base, name)),
        }
    }
}

impl Loader for Imports {
    fn load<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        Err(Error::new_loading(name))
    }
}

/// The global that hands [`native::api`] to the modules. It is gone before a script runs.
const NATIVE: &str = "native";

pub(crate) type SavedFunction = Persistent<Function<'static>>;

/// The functions that the runner calls.
pub(crate) struct Prelude {
    /// The names that the module `informant` exports.
    pub(crate) names: Vec<String>,
    /// Creates the event of a call.
    pub(crate) event: SavedFunction,
    /// Creates the source of a call.
    pub(crate) source: SavedFunction,
    /// Creates the argument of the run of a timer.
    pub(crate) tick: SavedFunction,
    /// What follows from an exception.
    pub(crate) consequence: SavedFunction,
    /// Ends a request of `fetch`.
    pub(crate) settle: SavedFunction,
    /// Forgets the requests of `fetch`.
    pub(crate) forget: SavedFunction,
    /// Checks the exports of a script, and makes its manifest.
    pub(crate) describe: SavedFunction,
    /// The known name that is meant by a misspelled one.
    pub(crate) suggestion: SavedFunction,
    /// Whether a handler reads its object.
    pub(crate) reads_object: SavedFunction,
    /// Check what the script's functions returned.
    pub(crate) requeue_after: SavedFunction,
    pub(crate) values: SavedFunction,
    pub(crate) saved_state: SavedFunction,
}

impl Prelude {
    /// Defines the modules. `context` is the JSON document that `describe` and `init` receive.
    pub(crate) fn load(ctx: &Ctx<'_>, context: Vec<u8>) -> Result<Prelude> {
        ctx.globals().set(NATIVE, native::api(ctx, context)?)?;
        let modules = MODULES.map(|(name, text)| evaluated(ctx, name, text));
        ctx.globals().remove(NATIVE)?;
        let [globals, errors, _, store, _, _, _, _, _, http, exports, informant] = modules;
        globals?;
        let (errors, store, http, exports) = (errors?, store?, http?, exports?);
        Ok(Prelude {
            names: informant?.namespace()?.keys::<String>().collect::<Result<_>>()?,
            event: saved(&store, "beginEvent")?,
            source: saved(&store, "beginSource")?,
            tick: saved(&store, "beginTick")?,
            consequence: saved(&errors, "consequence")?,
            settle: saved(&http, "settle")?,
            forget: saved(&http, "forget")?,
            describe: saved(&exports, "describe")?,
            suggestion: saved(&exports, "suggestion")?,
            reads_object: saved(&exports, "readsObject")?,
            requeue_after: saved(&exports, "requeueAfter")?,
            values: saved(&exports, "values")?,
            saved_state: saved(&exports, "savedState")?,
        })
    }
}

fn evaluated<'js>(ctx: &Ctx<'js>, name: &str, text: &str) -> Result<Module<'js, Evaluated>> {
    let (module, finished) = Module::declare(ctx.clone(), name, text)?.eval()?;
    finished.finish::<()>()?;
    Ok(module)
}

fn saved(module: &Module<'_, Evaluated>, name: &str) -> Result<SavedFunction> {
    let namespace: Object<'_> = module.namespace()?;
    let function = namespace.get::<_, Function<'_>>(name)?;
    Ok(Persistent::save(namespace.ctx(), function))
}
