//! The contract's imports as JavaScript functions, for the prelude. They take and return plain values; the modules in
//! `prelude/` wrap them for scripts.

pub(crate) mod http;
mod json;
mod kube;
mod kv;
mod metrics;
mod recorder;
mod store;

use rquickjs::{Ctx, Exception, Function, Object, Result, TypedArray, Value};

use crate::bindings::informant::plugin::log::{Level, log};
use crate::bindings::informant::plugin::types::Reason;

/// The reasons by number, as in [`reason_number`]: the names of the cases in the contract.
const REASONS: [&str; 13] = [
    "initial",
    "watch",
    "relist",
    "resync",
    "replay",
    "requeue",
    "reconfigured",
    "restored",
    "requeue-after",
    "trigger",
    "other",
    "related",
    "takeover",
];

/// An object with all functions. `context` is the JSON document that `describe` and `init` receive.
pub(crate) fn api<'js>(ctx: &Ctx<'js>, context: Vec<u8>) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    native.set("context", ctx.json_parse(context)?)?;
    native.set("reasons", REASONS.to_vec())?;
    native.set("log", Function::new(ctx.clone(), log_line)?)?;
    native.set("parse", Function::new(ctx.clone(), json::parse_text)?)?;
    native.set("encode", Function::new(ctx.clone(), encode)?)?;
    native.set("decode", Function::new(ctx.clone(), decode)?)?;
    native.set("store", store::api(ctx)?)?;
    native.set("kube", kube::api(ctx)?)?;
    native.set("kv", kv::api(ctx)?)?;
    native.set("metrics", metrics::api(ctx)?)?;
    native.set("recorder", recorder::api(ctx)?)?;
    native.set("http", http::api(ctx)?)?;
    Ok(native)
}

/// The index of a reason's name in [`REASONS`].
pub(crate) fn reason_number(reason: Reason) -> usize {
    match reason {
        Reason::Initial => 0,
        Reason::Watch => 1,
        Reason::Relist => 2,
        Reason::Resync => 3,
        Reason::Replay => 4,
        Reason::Requeue => 5,
        Reason::Reconfigured => 6,
        Reason::Restored => 7,
        Reason::RequeueAfter => 8,
        Reason::Trigger => 9,
        Reason::Other => 10,
        Reason::Related => 11,
        Reason::Takeover => 12,
    }
}

/// The reason's name in the contract.
pub(crate) fn reason_name(reason: Reason) -> &'static str {
    REASONS[reason_number(reason)]
}

/// `fields` are names and values in turn.
fn log_line(level: u32, message: String, fields: Vec<String>) {
    let level = match level {
        0 => Level::Trace,
        1 => Level::Debug,
        2 => Level::Info,
        3 => Level::Warn,
        _ => Level::Error,
    };
    let pairs = fields.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    log(level, &message, &pairs.collect::<Vec<_>>());
}

/// The object of a JSON document, or undefined. The document is empty if the manifest asks for no payload.
pub(crate) fn parsed<'js>(ctx: &Ctx<'js>, document: Option<Vec<u8>>) -> Result<Value<'js>> {
    match document.filter(|document| !document.is_empty()) {
        Some(document) => json::parse(ctx, document),
        None => Ok(Value::new_undefined(ctx.clone())),
    }
}

fn encode<'js>(ctx: Ctx<'js>, text: String) -> Result<TypedArray<'js, u8>> {
    TypedArray::new(ctx, text.into_bytes())
}

/// The text of UTF-8, whose bytes are the characters of `bytes`. U+FFFD replaces invalid ones or, if these are `fatal`,
/// the result is none.
fn decode(bytes: String, fatal: bool) -> Option<String> {
    let bytes: Vec<u8> = bytes.chars().map(|byte| byte as u8).collect();
    match fatal {
        true => String::from_utf8(bytes).ok(),
        false => Some(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Throws an Error with the message and the `code` of the host, and what else `fill` adds. The prelude gives it its
/// class.
fn throw(ctx: &Ctx<'_>, code: &str, message: &str, fill: impl FnOnce(&Object<'_>) -> Result<()>) -> rquickjs::Error {
    let make = || {
        let exception = Exception::from_message(ctx.clone(), message)?;
        let object = exception.as_object();
        object.set("code", code)?;
        fill(object)?;
        Ok(exception)
    };
    match make() {
        Ok(exception) => exception.throw(),
        Err(error) => error,
    }
}
