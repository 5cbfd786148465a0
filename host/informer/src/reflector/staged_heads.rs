//! Heads in a list that is being received, where the budget of all caches has no room for whole objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_cache::{Snapshot, stored_bytes};
use informant_object::{Object, Projection};

use crate::cache_share::CacheShare;
use crate::update_channel::ListHeads;

/// After so many bytes of objects that became heads other tasks get a turn: 1 MiB is hashed in some 2 ms.
const HEADS_BYTES_PER_STEP: usize = 1_024 * 1_024;

/// Decides which objects of a list are kept only as heads: those of namespaces that are shed, and of the largest ones
/// in the list while the budget is exceeded.
pub(super) struct StagedHeads {
    cache: Arc<CacheShare>,
    /// What heads keep; none if they are not possible.
    fields: Option<Arc<Projection>>,
    /// Namespaces that were shed before the list.
    shed_before: BTreeSet<Box<str>>,
    /// Namespaces that the list sheds: it has heads of them.
    shed: BTreeSet<Box<str>>,
    /// New whole objects by namespace, once they were needed.
    whole: Option<BTreeMap<Box<str>, WholeObjects>>,
    /// Positions of objects that are to become heads.
    waiting: Vec<usize>,
    /// How many objects were looked at.
    looks: usize,
}

/// The new whole objects of a namespace.
#[derive(Default)]
struct WholeObjects {
    bytes: usize,
    positions: Vec<usize>,
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
            whole: None,
            waiting: Vec::new(),
            looks: 0,
        }
    }

    /// The form in which `object` is staged. A namespace that was shed before may return until the list is complete:
    /// once the list has a head of it, the list sheds it, too.
    pub(super) fn form(&mut self, object: Object) -> Object {
        let Some(fields) = &self.fields else { return object };
        let namespace = object.namespace();
        let is_shed = self.shed.contains(namespace);
        if !is_shed && !self.shed_before.contains(namespace) {
            return object;
        }
        let head = object.to_head(fields);
        if !is_shed && head.is_head() {
            self.shed.insert(namespace.into());
        }
        head
    }

    /// A new object is staged at `position`.
    pub(super) fn count(&mut self, object: &Object, position: usize) {
        if let Some(whole) = &mut self.whole
            && !object.is_head()
        {
            add(whole, object, position);
        }
    }

    /// A new object is no longer staged.
    pub(super) fn forget(&mut self, object: &Object) {
        if !object.is_head()
            && let Some(of) = self.whole.as_mut().and_then(|whole| whole.get_mut(object.namespace()))
        {
            of.bytes = of.bytes.saturating_sub(stored_bytes(object));
        }
    }

    /// An object is staged at `position` now.
    pub(super) fn moved(&mut self, object: &Object, position: usize) {
        if self.shed.contains(object.namespace()) {
            self.waiting.push(position);
        } else if let Some(of) = self.whole.as_mut().and_then(|whole| whole.get_mut(object.namespace())) {
            of.positions.push(position);
        }
    }

    /// Makes heads of objects among `objects`, if more have to become heads; `known` has those that are not new. Looks
    /// at `objects_max` at most, and at none after [`HEADS_BYTES_PER_STEP`] of them became heads. `replaced` receives
    /// each object and its head. Returns whether some may be left.
    pub(super) fn shed_some(
        &mut self,
        objects: &mut [Object],
        known: &Snapshot,
        objects_max: usize,
        mut replaced: impl FnMut(&Object, &Object),
    ) -> bool {
        let Some(fields) = self.fields.clone() else {
            return false;
        };
        if self.waiting.is_empty() && !(self.cache.budget.sheds_staged() && self.shed_largest(objects, known)) {
            return false;
        }
        let mut bytes = 0;
        for _ in 0..objects_max {
            let Some(position) = self.waiting.pop() else { break };
            self.looks += 1;
            // Another object may be there since, or none.
            let is_meant =
                |object: &&mut Object| is_new_and_whole(object, known) && self.shed.contains(object.namespace());
            let Some(object) = objects.get_mut(position).filter(is_meant) else {
                continue;
            };
            bytes += object.size_bytes();
            let head = object.to_head(&fields);
            replaced(object, &head);
            *object = head;
            if bytes >= HEADS_BYTES_PER_STEP {
                break;
            }
        }
        true
    }

    /// Sheds the namespaces with the most bytes of new whole objects among `objects`, until these cover what the budget
    /// is to free. Returns whether there are such objects.
    fn shed_largest(&mut self, objects: &[Object], known: &Snapshot) -> bool {
        let looks = &mut self.looks;
        let whole = self.whole.get_or_insert_with(|| {
            *looks += objects.len();
            let mut whole = BTreeMap::new();
            for (position, object) in objects.iter().enumerate() {
                if is_new_and_whole(object, known) {
                    add(&mut whole, object, position);
                }
            }
            whole
        });
        let some = whole.iter().filter(|(_, of)| of.bytes > 0);
        let mut largest: Vec<_> = some.map(|(namespace, of)| (of.bytes, namespace.clone())).collect();
        largest.sort_unstable_by(|a, b| b.cmp(a));
        let excess = self.cache.budget.excess_bytes();
        let mut covered = 0;
        for (bytes, namespace) in largest {
            self.waiting
                .extend(whole.remove(&namespace).into_iter().flat_map(|of| of.positions));
            self.shed.insert(namespace);
            covered += bytes;
            if covered >= excess {
                break;
            }
        }
        !self.waiting.is_empty()
    }

    /// What the list sheds.
    pub(super) fn into_shed(self) -> ListHeads {
        ListHeads {
            fields: self.fields.filter(|_| !self.shed.is_empty()),
            namespaces: self.shed.into_iter().collect(),
        }
    }
}

/// The store's own objects take no memory of the list: the loop sheds them with the namespace.
fn is_new_and_whole(object: &Object, known: &Snapshot) -> bool {
    !object.is_head() && is_new(object, known)
}

/// Whether `known` does not have `object` itself.
pub(super) fn is_new(object: &Object, known: &Snapshot) -> bool {
    !known.get(object.key()).is_some_and(|known| known.ptr_eq(object))
}

fn add(whole: &mut BTreeMap<Box<str>, WholeObjects>, object: &Object, position: usize) {
    let of = match whole.get_mut(object.namespace()) {
        Some(of) => of,
        None => whole.entry(object.namespace().into()).or_default(),
    };
    of.bytes += stored_bytes(object);
    of.positions.push(position);
}

#[cfg(test)]
mod tests {
    use informant_cache::CacheBudget;
    use informant_object::Shape;

    use super::*;

    fn object(namespace: usize, name: usize) -> Object {
        let json = format!(
            r#"{{"metadata":{{"namespace":"n-{namespace}","name":"{name}","uid":"u","resourceVersion":"1"}},"data":"{}"}}"#,
            "x".repeat(5_000)
        );
        Object::parse(json.as_bytes(), &Shape::verbatim()).unwrap()
    }

    #[test]
    fn a_list_with_many_namespaces_stays_within_the_budget() {
        let (namespaces, names) = (500, 40);
        let max_bytes = 20_000_000;
        let budget = CacheBudget::new(Some(max_bytes));
        let cache = Arc::new(CacheShare::join(vec![budget.clone()]));
        cache.set_head_fields(Some(Arc::new(Projection::of_head(&[]))));
        let known = Snapshot::default();
        let mut heads = StagedHeads::new(Arc::clone(&cache), &known, false);
        let (mut objects, mut peak) = (Vec::new(), 0);
        for (namespace, name) in (0..namespaces).flat_map(|namespace| (0..names).map(move |name| (namespace, name))) {
            let object = heads.form(object(namespace, name));
            cache.budget.add_staged(stored_bytes(&object));
            heads.count(&object, objects.len());
            objects.push(object);
            let replaced = |whole: &Object, head: &Object| {
                cache.budget.remove_staged(stored_bytes(whole));
                cache.budget.add_staged(stored_bytes(head));
            };
            peak = peak.max(budget.used_bytes());
            while heads.shed_some(&mut objects, &known, 64, replaced) {}
            assert!(!budget.is_exceeded());
        }
        assert!(peak < max_bytes + 7_000, "{peak}");
        assert!(heads.looks <= 2 * objects.len(), "{}", heads.looks);
        let whole = objects.iter().filter(|object| !object.is_head()).count();
        assert!(
            whole * 6_000 > max_bytes / 3,
            "{whole}: what there is room for stays whole"
        );
    }
}
