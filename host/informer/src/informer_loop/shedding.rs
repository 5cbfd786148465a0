//! Shedding: when the budget of the caches is exceeded, the largest namespaces of the source become heads, and return
//! when there is room again.
//!
//! ```text
//! asked by the budget ─▶ largest namespace: heads ─▶ … until enough is free
//! 60 s later, looked at every 10 s ─▶ smallest shed namespace that fits ─▶ LIST, page by page ─▶ whole again
//! ```

use std::time::Duration;

use informant_cache::listener::{ChangeKind, ObjectChange};
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{Environment, Moment};
use informant_object::Object;
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use super::{InformerLoop, LoopParts};
use crate::bodies::{BodyPage, BodyParts, page_objects};
use crate::source_name::log;

/// Objects that become heads between two points at which events are processed and other tasks get a turn.
const HEADS_PER_STEP: usize = 256;

/// Bytes of these objects: each is hashed, 1 MiB in some 2 ms.
const HEADS_BYTES_PER_STEP: usize = 1_024 * 1_024;

/// The same before a list is applied, whose objects wait.
const HEADS_WITH_LIST_PER_STEP: usize = 32;

/// Nothing returns for so long after a namespace was shed: 60 s.
const RETURN_AFTER: Duration = Duration::from_secs(60);

/// How often the source looks whether a shed namespace is empty or has room again: 10 s.
const RETURN_CHECK_PERIOD: Duration = Duration::from_secs(10);

/// What a source has shed.
#[derive(Default)]
pub(super) struct Shedding {
    /// When to look at shed namespaces. None while there are none.
    check_at: Option<Moment>,
    /// Nothing returns before.
    return_from: Moment,
    returning: Option<Returning>,
    freeing: Option<Freeing>,
    was_reported: bool,
    /// Ends the task that reads bodies.
    reader: Option<DropGuard>,
}

/// What the budget asked for, until it is done.
#[derive(Clone, Copy)]
struct Freeing {
    /// The bytes that the store may have; none if everything is to be shed.
    until_bytes: Option<usize>,
    /// How many objects of the namespaces that are being shed become heads in a step. None if there is none.
    objects_per_step: Option<usize>,
}

/// A namespace whose bodies are being read.
struct Returning {
    namespace: Box<str>,
    pages: mpsc::Receiver<ReturnPage>,
}

/// One page of a returning namespace, or why it could not be read.
type ReturnPage = Result<BodyPage, String>;

pub(super) enum SheddingNews {
    Check,
    /// None: nothing more is read.
    Page(Option<ReturnPage>),
}

impl Shedding {
    pub(super) async fn news(&mut self, environment: &dyn Environment) -> SheddingNews {
        match (&mut self.returning, self.check_at) {
            (Some(returning), _) => SheddingNews::Page(returning.pages.recv().await),
            (None, Some(at)) => {
                environment.sleep(at - environment.now()).await;
                SheddingNews::Check
            }
            (None, None) => std::future::pending().await,
        }
    }

    /// Whether [steps](InformerLoop::shed_step) are left.
    pub(super) fn is_freeing(&self) -> bool {
        self.freeing.is_some()
    }

    fn set_shed(&mut self, now: Moment) {
        self.return_from = now + RETURN_AFTER;
        self.check_at.get_or_insert(now + RETURN_CHECK_PERIOD);
    }
}

impl InformerLoop {
    /// Tells the budget what the store takes. Not while readers have to let go of what was just replaced.
    pub(super) fn count_bytes(&self) {
        self.parts.cache.budget.set_stored_bytes(self.bytes());
    }

    /// What older snapshots hold of objects that became heads does not count: it would grow by what is shed, until all
    /// is.
    fn bytes(&self) -> usize {
        self.own_bytes() + self.parts.store.published().held_states_bytes()
    }

    /// What can be shed, with the indexes.
    fn own_bytes(&self) -> usize {
        let stored = self.parts.store.published();
        stored.bytes() + stored.index_bytes()
    }

    /// The budget asks for bytes: they are freed [step by step](Self::shed_step).
    pub(super) fn begin_to_free(&mut self) {
        self.count_bytes();
        let budget = &self.parts.cache.budget;
        if budget.to_free_bytes() == 0 {
            return;
        }
        // What was replaced meanwhile may have been enough.
        if !budget.is_exceeded() {
            return budget.freed(false);
        }
        // More than the store has is asked for: all of it is shed.
        let until_bytes = self.own_bytes().checked_sub(budget.to_free_bytes());
        self.shedding.freeing = Some(Freeing {
            until_bytes,
            objects_per_step: None,
        });
    }

    /// Makes some heads, or decides what is shed next.
    pub(super) fn shed_step(&mut self) {
        let Some(Freeing {
            until_bytes,
            objects_per_step,
        }) = self.shedding.freeing
        else {
            return;
        };
        if let Some(objects) = objects_per_step {
            let is_left = self.parts.store.shed_some(objects);
            self.publish_forms();
            if is_left {
                return;
            }
            self.shed_finished();
        }
        if until_bytes.is_some_and(|until| self.own_bytes() <= until) {
            return self.end_freeing(false);
        }
        let can_shed = self.parts.store.head_fields().is_some()
            && !self.parts.bodies.spec.is_metadata_only()
            && !seeded_bug(SeededBug::BudgetIgnored);
        let largest = self.parts.store.largest_whole_namespace().filter(|_| can_shed);
        match largest {
            Some((namespace, _)) => self.shed_in_steps(&namespace, until_bytes),
            None => self.end_freeing(true),
        }
    }

    /// Sheds this namespace, and others until the store has at most `until_bytes`.
    fn shed_in_steps(&mut self, namespace: &str, until_bytes: Option<usize>) {
        let objects = HEADS_BYTES_PER_STEP / self.object_bytes(namespace).max(1);
        self.begin_to_shed(namespace);
        self.shedding.freeing = Some(Freeing {
            until_bytes,
            objects_per_step: Some(objects.clamp(1, HEADS_PER_STEP)),
        });
    }

    fn end_freeing(&mut self, is_stuck: bool) {
        self.shedding.freeing = None;
        self.count_bytes();
        self.parts.cache.budget.freed(is_stuck);
    }

    /// Sheds the namespaces of which a list has only heads. Readers see it with the list.
    pub(super) async fn shed_with_list(&mut self, namespaces: &[Box<str>]) {
        for namespace in namespaces {
            if self.parts.store.is_shed(namespace) {
                continue;
            }
            self.begin_to_shed(namespace);
            while self.parts.store.shed_some(HEADS_WITH_LIST_PER_STEP) {
                tokio::task::yield_now().await;
            }
            self.shed_finished();
        }
    }

    fn begin_to_shed(&mut self, namespace: &str) {
        let LoopParts {
            name,
            store,
            environment,
            bodies,
            cache,
            metrics,
            ..
        } = &mut self.parts;
        let reader = &mut self.shedding.reader;
        reader.get_or_insert_with(|| bodies.start_reader(&**environment));
        store.shed_namespace(namespace);
        metrics.sheds.inc();
        if std::mem::replace(&mut self.shedding.was_reported, true) {
            log!(debug, **name, shed_namespace = namespace, "cache budget reached again");
            return;
        }
        log!(
            warn,
            **name,
            shed_namespace = namespace,
            max_bytes = cache.budget.max_bytes(),
            code = "cache-shed",
            "cache budget reached, only heads are kept; raise max-bytes, or use digest, drop or a selector"
        );
    }

    fn shed_finished(&mut self) {
        self.shedding.set_shed(self.parts.environment.now());
        self.show_shed();
    }

    fn show_shed(&mut self) {
        let shed = self.parts.store.shed_namespaces().len();
        self.parts.metrics.shed_namespaces.set(shed);
    }

    /// Publishes other forms of the same states. Listeners take part, so that none of them holds the old ones.
    fn publish_forms(&mut self) {
        self.publish();
        if self.synced {
            self.push_changes();
        }
        drop(self.parts.store.take_garbage());
    }

    /// Native indexes were changed, and with them what heads have to keep.
    pub(super) fn update_head_fields(&self) {
        let fields = self.parts.store.head_fields().cloned();
        self.parts.cache.set_head_fields(fields);
    }

    pub(super) fn handle_shedding(&mut self, news: SheddingNews) {
        match news {
            SheddingNews::Check => self.check_shed(),
            SheddingNews::Page(page) => self.restore_page(page),
        }
    }

    /// Forgets shed namespaces that are empty, and lets the smallest other one return if there is room.
    fn check_shed(&mut self) {
        let now = self.parts.environment.now();
        // A namespace of which nothing is shed yet looks like an empty one.
        if self.shedding.is_freeing() {
            self.shedding.check_at = Some(now + RETURN_CHECK_PERIOD);
            return;
        }
        let mut left = Vec::new();
        for (namespace, body_bytes) in self.parts.store.shed_namespaces() {
            if body_bytes == 0 {
                self.parts.store.unshed_namespace(&namespace);
                self.parts.metrics.cache_returns.inc();
            } else {
                left.push((namespace, body_bytes));
            }
        }
        self.shedding.check_at = (!left.is_empty()).then(|| now + RETURN_CHECK_PERIOD);
        if let Some((namespace, bytes)) = left.into_iter().next()
            && now >= self.shedding.return_from
            && !seeded_bug(SeededBug::ShedForever)
            && bytes <= self.parts.cache.budget.room_bytes()
        {
            self.begin_return(namespace);
        }
        self.show_shed();
    }

    /// From now on new states of objects in `namespace` are whole; the bodies of the others are read.
    fn begin_return(&mut self, namespace: Box<str>) {
        let objects_max = page_objects(self.object_bytes(&namespace));
        let LoopParts {
            store,
            environment,
            bodies,
            ..
        } = &mut self.parts;
        store.unshed_namespace(&namespace);
        let (pages, received) = mpsc::channel(1);
        let read = read_pages(bodies.clone(), namespace.clone(), objects_max, pages);
        environment.spawn("cache-return", Box::pin(read));
        self.shedding.returning = Some(Returning {
            namespace,
            pages: received,
        });
    }

    /// The mean size of the objects of `namespace`, whole.
    fn object_bytes(&self, namespace: &str) -> usize {
        let mean = self.parts.store.published().mean_whole_bytes(namespace);
        mean.unwrap_or(usize::MAX)
    }

    fn restore_page(&mut self, page: Option<ReturnPage>) {
        let Some(Returning { namespace, .. }) = &self.shedding.returning else {
            return;
        };
        let namespace = namespace.clone();
        if self.parts.store.is_shed(&namespace) {
            // It was shed again meanwhile.
            self.shedding.returning = None;
            return;
        }
        let failure = match page {
            Some(Ok(page)) => return self.restore_objects(&namespace, page),
            Some(Err(error)) => error,
            None => "its task has ended".to_owned(),
        };
        log!(
            info,
            *self.parts.name,
            shed_namespace = &*namespace,
            error = failure,
            "bodies could not be read; only heads are kept until the next attempt"
        );
        self.shedding.returning = None;
        self.shed_in_steps(&namespace, Some(usize::MAX));
    }

    fn restore_objects(&mut self, namespace: &str, page: BodyPage) {
        for object in page.objects {
            // What has changed since the page was read is whole already, or its event is on its way.
            self.parts.store.restore_body(object);
        }
        self.publish_forms();
        self.count_bytes();
        if !page.continuation.is_empty() {
            return;
        }
        self.shedding.returning = None;
        self.parts.metrics.cache_returns.inc();
        self.show_shed();
        log!(
            info,
            *self.parts.name,
            shed_namespace = namespace,
            "cache has room again: the objects of this namespace are whole"
        );
    }

    /// What index plugins receive that are not up to date: of objects of which the store has only the head, only the
    /// head, because it is not known how long they wait. None if all are whole.
    pub(super) fn changes_as_stored(&self, changes: &[ObjectChange]) -> Option<Vec<ObjectChange>> {
        let store = &self.parts.store;
        let fields = store.head_fields().filter(|_| self.shedding.check_at.is_some())?;
        let stored = |object: &Object| match store.is_shed(object.namespace()) {
            true => object.to_head(fields),
            false => object.clone(),
        };
        let changes = changes.iter().map(|change| ObjectChange {
            kind: match &change.kind {
                ChangeKind::Add(object) => ChangeKind::Add(stored(object)),
                ChangeKind::Update { old, new } => ChangeKind::Update {
                    old: old.clone(),
                    new: stored(new),
                },
                gone @ (ChangeKind::Delete { .. } | ChangeKind::Forget { .. }) => gone.clone(),
            },
            ..change.clone()
        });
        Some(changes.collect())
    }
}

/// Pages of a returning namespace: with one object on each, more than a namespace has.
const RETURN_PAGES_MAX: usize = 200_000;

/// Reads all pages of `namespace`, until one fails or the loop stops to receive them.
async fn read_pages(bodies: BodyParts, namespace: Box<str>, mut objects_max: usize, pages: mpsc::Sender<ReturnPage>) {
    let mut continuation = String::new();
    for number in 1_usize.. {
        let read = read_complete_page(&bodies, &namespace, &mut objects_max, &continuation).await;
        let next = read
            .as_ref()
            .map_or_else(|_| String::new(), |page| page.continuation.clone());
        let is_endless = !next.is_empty() && (next == continuation || number == RETURN_PAGES_MAX);
        let page = match read {
            Ok(_) if is_endless => Err("the list has no end".to_owned()),
            read => read,
        };
        if pages.send(page).await.is_err() || next.is_empty() || is_endless {
            return;
        }
        continuation = next;
    }
}

/// Reads a page; if its objects are too large for one, with fewer of them from now on.
async fn read_complete_page(
    bodies: &BodyParts,
    namespace: &str,
    objects_max: &mut usize,
    continuation: &str,
) -> ReturnPage {
    loop {
        bodies.link.body_read_allowed().await;
        let read = bodies
            .spec
            .read_page(&bodies.link, namespace, None, *objects_max, continuation);
        let page = read.await.map_err(|error| error.to_string())?;
        let objects = page.objects.len();
        if !page.is_cut {
            return Ok(page);
        }
        if objects >= *objects_max {
            return Err(format!(
                "the API server sent more than the {objects_max} objects of a page"
            ));
        }
        *objects_max = (objects / 2).max(1);
    }
}
