//! What led to a call of a handler: the cause of the effects that the call has.

use std::fmt;
use std::sync::{Arc, Mutex};

use informant_cache::Catalog;
use informant_cache::listener::{Delivery, Notification};
use informant_object::{KeyRef, Object, SourceId};
use informant_spec::Digest;

use crate::component::manifest::Manifest;
use crate::sync::lock;

/// A call of a handler, and what led to it. Shared by all effects of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallCause {
    /// The digest of the component or script that was called, also if another version has been loaded since.
    pub digest: Digest,
    /// The version in its manifest.
    pub version: String,
    /// `add`, `update`, `delete`, `sync` or `timer`.
    pub event: &'static str,
    /// The source of its object; of a timer, none that exists.
    pub source: SourceId,
    pub subject: CauseSubject,
    /// Why the handler was called, as in the contract: `watch`.
    pub reason: &'static str,
    /// 0 for the first call for an event; each retry adds 1.
    pub attempt: u32,
    /// The related object whose change led to the call of a reconciler, and its event.
    pub related: Option<(CauseObject, &'static str)>,
}

/// What a call was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CauseSubject {
    Object(CauseObject),
    /// Everything that one source has was delivered; `name` and `uid` are empty.
    Source(CauseObject),
    /// A run of this timer was due.
    Timer(String),
}

/// An object in the cache, or a source. All texts are empty that are not known, as those of a source that is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CauseObject {
    /// The name of the informer.
    pub informer: String,
    /// Empty for the only cluster.
    pub cluster: String,
    /// `apps/v1/deployments`
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The resource version of the state that the handler was called for.
    pub version: String,
}

/// The cause of the call that an instance makes at present, for its capabilities. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct CurrentCause(Arc<Mutex<Present>>);

#[derive(Default)]
struct Present {
    call: Option<PresentCall>,
    /// Of this call, once somebody has asked.
    cause: Option<Arc<CallCause>>,
}

struct PresentCall {
    delivery: Delivery,
    digest: Digest,
    manifest: Arc<Manifest>,
    catalog: Catalog,
}

impl CurrentCause {
    /// A call for `delivery` begins, of the version with this digest and manifest.
    pub(crate) fn begin(&self, delivery: &Delivery, (digest, manifest): (Digest, &Arc<Manifest>), catalog: &Catalog) {
        let call = PresentCall {
            delivery: delivery.clone(),
            digest,
            manifest: Arc::clone(manifest),
            catalog: catalog.clone(),
        };
        *lock(&self.0) = Present {
            call: Some(call),
            cause: None,
        };
    }

    /// The call has ended: its object is no longer kept. Returns its cause, if it had effects or has failed.
    pub(crate) fn end(&self, has_failed: bool) -> Option<Arc<CallCause>> {
        let Present { call, cause } = std::mem::take(&mut *lock(&self.0));
        let of_failure = || Some(Arc::new(call.filter(|_| has_failed)?.cause()));
        cause.or_else(of_failure)
    }

    /// The object that the call is about, and its source. None if it is gone, and between calls.
    pub(crate) fn object(&self) -> Option<(SourceId, Object)> {
        let present = lock(&self.0);
        let delivery = &present.call.as_ref()?.delivery;
        match &delivery.notification {
            Notification::Add(object) | Notification::Update { new: object, .. } => {
                Some((delivery.source, object.clone()))
            }
            Notification::Delete { .. } | Notification::Synced | Notification::Tick(_) => None,
        }
    }

    /// None between calls, and in those that cannot act.
    pub(crate) fn get(&self) -> Option<Arc<CallCause>> {
        let mut present = lock(&self.0);
        let Present { call, cause } = &mut *present;
        let call = call.as_ref()?;
        Some(Arc::clone(cause.get_or_insert_with(|| Arc::new(call.cause()))))
    }
}

impl CallCause {
    /// The object that the call was about, and its source. None: it was about a source, or a run of a timer.
    pub(crate) fn about(&self) -> Option<(SourceId, KeyRef<'_>)> {
        match &self.subject {
            CauseSubject::Object(object) => Some((self.source, KeyRef::new(&object.namespace, &object.name))),
            CauseSubject::Source(_) | CauseSubject::Timer(_) => None,
        }
    }
}

impl PresentCall {
    fn cause(&self) -> CallCause {
        let PresentCall {
            delivery,
            digest,
            manifest,
            catalog,
        } = self;
        let of_key = |source, key: KeyRef<'_>| CauseObject {
            namespace: key.namespace.to_owned(),
            name: key.name.to_owned(),
            ..CauseObject::of_source(catalog, source)
        };
        let object = match &delivery.notification {
            Notification::Add(object) | Notification::Update { new: object, .. } => Some(object),
            Notification::Delete { last, .. } => last.as_ref(),
            Notification::Synced | Notification::Tick(_) => None,
        };
        let subject = match (&delivery.notification, delivery.key()) {
            (Notification::Tick(tick), _) => CauseSubject::Timer(tick.timer.to_string()),
            (_, None) => CauseSubject::Source(CauseObject::of_source(catalog, delivery.source)),
            (_, Some(key)) => CauseSubject::Object(CauseObject {
                uid: object.map_or_else(String::new, |object| object.uid().to_owned()),
                version: object.map_or_else(String::new, |object| object.version().as_str().to_owned()),
                ..of_key(delivery.source, key)
            }),
        };
        let related = delivery.cause.as_ref().map(|related| {
            let object = CauseObject {
                version: related.version.as_str().to_owned(),
                ..of_key(related.source, related.key.as_ref())
            };
            (object, related.event)
        });
        CallCause {
            digest: *digest,
            version: manifest.version.clone(),
            event: delivery.notification.as_str(),
            reason: match subject {
                CauseSubject::Timer(_) => "timer",
                _ => delivery.reason.as_str(),
            },
            attempt: delivery.attempt,
            source: delivery.source,
            subject,
            related,
        }
    }
}

impl CauseObject {
    fn of_source(catalog: &Catalog, source: SourceId) -> CauseObject {
        let Some(info) = catalog.info(source) else {
            return CauseObject::default();
        };
        CauseObject {
            informer: info.informer,
            cluster: info.cluster,
            resource: info.resource,
            ..CauseObject::default()
        }
    }
}

impl fmt::Debug for CurrentCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its objects may be secret.
        f.write_str("CurrentCause")
    }
}
