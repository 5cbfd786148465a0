//! The script runners of this program: the built-in one, those of the release, and those of config.toml.
//!
//! ```text
//! js: INFORMANT_SCRIPT_RUNNER, [script-runners] js, the built-in one
//! py: [script-runners] py, informant-runner-python.wasm next to the program or in ../lib/informant
//! ```

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use informant_config::ScriptRunnersSection;
use informant_plugin_host::limits::COMPONENT_BYTES_MAX;
use informant_plugin_host::{RunnerSource, RunnerSources};
use informant_spec::Suffix;

use crate::files::read_regular_file;

/// The file of another runner for JavaScript: to try one, or for programs that were built without.
pub(crate) const SCRIPT_RUNNER_VARIABLE: &str = "INFORMANT_SCRIPT_RUNNER";

/// The runners that are files of the release: each one's key in `[script-runners]`, and its name.
const RELEASED: [(&str, &str); 1] = [("py", "informant-runner-python.wasm")];

/// Where runners are, relative to the folder of the program.
const FOLDERS: [&str; 2] = ["", "../lib/informant"];

/// The embedded runner. `None` if the program was built by cargo alone, not by `cargo xtask`.
const EMBEDDED: Option<&[u8]> = include!(concat!(env!("OUT_DIR"), "/script_runner.rs"));

/// Where each runner is. A file is read when the first script needs it.
/// Errors: if `INFORMANT_SCRIPT_RUNNER` names a file that cannot be read.
pub(crate) fn sources(section: &ScriptRunnersSection) -> Result<RunnerSources> {
    Ok(sources_with(section, of_variable()?, &folders()))
}

fn sources_with(section: &ScriptRunnersSection, of_variable: Option<Vec<u8>>, folders: &[PathBuf]) -> RunnerSources {
    let mut sources = RunnerSources::new();
    let mut add = |key: &str, source| sources.extend(Suffix::new(key).map(|key| (key, source)));
    for (key, file) in RELEASED {
        let folders = folders.to_vec();
        add(key, RunnerSource::Released { file, folders });
    }
    if let Some(runner) = EMBEDDED {
        add("js", RunnerSource::BuiltIn(Cow::Borrowed(runner)));
    }
    for (suffix, file) in &section.0 {
        add(suffix.as_str(), RunnerSource::Configured(file.clone()));
    }
    if let Some(runner) = of_variable {
        add("js", RunnerSource::BuiltIn(Cow::Owned(runner)));
    }
    sources
}

/// The runner for JavaScript that `informant plugin build --component` puts into a component.
/// Errors: if `INFORMANT_SCRIPT_RUNNER` names a file that cannot be read.
pub(crate) fn javascript() -> Result<Option<Cow<'static, [u8]>>> {
    Ok(of_variable()?.map(Cow::Owned).or(EMBEDDED.map(Cow::Borrowed)))
}

fn of_variable() -> Result<Option<Vec<u8>>> {
    let Some(file) = std::env::var_os(SCRIPT_RUNNER_VARIABLE).filter(|file| !file.is_empty()) else {
        return Ok(None);
    };
    let read = read_regular_file(Path::new(&file), COMPONENT_BYTES_MAX);
    let bytes = read.with_context(|| {
        let file = file.display();
        format!("cannot read the script runner {file} ({SCRIPT_RUNNER_VARIABLE})")
    })?;
    Ok(Some(bytes))
}

/// The folders that may have files of the release. None if the system does not say where the program is.
fn folders() -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let Some(folder) = program.as_deref().and_then(Path::parent) else {
        return Vec::new();
    };
    // Without `..`, for messages: the folder of the program is a real one.
    let in_folder = |relative: &str| match relative.strip_prefix("../") {
        Some(rest) => folder.parent().unwrap_or(folder).join(rest),
        None => folder.join(relative),
    };
    FOLDERS.map(in_folder).to_vec()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_configuration_overrides_the_runners_of_the_release() {
        let section = |keys: &[&str]| {
            let files = keys
                .iter()
                .map(|key| (Suffix::new(key).unwrap(), PathBuf::from(format!("{key}.wasm"))));
            ScriptRunnersSection(files.collect::<BTreeMap<_, _>>())
        };
        let shown = |section: &ScriptRunnersSection, of_variable: Option<Vec<u8>>| {
            let sources = sources_with(section, of_variable, &[PathBuf::from("/usr/bin")]);
            let sources = sources.into_iter().filter_map(|(key, source)| match source {
                RunnerSource::Configured(file) => Some(format!("{key} {}", file.display())),
                RunnerSource::Released { file, folders } => Some(format!("{key} {}", folders[0].join(file).display())),
                RunnerSource::BuiltIn(bytes) => (bytes.len() == 1).then(|| format!("{key} of the variable")),
            });
            sources.collect::<Vec<_>>()
        };
        let released = "py /usr/bin/informant-runner-python.wasm";
        assert_eq!(shown(&section(&[]), None), [released]);
        assert_eq!(
            shown(&section(&["js", "rb"]), None),
            ["js js.wasm", released, "rb rb.wasm"]
        );
        assert_eq!(
            shown(&section(&["js", "py"]), Some(vec![0])),
            ["js of the variable", "py py.wasm"]
        );
    }

    #[test]
    fn files_of_the_release_are_near_the_program() {
        let folders = folders();
        let program = std::env::current_exe().unwrap();
        assert_eq!(folders[0].join(program.file_name().unwrap()), program);
        assert!(folders[1].ends_with("lib/informant"));
    }
}
