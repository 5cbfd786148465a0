//! The functions of the interface as guests call them, and its words for sources and for what the cache refuses.

use informant_cache::{Awaited, BodyUnavailable, Catalog, IndexError, Source, SourceState};
use informant_object::{KeyRef, SourceId};

use super::{Answer, Lookup, StoreReader};
use crate::bindings::informant::plugin::store::{
    self, HostError, Item, ObjectKey, Page, Query, SourceInfo, SourceVersion,
};
use crate::bindings::informant::plugin::types::ErrorCode;
use crate::capability::error;

/// The error of a read that needs the body of the object at `key`, which is `awaited`.
pub(super) fn body_error(
    awaited: &mut Option<Awaited>,
    source: SourceId,
    key: KeyRef<'_>,
    problem: &BodyUnavailable,
) -> HostError {
    *awaited = Some(Awaited::Body(source));
    let message = format!(
        "the cache has only the metadata of {}, because its budget is reached: {problem}; ask for fields of metadata, or \
         raise max-bytes of [cache]",
        key.to_key()
    );
    error(ErrorCode::NotReady, message)
}

/// The error of a query on an index of `source`, which is `awaited` if it is not ready.
pub(super) fn index_error(
    awaited: &mut Option<Awaited>,
    catalog: &Catalog,
    source: SourceId,
    problem: &IndexError,
) -> HostError {
    let is_expected = || {
        catalog
            .info(source)
            .is_some_and(|info| catalog.expects_indexes(&info.informer))
    };
    match problem {
        IndexError::UnknownIndex { .. } if !is_expected() => error(ErrorCode::UnknownIndex, problem.to_string()),
        IndexError::UnknownIndex { name, .. } => {
            *awaited = Some(Awaited::Index(source));
            let message = format!("index {name} is not ready: a plugin, which may compute it, is being loaded");
            error(ErrorCode::NotReady, message)
        }
        IndexError::NotReady { .. } => {
            *awaited = Some(Awaited::Index(source));
            error(ErrorCode::NotReady, problem.to_string())
        }
    }
}

/// The contract's description of a source, whose informer the plugin calls `alias`.
fn described(source: &Source, alias: &str) -> SourceInfo {
    let info = source.info();
    SourceInfo {
        id: source.id().0,
        state: source.state().into(),
        informer: alias.to_owned(),
        cluster: info.cluster.clone(),
        api_version: info.api_version.clone(),
        kind: info.kind.clone(),
        resource: info.resource.clone(),
        namespace: info.namespace.clone(),
        namespaced: info.namespaced,
        partial: info.partial,
    }
}

impl From<SourceState> for store::SourceState {
    fn from(state: SourceState) -> store::SourceState {
        match state {
            SourceState::Syncing => store::SourceState::Syncing,
            SourceState::Live => store::SourceState::Live,
            SourceState::Stale => store::SourceState::Stale,
            SourceState::WaitingForResource => store::SourceState::WaitingForResource,
            SourceState::Forbidden => store::SourceState::Forbidden,
            SourceState::Refused => store::SourceState::Refused,
            SourceState::Stopped => store::SourceState::Stopped,
        }
    }
}

impl store::Host for StoreReader {
    fn source(&mut self, id: u32) -> wasmtime::Result<Answer<SourceInfo>> {
        Ok(self.granted_source(id).map(|(source, grants)| {
            let alias = grants.alias(&source.info().informer).unwrap_or_default();
            described(&source, alias)
        }))
    }

    fn sources(&mut self, informer: String) -> wasmtime::Result<Answer<Vec<SourceInfo>>> {
        let sources = self.grants().and_then(|grants| {
            let name = grants.informer(&informer, &self.catalog)?;
            Ok(self.catalog.sources_of(name))
        });
        Ok(sources.map(|sources| sources.iter().map(|source| described(source, &informer)).collect()))
    }

    fn version(&mut self, source: u32) -> wasmtime::Result<Answer<SourceVersion>> {
        let source = match self.granted_source(source) {
            Ok((source, _)) => source,
            Err(denied) => return Ok(Err(denied)),
        };
        // It stays synced.
        let synced = source.is_synced();
        let snapshot = if synced { self.snapshot(&source).ok() } else { None };
        let version = snapshot.and_then(|snapshot| Some(snapshot.version()?.as_str().to_owned()));
        Ok(Ok(SourceVersion {
            version: version.unwrap_or_default(),
            synced,
        }))
    }

    async fn get(
        &mut self,
        source: u32,
        namespace: String,
        name: String,
        pointers: Vec<String>,
    ) -> wasmtime::Result<Answer<Option<Vec<u8>>>> {
        let key = KeyRef::new(&namespace, &name);
        Ok(match self.granted_source(source) {
            Ok((source, _)) => self.get_object(&source, key, &pointers).await,
            Err(error) => Err(error),
        })
    }

    async fn find(
        &mut self,
        informer: String,
        namespace: String,
        name: String,
        pointers: Vec<String>,
    ) -> wasmtime::Result<Answer<Option<Item>>> {
        let key = KeyRef::new(&namespace, &name);
        Ok(self.find_object(&informer, key, &pointers).await)
    }

    async fn list(&mut self, informer: String, query: Query) -> wasmtime::Result<Answer<Page>> {
        Ok(self.page(&informer, Lookup::All, &query).await)
    }

    async fn by_index(
        &mut self,
        informer: String,
        index: String,
        value: String,
        query: Query,
    ) -> wasmtime::Result<Answer<Page>> {
        let lookup = Lookup::ByIndex {
            index: &index,
            value: &value,
        };
        Ok(self.page(&informer, lookup, &query).await)
    }

    async fn index_keys(
        &mut self,
        informer: String,
        sources: Vec<u32>,
        index: String,
        value: String,
    ) -> wasmtime::Result<Answer<Vec<ObjectKey>>> {
        Ok(self.keys(&informer, &sources, &index, &value).await)
    }

    async fn index_values(
        &mut self,
        informer: String,
        sources: Vec<u32>,
        index: String,
        cursor: String,
        limit: u32,
    ) -> wasmtime::Result<Answer<Vec<String>>> {
        Ok(self.values(&informer, &sources, &index, &cursor, limit).await)
    }
}
