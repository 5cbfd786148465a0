//! Blocking calls that a file system may never answer, such as a network file system whose server is gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// What calls are in progress for, each with its permit.
static TURNS: Mutex<BTreeMap<PathBuf, Weak<Semaphore>>> = Mutex::new(BTreeMap::new());

/// Runs `work` on a blocking thread once no other call for `subject` runs, so that a subject that hangs takes one
/// thread, however often it is tried. May be dropped at any point; a call that has begun continues, and the next one
/// for its subject waits for it. The caller sets the deadline.
///
/// # Errors
/// When the runtime ends, or `work` panics.
pub(crate) async fn one_at_a_time<T: Send + 'static>(
    subject: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    // It is never closed.
    let permit = turn(subject).acquire_owned().await.ok();
    let run = move || {
        let _permit = permit;
        work()
    };
    tokio::task::spawn_blocking(run).await
}

/// What a call for `subject` needs a permit of.
pub(crate) fn turn(subject: &Path) -> Arc<Semaphore> {
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(turn) = turns.get(subject).and_then(Weak::upgrade) {
        return turn;
    }
    turns.retain(|_, turn| turn.strong_count() > 0);
    let turn = Arc::new(Semaphore::new(1));
    turns.insert(subject.to_owned(), Arc::downgrade(&turn));
    turn
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn hanging_call_takes_one_thread_however_often_tried() {
        let (release, hangs) = mpsc::channel::<()>();
        let (started, starts) = mpsc::channel::<()>();
        let short = Duration::from_millis(20);
        let hung = one_at_a_time(Path::new("hangs"), move || hangs.recv());
        assert!(tokio::time::timeout(short, hung).await.is_err());
        for _ in 0..3 {
            let started = started.clone();
            let next = one_at_a_time(Path::new("hangs"), move || started.send(()));
            assert!(tokio::time::timeout(short, next).await.is_err());
        }
        assert_eq!(one_at_a_time(Path::new("other"), || 1).await.unwrap(), 1);
        release.send(()).unwrap();
        assert_eq!(one_at_a_time(Path::new("hangs"), || 2).await.unwrap(), 2);
        assert!(starts.try_recv().is_err(), "a call that was given up ran");
    }
}
