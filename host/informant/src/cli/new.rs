//! `informant plugin new`: a folder with a handler, its test and what it needs to run.

mod kit;
mod templates;

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use informant_config::validate_name;

use self::templates::Language;
use super::{Exit, output};

/// Names of crates that Rust gives a meaning of its own.
const RESERVED_CRATES: [&str; 6] = ["alloc", "core", "proc-macro", "self", "std", "test"];

/// Where a clone of Informant has its SDKs, seen from a folder that contains the clone, or is the clone.
const SDKS: [&str; 2] = ["informant/plugin-sdk", "plugin-sdk"];

/// `informant plugin new`.
#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// Name of the plugin: lowercase letters, digits and '-'
    name: String,
    /// Language of the handler
    #[arg(short, long, value_name = "LANGUAGE", value_enum)]
    lang: Language,
    /// Folder to create; it may exist if it is empty [default: NAME]
    #[arg(long, value_name = "DIRECTORY")]
    path: Option<PathBuf>,
    /// Folder `plugin-sdk` of a clone of Informant, or the SDK of the language itself [default: that of a clone
    /// `informant` next to the new folder or above it]
    #[arg(long, value_name = "DIRECTORY")]
    sdk: Option<PathBuf>,
}

pub(super) fn run(args: &NewArgs) -> Result<Exit> {
    check_name(&args.name, args.lang)?;
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    ensure!(
        args.sdk.is_none() || args.lang.sdk().is_some(),
        "{} needs no SDK: leave out --sdk",
        args.lang.shown()
    );
    check_absent(&folder)?;
    let sdk = match args.lang.sdk() {
        Some(sdk) => find_sdk(&folder, args.sdk.as_deref(), args.lang, sdk)?,
        None => String::new(),
    };
    let filled = |text: &str| text.replace("{{name}}", &args.name).replace("{{sdk}}", &sdk);
    for (path, text) in args.lang.files() {
        write(&folder.join(filled(path)), &filled(text))?;
    }
    let text = next_commands(&folder, args.lang, filled);
    output::to_stdout(|out| text.lines().try_for_each(|line| output::line(out, line)))?;
    Ok(Exit::Done)
}

/// The end of a successful run: what was created, and the next three commands.
fn next_commands(folder: &Path, language: Language, filled: impl Fn(&str) -> String) -> String {
    let folder = folder.display();
    let [prepare, test, build] = language.commands().map(filled);
    format!(
        "created {folder}, a plugin in {}. Next:\n  cd {folder}{prepare}\n  {test}\n  {build}",
        language.shown()
    )
}

fn check_name(name: &str, language: Language) -> Result<()> {
    if let Err(rule) = validate_name(name) {
        bail!("{name:?} is not a name of a plugin: use {rule}, for example `greeter`");
    }
    let is_reserved = RESERVED_CRATES.contains(&name) || name.starts_with(|first: char| first.is_ascii_digit());
    ensure!(
        language != Language::Rust || !is_reserved,
        "{name:?} cannot be the name of a crate: use another name, for example `plugin-{name}` or `greeter`"
    );
    Ok(())
}

/// Refuses a folder that has files, or a file in its place.
fn check_absent(folder: &Path) -> Result<()> {
    let shown = folder.display();
    let is_free = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    ensure!(
        is_free,
        "{shown} exists and is not an empty folder: choose another name, or a folder with --path"
    );
    Ok(())
}

/// The path of the language's SDK, relative to the new folder, unless it was named by an absolute path.
fn find_sdk(folder: &Path, named: Option<&Path>, language: Language, (name, file): (&str, &str)) -> Result<String> {
    let folder = std::path::absolute(folder).with_context(|| format!("cannot find {}", folder.display()))?;
    let has_file = |sdk: &PathBuf| sdk.join(file).is_file();
    let language = language.shown();
    let found = match named {
        Some(named) => {
            let candidates = [named.join(name), named.to_owned()];
            let found = candidates.into_iter().find(has_file);
            let found = found.with_context(|| {
                format!(
                    "{} has neither {name}/{file} nor {file}: name the folder `plugin-sdk` of a clone of Informant with \
                     --sdk",
                    named.display()
                )
            })?;
            if named.is_absolute() {
                return Ok(shown(&found));
            }
            std::path::absolute(&found).with_context(|| format!("cannot find {}", found.display()))?
        }
        None => {
            let above = folder.ancestors().skip(1);
            let mut candidates = above.flat_map(|above| SDKS.map(|sdks| above.join(sdks).join(name)));
            candidates.find(has_file).with_context(|| {
                format!(
                    "cannot find the SDK for {language}, which is not published yet: clone Informant into a folder \
                     `informant` next to {}, or name the folder `plugin-sdk` of your clone with --sdk",
                    folder.display()
                )
            })?
        }
    };
    Ok(relative(&folder, &found))
}

/// The path of `to`, seen from `from`. Both are absolute.
fn relative(from: &Path, to: &Path) -> String {
    let (from, to) = (normal(from), normal(to));
    let common = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
    let up = from[common..].iter().map(|_| PathBuf::from(".."));
    let path: PathBuf = up.chain(to[common..].iter().map(PathBuf::from)).collect();
    shown(&path)
}

/// The parts of an absolute path without `.` and `..`.
fn normal(path: &Path) -> Vec<std::ffi::OsString> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            other => parts.push(other.as_os_str().to_owned()),
        }
    }
    parts
}

/// A path in a file of a template, in all of which `/` separates folders.
fn shown(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
    written.with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
