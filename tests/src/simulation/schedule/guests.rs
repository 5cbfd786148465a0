//! WebAssembly handlers that are added, swapped, changed and paused.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use informant_cache::listener::ListenerOptions;
use informant_plugin_host::Plugin;
use informant_spec::{KubeGrant, KubeResource, KubeVerb, PluginSpec, ReplayPolicy, RetryPolicy};

use super::super::guest::{Guests, versions};
use super::super::handler::Handler;
use super::super::recorder::{CallRecorder, Script};
use super::super::rng::Rng;
use super::super::world::{RESOURCE, World};
use super::Schedule;

/// The part of the schedule for guests.
pub(super) struct GuestSchedule {
    guests: Guests,
    /// Of their own, so that the rest of the schedule does not depend on them.
    rng: Rng,
}

impl GuestSchedule {
    pub(super) fn new(world: &Arc<World>, rng: Rng) -> Self {
        Self {
            guests: Guests::new(world),
            rng,
        }
    }
}

impl Schedule {
    /// In a run with guests: changes one, or adds one if there is none.
    pub(super) async fn change_guest(&mut self) {
        let Some(schedule) = &mut self.guests else { return };
        let guest = self.handlers.iter().find_map(|handler| handler.guest.clone());
        match guest {
            None if schedule.rng.percent(20) => self.add_guest().await,
            Some(plugin) if schedule.rng.percent(15) => change(&self.world, plugin, &mut schedule.rng),
            _ => {}
        }
    }

    /// In a run with guests: adds one to one of the informers.
    pub(super) async fn add_guest(&mut self) {
        let Some(GuestSchedule { guests, rng }) = &mut self.guests else {
            return;
        };
        let informers = self.world.informers();
        let watched = &informers[rng.below(informers.len() as u64) as usize];
        let id = self.handlers_ever;
        self.handlers_ever += 1;
        let script = Script {
            call_ms_max: rng.pick(&[0, 5, 500, 5_000]),
            fails_percent: rng.pick(&[20, 60]),
            refuses_percent: rng.pick(&[0, 0, 5]),
            ..Script::default()
        };
        let spec = spec(id, rng);
        self.world.note(format!(
            "guest {id} is added to informer {}: {script:?}, {} pending",
            watched.id, spec.limits.pending
        ));
        let options = ListenerOptions {
            pending_events_max: spec.limits.pending,
            limits_suspects: true,
            ..ListenerOptions::default()
        };
        let loaded = guests.host.load(spec, versions()[0].clone()).await;
        let plugin = loaded.expect("the guest is a plugin");
        let recorder = CallRecorder::register(&self.world, watched, id, script, &options, true);
        let receives_every_state = recorder.receives_every_state;
        guests.record(&plugin, recorder, rng.split());
        let added = watched.named.add_listener(plugin.listener());
        added.expect("the informer runs");
        plugin.start().await;
        self.handlers.push(Handler {
            id,
            watched: Arc::clone(watched),
            listener: plugin.listener(),
            receives_every_state,
            has_interval: false,
            native: None,
            guest: Some(plugin),
        });
    }
}

fn spec(id: u32, rng: &mut Rng) -> PluginSpec {
    let mut spec = PluginSpec::new(format!("guest-{id}"), versions()[0].origin().clone());
    spec.allow_kube = vec![KubeGrant {
        verbs: vec![KubeVerb::Get, KubeVerb::Patch],
        resource: KubeResource::parse(RESOURCE).expect("a resource"),
        namespaces: None,
        names: None,
        subresources: Vec::new(),
    }];
    spec.limits.pending = rng.pick(&[1, 2, 8, 1_024]);
    // Resyncs and replays would hide most events that are lost.
    spec.resync = rng.pick(&[None, None, None, Some(Duration::from_secs(90))]);
    let policies = [ReplayPolicy::Continue, ReplayPolicy::Continue, ReplayPolicy::Replay];
    spec.on_reload = rng.pick(&policies);
    spec.on_restart = rng.pick(&policies);
    spec.retry = RetryPolicy {
        attempts: 1_000,
        ..RetryPolicy::default()
    };
    spec
}

/// What an operator may do to a plugin. Swaps take effect when the running call has ended, and writes continue
/// meanwhile.
fn change(world: &Arc<World>, plugin: Plugin, rng: &mut Rng) {
    let (drawn, pending) = (rng.below(10), rng.pick(&[1, 2, 8, 1_024]));
    let file = rng.below(versions().len() as u64) as usize;
    let changed = Arc::clone(world);
    let change = async move {
        let name = plugin.name();
        let done = match drawn {
            0..6 => {
                let prepared = plugin.prepare_version(versions()[file].clone()).await;
                let swapped = match prepared {
                    Ok(change) => plugin.apply(change).await,
                    Err(error) => Err(error),
                };
                let result = swapped.map_or_else(|error| error.to_string(), |_| "done".to_owned());
                format!("{name}: swap to version {}: {result}", file + 1)
            }
            6 => {
                let mut spec = plugin.spec();
                spec.limits.pending = pending;
                let accepted = plugin.reconfigure_in_place(&spec).await;
                assert!(accepted, "it needs no new instance");
                format!("{name}: {pending} pending")
            }
            7 => format!("{name}: pause: {}", plugin.pause().await),
            _ => format!("{name}: resume: {}", plugin.resume().await),
        };
        changed.note(done);
    };
    world.environment.spawn("guest change", Box::pin(change));
}
