//! Blocking calls to a file system that may never answer, such as a network file system whose server is gone.
//!
//! Each call has a thread of its own. A runtime's threads, and those of its blocking pool, are shared with others, and
//! a runtime waits for its pool when it ends. A thread whose call does not return stays until it does, so an owner
//! starts no second one before, and all owners together have at most [`FILE_THREADS_MAX`].

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use tokio::sync::{Semaphore, oneshot};

/// Threads that wait for a file system at a time: 256. With more, files count as unreadable until one of them ends.
pub(crate) const FILE_THREADS_MAX: usize = 256;

/// How long a file may take to be read: 10 s. After that it counts as unreadable, and is read again at the next check.
pub(crate) const FILE_READ_MAX: Duration = Duration::from_secs(10);

/// Creates threads for blocking calls. Clones share the limit.
#[derive(Clone)]
pub(crate) struct FileThreads {
    environment: Arc<dyn Environment>,
    permits: Arc<Semaphore>,
}

/// The blocking calls of one owner, one at a time.
pub(crate) struct FileThread {
    threads: FileThreads,
    /// Ends when the last call has returned.
    previous: Option<oneshot::Receiver<()>>,
}

/// The file system did not answer in time. The call continues, and its result is lost.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer;

impl FileThreads {
    pub(crate) fn new(environment: &Arc<dyn Environment>) -> Self {
        Self {
            environment: Arc::clone(environment),
            permits: Arc::new(Semaphore::new(FILE_THREADS_MAX)),
        }
    }

    /// For a new owner.
    pub(crate) fn one(&self) -> FileThread {
        FileThread {
            threads: self.clone(),
            previous: None,
        }
    }
}

impl FileThread {
    /// Runs `work` on a thread. May be dropped at any point.
    ///
    /// # Errors
    /// [`NoAnswer`] after `within`, which includes waiting for the call before.
    pub(crate) async fn run<T: Send + 'static>(
        &mut self,
        within: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let late = self.threads.environment.sleep(within);
        tokio::select! {
            biased;
            result = self.run_unbounded(work) => result,
            () = late => Err(NoAnswer),
        }
    }

    async fn run_unbounded<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        if let Some(previous) = &mut self.previous {
            // It is never sent, only dropped.
            let _ = previous.await;
            self.previous = None;
        }
        let permits = Arc::clone(&self.threads.permits);
        let permit = permits.acquire_owned().await.map_err(|_| NoAnswer)?;
        let (running, ended) = oneshot::channel::<()>();
        let (answer, answered) = oneshot::channel();
        let thread = move || {
            // The receiver may have given up.
            let _ = answer.send(work());
            drop((running, permit));
        };
        let spawned = std::thread::Builder::new()
            .name("informant-file".to_owned())
            .spawn(thread);
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot start a thread to read a file");
            return Err(NoAnswer);
        }
        self.previous = Some(ended);
        answered.await.map_err(|_| NoAnswer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use informant_informer::TokioEnvironment;

    use super::*;

    fn threads() -> FileThreads {
        let environment: Arc<dyn Environment> = Arc::new(TokioEnvironment::current(1));
        FileThreads::new(&environment)
    }

    #[tokio::test]
    async fn call_that_hangs_is_given_up_and_not_repeated() {
        let threads = threads();
        let mut thread = threads.one();
        let (release, hangs) = mpsc::channel::<()>();
        let short = Duration::from_millis(20);
        let hung = thread.run(short, move || hangs.recv().is_ok()).await;
        assert_eq!(hung, Err(NoAnswer));
        let (started, starts) = mpsc::channel::<()>();
        let second = thread.run(short, move || started.send(())).await;
        assert_eq!(second.err(), Some(NoAnswer));
        assert!(starts.try_recv().is_err(), "a second thread was started");
        assert_eq!(threads.permits.available_permits(), FILE_THREADS_MAX - 1);
        // Another owner is not affected, and neither is this one after the call has returned.
        assert_eq!(threads.one().run(FILE_READ_MAX, || 1).await, Ok(1));
        release.send(()).unwrap();
        assert_eq!(thread.run(FILE_READ_MAX, || 2).await, Ok(2));
    }
}
