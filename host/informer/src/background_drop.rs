//! Where large things are freed: on a task of their own, so that no loop waits for it.
//!
//! Freeing the store of a large source takes tens of milliseconds. What one batch replaces is no business of this bin:
//! waking a task costs more than freeing a few hundred objects.

use std::any::Any;

use informant_cache::Environment;
use tokio::sync::mpsc;

/// Takes what is to be freed. Cheap to clone; the task behind it ends with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct BackgroundDropper(mpsc::UnboundedSender<Box<dyn Any + Send>>);

impl BackgroundDropper {
    /// A bin with its own task.
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

    /// Has `garbage` freed elsewhere.
    pub(crate) fn drop_later(&self, garbage: impl Any + Send) {
        // A runtime that shuts down takes no more; then it is freed here after all.
        drop(self.0.send(Box::new(garbage)));
    }
}
