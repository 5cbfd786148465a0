//! The interface `metrics`. Labels are lists in which each name is followed by its value.

use rquickjs::{Ctx, Function, Object, Result};

use super::store::failed;
use crate::bindings::informant::plugin::metrics::{self, Label, Sample};

pub(super) fn api<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let api = Object::new(ctx.clone())?;
    api.set("add", Function::new(ctx.clone(), add)?)?;
    api.set("set", Function::new(ctx.clone(), set)?)?;
    api.set("observe", Function::new(ctx.clone(), observe)?)?;
    api.set("replace", Function::new(ctx.clone(), replace)?)?;
    Ok(api)
}

fn add(ctx: Ctx<'_>, name: String, amount: f64, labels: Vec<String>) -> Result<()> {
    metrics::add(&name, amount, &given(labels)).map_err(|error| failed(&ctx, error))
}

fn set(ctx: Ctx<'_>, name: String, value: f64, labels: Vec<String>) -> Result<()> {
    metrics::set(&name, value, &given(labels)).map_err(|error| failed(&ctx, error))
}

fn observe(ctx: Ctx<'_>, name: String, value: f64, labels: Vec<String>) -> Result<()> {
    metrics::observe(&name, value, &given(labels)).map_err(|error| failed(&ctx, error))
}

fn replace(ctx: Ctx<'_>, name: String, values: Vec<f64>, labels: Vec<Vec<String>>) -> Result<()> {
    let sample = |(value, labels)| Sample {
        value,
        labels: given(labels),
    };
    let samples: Vec<Sample> = values.into_iter().zip(labels).map(sample).collect();
    metrics::replace(&name, &samples).map_err(|error| failed(&ctx, error))
}

fn given(labels: Vec<String>) -> Vec<Label> {
    let mut texts = labels.into_iter();
    std::iter::from_fn(|| {
        let (name, value) = (texts.next()?, texts.next()?);
        Some(Label { name, value })
    })
    .collect()
}
