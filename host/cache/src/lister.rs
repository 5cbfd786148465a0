//! Reading an informer's objects: all its sources at once, each as of its newest snapshot.

use informant_object::{KeyRef, LabelSelector, Object, SourceId};

use crate::catalog::Catalog;
use crate::index::IndexError;
use crate::store::Snapshot;

/// Lists, gets and finds objects of one informer; client-go's `GenericLister`. Of use once the informer has synced.
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
pub struct Found {
    /// Where it was found. A name may exist in several clusters.
    pub source: SourceId,
    /// The object.
    pub object: Object,
}

/// No source of the informer has the object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{informer} has no object {key:?}")]
pub struct NotFound {
    /// The informer that was asked.
    pub informer: String,
    /// What was asked for.
    pub key: String,
}

impl Lister {
    /// Reads `informer`'s sources in `catalog`, those that come later included.
    #[must_use]
    pub fn new(catalog: Catalog, informer: impl Into<String>) -> Lister {
        Lister {
            catalog,
            informer: informer.into(),
        }
    }

    /// Objects whose labels match, per source sorted by namespace and name. Each source is read as of now, when its turn comes.
    pub fn list<'a>(&'a self, selector: &'a LabelSelector) -> impl Iterator<Item = Found> + use<'a> {
        let everything = selector.is_everything();
        self.snapshots().flat_map(move |(source, snapshot)| {
            let matching = snapshot
                .cursor()
                .filter(move |object| everything || selector.matches(object));
            matching.map(move |object| Found { source, object })
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
    /// [`NotFound`].
    pub fn get(&self, name: &str) -> Result<Found, NotFound> {
        self.get_by_key(KeyRef::new("", name))
    }

    /// The object under `key`, of the first source that has it.
    ///
    /// # Errors
    /// [`NotFound`].
    pub fn get_by_key(&self, key: KeyRef<'_>) -> Result<Found, NotFound> {
        self.snapshots()
            .find_map(|(source, snapshot)| {
                Some(Found {
                    source,
                    object: snapshot.get(key)?.clone(),
                })
            })
            .ok_or_else(|| NotFound {
                informer: self.informer.clone(),
                key: key.to_string(),
            })
    }

    /// Objects found under `value` in the index called `index`.
    ///
    /// # Errors
    /// [`IndexError`] if one source lacks the index or does not have it ready: a part is never given for the whole.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Found>, IndexError> {
        let mut all = Vec::new();
        for (source, snapshot) in self.snapshots() {
            all.extend(snapshot.by_index(index, value)?.map(|object| Found {
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
    pub fn list(&self, selector: &LabelSelector) -> impl Iterator<Item = Found> {
        self.lister.snapshots().flat_map(move |(source, snapshot)| {
            let matching: Vec<Object> = snapshot.list(Some(self.namespace), selector).cloned().collect();
            matching.into_iter().map(move |object| Found { source, object })
        })
    }

    /// The object of the namespace called `name`.
    ///
    /// # Errors
    /// [`NotFound`].
    pub fn get(&self, name: &str) -> Result<Found, NotFound> {
        self.lister.get_by_key(KeyRef::new(self.namespace, name))
    }
}
