//! Scripts: plugins that are a file of source text instead of a component.
//!
//! ```text
//! handler.js ──stdin──▶ its script runner, an ordinary component ──describe──▶ manifest, roles ──▶ instances
//! ```
//!
//! A script is run by the *script runner* of its language, a component with an interpreter ([`super::runner`]). There
//! is no private interface between the two: the runner exports the roles of the contract and reads its program from
//! standard input, like any interpreter, with the file's name as its first argument. Its manifest activates the roles
//! that the script has (`roles`). So a script has the limits, the sandbox and the lifecycle of any plugin, and the
//! runner is compiled once for all scripts of its language and all their versions.
//!
//! A component in JavaScript is the runner with the script in a custom section ([`script_component`]). It runs like a
//! script, with the runner that it brings instead of the one that ships with Informant.

use std::sync::Arc;

use bytes::Bytes;
use informant_spec::Content;

use crate::component::binary::EmbeddedScript;
use crate::error::LoadProblem;

/// Bytes of a script: 1 MiB, the size limit of a ConfigMap. A longer one, bundled from libraries, can be a component
/// ([`script_component`]).
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// Bytes of an import, and of the line before it, that are read to find its names: 1 KiB. The text of a script may be
/// one line.
const STATEMENT_BYTES_MAX: usize = 1 << 10;

/// The first argument of a program: its own name.
pub(crate) const PROGRAM: &str = "informant-script-runner";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// The file's name, without its folder: what errors and stack traces show.
    pub(crate) name: String,
    pub(crate) text: Bytes,
}

/// The component that runs `text` with `runner`, the script runner. `name` is the name of the script's file, which
/// errors show.
#[must_use]
pub fn script_component(runner: &[u8], name: &str, text: &[u8]) -> Vec<u8> {
    [runner, &EmbeddedScript::new(name, text).section].concat()
}

impl Script {
    /// The script in `content`.
    /// Errors: [`LoadProblem::ScriptTooLarge`], [`LoadProblem::ScriptNotText`].
    pub(crate) fn new(content: &Content) -> Result<Script, LoadProblem> {
        let bytes = Arc::clone(content.bytes());
        if bytes.len() > SCRIPT_BYTES_MAX {
            return Err(LoadProblem::ScriptTooLarge {
                bytes: bytes.len(),
                max: SCRIPT_BYTES_MAX,
            });
        }
        if let Err(error) = std::str::from_utf8(&bytes) {
            let before = &bytes[..error.valid_up_to()];
            return Err(LoadProblem::ScriptNotText {
                line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
                column: before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1,
                byte: bytes[before.len()],
            });
        }
        let name = content
            .origin()
            .path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Ok(Script {
            name,
            text: Bytes::from_owner(bytes),
        })
    }

    /// The script in a component.
    pub(crate) fn embedded(script: EmbeddedScript) -> Script {
        Script {
            name: script.name,
            text: Bytes::from(script.text),
        }
    }
}

impl Script {
    /// The names that it imports from "informant", by `import { a, b as c } from "informant"`. Reads the text only: an
    /// import in another form is missed, and so is one that is longer than [`STATEMENT_BYTES_MAX`].
    pub(crate) fn imports(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.text);
        let statements = text.match_indices("import").filter_map(|(at, word)| {
            let before = &text[text.floor_char_boundary(at.saturating_sub(STATEMENT_BYTES_MAX))..at];
            let line = before.lines().next_back().unwrap_or_default().trim_start();
            // A comment, or the end of another word.
            let is_statement = !line.starts_with("//") && !line.starts_with('*') && !before.ends_with(is_of_word);
            let after = &text[at + word.len()..];
            let after = &after[..after.floor_char_boundary(STATEMENT_BYTES_MAX)];
            let names = after.trim_start().strip_prefix('{')?;
            let (names, rest) = names.split_once('}').filter(|_| is_statement)?;
            let module = rest.trim_start().strip_prefix("from")?.trim_start();
            let is_ours = module.starts_with("\"informant\"") || module.starts_with("'informant'");
            is_ours.then_some(names)
        });
        let names = statements.flat_map(|names| names.split(','));
        names
            .filter_map(|name| name.split_whitespace().next())
            .map(str::to_owned)
            .collect()
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Script, String> {
        let script = Script::new(&Content::new("handler.js", bytes));
        script.map_err(|problem| problem.to_string())
    }

    #[test]
    fn imports_of_a_script_are_found_in_its_text() {
        let imports = |text: &'static str| {
            let text = Bytes::from_static(text.as_bytes());
            let name = "handler.js".to_owned();
            Script { name, text }.imports().join(" ")
        };
        for (text, expected) in [
            ("import { kv, fetch as send } from \"informant\";", "kv fetch"),
            ("import{kv as a,log as b}from'informant';let c", "kv log"),
            (
                "import {\n  kv,\n} from \"informant\";\nimport { store } from 'informant'",
                "kv store",
            ),
            (
                "// import { kv } from \"informant\"\n/*\n * import { kv } from \"informant\"\n */",
                "",
            ),
            ("import { kv } from \"./kv.js\";", ""),
            ("reimport { kv } from \"informant\"", ""),
            ("import * as informant from \"informant\";", ""),
            ("import", ""),
        ] {
            assert_eq!(imports(text), expected, "{text}");
        }
    }

    #[test]
    fn a_script_is_utf8_of_bounded_length() {
        let script = read("// grüße\n".as_bytes()).unwrap();
        assert_eq!((script.name.as_str(), script.text.len()), ("handler.js", 11));
        assert_eq!(read(&vec![b' '; SCRIPT_BYTES_MAX]).map(|_| ()), Ok(()));
        insta::assert_snapshot!(
            read(&vec![b' '; SCRIPT_BYTES_MAX + 1]).unwrap_err(),
            @"too large: 1048577 bytes; a script may have at most 1048576 (1 MiB); make a component of a larger one: informant plugin build FILE --component"
        );
        insta::assert_snapshot!(
            read(b"let a;\nlet b = '\xe9';").unwrap_err(),
            @"not UTF-8: byte 0xe9 at line 2, column 10; save it as UTF-8"
        );
    }
}
