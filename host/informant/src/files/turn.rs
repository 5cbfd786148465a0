//! [`Turn`]: blocking calls that a file system may never answer, one at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinError;

use crate::sync::lock;

/// Threads that wait for a file system at a time: 256, half of the threads that a runtime has for blocking calls. With
/// more, files count as unreadable until one of them ends.
pub(crate) const FILE_THREADS_MAX: usize = 256;

/// How long a file may take to be read: 10 s. After that it counts as unreadable, and is read again at the next check.
pub(crate) const FILE_READ_MAX: Duration = Duration::from_secs(10);

static THREADS: Semaphore = Semaphore::const_new(FILE_THREADS_MAX);

/// The turns that are in use, by their files.
static TURNS: Mutex<BTreeMap<PathBuf, Weak<Semaphore>>> = Mutex::new(BTreeMap::new());

/// Blocking calls for one file, one at a time. Clones are the same turn.
#[derive(Clone, Debug)]
pub(crate) struct Turn(Arc<Semaphore>);

/// The file system did not answer in time. The call continues, and its result is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer;

impl Turn {
    /// A turn of its own.
    pub(crate) fn new() -> Turn {
        Turn(Arc::new(Semaphore::new(1)))
    }

    /// That of `file`, which may also be another name of what is waited for.
    pub(crate) fn of(file: &Path) -> Turn {
        let mut turns = lock(&TURNS);
        if let Some(turn) = turns.get(file).and_then(Weak::upgrade) {
            return Turn(turn);
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Turn::new();
        turns.insert(file.to_owned(), Arc::downgrade(&turn.0));
        turn
    }

    /// Runs `work` on a blocking thread once the call before has returned. May be dropped at any point: a call that has
    /// begun continues, and the next one waits for it. The caller sets the deadline.
    /// Errors: when the runtime ends, or `work` panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // Neither is ever closed.
        let turn = Arc::clone(&self.0).acquire_owned().await.ok();
        let thread = THREADS.acquire().await.ok();
        let run = move || {
            let _until_it_returns = (turn, thread);
            work()
        };
        tokio::task::spawn_blocking(run).await
    }

    /// As [`run`](Self::run), for at most this time, which includes waiting for the call before.
    /// Errors: [`NoAnswer`], also when the runtime ends or `work` panics.
    pub(crate) async fn run_within<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        match tokio::time::timeout(within, self.run(work)).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) | Err(_) => Err(NoAnswer),
        }
    }

    /// Keeps the next call waiting, as one that hangs does.
    #[cfg(test)]
    pub(crate) async fn hold(&self) -> tokio::sync::OwnedSemaphorePermit {
        Arc::clone(&self.0).acquire_owned().await.unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn hanging_call_takes_one_thread_however_often_tried() {
        let file = Path::new("hangs");
        let (release, hangs) = mpsc::channel::<()>();
        let hung = Turn::of(file).run_within(SHORT, move || hangs.recv().is_ok()).await;
        assert_eq!(hung, Err(NoAnswer));
        let (started, starts) = mpsc::channel::<()>();
        for _ in 0..3 {
            let started = started.clone();
            let next = Turn::of(file).run_within(SHORT, move || started.send(())).await;
            assert_eq!(next.err(), Some(NoAnswer));
        }
        assert_eq!(Turn::of(Path::new("other")).run(|| 1).await.unwrap(), 1);
        assert_eq!(Turn::new().run(|| 2).await.unwrap(), 2);
        release.send(()).unwrap();
        assert_eq!(Turn::of(file).run(|| 3).await.unwrap(), 3);
        assert!(starts.try_recv().is_err(), "a call that was given up ran");
    }
}
