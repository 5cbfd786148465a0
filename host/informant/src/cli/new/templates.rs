//! The files of a new plugin, by language.
//!
//! They are in `templates/LANGUAGE`. `{{name}}` stands for the plugin's name and `{{sdk}}` for the path of its SDK,
//! relative to the new folder; nothing else is replaced. Files whose names begin with a dot lack it there, so that they
//! have no effect in this repository.

use clap::ValueEnum;

use super::kit::KIT;

/// What a plugin can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Language {
    /// JavaScript, which needs no build.
    Js,
    /// TypeScript, which needs none either.
    Ts,
    /// Python, which needs none without packages.
    Python,
    Rust,
    Go,
    C,
}

/// A file of a new plugin: its path, and its text.
pub(super) type File = (&'static str, &'static str);

/// A file of a template. The path in the new folder is the last argument, if it differs.
macro_rules! template {
    ($folder:literal, $name:literal) => {
        template!($folder, $name, $name)
    };
    ($folder:literal, $name:literal, $path:literal) => {
        ($path, include_str!(concat!("templates/", $folder, "/", $name)))
    };
}

/// The types of the API, for editors.
const TYPES: File = (
    "informant.d.ts",
    include_str!("../../../../../plugin-sdk/javascript/informant.d.ts"),
);

/// The same for every language.
const SCENARIO: File = ("{{name}}.scenario.yaml", include_str!("templates/scenario.yaml"));

const JS: &[File] = &[
    template!("js", "handler.js"),
    template!("js", "handler.test.js"),
    template!("js", "config.toml"),
    template!("js", "package.json"),
    template!("js", "jsconfig.json"),
    template!("js", "gitignore", ".gitignore"),
    template!("js", "README.md"),
    SCENARIO,
    TYPES,
];

const TS: &[File] = &[
    template!("ts", "handler.ts"),
    template!("ts", "handler.test.ts"),
    template!("ts", "config.toml"),
    template!("ts", "package.json"),
    template!("ts", "tsconfig.json"),
    template!("ts", "gitignore", ".gitignore"),
    template!("ts", "README.md"),
    SCENARIO,
    TYPES,
];

const PYTHON: &[File] = &[
    template!("python", "handler.py"),
    template!("python", "test_handler.py"),
    template!("python", "config.toml"),
    template!("python", "pyproject.toml"),
    template!("python", "gitignore", ".gitignore"),
    template!("python", "README.md"),
    SCENARIO,
];

const RUST: &[File] = &[
    template!("rust", "src/lib.rs"),
    template!("rust", "config.toml"),
    template!("rust", "Cargo.toml"),
    template!("rust", "gitignore", ".gitignore"),
    template!("rust", "README.md"),
    SCENARIO,
];

const GO: &[File] = &[
    template!("go", "handler.go"),
    template!("go", "handler_test.go"),
    template!("go", "config.toml"),
    template!("go", "go.mod"),
    template!("go", "gitignore", ".gitignore"),
    template!("go", "README.md"),
    SCENARIO,
];

const C: &[File] = &[
    template!("c", "handler.c", "{{name}}.c"),
    template!("c", "handler_test.c", "{{name}}_test.c"),
    template!("c", "config.toml"),
    template!("c", "Makefile"),
    template!("c", "clangd", ".clangd"),
    template!("c", "gitignore", ".gitignore"),
    template!("c", "README.md"),
    SCENARIO,
];

impl Language {
    pub(super) fn files(self) -> impl Iterator<Item = &'static File> {
        let kit = matches!(self, Language::Js | Language::Ts).then_some(KIT);
        self.own_files().iter().chain(kit.unwrap_or_default())
    }

    const fn own_files(self) -> &'static [File] {
        match self {
            Language::Js => JS,
            Language::Ts => TS,
            Language::Python => PYTHON,
            Language::Rust => RUST,
            Language::Go => GO,
            Language::C => C,
        }
    }

    /// The language, as people write it.
    pub(super) const fn shown(self) -> &'static str {
        match self {
            Language::Js => "JavaScript",
            Language::Ts => "TypeScript",
            Language::Python => "Python",
            Language::Rust => "Rust",
            Language::Go => "Go",
            Language::C => "C",
        }
    }

    /// The SDK that the plugin is built with: its folder below `plugin-sdk`, and a file that it has. None for scripts,
    /// whose API is part of Informant.
    pub(super) const fn sdk(self) -> Option<(&'static str, &'static str)> {
        match self {
            Language::Js | Language::Ts => None,
            Language::Python => Some(("python", "informant/__init__.py")),
            Language::Rust => Some(("rust", "Cargo.toml")),
            Language::Go => Some(("go", "go.mod")),
            Language::C => Some(("c", "informant.h")),
        }
    }

    /// What to run next: what follows `cd FOLDER`, the test, and the plugin itself.
    pub(super) const fn commands(self) -> [&'static str; 3] {
        match self {
            Language::Js => ["", "npm test", "informant dev"],
            Language::Ts => [" && npm install", "npm test", "informant dev"],
            Language::Python => [
                " && python3 -m venv .venv && . .venv/bin/activate",
                "pip install {{sdk}} && python3 -m unittest",
                "informant dev",
            ],
            Language::Rust => ["", "cargo test", "informant dev"],
            Language::Go => ["", "go test ./...", "informant dev"],
            Language::C => ["", "make test", "informant dev"],
        }
    }
}
