//! The commands that the documentation shows: its `console` blocks, which a test runs.
//!
//! ```text
//! ```console                 run: each line that begins with `$ `, in order, in one shell for the page
//! ```console norun=cluster   not run, for this reason
//! ```
//!
//! The other lines of a block are output.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::guests::workspace_folder;

/// The folders and files with documentation for users, relative to the root of the repository.
const PAGES: [&str; 3] = ["README.md", "docs", "plugins"];

/// Why a block is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotRun {
    /// It builds programs; other tests build them.
    Build,
    /// It needs nodes, a registry, or another part of a real cluster.
    Cluster,
    /// Another test runs it.
    Elsewhere,
    /// It runs until it is stopped, or waits for a person.
    Interactive,
    /// It contains something to replace, such as a name or a digest.
    Placeholder,
}

/// A `console` block.
#[derive(Debug, Clone)]
pub struct Block {
    /// Its commands, with the line of each.
    pub commands: Vec<(usize, String)>,
    /// None: it is run.
    pub not_run: Option<NotRun>,
}

/// A page and its blocks.
#[derive(Debug, Clone)]
pub struct Page {
    /// Relative to the root of the repository.
    pub path: PathBuf,
    /// In order.
    pub blocks: Vec<Block>,
}

impl fmt::Display for NotRun {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Build => "build",
            Self::Cluster => "cluster",
            Self::Elsewhere => "elsewhere",
            Self::Interactive => "interactive",
            Self::Placeholder => "placeholder",
        })
    }
}

impl NotRun {
    const ALL: [Self; 5] = [
        Self::Build,
        Self::Cluster,
        Self::Elsewhere,
        Self::Interactive,
        Self::Placeholder,
    ];

    fn parse(reason: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|known| known.to_string() == reason);
        found.with_context(|| format!("norun={reason}: unknown reason; use one of {}", known_reasons()))
    }
}

fn known_reasons() -> String {
    NotRun::ALL.map(|reason| reason.to_string()).join(", ")
}

impl Page {
    /// Whether any of its blocks is run.
    #[must_use]
    pub fn is_run(&self) -> bool {
        self.blocks.iter().any(|block| block.not_run.is_none())
    }

    /// Its commands that are run, with the line of each.
    pub fn commands(&self) -> impl Iterator<Item = &(usize, String)> {
        let run = self.blocks.iter().filter(|block| block.not_run.is_none());
        run.flat_map(|block| &block.commands)
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let mut blocks = Vec::new();
        let mut lines = (1..).zip(text.lines());
        while let Some((at, line)) = lines.next() {
            let Some(info) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            // The rest of any block, so that its end is not taken for the beginning of one.
            let inside: Vec<(usize, &str)> = lines
                .by_ref()
                .take_while(|(_, line)| !line.trim_start().starts_with("```"))
                .collect();
            let place = || format!("{}:{at}", path.display());
            let mut words = info.split_whitespace();
            match words.next() {
                Some("console") => {}
                Some("sh" | "bash" | "shell") => {
                    anyhow::bail!("{}: write commands as `console`, each after `$ `", place());
                }
                _ => continue,
            }
            let not_run = match words.next() {
                None => None,
                Some(word) => {
                    let reason = word.strip_prefix("norun=");
                    let reason = reason.with_context(|| format!("{}: {word:?} is not norun=REASON", place()))?;
                    Some(NotRun::parse(reason).with_context(place)?)
                }
            };
            let commands = commands(&inside);
            ensure!(!commands.is_empty(), "{}: no line begins with `$ `", place());
            blocks.push(Block { commands, not_run });
        }
        Ok(Self {
            path: path.to_owned(),
            blocks,
        })
    }
}

/// The commands of a block. A line that ends with a backslash continues on the next.
fn commands(lines: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut commands: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (at, line) in lines {
        match line.trim_start().strip_prefix("$ ") {
            Some(command) => commands.push((*at, command.to_owned())),
            None if continues => {
                if let Some((_, last)) = commands.last_mut() {
                    *last += "\n";
                    *last += line;
                }
            }
            None => continue,
        }
        continues = line.ends_with('\\');
    }
    commands
}

/// Every page with `console` blocks, in the order of their paths.
///
/// # Errors
/// If a page cannot be read, or marks its blocks in another way.
pub fn pages() -> Result<Vec<Page>> {
    let root = workspace_folder();
    let mut files = Vec::new();
    for page in PAGES {
        collect(&root.join(page), &mut files)?;
    }
    files.sort();
    let parsed = files.iter().map(|file| {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Page::parse(file.strip_prefix(&root).unwrap_or(file), &text)
    });
    let pages: Vec<Page> = parsed.collect::<Result<_>>()?;
    Ok(pages.into_iter().filter(|page| !page.blocks.is_empty()).collect())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        files.extend((path.extension().is_some_and(|extension| extension == "md")).then(|| path.to_owned()));
        return Ok(());
    }
    for entry in std::fs::read_dir(path).with_context(|| format!("reading {}", path.display()))? {
        let entry = entry?.path();
        // What npm installed next to an example is not ours.
        if entry
            .file_name()
            .is_some_and(|name| name != "node_modules" && name != "target")
        {
            collect(&entry, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Page> {
        Page::parse(Path::new("page.md"), text)
    }

    #[test]
    fn output_is_no_command_and_lines_continue() {
        let page = parse("# A\n\n```console\n$ kubectl get pods \\\n    -o name\npod/web-0\n$ true\n```\n").unwrap();
        let commands: Vec<_> = page.commands().cloned().collect();
        let first = "kubectl get pods \\\n    -o name".to_owned();
        assert_eq!(commands, [(4, first), (7, "true".to_owned())]);
    }

    #[test]
    fn blocks_with_a_reason_are_not_run() {
        let page = parse("```console norun=cluster\n$ kubectl get nodes\n```\n").unwrap();
        assert_eq!(page.blocks[0].not_run, Some(NotRun::Cluster));
        assert!(!page.is_run());
    }

    #[test]
    fn unknown_reasons_and_plain_shell_blocks_are_errors() {
        let error = |text: &str| format!("{:#}", parse(text).unwrap_err());
        insta::assert_snapshot!(error("```console norun=lazy\n$ true\n```\n"), @"page.md:1: norun=lazy: unknown reason; use one of build, cluster, elsewhere, interactive, placeholder");
        insta::assert_snapshot!(error("\n```sh\ntrue\n```\n"), @"page.md:2: write commands as `console`, each after `$ `");
        insta::assert_snapshot!(error("```console\ntrue\n```\n"), @"page.md:1: no line begins with `$ `");
    }
}
