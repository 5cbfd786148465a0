//! Addresses, options and documents that a guest may send, and lists that an API server may send.

use informant_fuzz::{Document, corpus, documents, fuzz};
use informant_spec::{KubeGrant, KubeResource, KubeVerb};
use proptest::prelude::*;
use proptest::sample::select;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::api::{KubeDelete, KubeList, KubePatchKind, KubeWrite};
use super::*;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Asked {
    verb: KubeVerb,
    resource: String,
    namespace: String,
    name: String,
    subresource: String,
    document: Document,
}

fn asked() -> impl Strategy<Value = Asked> {
    let word = |known: &'static [&'static str]| prop_oneof![6 => select(known).prop_map(str::to_owned), 1 => ".{0,12}"];
    let resources = &[
        "v1/pods",
        "apps/v1/deployments",
        "v1/namespaces",
        "rbac.authorization.k8s.io/v1/roles",
        "v1/pods/status",
        "pods",
        "",
    ];
    let bodies = &[
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u"}}"#,
        r#"{"metadata":{"name":"b"}}"#,
        r#"{"metadata":{"generateName":"a-"}}"#,
    ];
    (
        select(&KubeVerb::ALL[..]),
        word(resources),
        word(&["", "web", "other", ".", "..", "a/b", "a%2fb"]),
        word(&["", "a", "b", "..", "system:x", "a?b"]),
        word(&["", "status", "..", "services"]),
        documents(bodies),
    )
        .prop_map(|(verb, resource, namespace, name, subresource, document)| Asked {
            verb,
            resource,
            namespace,
            name,
            subresource,
            document,
        })
}

fn action(asked: &Asked) -> KubeAction {
    let (document, options) = (asked.document.bytes().to_vec(), KubeWrite::default());
    match asked.verb {
        KubeVerb::Get => KubeAction::Get,
        KubeVerb::List => KubeAction::List(KubeList::default()),
        KubeVerb::Create => KubeAction::Create(document, options),
        KubeVerb::Update => KubeAction::Update(document, options),
        KubeVerb::Patch => KubeAction::Patch(KubePatchKind::Apply, document, options),
        KubeVerb::Delete => KubeAction::Delete(KubeDelete::default()),
    }
}

/// A member of the document's metadata, as a naive reader finds it.
fn metadata(asked: &Asked, member: &str) -> Option<String> {
    let document: Value = serde_json::from_slice(asked.document.bytes()).ok()?;
    Some(document["metadata"][member].as_str()?.to_owned())
}

#[test]
fn a_permitted_call_is_within_its_grant_and_one_path() {
    let mut spec = PluginSpec::new("p", "p.wasm");
    let grant = |verbs: &[KubeVerb], names: Option<&str>| KubeGrant {
        verbs: verbs.to_vec(),
        resource: KubeResource::parse("v1/pods").unwrap(),
        namespaces: Some(vec!["web".to_owned()]),
        names: names.map(|name| vec![name.to_owned()]),
        subresources: Vec::new(),
    };
    spec.allow_kube = vec![
        grant(&[KubeVerb::Get, KubeVerb::List, KubeVerb::Patch], None),
        grant(&[KubeVerb::Create], Some("a")),
    ];
    let grants = Current::new(KubeGrants::new(&spec));
    fuzz(corpus!("kube"), asked(), |asked| {
        let address = Address {
            cluster: String::new(),
            resource: asked.resource.clone(),
            namespace: asked.namespace.clone(),
            name: asked.name.clone(),
            subresource: asked.subresource.clone(),
        };
        let address = match KubeAddress::try_from(address) {
            Ok(address) => address,
            Err(error) => {
                prop_assert!(error.code == KubeErrorCode::Invalid && !error.message.is_empty());
                return Ok(());
            }
        };
        prop_assert_eq!(address.resource.to_string(), asked.resource.clone());
        for word in [&asked.namespace, &asked.name, &asked.subresource] {
            prop_assert!(
                !word.contains(['/', '%']) && !matches!(word.as_str(), "." | ".."),
                "{word:?}"
            );
        }
        if let Err(error) = gate::authorize_where("p", &grants.get(), &|_, _| false, &address, &action(asked)) {
            prop_assert!(!error.message.is_empty());
            return Ok(());
        }
        prop_assert!(asked.resource == "v1/pods" && asked.namespace == "web" && asked.subresource.is_empty());
        let creates_a = || metadata(asked, "name").as_deref() == Some("a");
        let is_within = match asked.verb {
            KubeVerb::Get => !asked.name.is_empty(),
            KubeVerb::List => asked.name.is_empty(),
            KubeVerb::Create => asked.name.is_empty() && creates_a(),
            // An apply may create the object of its address.
            KubeVerb::Patch => metadata(asked, "uid").is_some_and(|uid| !uid.is_empty()) || asked.name == "a",
            KubeVerb::Update | KubeVerb::Delete => false,
        };
        prop_assert!(is_within);
        Ok(())
    });
}

const OPTIONS: &[&str] = &[
    r#"{"labelSelector":"a=b","fieldSelector":"metadata.name=a","limit":10,"continue":"c"}"#,
    r#"{"fieldManager":"m","fieldValidation":"Strict","dryRun":["All"],"force":true}"#,
    r#"{"propagationPolicy":"Orphan","gracePeriodSeconds":3,"preconditions":{"uid":"u","resourceVersion":"7"},"dryRun":["All"]}"#,
];

#[test]
fn options_are_passed_on_as_they_are_or_refused() {
    fuzz(corpus!("kube-options"), documents(OPTIONS), |document| {
        let json = document.bytes();
        let given: Value = match json {
            [] => Value::Object(<_>::default()),
            json => serde_json::from_slice(json).unwrap_or(Value::Null),
        };
        let text = |pointer: &str| {
            given
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let is_dry_run = given["dryRun"].as_array().is_some_and(|given| !given.is_empty());
        let refused = |error: KubeError| {
            let is_fit = matches!(error.code, KubeErrorCode::Invalid | KubeErrorCode::TooLarge);
            let names_them = ["options: ", "a selector"]
                .iter()
                .any(|start| error.message.starts_with(start));
            prop_assert!(is_fit && names_them, "{}", error.message);
            Ok(())
        };
        match options::list(json) {
            Ok(list) => {
                prop_assert!(given.is_object());
                prop_assert!((1..=KUBE_PAGE_OBJECTS_MAX).contains(&list.limit));
                prop_assert_eq!(
                    [list.label_selector, list.field_selector, list.cursor],
                    ["/labelSelector", "/fieldSelector", "/continue"].map(text)
                );
            }
            Err(error) => refused(error)?,
        }
        for is_apply in [true, false] {
            match options::patch(json, is_apply, "informant-p") {
                Ok(write) => {
                    prop_assert!(given.is_object());
                    let manager = text("/fieldManager");
                    prop_assert_eq!(
                        &write.field_manager,
                        if manager.is_empty() {
                            "informant-p"
                        } else {
                            manager.as_str()
                        }
                    );
                    prop_assert_eq!(write.field_validation.unwrap_or_default(), text("/fieldValidation"));
                    prop_assert_eq!((write.force, write.dry_run), (given["force"] == true, is_dry_run));
                    prop_assert!(is_apply || !write.force);
                }
                Err(error) => refused(error)?,
            }
        }
        match options::delete(json) {
            Ok(delete) => {
                prop_assert!(given.is_object());
                prop_assert!(given["preconditions"].is_object() || given.get("preconditions").is_none());
                prop_assert_eq!(
                    [delete.uid, delete.resource_version],
                    ["/preconditions/uid", "/preconditions/resourceVersion"].map(text)
                );
                prop_assert_eq!(
                    delete.grace_period_seconds.map(u64::from),
                    given["gracePeriodSeconds"].as_u64()
                );
                prop_assert_eq!(delete.dry_run, is_dry_run);
            }
            Err(error) => refused(error)?,
        }
        Ok(())
    });
}

const LISTS: &[&str] = &[
    r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"c"},"items":[{"metadata":{"name":"a"}},{},
        {"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}]}"#,
    r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}"#,
];

#[test]
fn each_listed_item_is_an_object_with_its_type() {
    fuzz(corpus!("kube-list"), documents(LISTS), |document| {
        let page = match document::page(document.bytes()) {
            Ok(page) => page,
            Err(error) => {
                prop_assert!(error.code == KubeErrorCode::Unavailable && !error.message.is_empty());
                return Ok(());
            }
        };
        // Numbers out of range and halves of surrogate pairs are passed on as they are.
        let Ok(list) = serde_json::from_slice::<Value>(document.bytes()) else {
            return Ok(());
        };
        prop_assert!(list.is_object(), "{list}");
        let items = list["items"].as_array().cloned().unwrap_or_default();
        prop_assert_eq!(page.items.len(), items.len());
        let kind = list["kind"].as_str().unwrap().strip_suffix("List").unwrap();
        for (found, item) in page.items.iter().zip(items) {
            let found: Value = serde_json::from_slice(found).map_err(|error| TestCaseError::fail(error.to_string()))?;
            for (member, of_list) in [("apiVersion", list["apiVersion"].as_str().unwrap()), ("kind", kind)] {
                let own = item[member].as_str().unwrap_or(of_list);
                prop_assert_eq!(found[member].as_str(), Some(own), "{}", found);
            }
            prop_assert_eq!(&found["metadata"], &item["metadata"]);
        }
        Ok(())
    });
}
