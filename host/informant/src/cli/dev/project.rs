//! What PATH names: the plugin, how it is built, and its configuration.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use informant_config::Config;

use crate::cli::build::{self, BuildArgs, Language, Source};
use crate::cli::inspect::{ConfigOfPlugin, absolute};
use crate::config_file;

/// The configuration of a folder.
const CONFIG: &str = "config.toml";

/// Files in TOML that configure other tools.
const OTHER_TOML: [&str; 2] = ["Cargo.toml", "pyproject.toml"];

/// The name of a plugin whose files have none that fits.
const NAME_DEFAULT: &str = "plugin";

pub(super) struct Project {
    /// The configuration that the folder has. None: one is generated from the manifest.
    pub(super) config: Option<PathBuf>,
    /// None: there is nothing to build, Informant loads the sources themselves.
    pub(super) build: Option<ProjectBuild>,
    /// The component or script that a generated configuration loads.
    pub(super) content: PathBuf,
    /// The plugin's name in a generated configuration.
    pub(super) name: String,
}

pub(super) struct ProjectBuild {
    pub(super) args: BuildArgs,
    pub(super) source: Source,
    pub(super) output: PathBuf,
}

/// What the command line says about builds.
#[derive(Debug, Clone, Default)]
pub(super) struct BuildFlags {
    pub(super) conditions: Vec<String>,
    pub(super) sdk: Option<PathBuf>,
}

impl BuildFlags {
    fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.sdk.is_none()
    }
}

impl Project {
    /// What `path` names: a folder, a source file, or a configuration. Without a configuration, what is built is
    /// written into `scratch`.
    ///
    /// # Errors
    /// If it does not exist, is in no known language, or if its configuration is invalid or has no plugin for it.
    pub(super) fn find(path: &Path, flags: &BuildFlags, scratch: &Path) -> Result<Self> {
        let project = Self::of(path, flags, scratch)?;
        ensure!(
            project.build.is_some() || flags.is_empty(),
            "{} is not built: leave out --conditions and --sdk",
            path.display()
        );
        Ok(project)
    }

    fn of(path: &Path, flags: &BuildFlags, scratch: &Path) -> Result<Self> {
        if is_config(path) {
            let config = config_file::load(path)?;
            // Without sources, components are loaded as they are.
            let source = Source::find(config.folder());
            let build = match source {
                Ok(source) => of_config(&config, config.folder(), source, flags).unwrap_or_default(),
                Err(_) => None,
            };
            return Ok(Self::configured(path, build));
        }
        let source = Source::find(path)?;
        let file = source.folder.join(CONFIG);
        if file.is_file() {
            let config = config_file::load(&file)?;
            match of_config(&config, path, source.clone(), flags) {
                // A file may be another plugin than that of the configuration next to it.
                Err(_) if path.is_file() => {}
                build => return Ok(Self::configured(&file, build?)),
            }
        }
        Self::unconfigured(path, source, flags, scratch)
    }

    fn configured(config: &Path, build: Option<ProjectBuild>) -> Self {
        Self {
            config: Some(config.to_owned()),
            build,
            content: PathBuf::new(),
            name: String::new(),
        }
    }

    fn unconfigured(path: &Path, source: Source, flags: &BuildFlags, scratch: &Path) -> Result<Self> {
        let name = plugin_name(&source.name);
        if is_loaded_as_it_is(&source)? {
            let file = absolute(&source.files[0]);
            return Ok(Self {
                config: None,
                build: None,
                content: file,
                name,
            });
        }
        let extension = if source.language == Language::Script {
            "js"
        } else {
            "wasm"
        };
        let output = scratch.join(format!("{name}.{extension}"));
        let build = ProjectBuild::new(path, source, output.clone(), ConfigOfPlugin::default(), flags)?;
        Ok(Self {
            config: None,
            build: Some(build),
            content: output,
            name,
        })
    }
}

impl ProjectBuild {
    fn new(path: &Path, source: Source, output: PathBuf, config: ConfigOfPlugin, flags: &BuildFlags) -> Result<Self> {
        let is_component = output.extension() == Some(OsStr::new("wasm"));
        let args = BuildArgs {
            path: path.to_owned(),
            output: Some(output),
            component: is_component && source.language == Language::Script,
            conditions: flags.conditions.clone(),
            sdk: flags.sdk.clone(),
            config,
        };
        build::check_flags(&args, &source)?;
        let output = build::output_of(&args, &source)?;
        Ok(Self { args, source, output })
    }
}

/// How the component or script of a plugin in `config` is built from `source`. None: it is a file of the source.
///
/// # Errors
/// If no plugin has it.
fn of_config(config: &Config, path: &Path, source: Source, flags: &BuildFlags) -> Result<Option<ProjectBuild>> {
    let contents = config.plugins.iter();
    let contents: Vec<_> = contents
        .map(|(name, section)| (name, section.spec.content.path()))
        .collect();
    let has = |file: &Path| {
        let file = absolute(file);
        contents.iter().find(|(_, content)| absolute(content) == file)
    };
    if source.language != Language::CoreModule && source.files.iter().any(|file| has(file).is_some()) {
        return Ok(None);
    }
    let args = BuildArgs {
        path: path.to_owned(),
        output: None,
        component: false,
        conditions: Vec::new(),
        sdk: None,
        config: ConfigOfPlugin::default(),
    };
    let default = build::output_of(&args, &source);
    let by_name = default.as_ref().ok().and_then(|output| has(output));
    let (name, content) = match (by_name, contents.as_slice()) {
        (Some(found), _) => *found,
        (None, [(name, content)]) if stands_for_all(path, &source) && !is_written(content, &source) => {
            (*name, *content)
        }
        _ => {
            let made = default.map_or_else(|_| "its component".to_owned(), |output| output.display().to_string());
            bail!(
                "{0} has no plugin for {1}: set `component` or `script` of one to {made}, or name the file of another \
                 plugin, as in `informant dev {1}/FILE`",
                config.path.display(),
                path.display()
            )
        }
    };
    let of_plugin = ConfigOfPlugin {
        config: Some(config.path.clone()),
        plugin: Some(name.clone()),
    };
    ProjectBuild::new(path, source, content.to_owned(), of_plugin, flags).map(Some)
}

/// Whether the only plugin of a configuration must be the one that `path` names: it is a folder, or a file of a project
/// that is built as a whole.
fn stands_for_all(path: &Path, source: &Source) -> bool {
    path.is_dir() || source.files.is_empty()
}

/// Whether people wrote this script, as far as its text shows: a bundle names the files that it is made of.
fn is_written(content: &Path, source: &Source) -> bool {
    let Ok(text) = fs::read(content) else { return false };
    let text = String::from_utf8_lossy(&text);
    let names = source.files.iter().filter_map(|file| file.file_name()?.to_str());
    let names: Vec<&str> = names.collect();
    let is_origin = |line: &str| {
        let of = line.strip_prefix("// ").and_then(|of| of.rsplit('/').next());
        of.is_some_and(|of| names.contains(&of))
    };
    content.extension() != Some(OsStr::new("wasm")) && !text.lines().any(is_origin)
}

fn is_config(path: &Path) -> bool {
    let is_other = path
        .file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| OTHER_TOML.contains(&name));
    path.extension() == Some(OsStr::new("toml")) && !is_other
}

/// Whether Informant loads the source itself: a script that imports nothing but the module `informant`.
fn is_loaded_as_it_is(source: &Source) -> Result<bool> {
    match (source.language, source.files.as_slice()) {
        (Language::Python, [_]) => Ok(true),
        (Language::Script, [file]) => {
            let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            Ok(!build::needs_bundler(file) && !imports_more(&String::from_utf8_lossy(&text)))
        }
        _ => Ok(false),
    }
}

/// Whether a script imports another module than `informant`, as far as its text shows. Types count, too.
fn imports_more(script: &str) -> bool {
    let is_of_another = |rest: &str| {
        let rest = rest.trim_start();
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''));
        quote.is_some_and(|quote| rest[1..].split(quote).next() != Some("informant"))
    };
    let statements = script.split(['\n', ';']).map(str::trim_start);
    let statements = statements.filter(|line| ["import", "export", "}"].iter().any(|word| line.starts_with(word)));
    statements.into_iter().any(|line| {
        line.strip_prefix("import").is_some_and(is_of_another)
            || line
                .rsplit_once("from")
                .is_some_and(|(before, rest)| before.ends_with([' ', '}', '*']) && is_of_another(rest))
    })
}

/// A name for the section of a plugin whose sources have this name.
fn plugin_name(source: &str) -> String {
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    };
    let name: String = source.chars().map(letter).collect();
    let name = name.trim_matches('-');
    match informant_config::validate_name(name) {
        Ok(()) => name.to_owned(),
        Err(_) => NAME_DEFAULT.to_owned(),
    }
}

#[cfg(test)]
mod tests;
