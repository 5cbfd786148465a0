//! One script of a file in TypeScript or JavaScript and everything that it imports, by esbuild.

use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::tool::ToolUnusable;
use crate::status_line;

const ESBUILD: &str = "esbuild";

/// The condition, and the field of package.json, of packages for browsers.
const BROWSER: &str = "browser";

/// Its arguments. The script runner provides the module `informant` and implements ECMAScript 2023.
const ARGUMENTS: [&str; 8] = [
    "--bundle",
    "--format=esm",
    "--target=es2023",
    "--platform=neutral",
    "--charset=utf8",
    "--external:informant",
    "--define:process.env.NODE_ENV=\"production\"",
    "--log-level=warning",
];

/// What its advice contains that does not apply to scripts.
const HINTS_LEFT_OUT: [&str; 2] = ["--platform=node", "as external to exclude it"];

/// One script of `file` and everything that it imports but `informant`, with the exports that packages offer under
/// these conditions. Passes on the messages of esbuild.
///
/// # Errors
/// If esbuild is not installed, or cannot bundle the file.
pub(super) fn bundle(file: &Path, conditions: &[String]) -> Result<Vec<u8>> {
    ensure!(file.is_file(), "{} is not a file", file.display());
    let program = esbuild_for(file).unwrap_or_else(|| PathBuf::from(ESBUILD));
    let mut command = Command::new(&program);
    command.arg(file).args(ARGUMENTS).args(selection(conditions));
    status_line::step(&format!("esbuild bundles {}", file.display()));
    let bundled = match command.output() {
        Ok(bundled) => bundled,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(ToolUnusable(format!(
            "esbuild is not installed, which bundles TypeScript and packages: run `npm install --save-dev esbuild` in \
             the folder of {}, or put esbuild into PATH",
            file.display()
        ))),
        Err(error) => return Err(error).with_context(|| format!("cannot run {}", program.display())),
    };
    let messages = applicable(&String::from_utf8_lossy(&bundled.stderr));
    // The result matters more than the messages.
    let _ = io::stderr().write_all(messages.as_bytes());
    ensure!(
        bundled.status.success(),
        "esbuild cannot bundle {}; its messages are above (`npm install PACKAGE` adds a missing package; there are no \
         modules of Node.js; --conditions browser selects what a package has for browsers)",
        file.display()
    );
    Ok(bundled.stdout)
}

/// What esbuild takes of a package that has several variants.
fn selection(conditions: &[String]) -> Vec<String> {
    let fields = match conditions.iter().any(|condition| condition == BROWSER) {
        true => "browser,module,main",
        false => "module,main",
    };
    let mut arguments = vec![format!("--main-fields={fields}")];
    if !conditions.is_empty() {
        arguments.push(format!("--conditions={}", conditions.join(",")));
    }
    arguments
}

/// The messages of esbuild without its advice to build for Node.js or to leave an import in the bundle: a script can
/// do neither.
fn applicable(messages: &str) -> String {
    let is_advice = |paragraph: &&str| HINTS_LEFT_OUT.iter().any(|hint| paragraph.contains(hint));
    let kept: Vec<&str> = messages
        .split("\n\n")
        .filter(|paragraph| !is_advice(paragraph))
        .collect();
    let mut text = kept.join("\n\n");
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// The esbuild in the nearest `node_modules` of the file's folder or of one above it.
fn esbuild_for(file: &Path) -> Option<PathBuf> {
    let file = file.canonicalize().ok()?;
    let mut folders = file.ancestors().skip(1);
    folders.find_map(|folder| {
        let program = folder.join("node_modules").join(".bin").join(ESBUILD);
        program.is_file().then_some(program)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_select_the_variant_of_a_package() {
        assert_eq!(selection(&[]), ["--main-fields=module,main"]);
        let both = ["browser".to_owned(), "worker".to_owned()];
        assert_eq!(
            selection(&both),
            ["--main-fields=browser,module,main", "--conditions=browser,worker"]
        );
        assert_eq!(
            selection(&both[1..]),
            ["--main-fields=module,main", "--conditions=worker"]
        );
    }
}
