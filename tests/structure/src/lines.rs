//! How many lines of Rust the host consists of, without tests.
//!
//! Counted are the files below `host/*/src` with their comments and empty lines. Not counted are modules under
//! `#[cfg(test)]`, in files of their own or not, and the folders `tests/` and `examples/`.

use std::fmt::Write as _;

use crate::sources::Crate;

/// A crate that is for Rust programs only: the daemon does not contain it.
const LIBRARY: &str = "host/client-go";

/// The lines of each crate and their sum, also without `host/client-go`, as a table.
pub fn table(crates: &[Crate]) -> String {
    let mut text = String::new();
    let mut sum = 0;
    let mut library = 0;
    for one in crates {
        let lines = of(one);
        row(&mut text, &one.folder, lines);
        sum += lines;
        library += if one.folder == LIBRARY { lines } else { 0 };
    }
    row(&mut text, "all", sum);
    row(&mut text, &format!("without {LIBRARY}"), sum - library);
    text
}

/// The lines of one crate.
pub fn of(one: &Crate) -> usize {
    one.files.iter().map(|file| file.lines).sum()
}

fn row(text: &mut String, name: &str, lines: usize) {
    let _ = writeln!(text, "{name:<24} {lines:>7}");
}
