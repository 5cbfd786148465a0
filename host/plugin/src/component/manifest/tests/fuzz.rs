//! What a guest may return as its manifest.

use informant_fuzz::{Document, corpus, documents, fuzz, pointers};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::Value;

use super::*;

/// Every member.
const FULL: &str = r#"{"name":"n","version":"1","roles":["event-handler","index-funcs"],"events":[{"apiVersion":"v1",
    "kind":"Pod","payload":{"fields":["/spec/nodeName","/status/containerStatuses/*/restartCount"]},"old":true,
    "changedOnly":true,"namespaces":["web"],"labelSelector":"app in (a,b),!c"},{"apiVersion":"*","kind":"*",
    "payload":"metadata"}],"indexes":{"names":["node"],"objects":[{"apiVersion":"v1","kind":"Pod","payload":"whole"}]},
    "needs":[{"kube":{"verbs":["get","patch"],"resource":"v1/pods","namespaces":["web"],"names":["a"],
    "subresources":["status"]}}],"writes":"seen","metrics":[{"name":"seen","type":"counter","help":"Seen",
    "labels":["kind"]},{"name":"sizes","type":"histogram","help":"Sizes","buckets":[1,2.5]}],"parallel":true}"#;

const SEEDS: &[&str] = &[
    r#"{"name":"n","version":"1"}"#,
    r#"{"name":"n","version":"1","events":[{"apiVersion":"v1","kind":"Pod","payload":"none"}]}"#,
    FULL,
];

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Described {
    exported: Vec<String>,
    manifest: Document,
}

fn roles(names: &[String]) -> Roles {
    let is_named = |role: &Role| names.iter().any(|name| name == role.name());
    Roles::of(&Role::ALL.iter().copied().filter(is_named).collect::<Vec<_>>())
}

fn described() -> impl Strategy<Value = Described> {
    let names: Vec<String> = Role::ALL.iter().map(|role| role.name().to_owned()).collect();
    let exported = prop_oneof![2 => Just(names.clone()), 1 => subsequence(names, 0..=4)];
    (exported, documents(SEEDS)).prop_map(|(exported, manifest)| Described { exported, manifest })
}

#[test]
fn an_accepted_manifest_keeps_the_bounds() {
    fuzz(corpus!("manifest"), described(), |input| {
        let (exported, json) = (roles(&input.exported), input.manifest.bytes());
        let mut manifest = match Manifest::parse(json, exported) {
            Ok(manifest) => manifest,
            Err(error) => {
                let text = error.to_string();
                prop_assert!(!text.is_empty() && text.len() <= 10 * json.len() + 1_000, "{text}");
                return Ok(());
            }
        };
        let document: Value = serde_json::from_slice(json).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(document.is_object(), "{document}");
        for lists in ["/events", "/metrics", "/indexes/objects"] {
            let items = document.pointer(lists).and_then(Value::as_array);
            prop_assert!(
                items.is_none_or(|items| items.iter().all(Value::is_object)),
                "{lists}: {document}"
            );
        }
        let active = manifest.active_roles(exported);
        prop_assert_eq!(active.and(exported), active);
        for name in [&manifest.name, &manifest.version]
            .into_iter()
            .chain(manifest.index_names())
        {
            prop_assert!(validate_name("name", name).is_ok(), "{name:?}");
        }
        prop_assert_eq!(manifest.indexes.is_some(), active.has(Role::IndexFuncs));
        prop_assert!(manifest.metrics.len() <= METRICS_MAX);
        for rule in &manifest.events {
            prop_assert!(!(rule.old || rule.changed_only) || !matches!(rule.payload, Payload::None));
        }
        // Written again, it is the same. Numbers may lose their last digit.
        let again = Manifest::parse(document.to_string().as_bytes(), exported);
        let mut again = again.map_err(|error| TestCaseError::fail(error.to_string()))?;
        (manifest.metrics, again.metrics) = (Vec::new(), Vec::new());
        prop_assert_eq!(format!("{manifest:?}"), format!("{again:?}"));
        Ok(())
    });
}

/// A value of another type, at a pointer into [`FULL`].
fn wrong_value() -> impl Strategy<Value = (String, Value)> {
    let all = pointers(&serde_json::from_str(FULL).unwrap());
    let wrong = [
        Value::Null,
        3.into(),
        true.into(),
        "\u{1}".into(),
        Value::Array(vec![]),
        serde_json::json!({ "x": 1 }),
    ];
    (any::<Index>(), select(wrong.to_vec()))
        .prop_map(move |(at, value)| (all[1 + at.index(all.len() - 1)].clone(), value))
}

#[test]
fn a_value_of_wrong_type_is_named_by_member() {
    let all = roles(&Role::ALL.iter().map(|role| role.name().to_owned()).collect::<Vec<_>>());
    fuzz(corpus!("manifest-member"), wrong_value(), |(pointer, value)| {
        let mut document: Value = serde_json::from_str(FULL).unwrap();
        *document.pointer_mut(pointer).unwrap() = value.clone();
        if let Err(error) = Manifest::parse(document.to_string().as_bytes(), all) {
            let member = pointer.rsplit('/').find(|name| name.parse::<usize>().is_err()).unwrap();
            // The entry of a list may be named as one: "its label".
            let member = member.strip_suffix('s').unwrap_or(member);
            prop_assert!(error.to_string().contains(member), "{error}");
        }
        Ok(())
    });
}
