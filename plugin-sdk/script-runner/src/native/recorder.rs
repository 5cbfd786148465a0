//! The interface `recorder`.

use rquickjs::{Array, Ctx, Function, Object, Result};

use super::store::failed;
use crate::bindings::informant::plugin::recorder::{self, EventType, Regarding};

pub(super) fn api<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let api = Object::new(ctx.clone())?;
    api.set("event", Function::new(ctx.clone(), event)?)?;
    Ok(api)
}

fn event<'js>(
    ctx: Ctx<'js>,
    about: Array<'js>,
    related: Option<Array<'js>>,
    kind: String,
    reason: String,
    action: String,
    note: String,
) -> Result<()> {
    let about = read_reference(&about)?;
    let related = related.as_ref().map(read_reference).transpose()?;
    recorder::event(&about, related.as_ref(), event_type(&kind), &reason, &action, &note)
        .map_err(|error| failed(&ctx, error))
}

/// The prelude has checked the name.
fn event_type(name: &str) -> EventType {
    match name {
        "Warning" => EventType::Warning,
        _ => EventType::Normal,
    }
}

/// `[cluster, apiVersion, kind, namespace, name, uid]`.
fn read_reference(reference: &Array<'_>) -> Result<Regarding> {
    Ok(Regarding {
        cluster: reference.get(0)?,
        api_version: reference.get(1)?,
        kind: reference.get(2)?,
        namespace: reference.get(3)?,
        name: reference.get(4)?,
        uid: reference.get(5)?,
    })
}
