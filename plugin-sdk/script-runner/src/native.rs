//! The contract's imports as JavaScript functions, for the prelude. They take and return plain values; `prelude.js`
//! wraps them for scripts.

use rquickjs::{Array, Ctx, Exception, Function, Object, Result, Value};

use crate::bindings::informant::plugin::log::{Level, log};
use crate::bindings::informant::plugin::store;
use crate::bindings::informant::plugin::types::{ErrorCode, HostError};

/// Index values requested in each call. 0 means the host's default.
const INDEX_VALUES_LIMIT: u32 = 0;

/// An object with the functions and the name of the script.
pub(crate) fn api<'js>(ctx: &Ctx<'js>, script: &str) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    native.set("script", script)?;
    native.set("log", Function::new(ctx.clone(), log_line)?)?;
    native.set("source", Function::new(ctx.clone(), source)?)?;
    native.set("sources", Function::new(ctx.clone(), sources)?)?;
    native.set("get", Function::new(ctx.clone(), get)?)?;
    native.set("find", Function::new(ctx.clone(), find)?)?;
    native.set("list", Function::new(ctx.clone(), list)?)?;
    native.set("byIndex", Function::new(ctx.clone(), by_index)?)?;
    native.set("indexKeys", Function::new(ctx.clone(), index_keys)?)?;
    native.set("indexValues", Function::new(ctx.clone(), index_values)?)?;
    Ok(native)
}

fn log_line(level: u32, message: String) {
    let level = match level {
        0 => Level::Trace,
        1 => Level::Debug,
        2 => Level::Info,
        3 => Level::Warn,
        _ => Level::Error,
    };
    log(level, &message);
}

fn source<'js>(ctx: Ctx<'js>, id: u32) -> Result<Object<'js>> {
    let info = store::source(id).map_err(|error| throw(&ctx, error))?;
    info_object(&ctx, info)
}

fn sources<'js>(ctx: Ctx<'js>, informer: String) -> Result<Array<'js>> {
    let sources = store::sources(&informer).map_err(|error| throw(&ctx, error))?;
    let array = Array::new(ctx.clone())?;
    for (number, info) in sources.into_iter().enumerate() {
        array.set(number, info_object(&ctx, info)?)?;
    }
    Ok(array)
}

/// What is constant for a source.
fn info_object<'js>(ctx: &Ctx<'js>, info: store::SourceInfo) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set("source", info.id)?;
    object.set("informer", info.informer)?;
    object.set("cluster", info.cluster)?;
    object.set("namespace", info.namespace)?;
    object.set("apiVersion", info.api_version)?;
    object.set("kind", info.kind)?;
    Ok(object)
}

/// Returns undefined if the object does not exist.
fn get<'js>(ctx: Ctx<'js>, source: u32, namespace: String, name: String, fields: Vec<String>) -> Result<Value<'js>> {
    let found = store::get(source, &namespace, &name, &fields).map_err(|error| throw(&ctx, error))?;
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
    let found = store::find(&informer, &namespace, &name, &fields).map_err(|error| throw(&ctx, error))?;
    parsed(&ctx, found.map(|item| item.object))
}

/// The object of a JSON document, or undefined. The document is empty if the manifest asks for no payload.
pub(crate) fn parsed<'js>(ctx: &Ctx<'js>, document: Option<Vec<u8>>) -> Result<Value<'js>> {
    match document.filter(|document| !document.is_empty()) {
        Some(document) => ctx.json_parse(document),
        None => Ok(Value::new_undefined(ctx.clone())),
    }
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
    let keys = store::index_keys(&informer, &sources, &index, &value).map_err(|error| throw(&ctx, error))?;
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
    store::index_values(&informer, &sources, &index, &cursor, INDEX_VALUES_LIMIT).map_err(|error| throw(&ctx, error))
}

/// `[sources, namespace, labelSelector, fields, limit, cursor]`.
fn read_query(query: &Array<'_>) -> Result<store::Query> {
    Ok(store::Query {
        sources: query.get(0)?,
        namespace: query.get(1)?,
        label_selector: query.get(2)?,
        pointers: query.get(3)?,
        // A limit above the range of u32 saturates: it is more than a page can hold.
        limit: query.get::<f64>(4)? as u32,
        cursor: query.get(5)?,
    })
}

fn page_object<'js>(ctx: &Ctx<'js>, page: std::result::Result<store::Page, HostError>) -> Result<Object<'js>> {
    let page = page.map_err(|error| throw(ctx, error))?;
    let items = Array::new(ctx.clone())?;
    for (number, item) in page.items.into_iter().enumerate() {
        items.set(number, ctx.json_parse(item.object)?)?;
    }
    let object = Object::new(ctx.clone())?;
    object.set("items", items)?;
    object.set("cursor", page.cursor)?;
    Ok(object)
}

/// Throws an Error with the message and the `code` of the host.
fn throw(ctx: &Ctx<'_>, error: HostError) -> rquickjs::Error {
    let make = || {
        let exception = Exception::from_message(ctx.clone(), &error.message)?;
        let object = exception.as_object();
        object.set("name", "HostError")?;
        object.set("code", code(error.code))?;
        Ok(exception)
    };
    match make() {
        Ok(exception) => exception.throw(),
        Err(error) => error,
    }
}

/// The name of the case in the contract.
fn code(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::Denied => "denied",
        ErrorCode::NotReady => "not-ready",
        ErrorCode::NotFound => "not-found",
        ErrorCode::UnknownInformer => "unknown-informer",
        ErrorCode::UnknownIndex => "unknown-index",
        ErrorCode::TooLarge => "too-large",
        ErrorCode::Timeout => "timeout",
        ErrorCode::Stale => "stale",
        ErrorCode::Unavailable => "unavailable",
        ErrorCode::Unsupported => "unsupported",
        ErrorCode::Invalid => "invalid",
        ErrorCode::Other => "other",
    }
}
