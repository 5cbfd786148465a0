//! [`Language`]: what a plugin is written in. The only place that knows what the suffix of a file stands for.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// What a plugin is written in, as far as running it differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// A component, whatever it was compiled from.
    Wasm,
    /// A script in a file with this suffix, which a script runner runs.
    Script(Suffix),
}

/// The suffix of a script's file without its dot, such as `js`. It selects the script runner. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Suffix(Arc<str>);

/// What Informant knows of a suffix.
struct Known {
    suffix: &'static str,
    language: &'static str,
    /// The key of its runner in `[script-runners]`.
    runner: &'static str,
}

/// The suffixes that have a runner without a line in config.toml, in the order in which messages list them.
const KNOWN: [Known; 5] = [
    known("js", "JavaScript", "js"),
    known("mjs", "JavaScript", "js"),
    // Its types are erased; what is left is JavaScript.
    known("ts", "TypeScript", "js"),
    known("mts", "TypeScript", "js"),
    known("py", "Python", "py"),
];

/// Bytes of a suffix: 16.
const SUFFIX_BYTES_MAX: usize = 16;

/// The suffix of components.
const WASM: &str = "wasm";

const fn known(suffix: &'static str, language: &'static str, runner: &'static str) -> Known {
    Known {
        suffix,
        language,
        runner,
    }
}

impl Language {
    /// That of a file: a script if its suffix has a runner without further configuration, or else a component.
    #[must_use]
    pub fn of(file: &Path) -> Language {
        match Suffix::of(file).filter(Suffix::is_known) {
            Some(suffix) => Language::Script(suffix),
            None => Language::Wasm,
        }
    }

    /// Whether it is run by a script runner.
    #[must_use]
    pub const fn is_script(&self) -> bool {
        matches!(self, Language::Script(_))
    }

    /// The suffix of its files.
    #[must_use]
    pub fn suffix(&self) -> &str {
        match self {
            Language::Wasm => WASM,
            Language::Script(suffix) => suffix.as_str(),
        }
    }
}

impl Suffix {
    /// The suffix of a file that may be a script: not of one without a suffix, or of a component.
    #[must_use]
    pub fn of(file: &Path) -> Option<Suffix> {
        Suffix::new(file.extension()?.to_str()?)
    }

    /// A suffix of at most 16 lower-case letters and digits. None for any other text, and for the suffix of
    /// components.
    #[must_use]
    pub fn new(text: &str) -> Option<Suffix> {
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_suffix = (1..=SUFFIX_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_part) && text != WASM;
        is_suffix.then(|| Suffix(text.into()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Those that have a runner without a line in config.toml.
    pub fn known() -> impl Iterator<Item = Suffix> {
        KNOWN.iter().map(|known| Suffix(known.suffix.into()))
    }

    /// The key of the runner in `[script-runners]`, which is that of the language: `js` for `mjs`, too.
    #[must_use]
    pub fn runner(&self) -> Suffix {
        match self.find() {
            Some(known) => Suffix(known.runner.into()),
            None => self.clone(),
        }
    }

    /// The name of the language, if Informant knows it.
    #[must_use]
    pub fn language(&self) -> Option<&'static str> {
        self.find().map(|known| known.language)
    }

    /// Whether the script has types, which are erased before it runs.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        self.language() == Some("TypeScript")
    }

    fn is_known(&self) -> bool {
        self.find().is_some()
    }

    fn find(&self) -> Option<&'static Known> {
        KNOWN.iter().find(|known| *known.suffix == *self.0)
    }
}

impl fmt::Display for Suffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_recognized_by_their_suffix() {
        for (name, expected) in [
            ("handler.js", Some("JavaScript")),
            ("a/handler.mjs", Some("JavaScript")),
            ("handler.ts", Some("TypeScript")),
            ("handler.py", Some("Python")),
            ("handler.wasm", None),
            ("js", None),
            ("handler.js/plugin", None),
            ("handler.rb", None),
            ("handler.JS", None),
        ] {
            let found = match Language::of(Path::new(name)) {
                Language::Script(suffix) => suffix.language(),
                Language::Wasm => None,
            };
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn suffixes_of_one_language_share_a_runner() {
        let runner = |suffix: &str| Suffix::new(suffix).unwrap().runner().to_string();
        assert_eq!(
            ["js", "mjs", "ts", "mts", "py", "rb"].map(runner),
            ["js", "js", "js", "js", "py", "rb"]
        );
    }

    #[test]
    fn a_suffix_is_short_and_in_lower_case() {
        for text in ["", "RB", "r.b", "wasm", "a-suffix", "abcdefghijklmnopq"] {
            assert_eq!(Suffix::new(text), None, "{text}");
        }
        assert!(Suffix::new("rb").is_some_and(|suffix| !suffix.is_known()));
    }
}
