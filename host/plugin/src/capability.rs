//! Capabilities: what a plugin can use besides handling events. Each is one module: its host functions, its use of
//! grants, its limits and its metrics.
//!
//! ```text
//! process    Capabilities         metrics of the live plugins                       HostPart
//!   plugin   PluginCapabilities   what its instances share: configure, status       Capability
//!     call   CallCapabilities     of each instance: begin ── host functions ── finish ──▶ CallEffects     CallPart
//! ```
//!
//! Each host function is authorized when it is called: [`permission`] says which kind of call may use which
//! capability, and the capability checks the [grants](Current) of the plugin's section. What a call changes takes
//! effect
//! when it has succeeded ([`PluginCapabilities::commit`]). A guest receives `denied` and the line of config.toml that
//! would grant it.
//!
//! What capabilities need from outside are [`Services`]: traits, so that this crate has no Kubernetes client, database
//! or connections. The list of capabilities is that of `capabilities!`; the layers above know them through it.
//!
//! ```layers
//! parts permission
//! store kube kv metrics log
//! http recorder
//! ```

pub(crate) mod http;
pub(crate) mod kube;
pub(crate) mod kv;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod parts;
pub(crate) mod permission;
pub(crate) mod recorder;
pub(crate) mod store;

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Awaited, Catalog, Moment};
use informant_object::SourceId;
use informant_spec::PluginSpec;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use wasmtime::component::Linker;
use wasmtime_wasi_http::WasiHttpView;

use crate::bindings::informant::plugin::types::{ErrorCode, HostError};
use crate::component::manifest::Manifest;
use crate::effects::acting::ActingGate;
use crate::error::LoadProblem;
use crate::observed::PluginObserver;
use crate::text::truncated;

use self::http::client::HttpClient;
use self::kube::api::KubeApi;
use self::kv::key_value::KeyValue;
use self::parts::{
    CallEnd, CallPart, CallStart, Capability, CapabilityTask, Current, HandledEvent, HostPart, InstanceParts,
    PluginParts,
};
use self::permission::{CallKind, MayUse};

/// What `init` has left behind in keys, until the instances are put to work. No other capability can be used in it.
pub(crate) use self::kv::InitChanges as InitEffects;

/// The list of capabilities: the name of each, and its type. If several delay the end of an event, the first of them in
/// this order ends it.
macro_rules! capabilities {
    ($($name:ident: $capability:ty),* $(,)?) => {
        #[derive(Clone, Default)]
        pub(crate) struct Capabilities {
            $($name: <$capability as Capability>::Host,)*
        }

        /// What one section of config.toml grants. Each call is checked against what is granted at present.
        #[derive(Clone)]
        pub(crate) struct Grants {
            $(pub(crate) $name: Arc<Current<<$capability as Capability>::Grants>>,)*
        }

        /// The capabilities of one plugin, which its instances share.
        pub(crate) struct PluginCapabilities {
            $(pub(crate) $name: Arc<$capability>,)*
        }

        /// The capabilities of one instance.
        pub(crate) struct CallCapabilities {
            $(pub(crate) $name: <$capability as Capability>::Call,)*
        }

        /// What a successful call is to change, by capability.
        #[derive(Default)]
        pub(crate) struct CallEffects {
            $($name: <<$capability as Capability>::Call as CallPart>::Effects,)*
        }

        /// Which capabilities a call may use.
        #[derive(Clone, Copy)]
        pub(crate) struct Permissions {
            $($name: MayUse,)*
        }

        impl Permissions {
            /// In the order of the list.
            const fn row($($name: MayUse),*) -> Permissions {
                Permissions { $($name),* }
            }
        }

        /// Informant's interfaces, as the contract calls them.
        pub(crate) fn interfaces() -> Vec<&'static str> {
            [$(<$capability as Capability>::INTERFACE),*].into_iter().flatten().collect()
        }

        /// Links the interfaces of all capabilities.
        pub(crate) fn link<T: HasCapabilities>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
            $(<$capability as Capability>::link(linker)?;)*
            Ok(())
        }

        impl Capabilities {
            pub(crate) fn register(&self, registry: &mut Registry) {
                $(self.$name.register(registry);)*
            }

            /// Rejects a version of `plugin` that the other plugins do not allow.
            pub(crate) fn check(&self, plugin: &str, manifest: &Manifest) -> Result<(), LoadProblem> {
                $(self.$name.check(plugin, manifest)?;)*
                Ok(())
            }
        }

        impl Grants {
            /// What `spec` grants to new instances.
            pub(crate) fn new(spec: &PluginSpec) -> Grants {
                Grants { $($name: Arc::new(Current::new(<$capability as Capability>::grants(spec))),)* }
            }

            /// From their next call on, the instances with these grants have those of `spec`.
            pub(crate) fn set(&self, spec: &PluginSpec) {
                $(self.$name.set(<$capability as Capability>::grants(spec));)*
            }
        }

        impl PluginCapabilities {
            pub(crate) fn new(host: &Capabilities, grants: &Grants, plugin: &PluginParts<'_>) -> PluginCapabilities {
                PluginCapabilities { $($name: Arc::new(<$capability as Capability>::new(&host.$name, &grants.$name, plugin)),)* }
            }

            /// Applies a section from `now` on.
            pub(crate) fn configure(&self, spec: &PluginSpec, grants: &Grants, now: Moment) {
                $(self.$name.configure(spec, &grants.$name, now);)*
            }

            /// A version with this manifest is put to work.
            pub(crate) fn activate(&self, manifest: &Manifest) {
                $(self.$name.activate(manifest);)*
            }

            /// Whether too much of what calls committed waits: the handler must not be called.
            pub(crate) fn is_full(&self) -> bool {
                $(self.$name.is_full())||*
            }

            /// Ends what slows calls down at `now`. Returns whether there was anything.
            pub(crate) fn end_slow_downs(&self, now: Moment) -> bool {
                $(self.$name.end_slow_downs(now))|*
            }

            /// Another replica acts, and no call runs: drops what has not taken effect.
            pub(crate) fn stand_by(&self) {
                $(self.$name.stand_by();)*
            }

            /// Nothing more will be committed.
            pub(crate) fn close(&self) {
                $(self.$name.close();)*
            }

            /// What runs besides the plugin's actors, until `abort` at the latest.
            pub(crate) fn tasks(&self, abort: &CancellationToken) -> Vec<CapabilityTask> {
                [$(Capability::task(&self.$name, abort)),*].into_iter().flatten().collect()
            }

            /// Those of a new instance with these `grants`.
            pub(crate) fn of_instance(&self, grants: &Grants, instance: &InstanceParts<'_>) -> CallCapabilities {
                CallCapabilities { $($name: Capability::call(&self.$name, &grants.$name, instance),)* }
            }

            /// Commits what a successful call is to change. If one of the capabilities delays the end of the event, it
            /// gets it, after the others have committed, perhaps with that end; otherwise no `event` is made. Returns
            /// whether it ends later.
            pub(crate) fn commit(&self, effects: CallEffects, event: impl FnOnce() -> HandledEvent) -> bool {
                let delays = [$((stringify!($name), Capability::delays(&*self.$name, &effects.$name))),*];
                let delaying = delays.into_iter().find_map(|(name, delays)| delays.then_some(name));
                let mut event = delaying.map(|_| event());
                let CallEffects { $($name),* } = effects;
                $(let mut $name = Some($name);)*
                $(if delaying != Some(stringify!($name)) && let Some(effects) = $name.take() {
                    event = match event {
                        Some(event) => Some(Capability::commit_with(&self.$name, effects, event)),
                        None => {
                            Capability::commit(&self.$name, effects, None);
                            None
                        }
                    };
                })*
                $(if let Some(effects) = $name {
                    Capability::commit(&self.$name, effects, event.take());
                })*
                delaying.is_some()
            }
        }

        impl CallCapabilities {
            /// A call of this kind begins. What the last one has changed and left behind is dropped.
            pub(crate) fn begin(&mut self, kind: CallKind, source: Option<SourceId>) {
                let permissions = kind.permissions();
                $(self.$name.begin(CallStart { source, may_use: permissions.$name });)*
            }

            /// The call is over. Returns what it is to change, which is nothing if it failed.
            pub(crate) fn finish(&mut self, end: CallEnd) -> CallEffects {
                CallEffects { $($name: self.$name.finish(end),)* }
            }
        }
    };
}

capabilities! {
    store: store::StorePlugin,
    kube: kube::KubePlugin,
    kv: kv::KvPlugin,
    metrics: metrics::MetricsPlugin,
    http: http::HttpPlugin,
    recorder: recorder::RecorderPlugin,
    log: log::LogPlugin,
}

/// What capabilities need from outside. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    /// The sources that plugins may read.
    pub catalog: Catalog,
    /// How plugins act on the cluster; none where they are only inspected.
    pub kube: Option<Arc<dyn KubeApi>>,
    /// What plugins remember; none: `kv` is denied.
    pub key_value: Option<Arc<dyn KeyValue>>,
    /// How plugins send HTTP requests; none where they are only inspected.
    pub http: Option<Arc<dyn HttpClient>>,
    /// Who watches what plugins do.
    pub observer: Option<Arc<dyn PluginObserver>>,
    /// Whether this process may act; none: it always may.
    pub gate: Option<Arc<dyn ActingGate>>,
}

/// The data of a wasmtime store with capabilities.
pub(crate) trait HasCapabilities: WasiHttpView + Send + 'static {
    fn capabilities(&mut self) -> &mut CallCapabilities;
}

impl CallCapabilities {
    /// When the call is to be made again if it succeeded, whatever changes.
    pub(crate) fn again_after(&self) -> Option<Duration> {
        self.kube.again_after()
    }

    /// What the last call was answered `not-ready` for, if it was.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        self.store.awaited()
    }

    /// `init` is called next, after those that have left `before` behind.
    pub(crate) fn continue_init(&mut self, before: &mut InitEffects) {
        self.kv.continue_init(before);
    }
}

impl CallEffects {
    /// `init` has succeeded: adds what it changed to what those before it did.
    pub(crate) fn keep(self, init: &mut InitEffects) {
        init.keep(self.kv);
    }
}

/// An error for the guest, with a bounded message.
pub(crate) fn error(code: ErrorCode, message: impl Into<String>) -> HostError {
    HostError {
        code,
        message: truncated(message),
    }
}
