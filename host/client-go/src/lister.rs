//! Listers: read an informer's objects from the newest snapshots of all its sources.

use informant_cache::{Catalog, IndexError, Snapshot};
use informant_object::{KeyRef, LabelSelector, Object, SourceId};

/// Lists and gets objects of one informer; client-go's `GenericLister`. Use it once the informer has synced.
#[derive(Clone, Debug)]
pub struct Lister {
    catalog: Catalog,
    informer: String,
}

/// A [`Lister`] limited to a namespace; client-go's `GenericNamespaceLister`.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceLister<'a> {
    lister: &'a Lister,
    namespace: &'a str,
}

/// An object of one of an informer's sources.
#[derive(Clone, Debug)]
pub struct FoundObject {
    /// The source of the object. A name may exist in several clusters.
    pub source: SourceId,
    /// The object.
    pub object: Object,
}

/// No source of the informer has the object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{informer} has no object {key:?}")]
pub struct ObjectNotFound {
    /// The informer.
    pub informer: String,
    /// The requested key.
    pub key: String,
}

impl Lister {
    /// Reads `informer`'s sources in `catalog`, including those added later.
    #[must_use]
    pub fn new(catalog: Catalog, informer: impl Into<String>) -> Lister {
        Lister {
            catalog,
            informer: informer.into(),
        }
    }

    /// Objects whose labels match, per source sorted by namespace and name. Each source's snapshot is taken when the
    /// iteration reaches it.
    pub fn list<'a>(&'a self, selector: &'a LabelSelector) -> impl Iterator<Item = FoundObject> + use<'a> {
        let everything = selector.is_everything();
        self.snapshots().flat_map(move |(source, snapshot)| {
            let matching = snapshot
                .cursor()
                .filter(move |object| everything || selector.matches(object));
            matching.map(move |object| FoundObject { source, object })
        })
    }

    /// Limits to `namespace`.
    #[must_use]
    pub fn by_namespace<'a>(&'a self, namespace: &'a str) -> NamespaceLister<'a> {
        NamespaceLister {
            lister: self,
            namespace,
        }
    }

    /// The cluster-scoped object called `name`, of the first source that has it.
    ///
    /// # Errors
    /// [`ObjectNotFound`].
    pub fn get(&self, name: &str) -> Result<FoundObject, ObjectNotFound> {
        self.get_by_key(KeyRef::new("", name))
    }

    /// The object under `key`, of the first source that has it.
    ///
    /// # Errors
    /// [`ObjectNotFound`].
    pub fn get_by_key(&self, key: KeyRef<'_>) -> Result<FoundObject, ObjectNotFound> {
        self.snapshots()
            .find_map(|(source, snapshot)| {
                Some(FoundObject {
                    source,
                    object: snapshot.get(key)?.clone(),
                })
            })
            .ok_or_else(|| ObjectNotFound {
                informer: self.informer.clone(),
                key: key.to_string(),
            })
    }

    /// Objects found under `value` in the index called `index`.
    ///
    /// # Errors
    /// [`IndexError`] if one source lacks the index or it is not ready there: a partial result is never
    /// returned.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<FoundObject>, IndexError> {
        let mut all = Vec::new();
        for (source, snapshot) in self.snapshots() {
            all.extend(snapshot.by_index(index, value)?.map(|object| FoundObject {
                source,
                object: object.clone(),
            }));
        }
        Ok(all)
    }

    fn snapshots(&self) -> impl Iterator<Item = (SourceId, Snapshot)> + use<> {
        self.catalog
            .sources_of(&self.informer)
            .into_iter()
            .map(|source| (source.id(), source.snapshot()))
    }
}

impl NamespaceLister<'_> {
    /// Objects of the namespace whose labels match, per source sorted by name.
    pub fn list(&self, selector: &LabelSelector) -> impl Iterator<Item = FoundObject> {
        self.lister.snapshots().flat_map(move |(source, snapshot)| {
            let matching: Vec<Object> = snapshot.list(Some(self.namespace), selector).cloned().collect();
            matching.into_iter().map(move |object| FoundObject { source, object })
        })
    }

    /// The object of the namespace called `name`.
    ///
    /// # Errors
    /// [`ObjectNotFound`].
    pub fn get(&self, name: &str) -> Result<FoundObject, ObjectNotFound> {
        self.lister.get_by_key(KeyRef::new(self.namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use informant_cache::{SourceInfo, StoreWriter};
    use informant_object::Pointer;
    use insta::assert_snapshot;

    use super::*;
    use crate::PointerIndex;
    use crate::testing::{pod_in, pod_with};

    fn info(cluster: &str) -> SourceInfo {
        SourceInfo {
            informer: "pods".to_owned(),
            cluster: cluster.to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: "v1/pods".to_owned(),
            namespace: None,
            namespaced: true,
            partial: false,
        }
    }

    /// An informer with a source per list of objects.
    fn lister(sources: impl IntoIterator<Item = Vec<Object>>) -> (Lister, Vec<StoreWriter>) {
        let catalog = Catalog::new();
        let mut writers = Vec::new();
        for (number, objects) in sources.into_iter().enumerate() {
            let id = catalog.add_source(info(&number.to_string()));
            let mut writer = StoreWriter::publishing_to(&catalog, id).unwrap();
            objects.into_iter().for_each(|object| drop(writer.add(object)));
            writer.publish();
            writers.push(writer);
        }
        (Lister::new(catalog, "pods"), writers)
    }

    fn names(found: impl IntoIterator<Item = FoundObject>) -> String {
        let each: Vec<String> = found
            .into_iter()
            .map(|found| format!("{}:{}", found.source, found.object.key()))
            .collect();
        each.join(" ")
    }

    #[test]
    fn lister_returns_the_union_of_the_sources() {
        let (lister, _writers) = lister([
            vec![pod_in("x", "b", 1, "{}"), pod_in("x", "a", 1, "{}")],
            vec![
                pod_in("x", "a", 7, "{}"),
                pod_in("y", "c", 1, "{}"),
                pod_in("", "node", 1, "{}"),
            ],
        ]);
        let all = LabelSelector::parse("").unwrap();
        assert_eq!(names(lister.list(&all)), "1:x/a 1:x/b 2:node 2:x/a 2:y/c");
        assert_eq!(names(lister.list(&LabelSelector::parse("app").unwrap())), "");
        assert_eq!(names(lister.by_namespace("x").list(&all)), "1:x/a 1:x/b 2:x/a");
        assert_eq!(lister.by_namespace("x").get("a").unwrap().source, SourceId(1));
        assert_eq!(lister.get("node").unwrap().source, SourceId(2));
        assert_snapshot!(lister.by_namespace("y").get("a").unwrap_err(), @r#"pods has no object "y/a""#);
    }

    #[test]
    fn index_missing_in_one_source_gives_no_partial_result() {
        let object = |name: &str| pod_with(name, 1, r#"{"nodeName":"n1"}"#);
        let (lister, mut writers) = lister([vec![object("a")], vec![object("b")]]);
        let mut add = |at: usize| {
            let pointer = Pointer::parse("/spec/nodeName").unwrap();
            writers[at]
                .add_indexers(vec![Box::new(PointerIndex::new("node", pointer))])
                .unwrap();
            writers[at].publish();
        };
        add(0);
        assert!(matches!(
            lister.by_index("node", "n1"),
            Err(IndexError::UnknownIndex { .. })
        ));
        add(1);
        assert_eq!(names(lister.by_index("node", "n1").unwrap()), "1:default/a 2:default/b");
    }
}
