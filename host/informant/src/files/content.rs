//! Reading what a plugin is made of.

use informant_plugin_host::limits::{COMPONENT_BYTES_MAX, SCRIPT_BYTES_MAX};
use informant_plugin_host::{LoadError, LoadProblem};
use informant_spec::{Content, ContentSource};

use super::regular::{ReadFileError, read_regular_file};

/// Reads what `source` names, once: the bytes that are hashed are the ones that are compared with the pin, compiled and
/// kept. Blocks for as long as the file system takes.
///
/// # Errors
/// [`LoadProblem::Unreadable`], [`LoadProblem::NotRegular`], [`LoadProblem::TooLarge`],
/// [`LoadProblem::ScriptTooLarge`].
pub(crate) fn read_content(source: &ContentSource) -> Result<Content, LoadError> {
    let (is_script, max) = match source.language().is_script() {
        true => (true, SCRIPT_BYTES_MAX),
        false => (false, COMPONENT_BYTES_MAX),
    };
    let problem = match read_regular_file(source.path(), max) {
        Ok(bytes) => return Ok(Content::new(source.clone(), bytes)),
        Err(ReadFileError::Io(error)) => LoadProblem::Unreadable(error),
        Err(ReadFileError::NotRegular { found }) => LoadProblem::NotRegular { found },
        Err(ReadFileError::TooLarge { bytes }) if is_script => LoadProblem::ScriptTooLarge { bytes, max },
        Err(ReadFileError::TooLarge { bytes }) => LoadProblem::TooLarge { bytes, max },
    };
    Err(LoadError::new(source.path(), problem))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn missing_and_too_large_files_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |name: &str, bytes: Option<u64>| {
            let path = folder.path().join(name);
            if let Some(bytes) = bytes {
                File::create(&path).unwrap().set_len(bytes).unwrap();
            }
            let error = read_content(&path.into()).unwrap_err().to_string();
            error.replace(&folder.path().display().to_string(), "FOLDER")
        };
        let refusals = [
            refusal("none.wasm", None),
            refusal("long.wasm", Some(500 << 20)),
            refusal("long.js", Some(2 << 20)),
        ];
        insta::assert_snapshot!(refusals.join("\n"), @r"
        FOLDER/none.wasm: cannot be read: No such file or directory (os error 2)
        FOLDER/long.wasm: too large: 500 MiB; a component may have at most 64 MiB
        FOLDER/long.js: too large: 2097152 bytes; a script may have at most 1048576 (1 MiB); make a component of a larger one: informant plugin build FILE --component
        ");
    }
}
