//! `informant plugin build`: one file of a script and what it imports.
//!
//! ```text
//! handler.ts ──esbuild──▶ one script ──▶ checked as `inspect` does ──▶ handler.js
//!                                                               └────▶ handler.wasm: the script runner with the script
//! ```

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use informant_config::show_size;
use informant_plugin_host::limits::SCRIPT_BYTES_MAX;
use informant_plugin_host::script_component;
use informant_spec::{Content, ContentSource, Language};

use super::inspect::ConfigOfPlugin;
use super::{Exit, output};
use crate::guests::Guests;
use crate::script_runners;

const ESBUILD: &str = "esbuild";

/// Suffixes of files that are bundled for a component, too.
const TYPED: [&str; 5] = ["ts", "mts", "cts", "tsx", "jsx"];

/// Those of them that cannot be scripts: more than erasing types makes JavaScript of them.
const BUNDLED: [&str; 3] = ["cts", "tsx", "jsx"];

/// Its arguments. The script runner provides the module `informant` and implements ECMAScript 2023.
const ARGUMENTS: [&str; 9] = [
    "--bundle",
    "--format=esm",
    "--target=es2023",
    "--platform=neutral",
    "--main-fields=module,main",
    "--charset=utf8",
    "--external:informant",
    "--define:process.env.NODE_ENV=\"production\"",
    "--log-level=warning",
];

/// What its advice contains that does not apply to scripts.
const HINTS_LEFT_OUT: [&str; 2] = ["--platform=node", "as external to exclude it"];

/// `informant plugin build`.
#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    /// TypeScript or JavaScript file
    file: PathBuf,
    /// Output file [default: the name of FILE with the extension .js, or .wasm with --component]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a component, which contains the script and its runner. A .js file is not bundled
    #[arg(long)]
    component: bool,
    #[command(flatten)]
    config: ConfigOfPlugin,
}

pub(super) fn run(args: &BuildArgs) -> Result<Exit> {
    let output = output_of(args)?;
    let text = match args.component && !has_suffix(&args.file, &TYPED) {
        true => fs::read(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?,
        false => bundle(&args.file)?,
    };
    // What errors show, and the name of the plugin if the manifest has none.
    let script = output.with_extension("js");
    let built = match args.component {
        true => {
            let runner = script_runners::javascript()?;
            let runner = runner.context(
                "this informant was built without its script runner, so it cannot make a component; build it with \
                 `cargo xtask build`",
            )?;
            let name = script.file_name().unwrap_or_default().to_string_lossy();
            script_component(&runner, &name, &text)
        }
        false => text,
    };
    ensure!(
        args.component || built.len() <= SCRIPT_BYTES_MAX,
        "the bundle has {}, but a script may have at most {}: make a component with --component",
        show_size(built.len() as u64),
        show_size(SCRIPT_BYTES_MAX as u64)
    );
    let content = Content::new(&output, built.clone());
    check(&content, args)?;
    write(&output, &built)?;
    let (size, digest) = (show_size(built.len() as u64), content.digest());
    output::to_stdout(|out| output::line(out, &format!("{}: {size}, sha256 {digest}", output.display())))
        .context("cannot print the result")?;
    Ok(Exit::Done)
}

fn output_of(args: &BuildArgs) -> Result<PathBuf> {
    let extension = if args.component { "wasm" } else { "js" };
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| args.file.with_extension(extension));
    let is_fit = match ContentSource::from(&output).language() {
        Language::Wasm => args.component,
        Language::Script(suffix) => !args.component && suffix.language() == Some("JavaScript"),
    };
    ensure!(is_fit, "the output {} must end in .{extension}", output.display());
    ensure!(
        output != args.file,
        "the output would replace {0}: name another file, as in `informant plugin build {0} --output {1}-bundle.js`",
        args.file.display(),
        args.file.with_extension("").display()
    );
    Ok(output)
}

/// Whether only a bundler makes a script of the file.
pub(super) fn needs_bundler(file: &Path) -> bool {
    has_suffix(file, &BUNDLED)
}

fn has_suffix(file: &Path, suffixes: &[&str]) -> bool {
    let suffix = file.extension().and_then(OsStr::to_str);
    suffix.is_some_and(|suffix| suffixes.contains(&suffix))
}

/// One script of `file` and everything that it imports but `informant`. Passes on the messages of esbuild.
fn bundle(file: &Path) -> Result<Vec<u8>> {
    ensure!(file.is_file(), "{} is not a file", file.display());
    let program = esbuild_for(file).unwrap_or_else(|| PathBuf::from(ESBUILD));
    let mut command = Command::new(&program);
    let bundled = match command.arg(file).args(ARGUMENTS).output() {
        Ok(bundled) => bundled,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "esbuild is not installed, which bundles TypeScript and packages: run `npm install --save-dev esbuild` in \
             the folder of {}, or put esbuild into PATH",
            file.display()
        ),
        Err(error) => return Err(error).with_context(|| format!("cannot run {}", program.display())),
    };
    let messages = applicable(&String::from_utf8_lossy(&bundled.stderr));
    // The result matters more than the messages.
    let _ = io::stderr().write_all(messages.as_bytes());
    ensure!(
        bundled.status.success(),
        "esbuild cannot bundle {}; its messages are above (`npm install PACKAGE` adds a missing package; there are no \
         modules of Node.js)",
        file.display()
    );
    Ok(bundled.stdout)
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

fn check(content: &Content, args: &BuildArgs) -> Result<()> {
    let of_plugin = args.config.read(content.origin().path())?;
    let guests = Guests::for_inspection(&of_plugin.runners)?;
    let inspected = guests.block_on(guests.host().inspect(content, of_plugin.config));
    inspected.context("nothing was written, because Informant would refuse it")?;
    Ok(())
}

/// Writes the whole file or nothing: Informant may be running the previous one.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    written.with_context(|| format!("cannot write {}", path.display()))
}
