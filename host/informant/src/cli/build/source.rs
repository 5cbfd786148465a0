//! What `informant plugin build PATH` builds: by the suffix of a file, or by what is in a folder.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// The file of a core module that a folder may have instead of sources.
const CORE_MODULE: &str = "core.wasm";

/// Suffixes of files that esbuild bundles.
const SCRIPTS: [&str; 8] = ["js", "mjs", "cjs", "ts", "mts", "cts", "tsx", "jsx"];

/// Those of them that contain more than JavaScript.
const TYPED: [&str; 5] = ["ts", "mts", "cts", "tsx", "jsx"];

/// Suffixes of files that cannot be scripts: more than erasing types makes JavaScript of them.
const BUNDLED: [&str; 3] = ["cts", "tsx", "jsx"];

/// Suffixes of C++, for a message.
const CPP: [&str; 3] = ["cpp", "cc", "cxx"];

/// The files that say which language a folder is written in. They outweigh single source files.
const PROJECT_FILES: [(&str, Language); 5] = [
    ("Cargo.toml", Language::Rust),
    ("go.mod", Language::Go),
    ("pyproject.toml", Language::Python),
    ("tsconfig.json", Language::Script),
    ("package.json", Language::Script),
];

/// What is built, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Language {
    /// JavaScript or TypeScript.
    Script,
    Rust,
    Go,
    C,
    Python,
    /// A core module, compiled from any language by another tool.
    CoreModule,
}

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Source {
    pub(in crate::cli) language: Language,
    /// The folder that the build runs in.
    pub(in crate::cli) folder: PathBuf,
    /// The files to compile, or the one to begin with. Empty if the build tool knows them (Rust, Go).
    pub(in crate::cli) files: Vec<PathBuf>,
    /// The name of the result, without its suffix.
    pub(in crate::cli) name: String,
}

impl Source {
    /// What `path` names: a file, or the folder of a plugin.
    ///
    /// # Errors
    /// If it does not exist, or if it does not say what to build.
    pub(in crate::cli) fn find(path: &Path) -> Result<Source> {
        if path.is_dir() {
            return in_folder(path);
        }
        ensure!(
            path.is_file(),
            "{0} is not a file or folder; `informant plugin new --lang LANGUAGE NAME` creates a plugin",
            path.display()
        );
        let project = PROJECT_FILES
            .iter()
            .find(|(name, _)| path.file_name() == Some(OsStr::new(name)));
        match project {
            Some((_, language)) => of_project(*language, &folder_of(path)),
            None => of_file(path),
        }
    }
}

/// Whether the file has more than JavaScript, and is bundled for a component, too.
pub(super) fn is_typed(file: &Path) -> bool {
    has_suffix(file, &TYPED)
}

/// Whether only a bundler makes a script of the file.
pub(in crate::cli) fn needs_bundler(file: &Path) -> bool {
    has_suffix(file, &BUNDLED)
}

fn of_file(file: &Path) -> Result<Source> {
    let one = |language| Source {
        language,
        folder: folder_of(file),
        files: vec![file.to_owned()],
        name: stem(file),
    };
    match file.extension().and_then(OsStr::to_str) {
        Some(suffix) if SCRIPTS.contains(&suffix) => Ok(one(Language::Script)),
        Some("wasm") => Ok(one(Language::CoreModule)),
        Some("c") => Ok(one(Language::C)),
        Some("py") => Ok(one(Language::Python)),
        Some("rs") => of_project(Language::Rust, &project_above(file, "Cargo.toml")?),
        Some("go") => of_project(Language::Go, &project_above(file, "go.mod")?),
        Some(suffix) if CPP.contains(&suffix) => bail!(
            "{0} is C++, which this command does not compile: link a reactor with `zig c++ -target wasm32-wasi \
             -mexec-model=reactor … -o core.wasm`, then run `informant plugin build core.wasm -o {1}.wasm`",
            file.display(),
            stem(file)
        ),
        _ => bail!(
            "{0} has no suffix that this command knows (js, ts, py, rs, go, c, wasm). For another language compile a \
             core module, and run `informant plugin build core.wasm -o {1}.wasm`",
            file.display(),
            stem(file)
        ),
    }
}

fn in_folder(folder: &Path) -> Result<Source> {
    let names = names_in(folder)?;
    let found: Vec<_> = PROJECT_FILES
        .iter()
        .filter(|(project, _)| names.iter().any(|name| name == project))
        .collect();
    if let Some((first, language)) = found.first() {
        let other = found.iter().find(|(_, other)| other != language);
        if let Some((other, _)) = other {
            bail!(
                "{0} has {first} and {other}: name the one to build, as in `informant plugin build {1}`",
                folder.display(),
                folder.join(first).display()
            );
        }
        return of_project(*language, folder);
    }
    let candidates = [
        (Language::C, sources(folder, &names, &["c"], is_c_test)),
        (Language::Python, sources(folder, &names, &["py"], is_python_test)),
        (Language::Script, sources(folder, &names, &SCRIPTS, is_script_test)),
    ];
    let mut candidates = candidates.into_iter().filter(|(_, files)| !files.is_empty());
    match (candidates.next(), candidates.next()) {
        (Some((language, files)), None) => of_files(language, folder, files, None),
        (Some((_, files)), Some((_, others))) => bail!(
            "{} has {} and {}: name the file to build",
            folder.display(),
            name_of(&files[0]),
            name_of(&others[0])
        ),
        _ if names.iter().any(|name| name == CORE_MODULE) => of_file(&folder.join(CORE_MODULE)),
        _ => bail!(
            "{} has nothing to build: no Cargo.toml, go.mod, pyproject.toml, package.json, tsconfig.json, .c, .py, .js \
             or .ts file, and no {CORE_MODULE}",
            folder.display()
        ),
    }
}

/// The project of a language in a folder.
fn of_project(language: Language, folder: &Path) -> Result<Source> {
    let names = names_in(folder)?;
    let by_tool = |name: String| Source {
        language,
        folder: folder.to_owned(),
        files: Vec::new(),
        name,
    };
    match language {
        Language::Rust => Ok(by_tool(
            toml_name(&folder.join("Cargo.toml"), "package")?.with_context(|| {
                format!(
                    "{} has no [package]: name the folder of the plugin's crate, not that of the workspace",
                    folder.join("Cargo.toml").display()
                )
            })?,
        )),
        Language::Go => Ok(by_tool(module_name(&folder.join("go.mod"))?)),
        Language::Python => {
            let name = toml_name(&folder.join("pyproject.toml"), "project")?;
            let files = sources(folder, &names, &["py"], is_python_test);
            of_files(language, folder, files, name)
        }
        _ => {
            let name = package_name(folder)?;
            let files = sources(folder, &names, &SCRIPTS, is_script_test);
            of_files(language, folder, files, name)
        }
    }
}

/// The files of a language in a folder. C takes all of them, other languages the one that is named like the project, or
/// the only one.
fn of_files(language: Language, folder: &Path, files: Vec<PathBuf>, project: Option<String>) -> Result<Source> {
    let is_named = |file: &&PathBuf| {
        project
            .as_deref()
            .is_some_and(|name| stem(file) == module_of(name, language))
    };
    let entry = match files.as_slice() {
        _ if language == Language::C => None,
        [only] => Some(only.clone()),
        several => several.iter().find(is_named).cloned(),
    };
    let name = match (&entry, &files[..]) {
        (Some(entry), _) => project.unwrap_or_else(|| stem(entry)),
        (None, [only]) => stem(only),
        (None, _) => folder_name(folder),
    };
    let files = match (entry, language) {
        (Some(entry), _) => vec![entry],
        (None, Language::C) => files,
        (None, _) if files.is_empty() => bail!(
            "{} has no file to begin with: name the source file of the handlers",
            folder.display()
        ),
        (None, _) => bail!(
            "{} has several files that may be the plugin: name one, as in `informant plugin build {}`",
            folder.display(),
            files[0].display()
        ),
    };
    Ok(Source {
        language,
        folder: folder.to_owned(),
        files,
        name,
    })
}

/// The stem of the file that has the handlers of a project: Python's modules have no hyphens.
fn module_of(name: &str, language: Language) -> String {
    match language {
        Language::Python => name.replace('-', "_"),
        _ => name.to_owned(),
    }
}

/// `name = "…"` in a table of a TOML file, in the form that every tool writes: cargo or pip reports other errors. None
/// if the file lacks the table or the name.
fn toml_name(file: &Path, table: &str) -> Result<Option<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines = text
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != format!("[{table}]"));
    let of_table = lines.skip(1).take_while(|line| !line.starts_with('['));
    let name = of_table
        .filter_map(|line| line.split_once('='))
        .find(|(key, _)| key.trim() == "name");
    let value = name.and_then(|(_, value)| value.trim().get(1..)?.split(['"', '\'']).next());
    Ok(value.map(str::to_owned))
}

/// The last part of the module's path in a go.mod, without the suffix of a major version.
fn module_name(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let module = text.lines().find_map(|line| line.trim().strip_prefix("module "));
    let module = module.with_context(|| format!("{} has no line `module NAME`", file.display()))?;
    let is_major = |part: &&str| {
        part.strip_prefix('v')
            .is_some_and(|digits| digits.parse::<u32>().is_ok())
    };
    let mut parts = module.trim().trim_matches('"').rsplit('/');
    let name = parts.find(|part| !is_major(part));
    Ok(name.unwrap_or("plugin").to_owned())
}

/// `name` in the folder's package.json. None without the file or the name.
fn package_name(folder: &Path) -> Result<Option<String>> {
    let file = folder.join("package.json");
    if !file.is_file() {
        return Ok(None);
    }
    let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let document: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", file.display()))?;
    let name = document["name"].as_str();
    // Without a scope: `@team/greeter`.
    Ok(name.map(|name| name.rsplit('/').next().unwrap_or(name).to_owned()))
}

/// The nearest folder of a file that has `project`.
fn project_above(file: &Path, project: &str) -> Result<PathBuf> {
    let absolute = std::path::absolute(file).with_context(|| format!("cannot find {}", file.display()))?;
    let mut folders = absolute.ancestors().skip(1);
    let found = folders.find(|folder| folder.join(project).is_file());
    Ok(found
        .with_context(|| format!("{} has no {project} in its folder or above it", file.display()))?
        .to_owned())
}

/// The names of a folder's files, sorted.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let failed = || format!("cannot read the folder {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        if !entry.path().is_dir() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.sort();
    Ok(names)
}

/// Files with one of these suffixes that are no tests.
fn sources(folder: &Path, names: &[String], suffixes: &[&str], is_test: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let names = names
        .iter()
        .filter(|name| has_suffix(Path::new(name), suffixes) && !is_test(name));
    names.map(|name| folder.join(name)).collect()
}

fn is_c_test(name: &str) -> bool {
    let stem = name.trim_end_matches(".c");
    stem == "test" || stem.starts_with("test_") || stem.ends_with("_test")
}

fn is_python_test(name: &str) -> bool {
    let stem = name.trim_end_matches(".py");
    stem.starts_with("test_") || stem.ends_with("_test") || stem == "conftest" || stem == "setup"
}

/// Whether a file is a test or for tests, a declaration of types, or the configuration of a tool.
fn is_script_test(name: &str) -> bool {
    [".test.", ".spec.", ".fake.", ".setup.", ".d.", ".config."]
        .iter()
        .any(|part| name.contains(part))
}

fn has_suffix(file: &Path, suffixes: &[&str]) -> bool {
    let suffix = file.extension().and_then(OsStr::to_str);
    suffix.is_some_and(|suffix| suffixes.contains(&suffix))
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name of a folder, which may be written as `.`.
fn folder_name(folder: &Path) -> String {
    let absolute = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    name_of(&absolute)
}

/// The folder of a file, which is never empty.
fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests;
