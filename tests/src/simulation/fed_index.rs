//! An index whose values come from outside, as a plugin's do: a scripted worker computes them through an index feed. It
//! takes time, fails on some objects, is replaced by a worker with other values, and goes away as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use informant_cache::{Environment, IndexFeedHandle, Snapshot};
use serde_json::Value;
use tokio::sync::Notify;

use super::history::Entry;
use super::rng::Rng;
use super::watched::Watched;
use super::world::{World, locked, sorted, version_of};

/// In how many percent of the seeds there is such an index.
const SEEDS_PERCENT: u64 = 30;

/// Separates the random numbers of this part from those of others.
const SALT: u64 = 0x6665_6564_2d69_6478;

/// The name of the index.
pub(super) const INDEX: &str = "fed";

/// The value under which the history lists the objects on which the worker failed.
const FAILED: &str = "failed";

/// The worker fails on every state whose version is a multiple of this.
const FAILS_EVERY: u64 = 5;

/// The most time between two steps.
const STEP_MS_MAX: u64 = 1_500;

pub(super) struct FedIndex {
    world: Arc<World>,
    rng: Rng,
    feed: IndexFeedHandle,
    /// The version of the worker: part of each value.
    generation: Arc<AtomicU64>,
    is_loaded: bool,
}

impl FedIndex {
    /// Whether a seed has such an index.
    pub(super) fn is_in(seed: u64) -> bool {
        Rng::new(seed ^ SALT).percent(SEEDS_PERCENT)
    }

    /// The index of a seed; most seeds have none.
    pub(super) fn of_seed(world: &Arc<World>, seed: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ SALT);
        rng.percent(SEEDS_PERCENT).then(|| Self {
            world: Arc::clone(world),
            rng,
            feed: IndexFeedHandle::new([INDEX.to_owned()]),
            generation: Arc::default(),
            is_loaded: false,
        })
    }

    /// Adds it to informers, removes it, and replaces its worker, as long as `playing`.
    pub(super) async fn play(index: &mut Option<Self>, playing: &AtomicBool) {
        let Some(index) = index else { return };
        let worker = Worker {
            world: Arc::clone(&index.world),
            feed: index.feed.clone(),
            generation: Arc::clone(&index.generation),
            rng: index.rng.split(),
        };
        index
            .world
            .environment
            .spawn("scripted indexer", Box::pin(worker.run()));
        index.attach_to_all().await;
        while playing.load(Ordering::Relaxed) {
            index.step().await;
            let pause = match index.rng.percent(50) {
                true => index.rng.below(20),
                false => index.rng.below(STEP_MS_MAX),
            };
            index.world.environment.sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Lets it work for all informers from now on.
    pub(super) async fn finish(&mut self) {
        self.attach_to_all().await;
        if !self.is_loaded {
            self.load();
        }
    }

    async fn step(&mut self) {
        match self.rng.below(10) {
            0 => self.attach_to_all().await,
            1 => self.detach_from_one(),
            2 if self.is_loaded => {
                self.is_loaded = false;
                self.feed.failed("scripted");
            }
            2..5 => self.load(),
            _ => record_all(&self.world),
        }
    }

    /// A worker with other values is ready.
    fn load(&mut self) {
        self.is_loaded = true;
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.feed.loaded();
    }

    async fn attach_to_all(&self) {
        for watched in self.world.informers() {
            // It may be stopped meanwhile.
            if watched.named.add_index_feed(self.feed.clone()).await.is_ok() {
                locked(&self.world.indexed).insert(watched.id);
            }
        }
    }

    fn detach_from_one(&mut self) {
        let informers = self.world.informers();
        let at = self.rng.below(informers.len() as u64) as usize;
        if let Some(watched) = informers.get(at) {
            locked(&self.world.indexed).remove(&watched.id);
            watched.named.remove_index_feed(&self.feed);
        }
    }

    /// Records that everything is at rest, for each informer.
    pub(super) fn record_rest(&self) {
        let generation = self.generation.load(Ordering::Relaxed);
        for watched in self.world.informers() {
            let (index, is_ready) = contents(&watched.snapshots());
            self.world.record(Entry::FedIndexChecked {
                informer: watched.id,
                at_rest: true,
                index: is_ready.then(|| sorted(index)),
                model: model(&self.world.cluster_objects(&watched.selection()), generation),
            });
        }
    }
}

/// Computes the values.
struct Worker {
    world: Arc<World>,
    feed: IndexFeedHandle,
    generation: Arc<AtomicU64>,
    rng: Rng,
}

impl Worker {
    async fn run(mut self) {
        let (woken, mut jobs) = (Arc::new(Notify::new()), Vec::new());
        let notify = Arc::clone(&woken);
        self.feed.set_worker_waker(Arc::new(move || notify.notify_one()));
        loop {
            self.feed.next_batch(1 + self.rng.below(4) as usize, &mut jobs);
            if jobs.is_empty() {
                woken.notified().await;
                continue;
            }
            let generation = self.generation.load(Ordering::Relaxed);
            if self.rng.percent(50) {
                jobs.reverse();
            }
            for job in jobs.drain(..) {
                let pause = self.rng.pick(&[0, 0, 0, 1, 20, 200]);
                if self.world.faults_active() && pause > 0 {
                    self.world.environment.sleep(Duration::from_millis(pause)).await;
                }
                let values = parsed(job.object.json());
                let values = values_of(&values, generation);
                let values = values.map(|values| vec![values]);
                self.feed.complete([job.answer(values)]);
            }
            if self.world.faults_active() && self.rng.percent(20) {
                // The informers publish what they can.
                tokio::task::yield_now().await;
                record_all(&self.world);
            }
        }
    }
}

/// Records what a query of each informer finds now, where it is answered.
fn record_all(world: &World) {
    for watched in world.informers() {
        record_of(world, &watched);
    }
}

fn record_of(world: &World, watched: &Watched) {
    // Each source publishes for itself: while the worker is replaced, one may be ahead.
    for snapshot in watched.snapshots() {
        let (index, is_ready) = contents(std::slice::from_ref(&snapshot));
        if !is_ready {
            continue;
        }
        let objects: Vec<Value> = snapshot.iter().map(|object| parsed(object.json())).collect();
        world.record(Entry::FedIndexChecked {
            informer: watched.id,
            at_rest: false,
            model: model(&objects, generation_of(&index)),
            index: Some(sorted(index)),
        });
    }
}

/// What queries find in the snapshots that answer, and whether all do.
pub(super) fn contents(snapshots: &[Snapshot]) -> (BTreeMap<String, Vec<String>>, bool) {
    let (mut found, mut is_ready) = (BTreeMap::<String, Vec<String>>::new(), true);
    for snapshot in snapshots {
        let Ok(values) = snapshot.index_values(INDEX) else {
            is_ready = false;
            continue;
        };
        for value in values {
            let keys = snapshot.index_keys(INDEX, &value).expect("the index is ready");
            let keys = keys.map(|key| key.to_string());
            found.entry(value.to_string()).or_default().extend(keys);
        }
        if let Some(failures) = snapshot.index_failures(INDEX) {
            let keys = failures.listed().map(|(key, _)| key.to_string());
            found.entry(FAILED.to_owned()).or_default().extend(keys);
        }
    }
    (found, is_ready)
}

/// The worker that computed the values; any if there are none.
fn generation_of(index: &BTreeMap<String, Vec<String>>) -> u64 {
    let generation = |value: &String| value.strip_prefix('g')?.split_once('/')?.0.parse().ok();
    index.keys().find_map(generation).unwrap_or_default()
}

/// What the index of these objects must contain.
fn model(objects: &[Value], generation: u64) -> Vec<(String, Vec<String>)> {
    let mut model = BTreeMap::<String, Vec<String>>::new();
    for object in objects {
        let version = version_of(object);
        let key = format!("{}/{}", version.namespace, version.name);
        let values = values_of(object, generation).unwrap_or_else(|_| vec![FAILED.to_owned()]);
        for value in values {
            model.entry(value).or_default().push(key.clone());
        }
    }
    sorted(model)
}

/// The index function.
fn values_of(object: &Value, generation: u64) -> Result<Vec<String>, String> {
    if version_of(object).version.is_multiple_of(FAILS_EVERY) {
        return Err("scripted".to_owned());
    }
    let value = object["data"]["value"].as_str().unwrap_or_default();
    Ok(vec![format!("g{generation}/{value}"), format!("g{generation}/any")])
}

fn parsed(json: &[u8]) -> Value {
    serde_json::from_slice(json).expect("the server sends JSON")
}
