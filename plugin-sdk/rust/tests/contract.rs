//! Compares the SDK's copy of the contract with the original, and the test kit's projection with Informant's.

use informant_object::{Object, Pointer, Projection, Shape};
use informant_plugin_sdk::prelude::*;
use informant_plugin_sdk::testing::Cache;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn the_copy_of_the_contract_is_current() {
    let copy = include_str!("../wit/informant.wit");
    let contract = include_str!("../../../wit/informant.wit");
    assert!(
        copy == contract,
        "plugin-sdk/rust/wit/informant.wit differs: copy wit/informant.wit over it"
    );
}

/// A digest of the contract without its comments. Built components depend on every name and type in it.
const DECLARATIONS: u64 = 0xbf16_be55_e9a9_e570;

#[test]
fn declarations_of_the_contract_change_on_purpose_only() {
    let contract = include_str!("../../../wit/informant.wit").lines();
    let code = contract.flat_map(|line| line.split("//").next().unwrap_or_default().split_whitespace());
    let code = code.collect::<Vec<_>>().join(" ");
    let digest = code.bytes().fold(0xcbf2_9ce4_8422_2325, |digest: u64, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    assert!(
        digest == DECLARATIONS,
        "wit/informant.wit declares something else: components that were built before may not load. If that is meant, \
         raise its version and set DECLARATIONS to {digest:#x}"
    );
}

#[test]
fn the_sdk_names_the_contract_it_is_built_for() {
    let package = format!("package informant:plugin@{};", informant_plugin_sdk::CONTRACT);
    assert!(include_str!("../wit/informant.wit").contains(&package), "{package}");
}

/// Objects with nested lists and maps under few names, so that pointers match.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn any_pointer() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof!["[a-c]", Just("*".to_owned()), "[0-2]"], 0..4).prop_map(|tokens| {
        std::iter::once("/spec".to_owned())
            .chain(tokens)
            .collect::<Vec<_>>()
            .join("/")
    })
}

proptest! {
    /// In native tests a plugin receives the same fields as in Informant.
    #[test]
    fn the_test_kit_projects_like_informant(spec in any_value(), pointers in prop::collection::vec(any_pointer(), 1..4)) {
        let object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "a", "uid": "u", "resourceVersion": "1" },
            "spec": spec,
        });
        let cache = Cache::new();
        let source = cache.put(object.clone());
        let requested: Vec<&str> = pointers.iter().map(String::as_str).collect();
        let shown: Option<Value> = store::get_fields(source, "", "a", &requested).expect("the cache answers");

        let stored: Option<Value> = store::get(source, "", "a").expect("the cache answers");
        let stored = stored.expect("it was put").to_string();
        let shape = Shape::new("v1", "Pod", Vec::new(), true).expect("a valid shape");
        let parsed = Object::parse(stored.as_bytes(), &shape).expect("it is an object");
        let parse = |pointer: &String| Pointer::parse(pointer).expect("it is a pointer");
        let mut bytes = Vec::new();
        parsed.project(&Projection::new(&pointers.iter().map(parse).collect::<Vec<_>>()), &mut bytes);
        prop_assert_eq!(shown, Some(serde_json::from_slice(&bytes).expect("it is JSON")));
    }
}
