//! Heads in a list that is being received, where the budget of all caches has no room for whole objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_cache::{Snapshot, stored_bytes};
use informant_object::{Object, Projection};

use crate::cache_share::CacheShare;

/// Decides which objects of a list are kept only as heads: those of namespaces that are shed, and of the largest ones
/// in the list while the budget is exceeded.
pub(super) struct StagedHeads {
    cache: Arc<CacheShare>,
    /// What heads keep; none if they are not possible.
    fields: Option<Arc<Projection>>,
    /// Namespaces that were shed before the list.
    shed_before: BTreeSet<Box<str>>,
    /// Namespaces that the list sheds.
    shed: BTreeSet<Box<str>>,
    /// Bytes of new whole objects by namespace, once they were needed.
    whole_bytes: Option<BTreeMap<Box<str>, usize>>,
}

impl StagedHeads {
    /// Objects that are metadata only have no smaller heads.
    pub(super) fn new(cache: Arc<CacheShare>, known: &Snapshot, metadata_only: bool) -> Self {
        let shed_before = known.shed_namespaces().into_iter().map(|(namespace, _)| namespace);
        Self {
            fields: cache.head_fields().filter(|_| !metadata_only),
            cache,
            shed_before: shed_before.collect(),
            shed: BTreeSet::new(),
            whole_bytes: None,
        }
    }

    /// The form in which `object` is staged.
    pub(super) fn form(&self, object: Object) -> Object {
        let is_shed = |set: &BTreeSet<Box<str>>| !set.is_empty() && set.contains(object.namespace());
        match &self.fields {
            Some(fields) if is_shed(&self.shed) || is_shed(&self.shed_before) => object.to_head(fields),
            _ => object,
        }
    }

    /// A new object is staged.
    pub(super) fn count(&mut self, object: &Object) {
        if let Some(bytes) = &mut self.whole_bytes
            && !object.is_head()
        {
            add(bytes, object);
        }
    }

    /// Whether more objects have to become heads.
    pub(super) fn are_needed(&self) -> bool {
        self.fields.is_some() && self.cache.budget.sheds_staged()
    }

    /// Sheds the namespace with the most bytes of new whole objects among `objects`; `known` has those that are not
    /// new. None if there is no such object.
    pub(super) fn shed_largest(&mut self, objects: &[Object], known: &Snapshot) -> Option<ShedList> {
        let fields = self.fields.clone()?;
        let whole_bytes = self.whole_bytes.get_or_insert_with(|| {
            let mut bytes = BTreeMap::new();
            let new = objects.iter().filter(|object| is_new_and_whole(object, known));
            new.for_each(|object| add(&mut bytes, object));
            bytes
        });
        let (namespace, _) = whole_bytes.iter().max_by_key(|(_, bytes)| **bytes)?;
        let namespace = namespace.clone();
        whole_bytes.remove(&namespace);
        self.shed.insert(namespace.clone());
        Some(ShedList { namespace, fields })
    }

    /// The namespaces that the list sheds.
    pub(super) fn into_shed(self) -> Vec<Box<str>> {
        self.shed.into_iter().collect()
    }
}

/// A namespace of the list whose objects are to become heads.
pub(super) struct ShedList {
    namespace: Box<str>,
    fields: Arc<Projection>,
}

impl ShedList {
    /// The head of `object`, if it is to become one.
    pub(super) fn head_of(&self, object: &Object, known: &Snapshot) -> Option<Object> {
        let is_meant = object.namespace() == &*self.namespace && is_new_and_whole(object, known);
        is_meant.then(|| object.to_head(&self.fields))
    }
}

/// The store's own objects take no memory of the list: the loop sheds them with the namespace.
fn is_new_and_whole(object: &Object, known: &Snapshot) -> bool {
    !object.is_head() && !known.get(object.key()).is_some_and(|known| known.ptr_eq(object))
}

fn add(bytes: &mut BTreeMap<Box<str>, usize>, object: &Object) {
    match bytes.get_mut(object.namespace()) {
        Some(sum) => *sum += stored_bytes(object),
        None => drop(bytes.insert(object.namespace().into(), stored_bytes(object))),
    }
}
