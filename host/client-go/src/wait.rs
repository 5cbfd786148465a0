//! Waiting until informers or handlers are synced.
//!
//! Source: client-go `WaitForCacheSync`, over informers and over registrations, and the newer `WaitFor`. There callers
//! poll `HasSynced`; nothing here polls, and the error names what is missing.

use std::fmt;
use std::time::Duration;

use informant_cache::{Environment, SourceState};
use informant_informer::{HandlerStatus, Registration, SharedInformer};

/// Which informers were not synced in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct NotSynced {
    /// One per source that is not synced.
    pub sources: Vec<NotSyncedSource>,
}

/// A source that is not synced, and why if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotSyncedSource {
    /// As [`SharedInformer::name`].
    pub name: String,
    /// Its state.
    pub state: SourceState,
    /// Its last error.
    pub last_error: Option<String>,
}

impl fmt::Display for NotSynced {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not synced in time: ")?;
        for (place, source) in self.sources.iter().enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(out, "{separator}{} is {}", source.name, source.state)?;
            if let Some(error) = &source.last_error {
                write!(out, " ({error})")?;
            }
        }
        Ok(())
    }
}

/// Waits until all `informers` are synced, together at most `deadline`.
///
/// # Errors
/// [`NotSynced`], with those that are not. Source: client-go `WaitForCacheSync` and the newer `WaitFor`; without
/// polling.
pub async fn wait_for_cache_sync<'a>(
    environment: &dyn Environment,
    informers: impl IntoIterator<Item = &'a SharedInformer>,
    deadline: Duration,
) -> Result<(), NotSynced> {
    let informers: Vec<_> = informers.into_iter().collect();
    let all_synced = async {
        for informer in &informers {
            // A stopped informer never syncs; it is reported below.
            let _ = informer.synced().await;
        }
    };
    tokio::select! {
        biased;
        () = all_synced => {}
        () = environment.sleep(deadline) => {}
    }
    let late = informers.into_iter().filter(|informer| !informer.has_synced());
    let sources: Vec<_> = late.map(not_synced).collect();
    if sources.is_empty() {
        Ok(())
    } else {
        Err(NotSynced { sources })
    }
}

fn not_synced(informer: &SharedInformer) -> NotSyncedSource {
    let status = informer.status();
    NotSyncedSource {
        name: informer.name().to_owned(),
        state: status.state,
        last_error: status.last_error.map(|(text, _)| text),
    }
}

/// Which handlers were not synced in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct HandlersNotSynced {
    /// One per handler that is not synced.
    pub handlers: Vec<NotSyncedHandler>,
}

/// A handler that is not synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotSyncedHandler {
    /// Its position among the given handlers, from 0.
    pub position: usize,
    /// As [`Registration::informer`].
    pub informer: String,
    /// Its status.
    pub status: HandlerStatus,
}

impl fmt::Display for HandlersNotSynced {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not synced in time: ")?;
        for (
            number,
            NotSyncedHandler {
                position,
                informer,
                status,
            },
        ) in self.handlers.iter().enumerate()
        {
            let separator = if number == 0 { "" } else { "; " };
            let why = match status {
                HandlerStatus { ended: true, .. } => "was removed".to_owned(),
                HandlerStatus { pending: 0, .. } => "is waiting for its first list".to_owned(),
                HandlerStatus { pending, failing, .. } => {
                    format!("has {pending} queued events, {failing} in back-off")
                }
            };
            write!(out, "{separator}handler {position}, of {informer}, {why}")?;
        }
        Ok(())
    }
}

/// Waits until all handlers are synced, together at most `deadline`: their informers are, and each handler was called
/// with every object of the first list.
///
/// # Errors
/// [`HandlersNotSynced`], with those that are not. Source: client-go `WaitForCacheSync` over registrations, and the
/// newer `WaitFor`; without polling.
pub async fn wait_for_handler_sync<'a>(
    environment: &dyn Environment,
    handlers: impl IntoIterator<Item = &'a Registration>,
    deadline: Duration,
) -> Result<(), HandlersNotSynced> {
    let handlers: Vec<Registration> = handlers.into_iter().cloned().collect();
    let all_synced = async {
        for mut handler in handlers.clone() {
            handler.synced().await;
        }
    };
    tokio::select! {
        biased;
        () = all_synced => {}
        () = environment.sleep(deadline) => {}
    }
    let late = handlers.iter().enumerate().filter(|(_, handler)| !handler.has_synced());
    let handlers: Vec<_> = late
        .map(|(position, handler)| NotSyncedHandler {
            position,
            informer: handler.informer().to_owned(),
            status: handler.status(),
        })
        .collect();
    if handlers.is_empty() {
        Ok(())
    } else {
        Err(HandlersNotSynced { handlers })
    }
}
