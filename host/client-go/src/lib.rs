//! client-go's `tools/cache` and `util/workqueue` for Rust programs, over Informant's crates.
//!
//! For people who port a program, or want its parts: an informer of the whole kind, or only a queue. The daemon uses
//! none of it, and no other crate depends on it. Objects are the JSON that the API server sent ([`Object`]).
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use informant_client_go::{
//!     Catalog, ClusterClient, EventHandlerFuncs, GroupVersionResource, InformerMetrics, ListenerOptions,
//!     SharedInformerFactory, SourceSpec, TokioEnvironment,
//! };
//!
//! async fn print_pods(client: impl Into<ClusterClient>) -> Result<(), Box<dyn std::error::Error>> {
//!     let environment = Arc::new(TokioEnvironment::current(1));
//!     let factory = SharedInformerFactory::new(client, environment, Catalog::new(), InformerMetrics::default());
//!     let pods = SourceSpec::new("pods", GroupVersionResource::new("", "v1", "pods"), "Pod");
//!     let informer = factory.informer_for(pods)?;
//!     let print = EventHandlerFuncs::new().on_add(|pod, _| {
//!         println!("{} exists", pod.key());
//!         Ok(())
//!     });
//!     informer.add_handler(Box::new(print), ListenerOptions::default())?;
//!     factory.wait_for_cache_sync(Duration::from_secs(30)).await?;
//!     println!("{} pods", informer.snapshot().len());
//!     Ok(())
//! }
//! ```
//!
//! # By client-go's names
//!
//! In the order of client-go's files. Each item says where it departs from its model.
//!
//! | file | client-go | here |
//! |---|---|---|
//! | `tools/cache/controller.go` | `NewInformer`, `NewIndexerInformer`, `Controller` | [`Informer`] |
//! | | `InformerOptions`, `Config` | [`InformerConfig`] |
//! | | `ResourceEventHandler` | [`EventHandler`] |
//! | | `ResourceEventHandlerFuncs`, `ResourceEventHandlerDetailedFuncs` | [`EventHandlerFuncs`] |
//! | | `FilteringResourceEventHandler` | [`FilteringEventHandler`] |
//! | | `TransformFunc` | [`Transform`] |
//! | | `DeletionHandlingMetaNamespaceKeyFunc` | [`DeltaObject::key`] |
//! | `delta_fifo.go` | `DeltaFIFO`, `DeltaFIFOOptions` | [`DeltaFifo`], [`DeltaFifoOptions`] |
//! | | `Delta`, `Deltas`, `DeltaType` | [`Delta`], [`Deltas`], [`DeltaType`] |
//! | | `DeletedFinalStateUnknown` | [`Tombstone`] |
//! | `fifo.go` | `ErrFIFOClosed`, `ErrRequeue` | [`PopError::Closed`], [`ProcessError::Requeue`] |
//! | `index.go` | `Indexer`, `IndexFunc`, `Indexers` | [`Indexer`], [`IndexFunc`], [`PointerIndex`] |
//! | `listers.go` | `GenericLister`, `GenericNamespaceLister` | [`Lister`], [`NamespaceLister`] |
//! | `listwatch.go` | `ListerWatcher` | [`ListerWatcher`] |
//! | `reflector.go` | `Reflector`, `ReflectorStore` | [`Reflector`], [`ReflectorStore`] |
//! | `shared_informer.go` | `SharedInformer`, `SharedIndexInformer` | [`SharedInformer`] |
//! | | `AddEventHandler`, `RemoveEventHandler` | [`SharedInformer::add_handler`], [`SharedInformer::remove_handler`] |
//! | | `ResourceEventHandlerRegistration` | [`Registration`] |
//! | | `WaitForCacheSync` | [`wait_for_cache_sync`], [`wait_for_handler_sync`] |
//! | `store.go` | `Store` | [`Indexer`] |
//! | | `KeyListerGetter` | [`KnownObjects`] |
//! | | `MetaNamespaceKeyFunc`, `SplitMetaNamespaceKey` | [`Object::key`]; [`Key`] |
//! | `thread_safe_store.go` | `ThreadSafeStore` | [`Indexer`] |
//! | `informers/factory.go` | `SharedInformerFactory` | [`SharedInformerFactory`] |
//! | `util/workqueue` | `TypedRateLimitingInterface` | [`workqueue::WorkQueue`] |
//! | | `TypedRateLimiter`, and the limiters | [`workqueue::RateLimiter`], and others under their names |
//!
//! # Modules
//!
//! ```layers
//! delta event_handler_funcs filtering_event_handler known_objects lister locks transform wait
//! delta_fifo factory indexer workqueue
//! reflector
//! controller
//! ```

mod controller;
mod delta;
mod delta_fifo;
mod event_handler_funcs;
mod factory;
mod filtering_event_handler;
mod indexer;
mod known_objects;
mod lister;
mod locks;
mod reflector;
#[cfg(test)]
mod testing;
mod transform;
mod wait;
pub mod workqueue;

pub use controller::{HANDLER_WAIT_MAX, HANDLER_WAIT_MIN, Informer, InformerConfig};
pub use delta::{Delta, DeltaType, Deltas};
pub use delta_fifo::{DeltaFifo, DeltaFifoOptions, DeltaFifoStats, PopError, ProcessError};
pub use event_handler_funcs::EventHandlerFuncs;
pub use factory::{FactoryError, SharedInformerFactory};
pub use filtering_event_handler::FilteringEventHandler;
pub use indexer::Indexer;
pub use known_objects::{KnownObjects, LookupFailed, NothingKnown};
pub use lister::{FoundObject, Lister, NamespaceLister, ObjectNotFound};
pub use reflector::{
    ListWatchError, ListedObjects, ListerWatcher, REFLECTOR_WAIT_MAX, REFLECTOR_WAIT_MIN, Reflector, ReflectorStore,
    WatchEvent, WatchStream,
};
pub use transform::{Transform, TransformError};
pub use wait::{
    HandlersNotSynced, NotSynced, NotSyncedHandler, NotSyncedSource, wait_for_cache_sync, wait_for_handler_sync,
};

// What the items above take and return, so that a program needs only this crate.
pub use informant_cache::listener::{ListenerOptions, RetryOptions};
pub use informant_cache::{
    Catalog, DeltaObject, Environment, EventContext, EventHandler, HandlerError, IndexConflict, IndexError, IndexFunc,
    IndexValues, Moment, PointerIndex, Reason, Snapshot, StoreWriter, Tombstone,
};
pub use informant_informer::{
    ClusterClient, GroupVersionResource, HandlerStatus, InformerMetrics, InformerOptions, Registration, SharedInformer,
    SourceSpec, StopReport, TokioEnvironment,
};
pub use informant_object::{Key, KeyRef, LabelSelector, Object, Pointer, ResourceVersion, Shape};
