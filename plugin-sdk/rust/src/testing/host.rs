//! The contract's imports, implemented on a [`Cache`](super::Cache). The signatures are those of the bindings.

use serde_json::Value;

use super::cache::{self, IndexFunc, Key, State};
use super::projection::project;
use super::selector;
use crate::bindings::imports::informant::plugin::store::{Item, ObjectKey, Page, Query, SourceInfo, SourceVersion};
use crate::bindings::imports::informant::plugin::types::{ErrorCode, HostError};
use crate::call;
use crate::log::Level;

/// The default number of index values in a page.
const INDEX_VALUES_DEFAULT: usize = 1_000;

type Answer<T> = Result<T, HostError>;

pub(crate) fn log(level: Level, message: &str, fields: &[(String, String)]) {
    cache::log(level, message, fields);
}

pub(crate) fn source(id: u32) -> Answer<SourceInfo> {
    ask(|state| {
        state
            .sources
            .get(id as usize)
            .cloned()
            .ok_or_else(|| not_found("no such source"))
    })
}

pub(crate) fn sources(informer: &str) -> Answer<Vec<SourceInfo>> {
    ask(|state| Ok(state.sources_of(informer)?.into_iter().cloned().collect()))
}

pub(crate) fn version(source: u32) -> Answer<SourceVersion> {
    ask(|state| match state.sources.get(source as usize) {
        Some(_) => Ok(SourceVersion {
            version: state.version(),
            synced: true,
        }),
        None => Err(not_found("no such source")),
    })
}

pub(crate) fn get(source: u32, namespace: &str, name: &str, pointers: &[String]) -> Answer<Option<Vec<u8>>> {
    ask(|state| {
        if state.sources.len() <= source as usize {
            return Err(not_found("no such source"));
        }
        let found = state.objects.get(&(source, namespace.to_owned(), name.to_owned()));
        Ok(found.map(|object| show(object, pointers)))
    })
}

pub(crate) fn find(informer: &str, namespace: &str, name: &str, pointers: &[String]) -> Answer<Option<Item>> {
    ask(|state| {
        let sources = state.sources_of(informer)?;
        let cluster = match call::source() {
            Some(source) => state.cluster_of(source.0),
            None => sources[0].cluster.as_str(),
        };
        if call::source().is_none() && sources.iter().any(|source| source.cluster != cluster) {
            let message = format!("informer {informer:?} has several clusters, and this call is about no object");
            return Err(invalid(message));
        }
        if sources.iter().any(|source| source.kind != sources[0].kind) {
            return Err(invalid(format!("informer {informer:?} has several kinds")));
        }
        let here: Vec<u32> = sources
            .iter()
            .filter(|source| source.cluster == cluster)
            .map(|source| source.id)
            .collect();
        if here.is_empty() {
            return Err(HostError {
                code: ErrorCode::NotReady,
                message: format!("informer {informer:?} has no source in cluster {cluster:?}"),
            });
        }
        let mut keys = here
            .into_iter()
            .map(|source| (source, namespace.to_owned(), name.to_owned()));
        let found = keys.find_map(|key| state.objects.get(&key).map(|object| (key.0, object)));
        Ok(found.map(|(source, object)| Item {
            source,
            object: show(object, pointers),
        }))
    })
}

pub(crate) fn list(informer: &str, query: &Query) -> Answer<Page> {
    ask(|state| page(state, informer, query, |_| true))
}

pub(crate) fn by_index(informer: &str, index: &str, value: &str, query: &Query) -> Answer<Page> {
    ask(|state| {
        let values = index_func(state, informer, index)?;
        page(state, informer, query, |object| {
            values(object).iter().any(|present| present == value)
        })
    })
}

pub(crate) fn index_keys(informer: &str, sources: &[u32], index: &str, value: &str) -> Answer<Vec<ObjectKey>> {
    ask(|state| {
        let values = index_func(state, informer, index)?;
        let has_value = |object: &Value| values(object).iter().any(|present| present == value);
        let found = objects(state, informer, sources)?
            .into_iter()
            .filter(|(_, object)| has_value(object));
        let key = |(source, namespace, name): &Key| ObjectKey {
            source: *source,
            namespace: namespace.clone(),
            name: name.clone(),
        };
        Ok(found.map(|(found, _)| key(found)).collect())
    })
}

pub(crate) fn index_values(
    informer: &str,
    sources: &[u32],
    index: &str,
    cursor: &str,
    limit: u32,
) -> Answer<Vec<String>> {
    ask(|state| {
        let values = index_func(state, informer, index)?;
        let mut all: Vec<String> = objects(state, informer, sources)?
            .iter()
            .flat_map(|(_, object)| values(object))
            .collect();
        all.sort();
        all.dedup();
        let limit = if limit == 0 {
            INDEX_VALUES_DEFAULT
        } else {
            limit as usize
        };
        Ok(all
            .into_iter()
            .filter(|value| cursor.is_empty() || value.as_str() > cursor)
            .take(limit)
            .collect())
    })
}

fn ask<T>(answer: impl FnOnce(&State) -> Answer<T>) -> Answer<T> {
    cache::with(|state| match &state.refusal {
        Some(refusal) => Err(refusal.clone()),
        None => answer(state),
    })
}

fn not_found(message: &str) -> HostError {
    HostError {
        code: ErrorCode::NotFound,
        message: message.to_owned(),
    }
}

fn invalid(message: String) -> HostError {
    HostError {
        code: ErrorCode::Invalid,
        message,
    }
}

fn show(object: &Value, pointers: &[String]) -> Vec<u8> {
    let shown = if pointers.is_empty() {
        object.clone()
    } else {
        project(object, pointers)
    };
    shown.to_string().into_bytes()
}

fn index_func<'a>(state: &'a State, informer: &str, index: &str) -> Answer<&'a IndexFunc> {
    match state.indexes.get(&(informer.to_owned(), index.to_owned())) {
        Some(values) => Ok(values),
        None => Err(HostError {
            code: ErrorCode::UnknownIndex,
            message: format!("informer {informer:?} has no index {index:?} in this test"),
        }),
    }
}

/// The objects of these sources of an informer, ordered by key. No sources select all.
fn objects<'a>(state: &'a State, informer: &str, sources: &[u32]) -> Answer<Vec<(&'a Key, &'a Value)>> {
    let all: Vec<u32> = state.sources_of(informer)?.iter().map(|source| source.id).collect();
    if let Some(stray) = sources.iter().find(|source| !all.contains(source)) {
        return Err(invalid(format!("informer {informer:?} has no source {stray}")));
    }
    let wanted = if sources.is_empty() { &all } else { sources };
    let objects = state.objects.iter();
    Ok(objects.filter(|((source, ..), _)| wanted.contains(source)).collect())
}

fn page(state: &State, informer: &str, query: &Query, fits: impl Fn(&Value) -> bool) -> Answer<Page> {
    let selects = selector::parse(&query.label_selector).map_err(invalid)?;
    let wanted = |key: &Key, object: &Value| {
        query.namespace.as_ref().is_none_or(|namespace| *namespace == key.1)
            && selects.iter().all(|requirement| requirement.matches(object))
            && fits(object)
    };
    let cursor = |key: &Key| format!("{:010}/{}/{}", key.0, key.1, key.2);
    let limit = if query.limit == 0 {
        usize::MAX
    } else {
        query.limit as usize
    };
    let mut page = Page {
        items: Vec::new(),
        cursor: String::new(),
    };
    let (mut bytes, mut last) = (0, String::new());
    let rest = objects(state, informer, &query.sources)?
        .into_iter()
        .filter(|(key, _)| cursor(key) > query.cursor);
    for (key, object) in rest.filter(|(key, object)| wanted(key, object)) {
        let object = show(object, &query.pointers);
        bytes += object.len();
        if page.items.len() == limit || (bytes > state.page_bytes_max && !page.items.is_empty()) {
            page.cursor = last;
            break;
        }
        last = cursor(key);
        page.items.push(Item { source: key.0, object });
    }
    Ok(page)
}
