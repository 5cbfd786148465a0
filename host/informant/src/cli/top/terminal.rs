//! The terminal while `informant top` has it, and how it is left.

use std::io::{self, Stdout, Write as _};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::Show;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Position, Rect};

/// Whether this process has changed the terminal. There is one terminal.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal in raw mode, with its alternate screen. When it is dropped, and before the message of a panic, it is
/// as it was.
pub(super) struct Screen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Errors: stdin or stdout is not a terminal that can do this. It is as it was.
    pub(super) fn take() -> io::Result<Screen> {
        restore_before_panics();
        let taken = take();
        taken.inspect_err(|_| restore())
    }

    /// The next drawing writes all of the screen. `Terminal::clear` would ask the terminal where its cursor is, and the
    /// answer would be read as keys.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn take() -> io::Result<Screen> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen)?;
    let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    Ok(Screen { terminal })
}

/// Once: some terminals move the cursor when they leave the alternate screen a second time.
fn restore() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // A failure cannot be reported: the terminal is gone. Each step is tried.
    let _ = disable_raw_mode();
    let mut out = io::stdout();
    let _ = queue!(out, LeaveAlternateScreen, Show);
    let _ = out.flush();
}

fn restore_before_panics() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
}
