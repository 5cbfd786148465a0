//! The signals of the process.
//!
//! `informant run` handles them on a thread of its own, which shares nothing with the daemon's runtimes: neither a
//! login nor a disk that hangs can keep a signal from being handled. The same thread ends a process whose stop hangs.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::activities::Activities;
use crate::cluster::end_login_programs;
use crate::daemon::{STOP_MAX, or_never};
use crate::exit::Exit;

/// How long after [`STOP_MAX`] a stop may still finish by itself. Then the process ends.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// How long the last log line of a process may take: standard error may be a pipe without a reader.
const LAST_LINE_MAX: Duration = Duration::from_millis(200);

/// A signal that asks the process to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// Sent by the kubelet.
    Terminate,
}

impl Signal {
    /// The exit code that a shell reports for a process killed by the signal: 128 plus the signal's number.
    #[must_use]
    pub(crate) fn exit_code(self) -> i32 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        })
    }
}

/// A stream of the signals that ask to stop.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl StopSignals {
    /// Installs the handlers: from now on these signals no longer kill the process.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Interrupt,
        }
    }
}

/// The thread that handles the signals of `informant run`.
///
/// | signal | effect |
/// |---|---|
/// | SIGINT, SIGTERM, before the daemon runs | ends the process with [`Exit::Done`]: there is nothing to deliver |
/// | the first SIGINT or SIGTERM after that | an orderly stop; if it hangs, the process ends with [`Exit::Hung`] |
/// | the second | ends the process |
/// | SIGHUP | reads the configuration, plugin files and credentials again |
/// | SIGUSR1, SIGUSR2 | none |
#[derive(Debug)]
pub(crate) struct SignalThread {
    stop: watch::Receiver<Option<Signal>>,
    reload: watch::Receiver<u64>,
    runs: Arc<AtomicBool>,
}

/// The thread's side.
struct Handlers {
    stop_signals: StopSignals,
    hangup: tokio::signal::unix::Signal,
    user_defined_1: tokio::signal::unix::Signal,
    user_defined_2: tokio::signal::unix::Signal,
    stop: watch::Sender<Option<Signal>>,
    reload: watch::Sender<u64>,
    runs: Arc<AtomicBool>,
    activities: Activities,
}

impl SignalThread {
    /// Installs the handlers and starts the thread. `activities` name what hangs.
    pub(crate) fn start(activities: Activities) -> io::Result<Self> {
        let (stop, stop_requested) = watch::channel(None);
        let (reload, reload_requested) = watch::channel(0);
        let runs = Arc::new(AtomicBool::new(false));
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handlers = {
            let _entered = runtime.enter();
            Handlers {
                stop_signals: StopSignals::listen()?,
                hangup: signal(SignalKind::hangup())?,
                user_defined_1: signal(SignalKind::user_defined1())?,
                user_defined_2: signal(SignalKind::user_defined2())?,
                stop,
                reload,
                runs: Arc::clone(&runs),
                activities,
            }
        };
        let thread = std::thread::Builder::new().name("signals".to_owned());
        thread.spawn(move || handlers.run(&runtime))?;
        Ok(Self {
            stop: stop_requested,
            reload: reload_requested,
            runs,
        })
    }

    /// From now on a signal leads to an orderly stop.
    pub(crate) fn daemon_runs(&self) {
        self.runs.store(true, Ordering::SeqCst);
    }

    /// Changes with each request to reload.
    pub(crate) fn reloads(&self) -> watch::Receiver<u64> {
        self.reload.clone()
    }

    /// Waits for the request to stop.
    pub(crate) async fn stop_requested(&mut self) -> Signal {
        let signal = self
            .stop
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|signal| *signal);
        // The thread lives as long as the process.
        signal.unwrap_or(Signal::Terminate)
    }
}

impl Handlers {
    fn run(mut self, runtime: &Runtime) {
        runtime.block_on(async {
            let mut deadline = None;
            loop {
                tokio::select! {
                    biased;
                    signal = self.stop_signals.next() => {
                        if deadline.is_some() {
                            // As shells expect after a signal.
                            exit(signal.exit_code(), move || {
                                tracing::warn!(%signal, "ended immediately; accepted events may be undelivered");
                            });
                        }
                        if !self.runs.load(Ordering::SeqCst) {
                            // Nothing was accepted that could be delivered.
                            exit(Exit::Done.code().into(), move || {
                                tracing::info!(%signal, "stopped before the start was complete");
                            });
                        }
                        deadline = Some(Instant::now() + STOP_MAX + STOP_GRACE);
                        self.stop.send_replace(Some(signal));
                    }
                    () = or_never(deadline.map(tokio::time::sleep_until)) => exit_hung(&self.activities),
                    _ = self.hangup.recv() => self.reload.send_modify(|number| *number += 1),
                    _ = self.user_defined_1.recv() => tracing::debug!(signal = "SIGUSR1", "signal ignored"),
                    _ = self.user_defined_2.recv() => tracing::debug!(signal = "SIGUSR2", "signal ignored"),
                }
            }
        });
    }
}

/// Ends the process because the stop hangs.
fn exit_hung(activities: &Activities) -> ! {
    let hung = activities.describe();
    exit(Exit::Hung.code().into(), move || {
        let after_seconds = (STOP_MAX + STOP_GRACE).as_secs();
        tracing::error!(
            after_seconds,
            hung,
            "ended because the stop hangs; accepted events may be undelivered"
        );
    })
}

/// Ends the process, whatever its other threads do. Standard error may hang, too, so the log line does not hold it up.
fn exit(code: i32, log: impl FnOnce() + Send + 'static) -> ! {
    end_login_programs();
    let (done, logged) = mpsc::channel();
    let line = std::thread::Builder::new().spawn(move || {
        log();
        let _ = done.send(());
    });
    if line.is_ok() {
        let _ = logged.recv_timeout(LAST_LINE_MAX);
    }
    std::process::exit(code)
}
