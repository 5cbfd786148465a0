//! Test guest: an index `app` by the label `app`, over every object. Objects with these names get other treatment:
//!
//! | name begins with | what it does |
//! |---|---|
//! | `fail-` | returns a failure |
//! | `trap-` | panics |
//! | `loop-` | never returns |
//! | `spin-` | counts to a billion first (about a second) |
//! | `grow-` | allocates until memory runs out |
//! | `ask-` | calls the store, and returns the error code as the value |
//! | `many-` | returns ten thousand values |
//! | `stray-` | returns a value for an index that its manifest does not declare |
//! | `twice-` | returns each value twice |
//!
//! With the config `{ "first-letter": true }`, values are the first letters of the labels, so that a test sees a swap.

use std::collections::BTreeMap;

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[derive(Default)]
struct ByApp {
    first_letter: bool,
}

#[derive(Deserialize)]
struct Labeled {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl Plugin for ByApp {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new()
            .index("app")
            .indexed(Objects::of("*", "*").fields(["/metadata/labels"])))
    }

    fn init(init: Init) -> Result<Self> {
        info!("init as {}", init.role);
        init.config()
    }
}

impl IndexFuncs for ByApp {
    type Object = Labeled;

    fn index(&mut self, of: &ObjectRef, object: Labeled) -> Result<IndexValues> {
        let label = object.metadata.labels.get("app").cloned();
        let app = label.map(|app| {
            if self.first_letter {
                app.chars().take(1).collect()
            } else {
                app
            }
        });
        let values = IndexValues::new();
        match of.name.split_once('-').map_or("", |(command, _)| command) {
            "fail" => return Err(Failure::permanent("asked to fail")),
            "trap" => panic!("asked to trap"),
            "loop" => loop {
                std::hint::black_box(());
            },
            "spin" => (0..1_000_000_000_u64).for_each(|number| {
                std::hint::black_box(number);
            }),
            "grow" => {
                let mut kept = Vec::new();
                loop {
                    kept.push(std::hint::black_box(vec![1_u8; 1 << 20]));
                }
            }
            "ask" => return Ok(values.with("app", [ask(of)])),
            "many" => return Ok(values.with("app", (0..10_000).map(|number| format!("{number:05}")))),
            "stray" => return Ok(values.with("stray", app)),
            "twice" => return Ok(values.with("app", app.clone()).with("app", app)),
            _ => {}
        }
        Ok(values.with("app", app))
    }
}

/// Calls the store from the index function.
fn ask(of: &ObjectRef) -> String {
    match store::version(of.source) {
        Ok(_) => "answered".to_owned(),
        Err(error) => error.code.to_string(),
    }
}

export!(ByApp: index);
