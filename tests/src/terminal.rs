//! A program in a pseudo terminal, as a person starts it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use tokio::process::{Child, Command};

use crate::wait;

/// The deadline of every wait.
const WITHIN: Duration = Duration::from_secs(60);

/// The size that the program sees.
const SIZE: Winsize = Winsize {
    ws_row: 24,
    ws_col: 80,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// A running program whose stdin, stdout and stderr are a terminal. Killed when dropped.
pub struct Terminal {
    /// The side of the person.
    person: File,
    /// The side of the program.
    program: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
    child: Child,
}

impl Terminal {
    /// Starts `program`.
    ///
    /// # Errors
    /// If there is no pseudo terminal, or the program cannot be started.
    pub fn start(program: &Path, args: &[&str]) -> Result<Self> {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).context("no pseudo terminal")?;
        grantpt(&person)?;
        unlockpt(&person)?;
        let name = ptsname(&person, Vec::new())?;
        let side = rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
        tcsetwinsize(&side, SIZE)?;
        let stdio = || Ok::<_, std::io::Error>(Stdio::from(side.try_clone()?));
        let mut command = Command::new(program);
        command.args(args).stdin(stdio()?).stdout(stdio()?).stderr(stdio()?);
        command
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .kill_on_drop(true);
        let child = command.spawn().context("the program cannot be started")?;
        let person = File::from(person);
        let written: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (mut reader, collected) = (person.try_clone()?, Arc::clone(&written));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
                collected.extend_from_slice(&bytes[..count]);
            }
        });
        Ok(Self {
            person,
            program: side,
            written,
            child,
        })
    }

    /// Types keys.
    ///
    /// # Errors
    /// If the terminal does not take them.
    pub fn press(&mut self, keys: &str) -> Result<()> {
        Ok(self.person.write_all(keys.as_bytes())?)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If the program has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(kill_process(id.context("the program has ended")?, signal)?)
    }

    /// All that the program has written, with its control sequences.
    pub fn written(&self) -> String {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).into_owned()
    }

    /// Waits until the program has written `text`. Meanwhile `keys` are typed again and again.
    ///
    /// # Errors
    /// If it does not in time, with all that it has written.
    pub async fn wait_for(&mut self, text: &str, keys: &str) -> Result<()> {
        wait::until(text, WITHIN, async || {
            self.press(keys).map_err(|error| error.to_string())?;
            let written = self.written();
            if written.contains(text) {
                Ok(())
            } else {
                Err(format!("{written:?}"))
            }
        })
        .await
    }

    /// Waits until the program has ended.
    ///
    /// # Errors
    /// If it does not in time.
    pub async fn wait_for_end(&mut self) -> Result<ExitStatus> {
        let ended = tokio::time::timeout(WITHIN, self.child.wait()).await;
        Ok(ended.context("the program did not end in time")??)
    }

    /// Echo, line discipline, and all other settings of the terminal.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn settings(&self) -> Result<String> {
        Ok(format!("{:?}", tcgetattr(&self.program)?))
    }

    /// Checks that the program has left the terminal as it was, with the settings of `before`: no alternate screen, a
    /// cursor.
    ///
    /// # Errors
    /// If it has not.
    pub async fn ensure_left_as_it_was(&self, before: &str) -> Result<()> {
        ensure!(
            self.settings()? == before,
            "settings: {} instead of {before}",
            self.settings()?
        );
        // What was written last may not have been read yet.
        for (on, off) in [("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?25l", "\x1b[?25h")] {
            wait::until("the screen to be left", WITHIN, async || {
                let written = self.written();
                let is_left = written.contains(on) && written.rfind(off) > written.rfind(on);
                if is_left { Ok(()) } else { Err(format!("{written:?}")) }
            })
            .await?;
        }
        Ok(())
    }
}
