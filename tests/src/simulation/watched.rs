//! An informer of the run: its current and earlier selections, and its contents.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::{Catalog, Environment, ShardFilter, Snapshot};
use informant_informer::{DurableSources, InformerSpec, NamedInformer, ReflectorOptions, SharedInformer, SourceSpec};
use informant_object::{KeyRef, LabelSelector, Pointer};
use informant_spec::GroupVersionResource;

use super::history::{Entry, ObjectVersion, Selection};
use super::world::{GROUP, World, locked, sorted, version_of_object};

/// The index of every informer.
const INDEX: &str = "value";

/// The deadline for stopping an informer.
const STOP_MAX: Duration = Duration::from_secs(10);

pub(super) struct Watched {
    pub(super) id: u32,
    /// It belongs to a process that is killed: the schedule leaves it alone.
    pub(super) is_of_process: bool,
    /// Where its sources are.
    pub(super) catalog: Catalog,
    pub(super) named: NamedInformer,
    /// All selections it has had; the last is in force.
    selections: Mutex<Vec<Selection>>,
    reflector: ReflectorOptions,
    /// Which objects it reads, if processes divide them.
    shards: Mutex<Option<ShardFilter>>,
    /// The objects that existed when it started.
    pub(super) at_start: Vec<ObjectVersion>,
    /// Requests may have been answered from an old state before it had synced.
    lagged: AtomicBool,
}

impl Watched {
    /// Starts an informer.
    pub(super) fn start(world: &Arc<World>, selection: Selection, reflector: ReflectorOptions) -> Arc<Self> {
        Self::start_stored(world, selection, reflector, None)
    }

    /// Starts an informer whose sources are durable if they have storage.
    pub(super) fn start_stored(
        world: &Arc<World>,
        selection: Selection,
        reflector: ReflectorOptions,
        storage: Option<Arc<dyn DurableSources>>,
    ) -> Arc<Self> {
        let environment = Arc::clone(&world.environment) as Arc<dyn Environment>;
        let is_of_process = storage.is_some();
        let catalog = world.catalog.clone();
        Self::start_in(
            world,
            selection,
            reflector,
            storage,
            (environment, catalog, is_of_process),
            None,
        )
    }

    /// Starts the informer of a replica, with its own tasks and sources.
    pub(super) fn start_replica(
        world: &Arc<World>,
        (selection, shards): (Selection, Option<ShardFilter>),
        reflector: ReflectorOptions,
        environment: Arc<dyn Environment>,
        catalog: Catalog,
    ) -> Arc<Self> {
        let place = (environment, catalog, true);
        Self::start_in(world, selection, reflector, None, place, shards)
    }

    fn start_in(
        world: &Arc<World>,
        selection: Selection,
        reflector: ReflectorOptions,
        storage: Option<Arc<dyn DurableSources>>,
        (environment, catalog, is_of_process): (Arc<dyn Environment>, Catalog, bool),
        shards: Option<ShardFilter>,
    ) -> Arc<Self> {
        let id = world.informers_ever.fetch_add(1, Ordering::Relaxed);
        world.record(Entry::Selected {
            informer: id,
            selection: selection.clone(),
        });
        let named = NamedInformer::start(
            InformerSpec {
                durable: storage,
                ..spec(id, &selection, reflector, shards)
            },
            world.client(id),
            environment,
            catalog.clone(),
            &world.metrics,
        )
        .expect("the specification is valid");
        let watched = Arc::new(Self {
            id,
            is_of_process,
            catalog,
            named,
            at_start: world.cluster(&selection),
            selections: Mutex::new(vec![selection]),
            reflector,
            shards: Mutex::new(shards),
            lagged: AtomicBool::new(world.on_replica.load(Ordering::Relaxed)),
        });
        locked(&world.informers).push(Arc::clone(&watched));
        watched
    }

    /// Stops it and removes it from the world. Its handlers must have been removed before.
    pub(super) async fn stop(&self, world: &World) {
        locked(&world.informers).retain(|other| other.id != self.id);
        let report = self.named.stop(STOP_MAX).await;
        world.note(format!("informer {} stopped: {report:?}", self.id));
    }

    /// Removes it from the world, with its process: it receives nothing more.
    pub(super) fn forget(&self, world: &World) {
        locked(&world.informers).retain(|other| other.id != self.id);
    }

    /// Changes its selection while its handlers stay.
    pub(super) async fn reconfigure(&self, world: &World, selection: Selection, reflector: ReflectorOptions) {
        world.record(Entry::Selected {
            informer: self.id,
            selection: selection.clone(),
        });
        locked(&self.selections).push(selection.clone());
        let accepted = self.named.reconfigure(spec(self.id, &selection, reflector, None)).await;
        accepted.expect("the change is valid");
    }

    /// Reads the objects of other shards than before.
    pub(super) async fn read_shards(&self, shards: ShardFilter) {
        *locked(&self.shards) = Some(shards);
        let spec = spec(self.id, &self.selection(), self.reflector, Some(shards));
        let accepted = self.named.reconfigure(spec).await;
        accepted.expect("the change is valid");
    }

    /// The objects of the API server that it should have, sorted by key.
    pub(super) fn wanted(&self, world: &World) -> Vec<ObjectVersion> {
        let mut wanted = world.cluster(&self.selection());
        if let Some(shards) = *locked(&self.shards) {
            let is_read = |object: &ObjectVersion| shards.includes(KeyRef::new(&object.namespace, &object.name));
            wanted.retain(is_read);
        }
        wanted
    }

    pub(super) fn selection(&self) -> Selection {
        locked(&self.selections).last().cloned().unwrap_or_default()
    }

    /// All selections it has had.
    pub(super) fn selections_so_far(&self) -> Vec<Selection> {
        locked(&self.selections).clone()
    }

    /// From now on, requests go to a replica that may lag.
    pub(super) fn note_lag(&self) {
        if !self.named.has_synced() {
            self.lagged.store(true, Ordering::Relaxed);
        }
    }

    /// Whether its first list may be of an old state.
    pub(super) fn has_lagged(&self) -> bool {
        self.lagged.load(Ordering::Relaxed)
    }

    pub(super) fn snapshots(&self) -> Vec<Snapshot> {
        self.named.sources().iter().map(|source| source.snapshot()).collect()
    }

    /// The contents of its stores, sorted by key.
    pub(super) fn stored(&self) -> Vec<ObjectVersion> {
        let objects = |snapshot: &Snapshot| snapshot.iter().map(version_of_object).collect::<Vec<_>>();
        let mut versions: Vec<_> = self.snapshots().iter().flat_map(objects).collect();
        versions.sort();
        versions
    }

    /// The version that a lookup finds.
    pub(super) fn version_at(&self, key: KeyRef<'_>) -> Option<u64> {
        let found = |snapshot: &Snapshot| snapshot.get(key).and_then(|object| object.version().number());
        self.snapshots().iter().find_map(found)
    }

    /// The version of the store that holds the key: everything up to it is known. None before the first list.
    pub(super) fn fresh_as_of(&self, key: KeyRef<'_>) -> Option<u64> {
        let sources = self.named.sources();
        let holds = |source: &&Arc<SharedInformer>| {
            let spec = source.spec();
            spec.namespace
                .as_deref()
                .is_none_or(|namespace| namespace == key.namespace)
        };
        let snapshot = sources.iter().find(holds)?.snapshot();
        snapshot.version()?.number()
    }

    /// Records its index next to the result of a scan over the same snapshots.
    pub(super) fn check_index(&self, world: &World) {
        let (mut index, mut scan) = (BTreeMap::new(), BTreeMap::new());
        // A source that has not published yet has no index.
        for snapshot in self.snapshots().into_iter().filter(|snapshot| !snapshot.is_empty()) {
            add_index(&snapshot, &mut index);
            add_scan(&snapshot, &mut scan);
        }
        world.record(Entry::IndexChecked {
            informer: self.id,
            index: sorted(index),
            scan: sorted(scan),
        });
    }
}

fn spec(id: u32, selection: &Selection, reflector: ReflectorOptions, shards: Option<ShardFilter>) -> InformerSpec {
    let resource = GroupVersionResource::new("", "v1", "configmaps");
    let mut source = SourceSpec::new(format!("maps-{id}"), resource, "ConfigMap");
    source.indexes = vec![(INDEX.to_owned(), Pointer::parse("/data/value").expect("a pointer"))];
    source.shards = shards;
    source.label_selector = selection
        .group
        .as_ref()
        .map(|group| LabelSelector::parse(&format!("{GROUP}={group}")).expect("a selector"));
    InformerSpec {
        source,
        resources: None,
        namespaces: selection.namespaces.clone(),
        reflector,
        durable: None,
        cache_bytes_max: None,
    }
}

fn add_index(snapshot: &Snapshot, into: &mut BTreeMap<String, Vec<String>>) {
    for value in snapshot.index_values(INDEX).expect("the index exists") {
        let keys = snapshot.index_keys(INDEX, &value).expect("the index exists");
        let keys = keys.map(|key| key.to_string());
        into.entry(value.to_string()).or_default().extend(keys);
    }
}

fn add_scan(snapshot: &Snapshot, into: &mut BTreeMap<String, Vec<String>>) {
    for object in snapshot.iter() {
        let value: serde_json::Value = serde_json::from_slice(object.json()).expect("the server sends JSON");
        if let Some(value) = value.pointer("/data/value").and_then(serde_json::Value::as_str) {
            into.entry(value.to_owned()).or_default().push(object.key().to_string());
        }
    }
}
