//! The `store` interface: lets a guest read the cache.
//!
//! Promises: within one call into the guest all reads of a source see one snapshot, taken at the first of them, and so
//! at least as new as the event; of an object of which the cache has only the head, the same state or a newer one. Only
//! informers listed in the plugin's section can be read; no answer is larger than a page; a long search yields to other
//! guests. Calls from `index`, `describe` and `init` always return `not-here`.

mod grants;
mod interface;
mod page;

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_cache::{Awaited, BodyUnavailable, Catalog, IndexError, Snapshot, Source};
use informant_object::{KeyRef, LabelSelector, Object, SourceId};
use informant_spec::PluginSpec;
use wasmtime::component::{HasSelf, Linker};

use self::grants::InformerGrants;
use self::interface::{body_error, index_error};
use self::page::{PageAdd, PageBuilder, PageCursor, ProjectionCache};
use crate::bindings::informant::plugin::store::{self, HostError, Item, ObjectKey, Page, Query};
use crate::bindings::informant::plugin::types::ErrorCode;
use crate::bodies::read_body;
use crate::capability::parts::{
    CallEnd, CallPart, CallStart, CallSubject, Capability, Current, InstanceParts, PluginParts,
};
use crate::capability::permission::MayUse;
use crate::capability::{HasCapabilities, error};
use crate::capture::{Record, Tape};
use crate::engine::wait::CallTime;
use crate::json_error::{Members, explain};

/// Most keys that `index-keys` returns: 100,000. More are `too-large`; use `by-index`, which has pages.
pub(crate) const INDEX_KEYS_MAX: usize = 100_000;

/// Values that `index-values` returns by default: 1,000.
pub(crate) const INDEX_VALUES_DEFAULT: usize = 1_000;

/// Most values that `index-values` returns: 10,000.
pub(crate) const INDEX_VALUES_LIMIT_MAX: usize = 10_000;

/// Most objects of one page of which the cache has only the head, so that each is read from the API server: 50. Then
/// the page ends.
pub(crate) const PAGE_BODIES_MAX: usize = 50;

/// Objects, keys or values examined before yielding to other guests: 256, about 0.2 ms of label matching.
const YIELD_OBJECTS: usize = 256;

/// Counts what a search examines, and yields in time.
#[derive(Default)]
struct Examined(usize);

impl Examined {
    async fn one_more(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(YIELD_OBJECTS) {
            tokio::task::yield_now().await;
        }
    }
}

type Answer<T> = Result<T, HostError>;

/// What the instances of one plugin share: nothing but the cache.
pub(crate) struct StorePlugin {
    catalog: Catalog,
}

/// Reads the cache for one instance.
pub(crate) struct StoreReader {
    catalog: Catalog,
    grants: Arc<Current<InformerGrants>>,
    may_use: MayUse,
    subject: CallSubject,
    time: CallTime,
    snapshots: Vec<(SourceId, Snapshot)>,
    /// What the present call was last answered `not-ready` for.
    awaited: Option<Awaited>,
    projected: ProjectionCache,
    tape: Tape,
}

impl Capability for StorePlugin {
    const INTERFACE: Option<&'static str> = Some("store");

    type Host = ();
    type Grants = InformerGrants;
    type Call = StoreReader;

    fn grants(spec: &PluginSpec) -> InformerGrants {
        InformerGrants::new(&spec.name, &spec.informers)
    }

    fn new(_host: &(), _grants: &Arc<Current<InformerGrants>>, plugin: &PluginParts<'_>) -> StorePlugin {
        StorePlugin {
            catalog: plugin.services.catalog.clone(),
        }
    }

    fn call(self: &Arc<Self>, grants: &Arc<Current<InformerGrants>>, instance: &InstanceParts<'_>) -> StoreReader {
        StoreReader {
            tape: instance.tape.clone(),
            ..StoreReader::new(&self.catalog, grants, instance.time.clone())
        }
    }

    fn link<T: HasCapabilities>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
        store::add_to_linker::<_, HasSelf<StoreReader>>(linker, |state: &mut T| &mut state.capabilities().store)
    }
}

impl CallPart for StoreReader {
    type Effects = ();

    fn begin(&mut self, call: CallStart) {
        self.may_use = call.may_use;
        self.subject.set(call.source);
        self.awaited = None;
    }

    /// The next call gets newer snapshots.
    fn finish(&mut self, _end: CallEnd) {
        self.snapshots.clear();
    }
}

impl StoreReader {
    fn new(catalog: &Catalog, grants: &Arc<Current<InformerGrants>>, time: CallTime) -> StoreReader {
        StoreReader {
            time,
            catalog: catalog.clone(),
            grants: Arc::clone(grants),
            may_use: Ok(()),
            subject: CallSubject::new(catalog),
            snapshots: Vec::new(),
            awaited: None,
            projected: ProjectionCache::default(),
            tape: Tape::default(),
        }
    }

    /// What the last call was answered `not-ready` for, if it was: a source or an index.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        self.awaited
    }

    /// The call is answered `not-ready`, because of `awaited`.
    fn not_ready(&mut self, awaited: Awaited, message: String) -> HostError {
        self.awaited = Some(awaited);
        error(ErrorCode::NotReady, message)
    }

    fn grants(&self) -> Answer<Arc<InformerGrants>> {
        self.may_use.map_err(|reason| error(ErrorCode::NotHere, reason))?;
        Ok(self.grants.get())
    }

    /// The source `id`, if it belongs to an informer listed in the plugin's section.
    fn granted_source(&self, id: u32) -> Answer<(Arc<Source>, Arc<InformerGrants>)> {
        let grants = self.grants()?;
        let source = self.catalog.source(SourceId(id)).ok_or_else(|| {
            error(
                ErrorCode::NotFound,
                format!("source {id} does not exist or was removed; call sources again"),
            )
        })?;
        grants.authorize_source(source.info())?;
        Ok((source, grants))
    }

    /// The snapshot of `source` for this call.
    fn snapshot(&mut self, source: &Source) -> Answer<Snapshot> {
        if let Some((_, snapshot)) = self.snapshots.iter().find(|(id, _)| *id == source.id()) {
            return Ok(snapshot.clone());
        }
        if !source.is_synced() {
            let (info, state) = (source.info(), source.state());
            let message = format!("the source {info} is {state}: its initial list is not complete");
            return Err(self.not_ready(Awaited::Source(source.id()), message));
        }
        let snapshot = source.snapshot();
        self.snapshots.push((source.id(), snapshot.clone()));
        Ok(snapshot)
    }

    /// All sources of the informer that the plugin calls `alias`, ordered by ID. At least one.
    fn sources_of(&mut self, alias: &str) -> Answer<Vec<Arc<Source>>> {
        let grants = self.grants()?;
        let informer = grants.informer(alias, &self.catalog)?;
        let sources = self.catalog.sources_of(informer);
        if sources.is_empty() {
            let message = format!("the informer {alias:?} has no source yet");
            return Err(self.not_ready(Awaited::AnySource, message));
        }
        Ok(sources)
    }

    /// The snapshots of all sources of the informer that the plugin calls `alias`, or of those in `selected`, ordered
    /// by ID; without those that its pattern [leaves out](Source::is_left_out). A source whose first list is not
    /// complete is an error: a plugin that acts on absence must not act on half an answer.
    fn snapshots_of(&mut self, alias: &str, selected: &[u32]) -> Answer<Vec<(SourceId, Snapshot)>> {
        let mut sources = self.sources_of(alias)?;
        self.check_selected(alias, &sources, selected)?;
        if !selected.is_empty() {
            sources.retain(|source| selected.contains(&source.id().0));
        }
        let readable: Vec<_> = sources.iter().filter(|source| !source.is_left_out()).collect();
        // If nothing at all can be read, an empty answer would look like an empty cluster.
        let asked = if readable.is_empty() {
            sources.iter().collect()
        } else {
            readable
        };
        asked
            .into_iter()
            .map(|source| Ok((source.id(), self.snapshot(source)?)))
            .collect()
    }

    /// Rejects `selected` if it has anything but some of the `sources` of the informer that the plugin calls `alias`,
    /// which are ordered by ID. Takes no longer for a list that is too long.
    fn check_selected(&self, alias: &str, sources: &[Arc<Source>], selected: &[u32]) -> Answer<()> {
        let is_own = |id: &u32| sources.binary_search_by_key(id, |source| source.id().0).is_ok();
        let Some(other) = selected.iter().take(sources.len() + 1).find(|id| !is_own(id)) else {
            return match selected.len() <= sources.len() {
                true => Ok(()),
                false => Err(error(
                    ErrorCode::Invalid,
                    format!(
                        "sources: more than the {} of the informer {alias:?}; list each once",
                        sources.len()
                    ),
                )),
            };
        };
        let informer = sources.first().map(|source| source.info().informer.as_str());
        let info = self.catalog.info(SourceId(*other));
        // One that was removed, or replaced, since the plugin asked.
        let is_gone = info.is_none_or(|info| Some(info.informer.as_str()) == informer);
        let code = if is_gone {
            ErrorCode::NotFound
        } else {
            ErrorCode::Invalid
        };
        Err(error(
            code,
            format!("sources: {other} is not a source of the informer {alias:?}; call sources again"),
        ))
    }

    /// One page of the objects that `lookup` finds in each source, from the query's cursor on.
    async fn page(&mut self, informer: &str, lookup: Lookup<'_>, query: &Query) -> Answer<Page> {
        check_options(&query.options)?;
        let selector = LabelSelector::parse(&query.label_selector)
            .map_err(|problem| error(ErrorCode::Invalid, format!("label-selector: {problem}")))?;
        let position = PageCursor::parse(&query.cursor)?;
        let snapshots = self.snapshots_of(informer, &query.sources)?;
        let mut page = PageBuilder::new(self.projected.of(&query.pointers)?, query.limit);
        let namespace = query.namespace.as_deref();
        let (mut examined, mut bodies) = (Examined::default(), 0);
        for (source, snapshot) in &snapshots {
            let Some(start) = position.start_in(*source) else {
                continue;
            };
            let found = lookup.objects(snapshot, namespace, start);
            for object in found.map_err(|problem| index_error(&mut self.awaited, &self.catalog, *source, &problem))? {
                examined.one_more().await;
                if !selector.matches(object) {
                    continue;
                }
                let body;
                let object = match object.holds(page.payload()) {
                    true => object,
                    false if bodies == PAGE_BODIES_MAX => return Ok(page.unfinished()),
                    false => {
                        bodies += 1;
                        let read = read_whole(&self.catalog, &self.time, *source, object).await;
                        body =
                            read.map_err(|problem| body_error(&mut self.awaited, *source, object.key(), &problem))?;
                        &body
                    }
                };
                if page.add(*source, object) == PageAdd::Full {
                    return Ok(page.unfinished());
                }
                self.tape.record(|| Record::Object(*source, object.clone()));
            }
        }
        Ok(page.finished())
    }

    async fn get_object(&mut self, source: &Source, key: KeyRef<'_>, pointers: &[String]) -> Answer<Option<Vec<u8>>> {
        let snapshot = self.snapshot(source)?;
        let payload = self.projected.of(pointers)?;
        let Some(object) = snapshot.get(key) else {
            return Ok(None);
        };
        let mut document = Vec::new();
        if object.holds(&payload) {
            self.tape.record(|| Record::Object(source.id(), object.clone()));
            payload.write(object, &mut document);
        } else {
            let read = read_whole(&self.catalog, &self.time, source.id(), object).await;
            let body = read.map_err(|problem| body_error(&mut self.awaited, source.id(), key, &problem))?;
            self.tape.record(|| Record::Object(source.id(), body.clone()));
            payload.write(&body, &mut document);
        }
        Ok(Some(document))
    }

    /// An object of the informer that the plugin calls `alias`, in the cluster of the current call.
    async fn find_object(&mut self, alias: &str, key: KeyRef<'_>, pointers: &[String]) -> Answer<Option<Item>> {
        let sources = self.sources_of(alias)?;
        let cluster = self.cluster_among(alias, &sources)?;
        let mut sources = sources.into_iter().filter(|source| source.info().cluster == cluster);
        let Some(first) = sources.next() else {
            let message = format!("the informer {alias:?} has no source in the cluster {cluster:?}");
            return Err(self.not_ready(Awaited::AnySource, message));
        };
        let sources: Vec<_> = std::iter::once(first).chain(sources).collect();
        let of_other_kind = sources
            .iter()
            .find(|source| source.info().resource != sources[0].info().resource);
        if let Some(other) = of_other_kind {
            return Err(error(
                ErrorCode::Invalid,
                format!(
                    "the informer {alias:?} has several kinds ({}, {} …): choose a source and use get",
                    sources[0].info().resource,
                    other.info().resource
                ),
            ));
        }
        let reads = |source: &&Arc<Source>| {
            source
                .info()
                .namespace
                .as_deref()
                .is_none_or(|own| own == key.namespace)
        };
        let Some(source) = sources.iter().find(reads) else {
            return Err(error(
                ErrorCode::Invalid,
                format!("the informer {alias:?} does not read the namespace {:?}", key.namespace),
            ));
        };
        let object = self.get_object(source, key, pointers).await?;
        Ok(object.map(|object| Item {
            source: source.id().0,
            object,
        }))
    }

    /// The cluster of the object that the current call is about, or the only one in `sources`.
    fn cluster_among(&self, alias: &str, sources: &[Arc<Source>]) -> Answer<String> {
        let of_call = self.subject.cluster();
        if let Ok(Some(cluster)) = of_call {
            return Ok(cluster);
        }
        let clusters: BTreeSet<&str> = sources.iter().map(|source| source.info().cluster.as_str()).collect();
        if let Err(gone) = of_call
            && clusters.iter().any(|cluster| !cluster.is_empty())
        {
            return Err(error(ErrorCode::NotFound, gone.to_string()));
        }
        if clusters.len() > 1 {
            let names: Vec<&str> = clusters.into_iter().collect();
            return Err(error(
                ErrorCode::Invalid,
                format!(
                    "this call is about no object, and the informer {alias:?} reads several clusters ({}): choose a \
                     source and use get",
                    names.join(", ")
                ),
            ));
        }
        Ok(clusters.into_iter().next().unwrap_or_default().to_owned())
    }

    async fn keys(&mut self, informer: &str, selected: &[u32], index: &str, value: &str) -> Answer<Vec<ObjectKey>> {
        let (mut keys, mut examined) = (Vec::new(), Examined::default());
        for (source, snapshot) in self.snapshots_of(informer, selected)? {
            let found = snapshot.index_keys(index, value);
            for key in found.map_err(|problem| index_error(&mut self.awaited, &self.catalog, source, &problem))? {
                examined.one_more().await;
                if keys.len() == INDEX_KEYS_MAX {
                    return Err(error(
                        ErrorCode::TooLarge,
                        format!(
                            "more than {INDEX_KEYS_MAX} keys have {value:?} in the index {index:?}; use by-index, which has pages"
                        ),
                    ));
                }
                if let Some(object) = snapshot.get(key) {
                    self.tape.record(|| Record::Object(source, object.clone()));
                }
                let (namespace, name) = (key.namespace.to_owned(), key.name.to_owned());
                keys.push(ObjectKey {
                    source: source.0,
                    namespace,
                    name,
                });
            }
        }
        Ok(keys)
    }

    /// One page of the values in use in any source, sorted.
    async fn values(
        &mut self,
        informer: &str,
        selected: &[u32],
        index: &str,
        cursor: &str,
        limit: u32,
    ) -> Answer<Vec<String>> {
        let limit = match usize::try_from(limit).unwrap_or(usize::MAX) {
            0 => INDEX_VALUES_DEFAULT,
            limit => limit.min(INDEX_VALUES_LIMIT_MAX),
        };
        let after = (!cursor.is_empty()).then_some(cursor);
        let (mut values, mut examined) = (BTreeSet::new(), Examined::default());
        for (source, snapshot) in self.snapshots_of(informer, selected)? {
            let found = snapshot.index_values_after(index, after);
            for value in found.map_err(|problem| index_error(&mut self.awaited, &self.catalog, source, &problem))? {
                examined.one_more().await;
                // Sorted, so values beyond the page of one source are beyond the page of all.
                if values.len() == limit && values.last().is_some_and(|last: &String| **last < *value) {
                    break;
                }
                // An object that has it.
                if self.tape.runs()
                    && let Ok(mut having) = snapshot.by_index_after(index, value, None)
                    && let Some(object) = having.next()
                {
                    self.tape.record(|| Record::Object(source, object.clone()));
                }
                values.insert(value.to_owned());
                if values.len() > limit {
                    values.pop_last();
                }
            }
        }
        Ok(values.into_iter().collect())
    }
}

/// Refuses members of a query's options: this version of the contract has none.
fn check_options(options: &[u8]) -> Answer<()> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NoMembers {}
    if options.is_empty() {
        return Ok(());
    }
    let read = serde_json::from_slice(options).map(|Members(NoMembers {})| ());
    read.map_err(|problem| error(ErrorCode::Invalid, format!("options: {}", explain(&problem))))
}

/// Which objects of a source are examined.
#[derive(Clone, Copy)]
enum Lookup<'q> {
    All,
    ByIndex { index: &'q str, value: &'q str },
}

impl<'q> Lookup<'q> {
    /// The objects of `namespace`, or of all, that come after `start`, sorted.
    fn objects<'s>(
        self,
        snapshot: &'s Snapshot,
        namespace: Option<&'s str>,
        start: Option<KeyRef<'s>>,
    ) -> Result<Box<dyn Iterator<Item = &'s Object> + Send + 's>, IndexError>
    where
        'q: 's,
    {
        // The key without a name sorts right before the first object of its namespace.
        let from = start.max(namespace.map(|namespace| KeyRef::new(namespace, "")));
        let here = move |object: &&Object| namespace.is_none_or(|namespace| namespace == object.namespace());
        match self {
            Lookup::All => Ok(Box::new(snapshot.after(from).take_while(here))),
            Lookup::ByIndex { index, value } => {
                let found = snapshot.by_index_after(index, value, from)?;
                Ok(Box::new(found.take_while(here)))
            }
        }
    }
}

/// The object of `source` that `head` is of, whole.
async fn read_whole(
    catalog: &Catalog,
    time: &CallTime,
    source: SourceId,
    head: &Object,
) -> Result<Object, BodyUnavailable> {
    let source = catalog.source(source).ok_or(BodyUnavailable::Gone)?;
    let read = time.bound(read_body(&source, head)).await;
    read.unwrap_or(Err(BodyUnavailable::Busy))
}

#[cfg(test)]
mod tests;
