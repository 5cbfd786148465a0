//! Builds programs whose bytes do not depend on the machine, the folder or the time.
//!
//! zig links them against glibc 2.28, so the machine's own glibc does not matter. The build has a target folder of its
//! own: its flags would rebuild everything in the usual one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Target;
use crate::{cargo, dashboard, guests, pip, script_runner, workspace, zig};

/// The pinned package, which makes zig cargo's linker and C compiler. PyPI has it as a program, next to zig.
const PACKAGE: (&str, &str) = ("cargo-zigbuild", "0.24.0");

/// The glibc of the programs; `informant-dist` checks it.
const GLIBC: &str = "2.28";

/// The profile in Cargo.toml.
const PROFILE: &str = "dist";

/// Separates flags in `CARGO_ENCODED_RUSTFLAGS`.
const FLAG_SEPARATOR: &str = "\u{1f}";

/// How programs are built.
pub(super) struct Build {
    /// The target folder.
    folder: PathBuf,
    epoch: u64,
    zigbuild: PathBuf,
    /// Folders of this machine, and what they are called in programs. A later one wins.
    renamed: Vec<(PathBuf, String)>,
    /// The script runner, which is embedded in the programs.
    runner: PathBuf,
    /// The folder of the dashboard, which is, too.
    dashboard: PathBuf,
}

impl Build {
    /// Installs the tools and builds the script runner.
    pub(super) fn prepare(epoch: u64, targets: &[Target]) -> Result<Self> {
        zig::install()?;
        guests::add_target(guests::TARGET)?;
        for target in targets {
            guests::add_target(target.triple())?;
        }
        // The folders of the sources must be there to be renamed.
        cargo::run(cargo::cargo()?.args(["fetch", "--locked"]))?;
        let folder = folder()?;
        let mut build = Self {
            renamed: renamed_folders(&folder)?,
            folder,
            epoch,
            zigbuild: install()?,
            runner: PathBuf::new(),
            dashboard: dashboard::build()?,
        };
        let mut command = cargo::cargo()?;
        script_runner::build_with(build.reproducible(&mut command))?;
        build.runner = script_runner::built_below(&build.folder).context("the script runner was not built")?;
        Ok(build)
    }

    /// Builds the program and returns its path.
    pub(super) fn program(&self, target: Target) -> Result<PathBuf> {
        let mut command = Command::new(&self.zigbuild);
        command.current_dir(workspace::root()?);
        cargo::without_own_variables(&mut command);
        command.env("CARGO_ZIGBUILD_ZIG_PATH", zig::install()?);
        command.env("CARGO_ZIGBUILD_CACHE_DIR", self.folder.join("zig"));
        command.env("INFORMANT_EMBED_SCRIPT_RUNNER", &self.runner);
        command.env("INFORMANT_EMBED_DASHBOARD", &self.dashboard);
        command.args([
            "zigbuild",
            "--locked",
            "--profile",
            PROFILE,
            "--package",
            "informant",
            "--bin",
            "informant",
            // `informant plugin compile` makes the image for the other architecture, too.
            "--features",
            "all-architectures",
        ]);
        command.arg("--target").arg(format!("{}.{GLIBC}", target.triple()));
        cargo::run(self.reproducible(&mut command))?;
        let program = self.folder.join(target.triple()).join(PROFILE).join("informant");
        ensure!(program.is_file(), "{} was not built", program.display());
        Ok(program)
    }

    /// The time of the files, in seconds since 1970.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The folders that no program may name. One at the root, such as `/src`, looks like a part of other paths.
    pub(super) fn private_folders(&self) -> impl Iterator<Item = &Path> {
        let folders = self.renamed.iter().map(|(folder, _)| folder.as_path());
        folders.filter(|folder| folder.components().count() > 2)
    }

    /// Makes the command build into this folder, without the names of this machine's folders.
    fn reproducible<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let flags = |option: &str, separator: &str| {
            let flags = self.renamed.iter();
            let flags = flags.map(|(folder, name)| format!("{option}{}={name}", folder.display()));
            flags.collect::<Vec<_>>().join(separator)
        };
        command.env("CARGO_ENCODED_RUSTFLAGS", flags("--remap-path-prefix=", FLAG_SEPARATOR));
        command.env("CFLAGS", flags("-ffile-prefix-map=", " "));
        command.env("CARGO_TARGET_DIR", &self.folder);
        // zig finds an object by its sources and flags: one from an earlier commit would have its time in `__TIME__`.
        command.env("ZIG_GLOBAL_CACHE_DIR", self.folder.join("zig-cache"));
        command.env("CARGO_INCREMENTAL", "0");
        command.env("SOURCE_DATE_EPOCH", self.epoch.to_string())
    }
}

/// The target folder of the programs.
pub(super) fn folder() -> Result<PathBuf> {
    Ok(std::path::absolute(workspace::target()?.join("dist-build"))?)
}

/// Installs cargo-zigbuild, unless it is present. Returns its path.
fn install() -> Result<PathBuf> {
    let (name, version) = PACKAGE;
    let folder = workspace::target()?.join("tools").join(name).join(version);
    let program = std::path::absolute(folder.join("bin").join(name))?;
    if !program.is_file() {
        pip::install(&format!("{name}=={version}"), &folder)?;
    }
    Ok(program)
}

/// Which folders are renamed: sources, build, cargo's folder and the toolchain.
fn renamed_folders(build: &Path) -> Result<Vec<(PathBuf, String)>> {
    let cargo_home = match std::env::var_os("CARGO_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir()
            .context("cannot find cargo's folder: set CARGO_HOME")?
            .join(".cargo"),
    };
    let mut folders = vec![
        (sysroot()?, "/rust".to_owned()),
        (cargo_home.clone(), "/cargo".to_owned()),
        (workspace::root()?, "/informant".to_owned()),
        (build.to_owned(), "/informant/target".to_owned()),
    ];
    // Another checkout may share them by a link.
    let tools = workspace::target()?.join("tools");
    if let Ok(tools) = tools.canonicalize() {
        folders.push((tools, "/informant/target/tools".to_owned()));
    }
    // The folder of a registry's sources is named by its address, which is another one where a mirror is used.
    let sources = cargo_home.join("registry").join("src");
    if sources.is_dir() {
        for entry in std::fs::read_dir(&sources).with_context(|| format!("failed to read {}", sources.display()))? {
            folders.push((entry?.path(), "/cargo/registry".to_owned()));
        }
    }
    Ok(folders)
}

/// The toolchain's folder.
fn sysroot() -> Result<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    let output = command
        .current_dir(workspace::root()?)
        .args(["--print", "sysroot"])
        .output();
    let output = output.context("failed to run rustc")?;
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
