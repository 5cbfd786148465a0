//! Scripts: plugins that are a file of JavaScript and no component of their own.
//!
//! ```text
//! handler.js ──stdin──▶ the script runner, a component like any other ──describe──▶ manifest, roles ──▶ instances
//! ```
//!
//! A script is run by the *script runner*, a component with a JavaScript engine in it that ships with Informant.
//! Nothing is private between the two: the runner plays the roles of the contract and finds its program where every
//! interpreter finds it, on standard input, with the file's name as its first argument. Of what it can do it plays what
//! the script exports (`roles` in its manifest). So a script has the limits, the sandbox and the life of any plugin,
//! and the runner is compiled once for all scripts and all their versions.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use wasmtime::component::Linker;

use crate::Digest;
use crate::artifact::Artifacts;
use crate::component::{self, PluginComponent};
use crate::error::Problem;
use crate::guest::GuestState;

/// Bytes of a script: 1 MiB, as much as a ConfigMap holds. What is longer was bundled from libraries and is better off
/// compiled to a component.
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// What the names of scripts end in.
const EXTENSIONS: [&str; 2] = ["js", "mjs"];

/// What stands before the arguments of a program: its own name.
pub(crate) const PROGRAM: &str = "informant-script-runner";

/// A script, as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// The file's name, without its folder: what errors and stack traces show.
    pub(crate) name: String,
    pub(crate) text: Bytes,
}

/// The component that runs scripts, made ready when the first script comes.
pub(crate) struct ScriptRunner {
    component: Option<Cow<'static, [u8]>>,
    ready: OnceCell<PluginComponent>,
}

/// Whether the file `path` is a script, by its name.
#[must_use]
pub fn is_script(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
}

impl Script {
    /// Reads the file `path`, up to [`SCRIPT_BYTES_MAX`].
    ///
    /// # Errors
    /// [`Problem::Unreadable`], [`Problem::ScriptTooLarge`], [`Problem::ScriptNotText`].
    pub(crate) fn read(path: &Path) -> Result<Script, Problem> {
        let bytes = component::read_up_to(path, SCRIPT_BYTES_MAX, |bytes| Problem::ScriptTooLarge { bytes })?;
        if let Err(error) = std::str::from_utf8(&bytes) {
            let before = &bytes[..error.valid_up_to()];
            return Err(Problem::ScriptNotText {
                line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
                column: before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1,
                byte: bytes[before.len()],
            });
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Script {
            name,
            text: Bytes::from(bytes),
        })
    }
}

impl ScriptRunner {
    pub(crate) fn new(component: Option<Cow<'static, [u8]>>) -> ScriptRunner {
        ScriptRunner {
            component,
            ready: OnceCell::new(),
        }
    }

    /// The component that is the plugin of `script`.
    ///
    /// # Errors
    /// [`Problem::Pin`] if the script is not the one that is pinned, [`Problem::NoScriptRunner`], and what can be wrong
    /// with the runner itself.
    pub(crate) async fn run(
        &self,
        script: Script,
        pin: Option<Digest>,
        artifacts: &Artifacts,
        linker: &Linker<GuestState>,
    ) -> Result<PluginComponent, Problem> {
        let digest = Digest::of(&script.text);
        if let Some(pinned) = pin.filter(|pinned| *pinned != digest) {
            return Err(Problem::Pin { found: digest, pinned });
        }
        let make = || async {
            let component = self.component.as_ref().ok_or(Problem::NoScriptRunner)?;
            PluginComponent::new(Arc::from(&component[..]), None, artifacts, linker).await
        };
        let runner = self.ready.get_or_try_init(make).await?;
        Ok(runner.running(Arc::new(script), digest))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Script, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("handler.js");
        fs::write(&path, bytes).unwrap();
        Script::read(&path).map_err(|problem| problem.to_string())
    }

    #[test]
    fn what_ends_in_js_is_a_script() {
        for (name, expected) in [
            ("handler.js", true),
            ("a/handler.mjs", true),
            ("handler.wasm", false),
            ("js", false),
            ("handler.js/plugin", false),
            ("handler.ts", false),
        ] {
            assert_eq!(is_script(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn a_script_is_text_of_a_bounded_length() {
        let script = read("// grüße\n".as_bytes()).unwrap();
        assert_eq!((script.name.as_str(), script.text.len()), ("handler.js", 11));
        assert_eq!(read(&vec![b' '; SCRIPT_BYTES_MAX]).map(|_| ()), Ok(()));
        insta::assert_snapshot!(
            read(&vec![b' '; SCRIPT_BYTES_MAX + 1]).unwrap_err(),
            @"1048577 bytes long; a script may have 1048576 (1 MiB): compile what is larger to a component (docs/plugins.md, JavaScript)"
        );
        insta::assert_snapshot!(
            read(b"let a;\nlet b = '\xe9';").unwrap_err(),
            @"not UTF-8: byte 0xe9 at line 2, column 10; save it as UTF-8"
        );
    }
}
