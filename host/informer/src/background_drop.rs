//! Frees large values on a task of their own, so that no loop waits for it.
//!
//! Freeing the store of a large source takes tens of milliseconds. What a single batch replaces is freed in place:
//! waking a task costs more than freeing a few hundred objects.

use std::any::Any;

use informant_cache::Environment;
use tokio::sync::mpsc;

/// Sends values to a task that drops them. Cheap to clone; the task ends with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct BackgroundDropper(mpsc::UnboundedSender<Box<dyn Any + Send>>);

impl BackgroundDropper {
    /// Spawns the task.
    pub(crate) fn new(environment: &dyn Environment) -> Self {
        let (sender, mut receiver) = mpsc::unbounded_channel::<Box<dyn Any + Send>>();
        environment.spawn(
            "background-drop",
            Box::pin(async move {
                while let Some(garbage) = receiver.recv().await {
                    drop(garbage);
                    tokio::task::yield_now().await;
                }
            }),
        );
        Self(sender)
    }

    /// Drops `garbage` on the background task.
    pub(crate) fn drop_later(&self, garbage: impl Any + Send) {
        // A runtime that shuts down accepts nothing more; then it is dropped here.
        drop(self.0.send(Box::new(garbage)));
    }
}
