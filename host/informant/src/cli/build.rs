//! `informant plugin build`: one file of a plugin, from the sources of any language.
//!
//! ```text
//! handler.ts ──esbuild──▶ one script ─────────────────────┬──────────────────────────────▶ checked ──▶ handler.js
//!                                                         └─▶ script runner + script ────▶ as       ─▶ handler.wasm
//! Cargo.toml ──cargo──▶ component; *.py ──componentize-py──▶ component ──────────────────▶ `inspect`
//! go.mod ──go──▶ core module; *.c ──zig──▶ core module; core.wasm ──▶ component of it ───▶ does
//! ```
//!
//! Nothing is written unless Informant would load it. The toolchains are the author's own: this command says which one
//! is missing, and installs none.

mod c;
mod component;
mod go;
mod python;
mod rust;
mod script;
mod source;
mod tool;

use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use informant_config::show_size;
use informant_plugin_host::limits::SCRIPT_BYTES_MAX;
use informant_plugin_host::script_component;
use informant_spec::{Content, ContentSource, Digest, Language as Spoken};

use self::source::is_typed;
pub(super) use self::source::{Language, Source, needs_bundler};
pub(super) use self::tool::ToolUnusable;
use super::inspect::{ConfigOfPlugin, OfPlugin};
use super::{Exit, output};
use crate::guests::Guests;
use crate::script_runners;
use crate::status_line::{self, StatusLine};

/// `informant plugin build`.
#[derive(Debug, Clone, Args)]
pub(super) struct BuildArgs {
    /// Source file, core module, or folder of a plugin in Rust, Go, C, Python, TypeScript or JavaScript
    #[arg(default_value = ".")]
    pub(super) path: PathBuf,
    /// Output file [default: for a script the name of PATH with the extension .js, otherwise NAME.wasm in the folder,
    /// with the name of the project or file]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Of a script, write a component, which contains the script and its runner. A .js file is not bundled
    #[arg(long)]
    pub(super) component: bool,
    /// Of npm packages, bundle what they export under these conditions, for example `browser`
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) conditions: Vec<String>,
    /// Folder of the SDK for C or Python [default: C: the -I in .clangd that has informant.h; Python: where the package
    /// informant is installed]
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) sdk: Option<PathBuf>,
    #[command(flatten)]
    pub(super) config: ConfigOfPlugin,
}

/// What a build wrote.
pub(super) struct Built {
    pub(super) output: PathBuf,
    size: u64,
    digest: Digest,
}

impl Display for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (output, size) = (self.output.display(), show_size(self.size));
        write!(f, "{output}: {size}, sha256 {}", self.digest)
    }
}

pub(super) fn run(args: &BuildArgs) -> Result<Exit> {
    let line = StatusLine::begin();
    let built = build(args)?;
    drop(line);
    output::to_stdout(|out| output::line(out, &built.to_string())).context("cannot print the result")?;
    Ok(Exit::Done)
}

/// Builds what `args` name and writes it, if Informant would load it. The messages of the tools are on stderr.
pub(super) fn build(args: &BuildArgs) -> Result<Built> {
    let (output, built) = make(args)?;
    let config = args.config.read(&output)?;
    keep(output, &built, config)
}

/// Builds what `path` names for `plugin test`, as this command does by default, and writes it to `output`, or else to
/// the default. The manifest may depend on `config`.
///
/// # Errors
/// If it cannot be built, or if Informant would refuse it. Nothing is written then.
pub(super) fn build_for(path: &Path, output: Option<&Path>, config: OfPlugin) -> Result<Built> {
    let args = BuildArgs {
        path: path.to_owned(),
        output: output.map(Path::to_owned),
        component: false,
        conditions: Vec::new(),
        sdk: None,
        config: ConfigOfPlugin::default(),
    };
    let (output, built) = make(&args)?;
    keep(output, &built, config)
}

/// Writes what was built, if Informant would load it.
fn keep(output: PathBuf, built: &[u8], config: OfPlugin) -> Result<Built> {
    let content = Content::new(&output, built.to_owned());
    check(&content, config)?;
    write(&output, built)?;
    Ok(Built {
        output,
        size: built.len() as u64,
        digest: content.digest(),
    })
}

/// The file that Informant can load without a build: a script or a component, or the only script of a folder.
///
/// # Errors
/// If `path` does not say what the plugin is.
pub(super) fn loadable(path: &Path) -> Result<Option<PathBuf>> {
    if path.is_file() && Spoken::of(path) == Spoken::Wasm {
        let is_component = || component::is_component(path);
        return Ok(is_component().then(|| path.to_owned()));
    }
    let source = Source::find(path)?;
    Ok(match (source.language, source.files.as_slice()) {
        (Language::Script | Language::Python, [file, ..]) if path.is_file() => Some(file),
        (Language::Script, [file, ..]) | (Language::Python, [file]) => Some(file),
        _ => None,
    }
    .filter(|file| Spoken::of(file).is_script())
    .cloned())
}

/// Whether there is something to build.
pub(super) fn has_sources(path: &Path) -> bool {
    Source::find(path).is_ok()
}

/// The output file, and what belongs into it.
fn make(args: &BuildArgs) -> Result<(PathBuf, Vec<u8>)> {
    let source = Source::find(&args.path)?;
    check_flags(args, &source)?;
    let output = output_of(args, &source)?;
    let built = match source.language {
        Language::Script if args.component => script_with_runner(args, &source.files[0], &output)?,
        Language::Script => script(args, &source.files[0])?,
        Language::Rust => rust::build(&source)?,
        Language::Python => component::with_sdk(python::build(&source, args.sdk.as_deref())?, "python"),
        Language::Go => {
            let built = component::from_core_module(&go::build(&source)?, &source.folder)?;
            component::with_sdk(built, "go")
        }
        Language::C => component::from_core_module(&c::build(&source, args.sdk.as_deref())?, &source.files[0])?,
        Language::CoreModule => {
            let file = &source.files[0];
            let core = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            component::from_core_module(&core, file)?
        }
    };
    Ok((output, built))
}

/// Refuses flags that would have no effect.
pub(super) fn check_flags(args: &BuildArgs, source: &Source) -> Result<()> {
    let is_script = source.language == Language::Script;
    let shown = args.path.display();
    ensure!(
        is_script || !args.component,
        "{shown} always becomes a component: leave out --component, which is for scripts"
    );
    let is_bundled = is_script && (!args.component || is_typed(&source.files[0]));
    ensure!(
        is_bundled || args.conditions.is_empty(),
        "{shown} is not bundled: leave out --conditions, which is for npm packages"
    );
    ensure!(
        args.sdk.is_none() || matches!(source.language, Language::C | Language::Python),
        "{shown} names its SDK itself: leave out --sdk, which is for C and Python"
    );
    Ok(())
}

/// The file that `args` make of `source`.
pub(super) fn output_of(args: &BuildArgs, source: &Source) -> Result<PathBuf> {
    let is_script = source.language == Language::Script && !args.component;
    let extension = if is_script { "js" } else { "wasm" };
    let output = match (&args.output, source.language) {
        (Some(output), _) => output.clone(),
        (None, Language::Script) => source.files[0].with_extension(extension),
        (None, Language::CoreModule) => anyhow::bail!(
            "{0} needs a name for the component: `informant plugin build {0} -o NAME.wasm`",
            source.files[0].display()
        ),
        // Not `./NAME.wasm`, which is harder to read and to copy.
        (None, _) => source.folder.join(format!("{}.{extension}", source.name)),
    };
    let output = output.strip_prefix(".").unwrap_or(&output).to_owned();
    let is_fit = match ContentSource::from(&output).language() {
        Spoken::Wasm => !is_script,
        Spoken::Script(suffix) => is_script && suffix.language() == Some("JavaScript"),
    };
    ensure!(is_fit, "the output {} must end in .{extension}", output.display());
    let is_input = |file: &PathBuf| *file == output || file.strip_prefix(".").is_ok_and(|file| file == output);
    ensure!(
        !source.files.iter().any(is_input),
        "the output would replace {0}: name another file, as in `informant plugin build {0} --output \
         {1}-bundle.{extension}`",
        output.display(),
        output.with_extension("").display()
    );
    Ok(output)
}

/// One script of a file and what it imports.
fn script(args: &BuildArgs, file: &Path) -> Result<Vec<u8>> {
    let text = script::bundle(file, &args.conditions)?;
    ensure!(
        text.len() <= SCRIPT_BYTES_MAX,
        "the bundle has {}, but a script may have at most {}: make a component with --component",
        show_size(text.len() as u64),
        show_size(SCRIPT_BYTES_MAX as u64)
    );
    Ok(text)
}

/// The script runner with a script.
fn script_with_runner(args: &BuildArgs, file: &Path, output: &Path) -> Result<Vec<u8>> {
    let text = match is_typed(file) {
        true => script::bundle(file, &args.conditions)?,
        false => fs::read(file).with_context(|| format!("cannot read {}", file.display()))?,
    };
    let runner = script_runners::javascript()?.context(
        "this informant was built without its script runner, so it cannot make a component; build it with `cargo \
         xtask build`",
    )?;
    // What errors show, and the name of the plugin if the manifest has none.
    let script = output.with_extension("js");
    let name = script.file_name().unwrap_or_default().to_string_lossy();
    Ok(script_component(&runner, &name, &text))
}

fn check(content: &Content, of_plugin: OfPlugin) -> Result<()> {
    status_line::show("loading what was built, as Informant would");
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
