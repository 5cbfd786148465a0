//! The writes that one call has deferred so far.

use std::sync::Arc;

use crate::capability::kube::api::{KubeAction, KubeAddress, KubeError, KubeErrorCode};
use crate::capability::kube::writes::{CALL_WRITES_BYTES_MAX, CALL_WRITES_MAX};
use crate::capture::Recorder;
use crate::observed::CallCause;

/// Bytes that a write takes besides its document and its address.
const OVERHEAD_BYTES: usize = 256;

/// A write that was validated and authorized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeferredWrite {
    /// With the name of the cluster, unless config.toml has a single, unnamed one.
    pub(crate) address: KubeAddress,
    pub(crate) action: KubeAction,
    pub(crate) target: Target,
    /// The name of the object, which a create does not have in its address.
    pub(crate) name: String,
    /// The UID of the object that it is for, which its document does not say.
    pub(crate) uid: Option<Box<str>>,
    /// Whether the event ends only when the cache has seen it.
    pub(crate) is_awaited: bool,
    /// Of a call that is captured.
    pub(crate) recorder: Option<Arc<Recorder>>,
    /// The call that has deferred it.
    pub(crate) cause: Option<Arc<CallCause>>,
}

/// The object that a write changes: one cluster, one resource, one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Target(Arc<str>);

/// The writes of the current call into one instance.
#[derive(Debug, Default)]
pub(crate) struct CallWrites {
    writes: Vec<DeferredWrite>,
    /// How many of them are of children.
    children: usize,
    bytes: usize,
    has_deletes: bool,
}

/// How much a call had deferred at some point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    writes: usize,
    children: usize,
    bytes: usize,
}

impl Target {
    /// The object called `name` at `address`. A subresource belongs to its object.
    pub(crate) fn new(address: &KubeAddress, name: &str) -> Target {
        let KubeAddress {
            cluster,
            resource,
            namespace,
            ..
        } = address;
        // The words contain no space.
        Target(format!("{cluster} {resource} {namespace} {name}").into())
    }
}

impl std::fmt::Display for Target {
    /// `v1/pods web/a`, after the name of the cluster if there is one.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut words = self.0.split(' ');
        for word in words.by_ref().take(2).filter(|word| !word.is_empty()).enumerate() {
            write!(f, "{}{}", if word.0 == 0 { "" } else { " " }, word.1)?;
        }
        let object: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        write!(f, " {}", object.join("/"))
    }
}

impl DeferredWrite {
    /// Bytes it takes in memory.
    pub(crate) fn size_bytes(&self) -> usize {
        self.action.document().len() + 2 * self.target.0.len() + OVERHEAD_BYTES
    }
}

impl CallWrites {
    /// A call begins: what the last one deferred and did not commit is dropped.
    pub(crate) fn clear(&mut self) {
        self.writes.clear();
        (self.children, self.bytes, self.has_deletes) = (0, 0, false);
    }

    /// Whether one of them deletes this object.
    pub(crate) fn deletes(&self, target: &Target) -> bool {
        let is_delete = |write: &DeferredWrite| matches!(write.action, KubeAction::Delete(_));
        self.has_deletes
            && self
                .writes
                .iter()
                .any(|write| is_delete(write) && write.target == *target)
    }

    /// Adds a write.
    /// Errors: [`KubeErrorCode::TooLarge`] at [`CALL_WRITES_MAX`] and [`CALL_WRITES_BYTES_MAX`].
    pub(crate) fn push(&mut self, write: DeferredWrite) -> Result<(), KubeError> {
        match self.writes.len() - self.children {
            CALL_WRITES_MAX => Err(too_many(&format!("{CALL_WRITES_MAX} writes"))),
            _ => self.add(write),
        }
    }

    /// Adds a write of a child, which does not count as one.
    /// Errors: [`KubeErrorCode::TooLarge`] at [`CALL_WRITES_BYTES_MAX`].
    pub(crate) fn push_child(&mut self, write: DeferredWrite) -> Result<(), KubeError> {
        self.add(write)?;
        self.children += 1;
        Ok(())
    }

    fn add(&mut self, write: DeferredWrite) -> Result<(), KubeError> {
        let bytes = self.bytes + write.size_bytes();
        if bytes > CALL_WRITES_BYTES_MAX {
            return Err(too_many(&format!("{CALL_WRITES_BYTES_MAX} bytes of writes")));
        }
        self.has_deletes |= matches!(write.action, KubeAction::Delete(_));
        self.writes.push(write);
        self.bytes = bytes;
        Ok(())
    }

    /// What has been deferred so far, for [`truncate`](Self::truncate).
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            writes: self.writes.len(),
            children: self.children,
            bytes: self.bytes,
        }
    }

    /// Drops what was deferred since the mark.
    pub(crate) fn truncate(&mut self, mark: Mark) {
        self.writes.truncate(mark.writes);
        (self.children, self.bytes) = (mark.children, mark.bytes);
    }

    /// The call succeeded: takes its writes.
    pub(crate) fn take(&mut self) -> Vec<DeferredWrite> {
        (self.children, self.bytes) = (0, 0);
        std::mem::take(&mut self.writes)
    }
}

fn too_many(limit: &str) -> KubeError {
    let message = format!(
        "a call can defer at most {limit}: change the rest in further calls, for which the handler can ask (requeue \
         after)"
    );
    KubeError::new(KubeErrorCode::TooLarge, message)
}
