//! A reflector beside the one that runs, for a source that is sent for in another way.
//!
//! It first asks for one object, to learn whether the new request is answered at all; only then is the other reflector
//! paused and the whole state sent for, consistently. Whatever fails on the way, the other one goes on meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::watch::OpenWatch;
use super::{ListFailure, Reflector};
use crate::api::{ApiError, ListQuery, open};
use crate::informer_loop::Control;

/// How long the reflector that runs is paused while the new state is listed. Above it the list is given up, the other one
/// goes on, and the next attempt comes after the back-off.
pub(crate) const RECONFIGURE_HOLD_MAX: Duration = Duration::from_secs(60);

/// How a reflector on probation has the other one paused.
#[derive(Clone)]
pub(crate) struct Probation {
    pub(crate) control: mpsc::UnboundedSender<Control>,
    /// Objects are kept in another shape than before.
    pub(crate) shape_changed: bool,
    /// Whether the list is with the loop. From then on it is the loop that decides.
    pub(crate) list_submitted: Arc<AtomicBool>,
}

impl Reflector {
    /// Obtains the state by a request that was never answered before. Afterwards this reflector is the source's.
    pub(super) async fn list_on_probation(&mut self, probation: &Probation) -> Result<Option<OpenWatch>, ListFailure> {
        self.preflight().await.map_err(ListFailure::Failed)?;
        let generation = self.parts.generation;
        let (done, paused) = oneshot::channel();
        let sent = probation.control.send(Control::Pause(generation, done));
        sent.map_err(|_| ListFailure::LoopGone)?;
        // No answer: another request is wanted by now.
        paused.await.map_err(|_| ListFailure::LoopGone)?;
        // The newest state: nothing older than what the other one has shown.
        self.versions.refused();
        let environment = Arc::clone(&self.parts.environment);
        probation.list_submitted.store(false, Ordering::Relaxed);
        let mut fetch_state = pin!(self.fetch_state());
        let result = tokio::select! {
            biased;
            result = &mut fetch_state => result,
            () = environment.sleep(RECONFIGURE_HOLD_MAX) => {
                // A list that the loop has may be believed already: who gave it up now would leave the source without a
                // reflector.
                if probation.list_submitted.load(Ordering::Relaxed) {
                    fetch_state.await
                } else {
                    Err(ListFailure::Failed(ApiError::TooSlow(RECONFIGURE_HOLD_MAX)))
                }
            }
        };
        if result.is_err() {
            // The loop is gone, or learns of it.
            let _ = probation.control.send(Control::Resume(generation));
        }
        result
    }

    /// Whether the request is answered: asks for one object.
    async fn preflight(&self) -> Result<(), ApiError> {
        let query = ListQuery {
            version: None,
            limit: 1,
            continuation: None,
        };
        let request = self.parts.request.list(&query)?;
        open(&self.parts.client, &self.parts.environment, request)
            .await
            .map(drop)
    }
}
