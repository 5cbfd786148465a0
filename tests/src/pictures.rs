//! The pictures in `docs/images` that tests draw. A test fails when its picture is old, and `cargo xtask pictures`
//! replaces it.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::guests;

/// Set by `cargo xtask pictures`: a test replaces its picture instead of comparing it.
const REPLACE: &str = "INFORMANT_TESTS_REPLACE_PICTURES";

/// The colors of both themes, as the drawings made by hand have them.
const STYLE: &str = "    \
    .panel { fill: #ffffff; stroke: #d0d7de }
    .line { stroke: #d0d7de }
    text { fill: #1f2328; font: 13px sans-serif }
    .title { font-weight: bold }
    .note { fill: #57606a }
    .accent { fill: #0969da }
    .other { fill: #8250df }
    .good { fill: #1a7f37 }
    @media (prefers-color-scheme: dark) {
      .panel { fill: #0d1117; stroke: #30363d }
      .line { stroke: #30363d }
      text { fill: #e6edf3 }
      .note { fill: #9da7b3 }
      .accent { fill: #58a6ff }
      .other { fill: #a371f7 }
      .good { fill: #3fb950 }
    }
";

/// The file of a picture or of what belongs to it.
pub fn file(name: &str) -> PathBuf {
    guests::workspace_folder().join("docs").join("images").join(name)
}

/// Whether pictures are replaced.
pub fn are_replaced() -> bool {
    std::env::var_os(REPLACE).is_some()
}

/// Checks that a picture made of text is what was just drawn, or replaces it.
///
/// # Errors
/// If `is_same` says no about the picture that is there and the new one.
pub fn check(name: &str, drawn: &str, is_same: impl Fn(&str, &str) -> bool) -> Result<()> {
    let file = file(name);
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    if is_same(&there, drawn) {
        return Ok(());
    }
    if are_replaced() {
        return std::fs::write(&file, drawn).with_context(|| format!("writing {}", file.display()));
    }
    let new = guests::target_folder().join(name);
    std::fs::write(&new, drawn).with_context(|| format!("writing {}", new.display()))?;
    ensure!(
        false,
        "docs/images/{name} is old: compare it with {}, and run `cargo xtask pictures`",
        new.display()
    );
    Ok(())
}

/// An SVG file with its own background, whose text people can read who do not see it.
pub struct Drawing {
    title: String,
    width: u32,
    style: String,
    elements: String,
}

impl Drawing {
    /// `style` is added to the colors.
    pub fn new(title: &str, width: u32, style: &str) -> Self {
        Self {
            title: title.to_owned(),
            width,
            style: style.to_owned(),
            elements: String::new(),
        }
    }

    /// Adds a line of text that begins at `x`; `attributes` are those of SVG.
    pub fn text(&mut self, x: f64, y: f64, attributes: &str, text: &str) {
        let text = escaped(text);
        let space = if attributes.is_empty() { "" } else { " " };
        let _ = writeln!(
            self.elements,
            "  <text{space}{attributes} x=\"{x}\" y=\"{y}\">{text}</text>"
        );
    }

    /// Adds an element without text.
    pub fn element(&mut self, element: &str) {
        let _ = writeln!(self.elements, "  {element}");
    }

    /// The file.
    pub fn finish(self, height: f64) -> String {
        let Self {
            width, style, elements, ..
        } = &self;
        let title = escaped(&self.title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\">\n  <title>{title}</title>\n  <style>\n{STYLE}{style}  </style>\n  \
             <rect class=\"panel\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n{elements}</svg>\n",
            width - 1,
            height - 1.0,
        )
    }
}

/// Text as XML has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
