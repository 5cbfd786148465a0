//! Shedding: in some namespaces only the heads of objects are stored.
//!
//! What is in an index stays: its values were computed from the whole object.

use std::ops::Bound;
use std::sync::Arc;

use informant_object::{Key, KeyRef, Object, Pointer, Projection};

use super::{Root, StoreWriter, count, stored_bytes};
use crate::index::IndexFunc;

/// The fields that `functions` read, for heads. None if one may read any field.
pub(super) fn fields_of(functions: &[Arc<dyn IndexFunc>]) -> Option<Projection> {
    let mut fields: Vec<Pointer> = Vec::new();
    for function in functions {
        fields.extend(function.fields()?.iter().cloned());
    }
    Some(Projection::of_head(&fields))
}

/// A namespace whose objects are becoming heads.
#[derive(Debug)]
pub(super) struct Shedding {
    namespace: Box<str>,
    last: Option<Key>,
}

/// Shedding.
impl StoreWriter {
    /// What heads of this store keep besides metadata. None: an index function may read any field, so that nothing can
    /// be shed.
    #[must_use]
    pub fn head_fields(&self) -> Option<&Arc<Projection>> {
        self.head_fields.as_ref()
    }

    /// From now on [`add`](Self::add) stores heads in `namespace`, and [`shed_some`](Self::shed_some) makes heads of
    /// what is there. Does nothing if nothing [can be shed](Self::head_fields).
    pub fn shed_namespace(&mut self, namespace: &str) {
        if self.head_fields.is_none() || !self.shed.insert(namespace.into()) {
            return;
        }
        self.root.usage.set_shed(namespace, true);
        self.shedding.push(Shedding {
            namespace: namespace.into(),
            last: None,
        });
    }

    /// From now on [`add`](Self::add) stores whole objects in `namespace`. Heads stay until their
    /// [bodies return](Self::restore_body).
    pub fn unshed_namespace(&mut self, namespace: &str) {
        self.shed.remove(namespace);
        self.shedding.retain(|shedding| *shedding.namespace != *namespace);
        self.root.usage.set_shed(namespace, false);
    }

    /// Whether only heads are stored in `namespace`.
    #[must_use]
    pub fn is_shed(&self, namespace: &str) -> bool {
        !self.shed.is_empty() && self.shed.contains(namespace)
    }

    /// Looks at up to `objects_max` objects of shed namespaces and makes heads of them. Returns whether some are
    /// left to look at.
    pub fn shed_some(&mut self, objects_max: usize) -> bool {
        let Some(Shedding { namespace, last }) = self.shedding.last_mut() else {
            return false;
        };
        let start = match last {
            Some(last) => Bound::Excluded(last.as_ref()),
            None => Bound::Included(KeyRef::new(namespace, "")),
        };
        let here = self.root.objects.range((start, Bound::Unbounded));
        let here = here.take_while(|(key, _)| *key.namespace() == **namespace);
        let keys: Vec<Key> = here.take(objects_max).map(|(key, _)| key.clone()).collect();
        match keys.last() {
            Some(key) if keys.len() == objects_max => *last = Some(key.clone()),
            _ => {
                self.root.sheds.push(namespace.clone());
                self.shedding.pop();
                self.dirty = true;
            }
        }
        for key in keys {
            self.shed_object(&key);
        }
        !self.shedding.is_empty()
    }

    fn shed_object(&mut self, key: &Key) {
        let Some(fields) = self.head_fields.clone() else { return };
        let head = match self.root.get(key.as_ref()) {
            Some(object) if !object.is_head() => object.to_head(&fields),
            _ => return,
        };
        self.put_in_place(key.as_ref(), head);
    }

    /// Stores `object` where the head of its uid and version is stored; index values stay. Returns whether it was.
    pub fn restore_body(&mut self, object: Object) -> bool {
        let is_its_head = self.root.get(object.key()).is_some_and(|head| {
            head.is_head() && head.uid() == object.uid() && head.version() == object.version() && !object.is_head()
        });
        if is_its_head {
            let key = object.key().to_key();
            self.put_in_place(key.as_ref(), object);
        }
        is_its_head
    }

    /// Replaces the stored object by another form of the same state.
    fn put_in_place(&mut self, key: KeyRef<'_>, object: Object) {
        let Root {
            objects,
            usage,
            heads,
            bytes,
            reformed_bytes,
            ..
        } = &mut self.root;
        let Some(stored) = objects.get_mut(&key) else {
            return;
        };
        let (before, after) = (stored_bytes(&stored.object), stored_bytes(&object));
        *bytes = *bytes + after - before;
        *reformed_bytes += before as u64;
        count(&mut self.tally, usage, heads, Some(&stored.object), Some(&object));
        stored.object = object;
        self.dirty = true;
    }

    /// The largest namespace that is not shed, with its bytes. None if there is none.
    #[must_use]
    pub fn largest_whole_namespace(&mut self) -> Option<(Box<str>, usize)> {
        self.tally.flush(&self.root.usage);
        self.root.usage.largest_whole_namespace()
    }

    /// Shed namespaces, with the bytes that the bodies of their objects would add, the smallest first.
    #[must_use]
    pub fn shed_namespaces(&mut self) -> Vec<(Box<str>, usize)> {
        self.tally.flush(&self.root.usage);
        self.root.usage.shed_namespaces()
    }

    /// From now on [`add`](Self::add) may receive heads, which keep `fields`.
    pub fn expect_heads(&mut self, fields: &Projection) {
        let is_kept = |function: &&Arc<dyn IndexFunc>| {
            let read = function.fields();
            read.is_some_and(|read| read.iter().all(|field| fields.covers(field)))
        };
        self.late_for_added = self.root.functions.iter().take_while(is_kept).count();
        self.late_functions = match self.root.heads {
            0 => self.late_for_added,
            _ => self.late_functions.min(self.late_for_added),
        };
    }
}
