//! Tasks without which a replica can neither act nor stand by.
//!
//! If one of them panicked and the process continued, it could renew a Lease forever while no plugin acts. A process
//! that ends is restarted, and another replica acts meanwhile.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;

/// Runs `task` to its end. If it panics, the process ends at once; the panic's message is in its standard error.
pub(crate) async fn vital(name: &'static str, task: impl Future<Output = ()>) {
    let Err(panic) = AssertUnwindSafe(task).catch_unwind().await else {
        return;
    };
    if !is_of_shutdown(&*panic) {
        tracing::error!(task = name, "a task of the replica has panicked; the process ends");
        std::process::abort();
    }
}

/// Whether the task slept while its runtime was dropped: tokio panics then, at the end of the process.
fn is_of_shutdown(panic: &(dyn Any + Send)) -> bool {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.is_some_and(|text| text.contains("is being shutdown"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::vital;

    const PANICS: &str = "INFORMANT_TEST_VITAL_TASK_PANICS";

    #[test]
    fn task_that_sleeps_when_its_runtime_ends_is_no_panic() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.spawn(vital("test", async {
            loop {
                tokio::time::sleep(std::time::Duration::from_micros(10)).await;
            }
        }));
        drop(runtime);
    }

    #[tokio::test]
    async fn panic_of_a_vital_task_ends_the_process() {
        if std::env::var_os(PANICS).is_some() {
            return vital("test", async { panic!("asked to") }).await;
        }
        let own = std::env::current_exe().expect("a test has a program");
        let this = "vital_task::tests::panic_of_a_vital_task_ends_the_process";
        let mut again = Command::new(own);
        let output = again.args([this, "--exact", "--nocapture"]).env(PANICS, "1").output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), None, "it ends by a signal");
        assert!(String::from_utf8_lossy(&output.stderr).contains("asked to"));
    }
}
