//! The plugins of the kit, in every language.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use serde_json::json;
use tokio::sync::OnceCell;

use super::table;
use crate::kube::Cluster;
use crate::world::{World, can_run_python, guest, is_built, javascript_source};

/// The plugin that handles events.
const HANDLER: &str = "conformance";

/// The plugin that reconciles and has timers.
const RECONCILER: &str = "conformance_reconciler";

/// Where a plugin in a language comes from.
enum Source {
    /// A component that is built, with this end of its name.
    Component(&'static str),
    /// A script in JavaScript, from which the component is made, too.
    JavaScript,
    /// A script in Python.
    Python,
}
use Source::{Component, JavaScript, Python};

/// The languages, as the table of the documentation names them.
const LANGUAGES: [(&str, Source); 7] = [
    ("JavaScript script", JavaScript),
    ("JavaScript component", Component("js")),
    ("Python script", Python),
    ("Python component", Component("python")),
    ("Rust", Component("rust")),
    ("Go", Component("go")),
    ("C", Component("c")),
];

pub(super) fn names() -> [&'static str; 7] {
    LANGUAGES.each_ref().map(|(name, _)| *name)
}

/// The plugin that handles events, in each language. Missing where a compiler is missing, but never in CI.
pub(crate) async fn guests() -> Vec<(&'static str, PathBuf)> {
    compile_once().await;
    find(HANDLER)
}

fn find(plugin: &str) -> Vec<(&'static str, PathBuf)> {
    let found = LANGUAGES
        .iter()
        .filter_map(|(name, source)| Some((*name, source.find(plugin)?)));
    found.collect()
}

impl Source {
    fn find(&self, plugin: &str) -> Option<PathBuf> {
        let of_language = |end: &str| format!("guest_{plugin}_{end}");
        match self {
            Component(end) => {
                let name = of_language(end);
                is_built(&name).then(|| guest(&name))
            }
            JavaScript => {
                let name = of_language("js");
                is_built(&name).then(|| javascript_source(&name))?
            }
            Python => can_run_python().then(|| {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin-sdk/python/tests");
                folder.join(plugin).with_extension("py")
            }),
        }
    }
}

/// Compiles the plugins into the cache that all tests of the kit share. The first test does it and the others wait: the
/// runner of Python scripts takes 15 s.
async fn compile_once() {
    static COMPILED: OnceCell<()> = OnceCell::const_new();
    let compile = || async {
        let world = World::for_conformance(Cluster::answering(Some(0)));
        for (_, guest) in [HANDLER, RECONCILER].into_iter().flat_map(find) {
            world.inspect(&guest, json!({})).await.unwrap();
        }
    };
    COMPILED.get_or_init(compile).await;
}

/// Runs `check` with the plugin that handles events in each language, and compares which pass with the row `feature` of
/// the table.
pub(super) async fn every_language(feature: &str, check: impl AsyncFn(&Path)) {
    every(HANDLER, feature, check).await;
}

/// The same with the plugin that reconciles.
pub(super) async fn every_reconciler(feature: &str, check: impl AsyncFn(&Path)) {
    every(RECONCILER, feature, check).await;
}

async fn every(plugin: &str, feature: &str, check: impl AsyncFn(&Path)) {
    compile_once().await;
    let mut found = Vec::new();
    for (language, guest) in find(plugin) {
        let checked = AssertUnwindSafe(check(guest.as_path())).catch_unwind().await;
        found.push((language, checked.is_ok()));
    }
    table::compare(feature, &found);
}
