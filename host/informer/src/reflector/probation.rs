//! A second reflector for a source whose request changes, on probation until its first list is accepted.
//!
//! It first requests a single object, to learn whether the new request works at all. Only then does it pause the
//! running reflector and list the whole state, consistently. If anything fails, the running reflector continues.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::watch::OpenWatch;
use super::{ListFailure, Reflector};
use crate::api::{ApiError, ListQuery};
use crate::informer_loop::Control;

/// How long the running reflector is paused while the new state is listed. After that the list is abandoned, the
/// running reflector continues, and the next attempt follows after the back-off.
pub(crate) const RECONFIGURE_HOLD_MAX: Duration = Duration::from_secs(60);

/// The same while the objects of other shards are listed: 10 min. If a list that takes longer than the other limit were
/// abandoned, handlers would never be called about these. What is paused meanwhile are the objects of one replica.
pub(crate) const SHARDS_HOLD_MAX: Duration = Duration::from_secs(600);

/// What a reflector on probation needs to pause the running one.
#[derive(Clone)]
pub(crate) struct ReflectorProbation {
    pub(crate) control: mpsc::UnboundedSender<Control>,
    /// Whether the list was submitted to the loop. From then on the loop decides.
    pub(crate) list_submitted: Arc<AtomicBool>,
    /// How long the running one may be paused.
    pub(crate) hold_max: Duration,
}

impl Reflector {
    /// Fetches the state with a request that has not succeeded yet. Afterwards this reflector is the source's.
    pub(super) async fn list_on_probation(
        &mut self,
        probation: &ReflectorProbation,
    ) -> Result<Option<OpenWatch>, ListFailure> {
        self.preflight().await.map_err(ListFailure::Failed)?;
        let generation = self.parts.generation;
        let (done, paused) = oneshot::channel();
        let sent = probation.control.send(Control::Pause(generation, done));
        sent.map_err(|_| ListFailure::LoopGone)?;
        // No answer: yet another request is wanted by now.
        paused.await.map_err(|_| ListFailure::LoopGone)?;
        // Request the newest state: nothing older than what the other reflector has sent.
        self.versions.refused();
        let environment = Arc::clone(&self.parts.environment);
        probation.list_submitted.store(false, Ordering::Relaxed);
        let mut fetch_state = pin!(self.fetch_state());
        let result = tokio::select! {
            biased;
            result = &mut fetch_state => result,
            () = environment.sleep(probation.hold_max) => {
                // The loop may have accepted a submitted list already: giving it up now would leave the source without
                // a reflector.
                if probation.list_submitted.load(Ordering::Relaxed) {
                    fetch_state.await
                } else {
                    Err(ListFailure::Failed(ApiError::TooSlow(probation.hold_max)))
                }
            }
        };
        if result.is_err() {
            // An error means that the loop is gone.
            let _ = probation.control.send(Control::Resume(generation));
        }
        result
    }

    /// Checks that the request works: requests one object.
    async fn preflight(&self) -> Result<(), ApiError> {
        let request = self.parts.request.list(&ListQuery::ONE)?;
        self.parts.link.open(request).await.map(drop)
    }
}
