//! The interface `store`.

use rquickjs::{Array, Ctx, Function, Object, Result, Value};

use super::json::parse;
use super::{parsed, throw};
use crate::bindings::informant::plugin::store::{self, Page, Query, SourceInfo, SourceState};
use crate::bindings::informant::plugin::types::{ErrorCode, HostError};

/// Index values requested in each call. 0 means the host's default.
const INDEX_VALUES_LIMIT: u32 = 0;

pub(super) fn api<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let api = Object::new(ctx.clone())?;
    api.set("source", Function::new(ctx.clone(), source)?)?;
    api.set("sources", Function::new(ctx.clone(), sources)?)?;
    api.set("version", Function::new(ctx.clone(), version)?)?;
    api.set("get", Function::new(ctx.clone(), get)?)?;
    api.set("find", Function::new(ctx.clone(), find)?)?;
    api.set("list", Function::new(ctx.clone(), list)?)?;
    api.set("byIndex", Function::new(ctx.clone(), by_index)?)?;
    api.set("indexKeys", Function::new(ctx.clone(), index_keys)?)?;
    api.set("indexValues", Function::new(ctx.clone(), index_values)?)?;
    Ok(api)
}

fn source<'js>(ctx: Ctx<'js>, id: u32) -> Result<Object<'js>> {
    let info = store::source(id).map_err(|error| failed(&ctx, error))?;
    info_object(&ctx, info)
}

fn sources<'js>(ctx: Ctx<'js>, informer: String) -> Result<Array<'js>> {
    let sources = store::sources(&informer).map_err(|error| failed(&ctx, error))?;
    let array = Array::new(ctx.clone())?;
    for (number, info) in sources.into_iter().enumerate() {
        array.set(number, info_object(&ctx, info)?)?;
    }
    Ok(array)
}

fn info_object<'js>(ctx: &Ctx<'js>, info: SourceInfo) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set("id", info.id)?;
    object.set("state", state(info.state))?;
    object.set("informer", info.informer)?;
    object.set("cluster", info.cluster)?;
    object.set("apiVersion", info.api_version)?;
    object.set("kind", info.kind)?;
    object.set("resource", info.resource)?;
    object.set("namespace", info.namespace)?;
    object.set("namespaced", info.namespaced)?;
    object.set("partial", info.partial)?;
    Ok(object)
}

fn version<'js>(ctx: Ctx<'js>, source: u32) -> Result<Object<'js>> {
    let version = store::version(source).map_err(|error| failed(&ctx, error))?;
    let object = Object::new(ctx.clone())?;
    object.set("version", version.version)?;
    object.set("synced", version.synced)?;
    Ok(object)
}

/// Returns undefined if the object does not exist.
fn get<'js>(ctx: Ctx<'js>, source: u32, namespace: String, name: String, fields: Vec<String>) -> Result<Value<'js>> {
    let found = store::get(source, &namespace, &name, &fields).map_err(|error| failed(&ctx, error))?;
    parsed(&ctx, found)
}

/// Returns undefined if the object does not exist in the cluster of the object that the call is about.
fn find<'js>(
    ctx: Ctx<'js>,
    informer: String,
    namespace: String,
    name: String,
    fields: Vec<String>,
) -> Result<Value<'js>> {
    let found = store::find(&informer, &namespace, &name, &fields).map_err(|error| failed(&ctx, error))?;
    parsed(&ctx, found.map(|item| item.object))
}

fn list<'js>(ctx: Ctx<'js>, informer: String, query: Array<'js>) -> Result<Object<'js>> {
    let page = store::list(&informer, &read_query(&query)?);
    page_object(&ctx, page)
}

fn by_index<'js>(
    ctx: Ctx<'js>,
    informer: String,
    index: String,
    value: String,
    query: Array<'js>,
) -> Result<Object<'js>> {
    let page = store::by_index(&informer, &index, &value, &read_query(&query)?);
    page_object(&ctx, page)
}

fn index_keys<'js>(
    ctx: Ctx<'js>,
    informer: String,
    sources: Vec<u32>,
    index: String,
    value: String,
) -> Result<Array<'js>> {
    let keys = store::index_keys(&informer, &sources, &index, &value).map_err(|error| failed(&ctx, error))?;
    let array = Array::new(ctx.clone())?;
    for (number, key) in keys.into_iter().enumerate() {
        let object = Object::new(ctx.clone())?;
        object.set("source", key.source)?;
        object.set("namespace", key.namespace)?;
        object.set("name", key.name)?;
        array.set(number, object)?;
    }
    Ok(array)
}

fn index_values(
    ctx: Ctx<'_>,
    informer: String,
    sources: Vec<u32>,
    index: String,
    cursor: String,
) -> Result<Vec<String>> {
    store::index_values(&informer, &sources, &index, &cursor, INDEX_VALUES_LIMIT).map_err(|error| failed(&ctx, error))
}

/// `[sources, namespace, labelSelector, fields, limit, cursor]`.
fn read_query(query: &Array<'_>) -> Result<Query> {
    Ok(Query {
        sources: query.get(0)?,
        namespace: query.get(1)?,
        label_selector: query.get(2)?,
        pointers: query.get(3)?,
        // A limit above the range of u32 saturates: it is more than a page can hold.
        limit: query.get::<f64>(4)? as u32,
        cursor: query.get(5)?,
        options: Vec::new(),
    })
}

/// `{ items, cursor }`.
fn page_object<'js>(ctx: &Ctx<'js>, page: std::result::Result<Page, HostError>) -> Result<Object<'js>> {
    let page = page.map_err(|error| failed(ctx, error))?;
    let items = Array::new(ctx.clone())?;
    for (number, item) in page.items.into_iter().enumerate() {
        items.set(number, parse(ctx, item.object)?)?;
    }
    let object = Object::new(ctx.clone())?;
    object.set("items", items)?;
    object.set("cursor", page.cursor)?;
    Ok(object)
}

pub(super) fn failed(ctx: &Ctx<'_>, error: HostError) -> rquickjs::Error {
    throw(ctx, code(error.code), &error.message, |_| Ok(()))
}

/// The name of the case in the contract.
fn state(state: SourceState) -> &'static str {
    match state {
        SourceState::Syncing => "syncing",
        SourceState::Live => "live",
        SourceState::Stale => "stale",
        SourceState::WaitingForResource => "waiting-for-resource",
        SourceState::Forbidden => "forbidden",
        SourceState::Refused => "refused",
        SourceState::Stopped => "stopped",
        SourceState::Other => "other",
    }
}

/// The name of the case in the contract.
fn code(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::Denied => "denied",
        ErrorCode::NotHere => "not-here",
        ErrorCode::NotReady => "not-ready",
        ErrorCode::NotFound => "not-found",
        ErrorCode::UnknownInformer => "unknown-informer",
        ErrorCode::UnknownIndex => "unknown-index",
        ErrorCode::TooLarge => "too-large",
        ErrorCode::Exhausted => "exhausted",
        ErrorCode::Conflict => "conflict",
        ErrorCode::Timeout => "timeout",
        ErrorCode::Stale => "stale",
        ErrorCode::Unavailable => "unavailable",
        ErrorCode::Unsupported => "unsupported",
        ErrorCode::Invalid => "invalid",
        ErrorCode::Other => "other",
    }
}
