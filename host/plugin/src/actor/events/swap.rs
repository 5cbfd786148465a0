//! Swaps in another version, with the states of all instances, or another number of instances.

use std::sync::Arc;

use informant_cache::listener::{Lane, Pause, ResourceIdentities};
use informant_cache::{Catalog, ResourceIdentity};
use informant_spec::ReplayPolicy;

use super::EventActor;
use crate::actor::mailbox::CandidateInstance;
use crate::actor::mailbox::SwapKind;
use crate::actor::slot::{FirstInstance, InstanceSlot};
use crate::actor::state_transfer::{TransferredState, transfer_states};
use crate::actor::worker::EventWorker;
use crate::actor::{ActorKind, InstanceId};
use crate::capability::InitEffects;
use crate::instance::Instance;
use crate::instance::config::PluginConfig;
use crate::instance::version::LoadedVersion;

impl EventActor {
    /// Swaps in another version with the states of the old one. Pending events are delivered to the new version; a
    /// quarantine ends. All instances save, then all restore: if one of them fails, nothing changes. If one loses its
    /// state in `save`, the new version starts without any and receives a replay: nothing could be kept by refusing it.
    /// With another number of instances, keys move to others, so that states are dropped and the cache is replayed.
    ///
    /// While no call is made.
    pub(super) async fn swap(&mut self, candidate: CandidateInstance) {
        let CandidateInstance {
            config,
            version,
            mut instances,
            mut changes,
            term,
            feed: _,
            kind,
            done,
        } = candidate;
        if term.is_cancelled() {
            instances.clear();
            // `init` of other instances is called when this replica acts, with the keys of that term.
            changes = InitEffects::default();
        }
        let listener = self.context.listener.clone();
        listener.control().pause(Pause::Swap);
        let wanted = instance_count(&config);
        let is_same_number = usize::from(wanted) == self.pool.idle_mut().count();
        let mut slots: Vec<&mut InstanceSlot> = self.pool.idle_mut().map(|worker| &mut worker.slot).collect();
        // An old instance was lost and would have received its keys again; the new one receives them instead.
        let is_lost = |slot: &&mut InstanceSlot| slot.is_empty() && config.spec.on_restart == ReplayPolicy::Replay;
        let lost: Vec<Lane> = slots
            .iter()
            .filter(|slot| is_lost(slot))
            .map(|slot| slot.id.number)
            .collect();
        let transferred = match kind {
            SwapKind::Reload if is_same_number => transfer_states(&mut slots, &mut instances).await,
            // The state of a version that failed is not trusted.
            SwapKind::Reload | SwapKind::RollBack => Ok(TransferredState::None),
        };
        if let Ok(transferred) = &transferred {
            let is_full_replay = *transferred == TransferredState::LostInSave
                || kind == SwapKind::RollBack
                || config.spec.on_reload == ReplayPolicy::Replay;
            match kind {
                SwapKind::Reload => {
                    // Before its first call.
                    self.context.apply(&config);
                    self.context.probation.begin(self.context.now());
                    if self.context.is_standby() {
                        self.context.probation.suspend();
                    }
                }
                SwapKind::RollBack => self.context.probation.skip(),
            }
            let is_other_selection = self.activate(config, &version, instances);
            changes.commit();
            self.is_quarantined = false;
            let now = self.context.now();
            if !is_same_number {
                listener
                    .consumer()
                    .set_lanes(wanted, source_identity(&self.context.runtime.services.catalog), now);
            } else if is_full_replay {
                listener.control().replay(now);
            } else {
                lost.into_iter()
                    .for_each(|lane| listener.consumer().replay_lane(lane, now));
            }
            if is_other_selection {
                self.reselect();
            }
            listener.control().retry_now();
            self.context.end_slow_downs();
            listener.control().resume(Pause::Quarantine);
        }
        listener.control().resume(Pause::Swap);
        // The caller of the swap may be gone.
        let _ = done.send(transferred.map(|transferred| transferred.bytes()));
    }

    /// Activates `instances` of `version`, as many as `config` wants, or none. Returns whether it selects other
    /// objects.
    fn activate(&mut self, config: Arc<PluginConfig>, version: &LoadedVersion, instances: Vec<Instance>) -> bool {
        let wanted = instance_count(&config);
        let mut instances = instances.into_iter();
        let mut old = self.pool.take();
        let is_other_selection = old
            .iter_mut()
            .fold(false, |is_other, worker| worker.select(&config) | is_other);
        let rules = old.first().map(|worker| worker.rules().clone());
        let mut old = old.into_iter();
        let activation = self.activation + 1;
        let mut workers = Vec::new();
        for number in 0..wanted {
            let mut worker = old.next().unwrap_or_else(|| {
                let id = InstanceId {
                    actor: ActorKind::Events,
                    number,
                };
                let (context, version) = (Arc::clone(&self.context), version.clone());
                let mut slot = InstanceSlot::new(context, version, FirstInstance::NotNeeded, id);
                slot.set_steady_state(self.steady_state);
                let mut worker = EventWorker::new(slot);
                rules.iter().for_each(|rules| worker.set_rules(rules.clone()));
                worker
            });
            let (config, version) = (Arc::clone(&config), version.clone());
            worker.slot.activate(config, version, instances.next(), activation);
            worker.forget_rules();
            workers.push(worker);
        }
        old.for_each(|worker| worker.slot.remove());
        self.activation = activation;
        self.pool.change(workers);
        is_other_selection
    }
}

/// How many instances handle the events of a plugin with this section.
pub(crate) fn instance_count(config: &PluginConfig) -> Lane {
    Lane::try_from(config.spec.limits.instances).unwrap_or(Lane::MAX)
}

/// Sources with the same cluster, group and resource deliver the same objects.
pub(crate) fn source_identity(catalog: &Catalog) -> ResourceIdentities {
    let catalog = catalog.clone();
    Arc::new(move |source| {
        let Some(info) = catalog.info(source) else {
            return ResourceIdentity::new("", "", "");
        };
        let parts: Vec<&str> = info.resource.split('/').collect();
        let (group, plural) = match parts[..] {
            [group, _version, plural] => (group, plural),
            _ => ("", parts.last().copied().unwrap_or_default()),
        };
        ResourceIdentity::new(&info.cluster, group, plural)
    })
}
