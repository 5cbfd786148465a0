//! How a plugin would start: its instances are made and initialized by its section, where nothing runs that they could
//! ask.
//!
//! So a `config` that the plugin refuses is known before it runs. What `init` asks of the cache is answered
//! `not-ready`, of the cluster `unavailable`, as while a daemon comes up. An `init` that fails after it was answered so
//! says little: it may do where there is something to ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::CancellationToken;

use crate::described::Described;
use crate::error::{LoadError, Problem};
use crate::host::{self, HostParts, Inspection, PluginHost};
use crate::host_kube::KubeAccess;
use crate::host_store::{Access, Reader};
use crate::instance::Instance;
use crate::needs;
use crate::shared::{Actor, message_of};
use crate::spec::PluginSpec;
use crate::terms::Terms;
use crate::watch::Watch;

/// What came of a rehearsal.
#[derive(Debug)]
pub struct Rehearsal {
    /// What the component says about itself.
    pub inspection: Inspection,
    /// Why it would not start, if it would not.
    pub refused: Option<Refused>,
}

/// Why a plugin would not start.
#[derive(Debug)]
pub struct Refused {
    /// What is wrong.
    pub error: LoadError,
    /// Whether `init` asked for objects or the cluster before, which are not there in a rehearsal: it may not fail
    /// where they are.
    pub asked: bool,
}

/// Whether a guest asked for what a rehearsal has not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Absence(Arc<AtomicBool>);

impl Absence {
    /// Notes that it was asked for; what it is told.
    pub(crate) fn note(&self) -> &'static str {
        self.0.store(true, Ordering::Relaxed);
        "init is only rehearsed, so no informer runs and no cluster is asked"
    }

    fn was_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl PluginHost {
    /// Looks at a plugin as [`inspect`](Self::inspect) does, and lets its instances initialize as [`load`](Self::load)
    /// would. Nothing of it stays. A pinned digest is left to the caller.
    ///
    /// # Errors
    /// [`LoadError`], where not even its manifest could be had.
    pub async fn rehearse(&self, spec: &PluginSpec) -> Result<Rehearsal, LoadError> {
        let parts = self.parts();
        let name = Arc::from(spec.name.as_str());
        let described = parts.describe(spec.component.clone(), None, name, spec.limits).await;
        let (version, _) = described.map_err(|problem| LoadError::new(&spec.component, problem))?;
        let absence = Absence::default();
        let started = start(parts, spec, &version, &absence).await;
        Ok(Rehearsal {
            inspection: Inspection::of(&version),
            refused: started.err().map(|problem| Refused {
                error: LoadError::new(&spec.component, problem),
                asked: absence.was_noted(),
            }),
        })
    }
}

async fn start(
    parts: &Arc<HostParts>,
    spec: &PluginSpec,
    version: &Described,
    absence: &Absence,
) -> Result<(), Problem> {
    host::judge(spec)?;
    needs::judge(&version.manifest, spec)?;
    let terms = Terms::new(spec.clone())?;
    for actor in [Actor::Events, Actor::Index] {
        if actor.is_needed(version.component.roles) {
            let (of, terms, version, absence) =
                (Arc::clone(parts), Arc::clone(&terms), version.clone(), absence.clone());
            let init = async move { init(&of, &terms, &version, actor, &absence).await };
            parts.on_guests(init).await??;
        }
    }
    Ok(())
}

/// Makes an instance for `actor` and lets it initialize.
async fn init(
    parts: &HostParts,
    terms: &Terms,
    version: &Described,
    actor: Actor,
    absence: &Absence,
) -> Result<(), Problem> {
    let limits = terms.spec.limits;
    let reader = Reader::new(parts.catalog.clone(), Access::Absent(absence.clone()));
    let kube = KubeAccess::Absent(absence.clone());
    let plugin = Arc::from(terms.spec.name.as_str());
    let ration = parts.ration(&plugin, limits, actor.world(), reader, kube, Counter::default());
    let watch = Watch::new(Arc::clone(&parts.env), limits.call, CancellationToken::new());
    let _running = ration.clock.run_guests();
    let mut instance = Instance::new(&parts.engine, &version.component, ration, watch).await?;
    let answer = instance.init(actor.role(), &terms.config).await;
    answer
        .map_err(|report| Problem::Trapped(*report))?
        .map_err(|failure| Problem::Init {
            role: actor.as_str(),
            message: message_of(failure),
        })
}
