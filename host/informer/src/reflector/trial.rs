//! A reflector beside the one that runs, for a source that is asked for in another way.
//!
//! It first asks for one object, to learn whether the new request is answered at all; only then is the other reflector
//! held and the whole state asked for, consistently. Whatever fails on the way, the other one goes on meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::watch::OpenWatch;
use super::{ListEnd, Reflector};
use crate::api::{ApiError, ListQuery, open};
use crate::informer_loop::Control;

/// How long the reflector that runs is held while the new state is listed. Above it the list is given up, the other one
/// goes on, and the next attempt comes after the back-off.
pub(crate) const RECONFIGURE_HOLD_MAX: Duration = Duration::from_secs(60);

/// How a reflector on trial has the other one held.
#[derive(Clone)]
pub(crate) struct Trial {
    pub(crate) control: mpsc::UnboundedSender<Control>,
    /// Objects are kept in another shape than before.
    pub(crate) other_shape: bool,
    /// Whether the list is with the loop. From then on it is the loop that decides.
    pub(crate) is_handed_over: Arc<AtomicBool>,
}

impl Reflector {
    /// Obtains the state by a request that was never answered before. Afterwards this reflector is the source's.
    pub(super) async fn try_out(&mut self, trial: &Trial) -> Result<Option<OpenWatch>, ListEnd> {
        self.probe().await.map_err(ListEnd::Failed)?;
        let generation = self.parts.generation;
        let (done, held) = oneshot::channel();
        let asked = trial.control.send(Control::Hold(generation, done));
        asked.map_err(|_| ListEnd::LoopGone)?;
        // No answer: another request is wanted by now.
        held.await.map_err(|_| ListEnd::LoopGone)?;
        // The newest state: nothing older than what the other one has shown.
        self.versions.refused();
        let environment = Arc::clone(&self.parts.environment);
        trial.is_handed_over.store(false, Ordering::Relaxed);
        let mut obtain = pin!(self.obtain());
        let obtained = tokio::select! {
            biased;
            obtained = &mut obtain => obtained,
            () = environment.sleep(RECONFIGURE_HOLD_MAX) => {
                // A list that the loop has may be believed already: who gave it up now would leave the source without a
                // reflector.
                if trial.is_handed_over.load(Ordering::Relaxed) {
                    obtain.await
                } else {
                    Err(ListEnd::Failed(ApiError::TooSlow(RECONFIGURE_HOLD_MAX)))
                }
            }
        };
        if obtained.is_err() {
            // The loop is gone, or learns of it.
            let _ = trial.control.send(Control::Release(generation));
        }
        obtained
    }

    /// Whether the request is answered: asks for one object.
    async fn probe(&self) -> Result<(), ApiError> {
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
