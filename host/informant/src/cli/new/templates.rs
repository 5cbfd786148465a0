//! The files of a new plugin, by language.
//!
//! They are in `templates/LANGUAGE`. `{{name}}` stands for the plugin's name and `{{sdk}}` for the path of its SDK,
//! relative to the new folder; nothing else is replaced. Files whose names begin with a dot lack it there, so that they
//! have no effect in this repository.

use clap::ValueEnum;

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
macro_rules! file {
    ($folder:literal, $name:literal) => {
        file!($folder, $name, $name)
    };
    ($folder:literal, $name:literal, $path:literal) => {
        ($path, include_str!(concat!("templates/", $folder, "/", $name)))
    };
}

/// The types of the API, for editors.
const TYPES: File = ("informant.d.ts", include_str!("../../../../../plugin-sdk/javascript/informant.d.ts"));

const JS: &[File] = &[
    file!("js", "handler.js"),
    file!("js", "handler.test.js"),
    file!("js", "config.toml"),
    file!("js", "package.json"),
    file!("js", "jsconfig.json"),
    file!("js", "gitignore", ".gitignore"),
    file!("js", "README.md"),
    TYPES,
];

const TS: &[File] = &[
    file!("ts", "handler.ts"),
    file!("ts", "handler.test.ts"),
    file!("ts", "config.toml"),
    file!("ts", "package.json"),
    file!("ts", "tsconfig.json"),
    file!("ts", "gitignore", ".gitignore"),
    file!("ts", "README.md"),
    TYPES,
];

const PYTHON: &[File] = &[
    file!("python", "handler.py"),
    file!("python", "test_handler.py"),
    file!("python", "config.toml"),
    file!("python", "pyproject.toml"),
    file!("python", "gitignore", ".gitignore"),
    file!("python", "README.md"),
];

const RUST: &[File] = &[
    file!("rust", "src/lib.rs"),
    file!("rust", "config.toml"),
    file!("rust", "Cargo.toml"),
    file!("rust", "gitignore", ".gitignore"),
    file!("rust", "README.md"),
];

const GO: &[File] = &[
    file!("go", "handler.go"),
    file!("go", "handler_test.go"),
    file!("go", "config.toml"),
    file!("go", "go.mod"),
    file!("go", "gitignore", ".gitignore"),
    file!("go", "README.md"),
];

const C: &[File] = &[
    file!("c", "handler.c", "{{name}}.c"),
    file!("c", "handler_test.c", "{{name}}_test.c"),
    file!("c", "config.toml"),
    file!("c", "Makefile"),
    file!("c", "clangd", ".clangd"),
    file!("c", "gitignore", ".gitignore"),
    file!("c", "README.md"),
];

impl Language {
    pub(super) const fn files(self) -> &'static [File] {
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

    /// What to run next: what follows `cd FOLDER`, the test, and the build or what replaces it.
    pub(super) const fn commands(self) -> [&'static str; 3] {
        match self {
            Language::Js => ["", "node --test", "informant check --offline"],
            Language::Ts => [" && npm install", "npm test", "informant check --offline"],
            Language::Python => [
                " && python3 -m venv .venv && . .venv/bin/activate",
                "pip install {{sdk}} && python3 -m unittest",
                "informant check --offline",
            ],
            Language::Rust => ["", "cargo test", "informant plugin build"],
            Language::Go => ["", "go test ./...", "informant plugin build"],
            Language::C => ["", "make test", "informant plugin build"],
        }
    }
}
