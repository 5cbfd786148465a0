//! What a README shows: its blocks of code, as a reader copies them.

use std::path::Path;

use anyhow::{Context, Result};

use crate::guests;

/// The text of the README in `folder`, which is relative to the root of the repository.
///
/// # Errors
/// If there is none.
pub fn of(folder: &str) -> Result<String> {
    let path = guests::workspace_folder().join(folder).join("README.md");
    std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// The section of `text` under `heading`, a line such as `## Quick start`.
///
/// # Errors
/// If there is none.
pub fn section<'a>(text: &'a str, heading: &str) -> Result<&'a str> {
    let (_, rest) = text
        .split_once(&format!("\n{heading}\n"))
        .with_context(|| format!("the README has no section {heading:?}"))?;
    Ok(rest.split_once("\n## ").map_or(rest, |(section, _)| section))
}

/// The contents of the blocks of `text` in `language`, whatever follows its name.
pub fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}");
    let blocks = text.split(&fence).skip(1);
    blocks
        .filter(|rest| rest.starts_with(['\n', ' ']))
        .filter_map(|rest| rest.split_once('\n')?.1.split_once("```"))
        .map(|(block, _)| block.to_owned())
        .collect()
}

/// The first block of `text` in `language`.
///
/// # Errors
/// If there is none.
pub fn first_block(text: &str, language: &str) -> Result<String> {
    let first = blocks(text, language).into_iter().next();
    first.with_context(|| format!("the README has no block of {language}"))
}

/// Copies the script of the example in `plugins/NAME` into `folder`. Returns the configuration in its README.
///
/// # Errors
/// If the example has no script or no configuration.
pub fn install_example(name: &str, folder: &Path) -> Result<String> {
    let script = format!("{}.js", name.replace('-', "_"));
    let from = guests::workspace_folder().join("plugins").join(name).join(&script);
    std::fs::copy(&from, folder.join(&script)).with_context(|| format!("copying {}", from.display()))?;
    first_block(&of(&format!("plugins/{name}"))?, "toml")
}
