//! The store against a sorted map and scans over it.

use std::collections::{BTreeMap, BTreeSet};

use informant_object::Pointer;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::PointerIndex;
use crate::testing::pod_with;

/// Operations on the store. Six names and four values, so that they collide.
#[derive(Clone, Debug)]
enum Write {
    Put(u8, Vec<u8>),
    Delete(u8),
    Replace(BTreeMap<u8, Vec<u8>>),
    AddIndex,
    Attach,
    Detach,
    Publish,
}

fn any_write() -> impl Strategy<Value = Write> {
    let name = 0..6_u8;
    let values = || vec(0..4_u8, 0..3);
    prop_oneof![
        6 => (name.clone(), values()).prop_map(|(name, values)| Write::Put(name, values)),
        3 => name.clone().prop_map(Write::Delete),
        1 => proptest::collection::btree_map(name, values(), 0..4).prop_map(Write::Replace),
        1 => Just(Write::AddIndex),
        1 => Just(Write::Attach),
        1 => Just(Write::Detach),
        3 => Just(Write::Publish),
    ]
}

/// Name to version and values.
type Model = BTreeMap<String, (u64, BTreeSet<String>)>;

struct Twins {
    store: StoreWriter,
    model: Model,
    version: u64,
    has_index: bool,
    is_attached: bool,
}

/// A snapshot and the model at the same time.
type Then = (Snapshot, Model, bool, bool);

fn text(values: &[u8]) -> BTreeSet<String> {
    values.iter().map(|value| format!("v{value}")).collect()
}

impl Twins {
    fn new() -> Twins {
        let mut store = StoreWriter::new();
        store.declare_index("given").unwrap();
        Twins {
            store,
            model: Model::new(),
            version: 0,
            has_index: false,
            is_attached: false,
        }
    }

    fn object(&mut self, name: u8, values: &[u8]) -> Object {
        self.version += 1;
        let name = format!("pod-{name}");
        let list: Vec<String> = values.iter().map(|value| format!("\"v{value}\"")).collect();
        self.model.insert(name.clone(), (self.version, text(values)));
        pod_with(&name, self.version, &format!(r#"{{"values":[{}]}}"#, list.join(",")))
    }

    fn attach(&mut self) {
        let mut contents = crate::IndexContents::new();
        for (name, (_, values)) in &self.model {
            let values = values.iter().map(String::as_str);
            contents.set(&key(name).to_key(), values).unwrap();
        }
        self.store.attach_index("given", contents).unwrap();
    }

    fn take(&mut self, write: Write, then: &mut Vec<Then>) {
        match write {
            Write::Put(name, values) => {
                let object = self.object(name, &values);
                self.store.add(object);
            }
            Write::Delete(name) => {
                let name = format!("pod-{name}");
                assert_eq!(
                    self.store.delete(key(&name)).is_some(),
                    self.model.remove(&name).is_some()
                );
            }
            Write::Replace(objects) => {
                self.model.clear();
                let objects = objects
                    .iter()
                    .map(|(&name, values)| self.object(name, values))
                    .collect();
                self.store.replace(objects, version(self.version), 0);
            }
            Write::AddIndex => {
                let pointer = Pointer::parse("/spec/values/*").unwrap();
                let added = self
                    .store
                    .add_indexers(vec![Box::new(PointerIndex::new("values", pointer))]);
                assert_eq!(added.is_err(), self.has_index);
                self.has_index = true;
            }
            Write::Attach => {
                self.attach();
                self.is_attached = true;
            }
            Write::Detach => {
                self.store.detach_index("given").unwrap();
                self.is_attached = false;
            }
            Write::Publish => {
                if self.is_attached {
                    self.attach();
                }
                let snapshot = self.store.publish();
                then.push((snapshot, self.model.clone(), self.has_index, self.is_attached));
            }
        }
    }
}

fn check((snapshot, model, has_index, is_attached): &Then) {
    let stored: Vec<(&str, u64)> = snapshot
        .iter()
        .map(|pod| (pod.name(), pod.version().number().unwrap()))
        .collect();
    assert!(
        stored
            .iter()
            .copied()
            .eq(model.iter().map(|(name, (version, _))| (name.as_str(), *version)))
    );
    assert_eq!(snapshot.bytes(), snapshot.iter().map(stored_bytes).sum::<usize>());
    assert!(
        snapshot
            .cursor()
            .map(|pod| pod.name().to_owned())
            .eq(model.keys().cloned())
    );
    for (index, is_ready) in [("values", *has_index), ("given", *is_attached)] {
        assert_eq!(snapshot.index_values(index).is_ok(), is_ready, "{index}");
        if !is_ready {
            continue;
        }
        let in_use: BTreeSet<&String> = model.values().flat_map(|(_, values)| values).collect();
        assert!(
            snapshot
                .index_values(index)
                .unwrap()
                .iter()
                .map(|value| &**value)
                .eq(in_use.iter().map(|value| value.as_str()))
        );
        for after in [None, Some(""), Some("v0"), Some("v1x"), Some("v3")] {
            let beyond = in_use.iter().map(|value| value.as_str());
            assert!(
                snapshot
                    .index_values_after(index, after)
                    .unwrap()
                    .eq(beyond.filter(|value| after.is_none_or(|after| *value > after))),
                "{index} {after:?}"
            );
        }
        for value in text(&[0, 1, 2, 3]) {
            let scan = model
                .iter()
                .filter(|(_, (_, values))| values.contains(&value))
                .map(|(name, _)| name.as_str());
            assert!(
                snapshot
                    .by_index(index, &value)
                    .unwrap()
                    .map(Object::name)
                    .eq(scan.clone()),
                "{index} {value}"
            );
            assert!(
                snapshot
                    .index_keys(index, &value)
                    .unwrap()
                    .map(|key| key.name)
                    .eq(scan.clone())
            );
            // Read in pages of two, each after the last key of the previous one.
            let mut walked: Vec<&Object> = Vec::new();
            loop {
                let after = walked.last().map(|object| object.key());
                let page = snapshot.by_index_after(index, &value, after).unwrap().take(2);
                let before = walked.len();
                walked.extend(page);
                if walked.len() == before {
                    break;
                }
            }
            assert!(walked.iter().map(|object| object.name()).eq(scan), "{index} {value}");
        }
    }
}

proptest! {
    /// For any writes, every index of every snapshot equals a scan over its objects, also after later writes.
    #[test]
    fn indexes_agree_with_a_scan(writes in vec(any_write(), 0..120)) {
        let (mut twins, mut then) = (Twins::new(), Vec::new());
        for write in writes {
            twins.take(write, &mut then);
        }
        twins.take(Write::Publish, &mut then);
        then.iter().for_each(check);
    }
}
