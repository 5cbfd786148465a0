//! Replays a captured call: from the objects as they were, with the replies that it had.

use anyhow::{Context, Result, bail};
use informant_apiserver::{ApiServer, Options};
use informant_object::{Key, Shape};
use informant_plugin_host::ReplayedCall;
use serde_json::{Value, json};

use super::{World, kind_of, put, resource_of};
use crate::cli::test::scenario::{About, Object, Replay, Scenario};

/// An API server with the objects of a scenario. Those that have a version keep it, with their uid and their creation
/// time.
///
/// # Errors
/// `Problems` if the API server refuses an object.
pub(super) fn server_with(options: &Options, scenario: &Scenario) -> Result<ApiServer> {
    let refused = |object: &Object, error: &anyhow::Error| {
        let help = "correct it as the API server would have it";
        scenario.problem(object.position, format!("`objects`: {error:#}"), help)
    };
    let server = ApiServer::new(options.clone());
    let version = |object: &Object| {
        let version = object.value.pointer("/metadata/resourceVersion")?.as_str()?;
        version.parse::<u64>().ok()
    };
    let objects = scenario.objects.iter();
    let (kept, others): (Vec<_>, Vec<_>) = objects.partition(|object| version(object).is_some());
    for object in others {
        put(&server, object).map_err(|error| refused(object, &error))?;
    }
    let Some(newest) = kept.iter().filter_map(|object| version(object)).max() else {
        return Ok(server);
    };
    let mut snapshot = Vec::new();
    server.snapshot().write(&mut snapshot)?;
    let snapshot = String::from_utf8(snapshot).context("the API server wrote no text")?;
    let mut lines: Vec<Value> = (snapshot.lines().map(serde_json::from_str)).collect::<Result<_, _>>()?;
    for object in &kept {
        let kind = kind_of(&server, object).map_err(|error| refused(object, &error))?;
        let line = json!({
            "group": kind.group, "version": kind.version, "plural": kind.plural, "object": object.value,
        });
        // Before the end mark.
        lines.insert(lines.len() - 1, line);
    }
    let count = lines.len() - 2;
    lines[0]["objects"] = count.into();
    lines[0]["revision"] = newest.max(server.revision()).into();
    lines[count + 1]["end"] = count.into();
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let restored = ApiServer::restore(options.clone(), lines.join("\n").as_bytes());
    restored.context("the objects of the capture cannot be restored")
}

impl World {
    /// Makes a captured call, and waits for its end and that of its writes.
    pub(super) async fn replay(&mut self, replay: &Replay) -> Result<()> {
        let plugin = self.running()?;
        let (resource, key) = match &replay.about {
            About::Key(about) => (about.resource.clone(), Key::new(&about.namespace, &about.name)),
            About::Object(object) => {
                let kind = kind_of(&self.server, object)?;
                let namespace = super::namespace_of(object, &kind);
                (resource_of(&kind), Key::new(namespace, &object.name))
            }
        };
        let mut sources = self.sources_of(&plugin, &resource);
        sources.retain(|source| (source.info().namespace.as_deref()).is_none_or(|only| only == key.namespace()));
        let source = sources.first();
        let source = source.with_context(|| format!("no informer of the plugin reads {resource} {key}"))?;
        let parsed = |object: &Object| {
            let json = object.value.to_string();
            let (Object { kind, name, .. }, shape) = (object, Shape::verbatim());
            informant_object::Object::parse(json.as_bytes(), &shape).with_context(|| format!("{kind} {name}"))
        };
        let object = match &replay.about {
            About::Object(object) => Some(parsed(object)?),
            About::Key(_) => None,
        };
        self.replies.set(&replay.replies);
        let call = ReplayedCall {
            function: replay.call.clone(),
            source: source.id(),
            key,
            object,
            old: replay.old.as_ref().map(parsed).transpose()?,
            reason: replay.reason.clone(),
            attempt: replay.attempt,
            final_state_unknown: replay.final_state_unknown,
        };
        let done = plugin.replay(call).await;
        done.map_err(|why| anyhow::anyhow!("the call cannot be replayed: {why}"))?;
        match self.replies.difference() {
            Some(difference) => bail!("{difference}"),
            None => Ok(()),
        }
    }
}
