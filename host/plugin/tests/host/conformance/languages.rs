//! The plugin of the kit, in every language.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use serde_json::json;
use tokio::sync::OnceCell;

use super::table;
use crate::kube::Cluster;
use crate::world::{World, can_run_python, guest, is_built, javascript_source};

/// Where a plugin in a language comes from.
enum Source {
    /// A component that is built.
    Component(&'static str),
    /// The script that such a component was made from.
    ScriptOf(&'static str),
    /// A script in Python, below the root.
    PythonScript(&'static str),
}
use Source::{Component, PythonScript, ScriptOf};

/// The languages, as the table of the documentation names them.
const LANGUAGES: [(&str, Source); 7] = [
    ("JavaScript script", ScriptOf("guest_conformance_js")),
    ("JavaScript component", Component("guest_conformance_js")),
    ("Python script", PythonScript("plugin-sdk/python/tests/conformance.py")),
    ("Python component", Component("guest_conformance_python")),
    ("Rust", Component("guest_conformance_rust")),
    ("Go", Component("guest_conformance_go")),
    ("C", Component("guest_conformance_c")),
];

pub(super) fn names() -> [&'static str; 7] {
    LANGUAGES.each_ref().map(|(name, _)| *name)
}

/// The plugin in each language. Missing where a compiler is missing, but never in CI.
pub(crate) async fn guests() -> Vec<(&'static str, PathBuf)> {
    let found = LANGUAGES
        .iter()
        .filter_map(|(name, source)| Some((*name, source.find()?)));
    let guests: Vec<(&str, PathBuf)> = found.collect();
    compile_once(&guests).await;
    guests
}

impl Source {
    fn find(&self) -> Option<PathBuf> {
        match self {
            Component(name) => is_built(name).then(|| guest(name)),
            ScriptOf(name) => is_built(name).then(|| javascript_source(name))?,
            PythonScript(path) => {
                can_run_python().then(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path))
            }
        }
    }
}

/// Compiles the plugins into the cache that all tests of the kit share. The first test does it and the others wait: the
/// runner of Python scripts takes 15 s.
async fn compile_once(guests: &[(&str, PathBuf)]) {
    static COMPILED: OnceCell<()> = OnceCell::const_new();
    let compile = || async {
        let world = World::for_conformance(Cluster::answering(Some(0)));
        for (_, guest) in guests {
            world.inspect(guest, json!({})).await.unwrap();
        }
    };
    COMPILED.get_or_init(compile).await;
}

/// Runs `check` with the plugin in each language, and compares which pass with the row `feature` of the table.
pub(super) async fn every_language(feature: &str, check: impl AsyncFn(&Path)) {
    let mut found = Vec::new();
    for (language, guest) in guests().await {
        let checked = AssertUnwindSafe(check(guest.as_path())).catch_unwind().await;
        found.push((language, checked.is_ok()));
    }
    table::compare(feature, &found);
}
