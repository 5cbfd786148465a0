//! The interface `kv`. Values are texts: the prelude makes them JSON.

use rquickjs::{Ctx, Function, Object, Result, Value};

use super::parsed;
use super::store::failed;
use crate::bindings::informant::plugin::kv;

/// Keys requested in each call. 0 means the host's default.
const LIST_LIMIT: u32 = 0;

pub(super) fn api<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let api = Object::new(ctx.clone())?;
    api.set("get", Function::new(ctx.clone(), get)?)?;
    api.set("set", Function::new(ctx.clone(), set)?)?;
    api.set("setIfAbsent", Function::new(ctx.clone(), set_if_absent)?)?;
    api.set("delete", Function::new(ctx.clone(), delete)?)?;
    api.set("list", Function::new(ctx.clone(), list)?)?;
    Ok(api)
}

/// Returns undefined if the key has no value.
fn get<'js>(ctx: Ctx<'js>, key: String) -> Result<Value<'js>> {
    let found = kv::get(&key).map_err(|error| failed(&ctx, error))?;
    parsed(&ctx, found)
}

fn set(ctx: Ctx<'_>, key: String, value: String) -> Result<()> {
    kv::set(&key, value.as_bytes()).map_err(|error| failed(&ctx, error))
}

fn set_if_absent(ctx: Ctx<'_>, key: String, value: String) -> Result<bool> {
    kv::set_if_absent(&key, value.as_bytes()).map_err(|error| failed(&ctx, error))
}

fn delete(ctx: Ctx<'_>, key: String) -> Result<()> {
    kv::delete(&key).map_err(|error| failed(&ctx, error))
}

fn list(ctx: Ctx<'_>, prefix: String, cursor: String) -> Result<Vec<String>> {
    kv::list(&prefix, &cursor, LIST_LIMIT).map_err(|error| failed(&ctx, error))
}
