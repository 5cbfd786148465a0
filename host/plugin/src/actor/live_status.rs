//! The mutable part of a plugin's status, and that of each of its instances.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use informant_cache::Moment;
use informant_spec::Digest;

use crate::actor::restart::FailureHistory;
use crate::actor::streak::{FAILING_CALLS, Streak};
use crate::actor::{ActorKind, PluginContext};
use crate::component::manifest::Manifest;
use crate::component::roles::Roles;
use crate::component::runner::RunnerStatus;
use crate::status::{PluginState, Reload, StuckOn};

/// One of a plugin's instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InstanceId {
    pub(crate) actor: ActorKind,
    /// From 0; also the lane whose keys it receives.
    pub(crate) number: u8,
}

/// What paused a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PausedBy {
    Command,
    Section,
}

impl PausedBy {
    const fn as_str(self) -> &'static str {
        match self {
            PausedBy::Command => "requested by command",
            PausedBy::Section => "paused = true in its section",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct LiveInstance {
    pub(crate) state: PluginState,
    /// 0: it has no instance.
    pub(crate) memory_bytes: usize,
    /// Its call, if it takes long.
    pub(crate) stuck_on: Option<StuckOn>,
}

impl Default for LiveInstance {
    fn default() -> LiveInstance {
        LiveInstance {
            state: PluginState::Loaded,
            memory_bytes: 0,
            stuck_on: None,
        }
    }
}

/// The mutable part of a plugin's status.
pub(crate) struct LiveStatus {
    pub(crate) instances: BTreeMap<InstanceId, LiveInstance>,
    /// The recent losses of all instances of an actor.
    pub(crate) losses: [FailureHistory; 2],
    /// Its calls since the last success.
    pub(crate) streak: Arc<Streak>,
    pub(crate) because: Option<String>,
    /// What paused it; none if it is not paused.
    pub(crate) paused: Option<PausedBy>,
    /// Another replica acts.
    pub(crate) is_standby: bool,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) roles: Roles,
    pub(crate) digest: Digest,
    pub(crate) previous_digest: Option<Digest>,
    pub(crate) runner: Option<Arc<RunnerStatus>>,
    /// Why the last good version runs instead of the configured one.
    pub(crate) rolled_back: Option<String>,
    pub(crate) restarts: u64,
    pub(crate) reloads: u64,
    pub(crate) last_reload: Option<Reload>,
    /// At most [`RELOADS_KEPT_MAX`], oldest first.
    pub(crate) reloads_so_far: VecDeque<Reload>,
    pub(crate) last_error: Option<(Moment, String)>,
}

/// Reloads of one plugin that are remembered: 10. The oldest is dropped.
const RELOADS_KEPT_MAX: usize = 10;

impl LiveStatus {
    /// A reload has ended.
    pub(crate) fn reloaded(&mut self, at: Moment, refused: Option<String>) {
        let reload = Reload {
            at,
            refused,
            version: self.manifest.version.clone(),
            digest: self.digest,
        };
        if self.reloads_so_far.len() >= RELOADS_KEPT_MAX {
            self.reloads_so_far.pop_front();
        }
        self.reloads_so_far.push_back(reload.clone());
        self.last_reload = Some(reload);
    }

    /// The plugin's state: the worst of its instances' states, that it stands by or is paused, or that its calls fail.
    pub(crate) fn state(&self) -> PluginState {
        use PluginState::{Failing, Loaded, Paused, Restarting, Running, Standby};
        match self.worst_of_instances() {
            Restarting | Running | Loaded if self.is_standby => Standby,
            Restarting | Running | Loaded if self.paused.is_some() => Paused,
            Restarting | Running if self.streak.is_failing() => Failing,
            state => state,
        }
    }

    pub(crate) fn worst_of_instances(&self) -> PluginState {
        use PluginState::{Draining, Loaded, Quarantined, Restarting, Running, Stopped};
        const WORST_FIRST: [PluginState; 6] = [Quarantined, Restarting, Draining, Running, Loaded, Stopped];
        let is_state_of_any = |state: &PluginState| self.instances.values().any(|instance| instance.state == *state);
        WORST_FIRST.into_iter().find(is_state_of_any).unwrap_or(Loaded)
    }

    pub(crate) fn reason(&self) -> Option<String> {
        match (self.state(), self.paused) {
            (PluginState::Paused, Some(by)) => Some(by.as_str().to_owned()),
            (PluginState::Standby, _) => Some("this replica stands by".to_owned()),
            (PluginState::Failing, _) => Some(format!("its last {FAILING_CALLS} calls or more have failed")),
            _ => self.because.clone(),
        }
    }

    pub(crate) fn instance(&mut self, id: InstanceId) -> &mut LiveInstance {
        self.instances.entry(id).or_default()
    }

    /// How many instances live.
    pub(crate) fn live(&self) -> usize {
        let is_live = |instance: &&LiveInstance| instance.memory_bytes > 0;
        self.instances.values().filter(is_live).count()
    }

    /// Linear memory of all instances.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.instances.values().map(|instance| instance.memory_bytes).sum()
    }

    /// The call that has been running longest.
    pub(crate) fn stuck_on(&self) -> Option<&StuckOn> {
        let calls = self
            .instances
            .values()
            .filter_map(|instance| instance.stuck_on.as_ref());
        calls.min_by_key(|call| call.since)
    }
}

/// Waits for `call`, and shows it in the status while it is pending. A call that returns at once costs nothing.
///
/// The caller has pinned it: a future that takes another by value has two copies of it, and copies it for each event.
pub(crate) async fn track_stuck_call<T>(
    plugin: &PluginContext,
    instance: InstanceId,
    about: impl Fn() -> StuckOn,
    mut call: Pin<&mut impl Future<Output = T>>,
) -> T {
    let mut noted = false;
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(answer) => {
            if noted {
                plugin.status().instance(instance).stuck_on = None;
            }
            Poll::Ready(answer)
        }
        Poll::Pending => {
            if !noted {
                noted = true;
                plugin.status().instance(instance).stuck_on = Some(about());
            }
            Poll::Pending
        }
    })
    .await
}
