//! The interface `kube`.

use rquickjs::{Array, Ctx, Function, Object, Result, Value};

use super::json::parse;
use super::throw;
use crate::bindings::informant::plugin::kube::{self, Address, ApiError, ApiErrorCode, Child, Owner, PatchKind};

pub(super) fn api<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let api = Object::new(ctx.clone())?;
    api.set("get", Function::new(ctx.clone(), get)?)?;
    api.set("list", Function::new(ctx.clone(), list)?)?;
    api.set("create", Function::new(ctx.clone(), create)?)?;
    api.set("update", Function::new(ctx.clone(), update)?)?;
    api.set("patch", Function::new(ctx.clone(), patch)?)?;
    api.set("delete", Function::new(ctx.clone(), delete)?)?;
    api.set("deferCreate", Function::new(ctx.clone(), defer_create)?)?;
    api.set("deferUpdate", Function::new(ctx.clone(), defer_update)?)?;
    api.set("deferPatch", Function::new(ctx.clone(), defer_patch)?)?;
    api.set("deferDelete", Function::new(ctx.clone(), defer_delete)?)?;
    api.set("deferChildren", Function::new(ctx.clone(), defer_children)?)?;
    Ok(api)
}

fn get<'js>(ctx: Ctx<'js>, address: Array<'js>) -> Result<Value<'js>> {
    answer(&ctx, kube::get(&read_address(&address)?))
}

/// `{ items, cursor }`.
fn list<'js>(ctx: Ctx<'js>, address: Array<'js>, options: String) -> Result<Object<'js>> {
    let page = kube::list(&read_address(&address)?, options.as_bytes()).map_err(|error| failed(&ctx, &error))?;
    let items = Array::new(ctx.clone())?;
    for (number, item) in page.items.into_iter().enumerate() {
        items.set(number, parse(&ctx, item)?)?;
    }
    let object = Object::new(ctx.clone())?;
    object.set("items", items)?;
    object.set("cursor", page.cursor)?;
    Ok(object)
}

fn create<'js>(ctx: Ctx<'js>, address: Array<'js>, document: String, options: String) -> Result<Value<'js>> {
    let address = read_address(&address)?;
    answer(&ctx, kube::create(&address, document.as_bytes(), options.as_bytes()))
}

fn update<'js>(ctx: Ctx<'js>, address: Array<'js>, document: String, options: String) -> Result<Value<'js>> {
    let address = read_address(&address)?;
    answer(&ctx, kube::update(&address, document.as_bytes(), options.as_bytes()))
}

fn patch<'js>(
    ctx: Ctx<'js>,
    address: Array<'js>,
    kind: String,
    document: String,
    options: String,
) -> Result<Value<'js>> {
    let address = read_address(&address)?;
    let answered = kube::patch(&address, patch_kind(&kind), document.as_bytes(), options.as_bytes());
    answer(&ctx, answered)
}

fn delete<'js>(ctx: Ctx<'js>, address: Array<'js>, options: String) -> Result<()> {
    kube::delete(&read_address(&address)?, options.as_bytes()).map_err(|error| failed(&ctx, &error))
}

fn defer_create<'js>(ctx: Ctx<'js>, address: Array<'js>, document: String, options: String) -> Result<()> {
    let address = read_address(&address)?;
    kube::defer_create(&address, document.as_bytes(), options.as_bytes()).map_err(|error| failed(&ctx, &error))
}

fn defer_update<'js>(ctx: Ctx<'js>, address: Array<'js>, document: String, options: String) -> Result<()> {
    let address = read_address(&address)?;
    kube::defer_update(&address, document.as_bytes(), options.as_bytes()).map_err(|error| failed(&ctx, &error))
}

fn defer_patch<'js>(ctx: Ctx<'js>, address: Array<'js>, kind: String, document: String, options: String) -> Result<()> {
    let address = read_address(&address)?;
    kube::defer_patch(&address, patch_kind(&kind), document.as_bytes(), options.as_bytes())
        .map_err(|error| failed(&ctx, &error))
}

fn defer_delete<'js>(ctx: Ctx<'js>, address: Array<'js>, options: String) -> Result<()> {
    kube::defer_delete(&read_address(&address)?, options.as_bytes()).map_err(|error| failed(&ctx, &error))
}

/// `{ written, pruned, refused, pruneSkipped }`. `owner` is `[source, namespace, name, uid]`.
fn defer_children<'js>(
    ctx: Ctx<'js>,
    owner: Array<'js>,
    fields: Vec<String>,
    whole: Vec<String>,
) -> Result<Object<'js>> {
    let owner = Owner {
        source: owner.get(0)?,
        namespace: owner.get(1)?,
        name: owner.get(2)?,
        uid: owner.get(3)?,
    };
    let child = |object: String, whole| Child {
        object: object.into_bytes(),
        whole,
    };
    let fields = fields.into_iter().map(|object| child(object, false));
    let whole = whole.into_iter().map(|object| child(object, true));
    let children: Vec<Child> = fields.chain(whole).collect();
    let done = kube::defer_children(&owner, &children).map_err(|error| failed(&ctx, &error))?;
    let object = Object::new(ctx.clone())?;
    object.set("written", done.written)?;
    object.set("pruned", done.pruned)?;
    object.set("refused", done.refused)?;
    if let Some(reason) = done.prune_skipped {
        object.set("pruneSkipped", reason)?;
    }
    Ok(object)
}

/// The prelude has checked the name.
fn patch_kind(name: &str) -> PatchKind {
    match name {
        "json" => PatchKind::Json,
        "strategic" => PatchKind::Strategic,
        "apply" => PatchKind::Apply,
        _ => PatchKind::Merge,
    }
}

/// `[cluster, resource, namespace, name, subresource]`.
fn read_address(address: &Array<'_>) -> Result<Address> {
    Ok(Address {
        cluster: address.get(0)?,
        resource: address.get(1)?,
        namespace: address.get(2)?,
        name: address.get(3)?,
        subresource: address.get(4)?,
    })
}

fn answer<'js>(ctx: &Ctx<'js>, answer: std::result::Result<Vec<u8>, ApiError>) -> Result<Value<'js>> {
    parse(ctx, answer.map_err(|error| failed(ctx, &error))?)
}

fn failed(ctx: &Ctx<'_>, error: &ApiError) -> rquickjs::Error {
    throw(ctx, code(error.code), &error.message, |object| {
        if error.status > 0 {
            object.set("status", error.status)?;
        }
        if !error.reason.is_empty() {
            object.set("reason", error.reason.as_str())?;
        }
        if error.retry_after_ms > 0 {
            object.set("retryAfterMs", error.retry_after_ms)?;
        }
        Ok(())
    })
}

/// The name of the case in the contract.
fn code(code: ApiErrorCode) -> &'static str {
    match code {
        ApiErrorCode::Denied => "denied",
        ApiErrorCode::NotHere => "not-here",
        ApiErrorCode::Forbidden => "forbidden",
        ApiErrorCode::Unauthorized => "unauthorized",
        ApiErrorCode::NotFound => "not-found",
        ApiErrorCode::AlreadyExists => "already-exists",
        ApiErrorCode::Conflict => "conflict",
        ApiErrorCode::Invalid => "invalid",
        ApiErrorCode::Expired => "expired",
        ApiErrorCode::TooLarge => "too-large",
        ApiErrorCode::TooManyRequests => "too-many-requests",
        ApiErrorCode::Timeout => "timeout",
        ApiErrorCode::Unavailable => "unavailable",
        ApiErrorCode::Unsupported => "unsupported",
        ApiErrorCode::Other => "other",
    }
}
