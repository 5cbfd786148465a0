//! Bundles the dashboard into the target folder, where the build of `informant` finds it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, npm, report, workspace};

/// What bundles, what makes the bundle smaller, and what checks the types.
const TOOLS: [&str; 3] = ["esbuild", "terser", "tsc"];

/// The files of the dashboard together, uncompressed: 120 KB.
const BYTES_MAX: u64 = 120_000;

/// The files that informant's build embeds.
const FILES: [&str; 3] = ["index.html", "app.js", "app.css"];

/// Bundles it, unless npm is missing: then `informant` is built without it.
pub(crate) fn build_if_possible() -> Result<()> {
    match npm::missing() {
        None => {
            report::step("building the dashboard");
            build().map(drop)
        }
        Some(why) => {
            report::skipped("the dashboard", why);
            Ok(())
        }
    }
}

/// Checks the types and bundles the files. Returns their folder.
pub(crate) fn build() -> Result<PathBuf> {
    let (sources, tools) = (sources()?, workspace::target()?.join("tools").join("dashboard"));
    npm::install(&sources, &tools, &TOOLS)?;
    // Packages are found next to the sources.
    copy(&sources.join("src"), &tools.join("src"))?;
    std::fs::copy(sources.join("tsconfig.json"), tools.join("tsconfig.json"))
        .context("failed to copy tsconfig.json")?;
    cargo::run(
        Command::new(npm::program(&tools, "tsc"))
            .args(["--noEmit", "--project", "."])
            .current_dir(&tools),
    )?;
    let folder = workspace::target()?.join("dashboard");
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let folder = std::path::absolute(folder)?;
    bundle(&tools, &folder)?;
    let page = std::fs::read_to_string(tools.join("src").join("index.html")).context("failed to read the page")?;
    let page: String = page.lines().map(str::trim).collect();
    std::fs::write(folder.join("index.html"), page).context("failed to write the page")?;
    let sizes = FILES.map(|file| std::fs::metadata(folder.join(file)).map(|file| file.len()));
    let bytes: u64 = sizes
        .into_iter()
        .sum::<std::io::Result<u64>>()
        .context("esbuild left a file out")?;
    ensure!(
        bytes <= BYTES_MAX,
        "the dashboard has {bytes} bytes, and may have {BYTES_MAX}"
    );
    Ok(folder)
}

/// Writes app.js and app.css. esbuild puts the modules together; terser needs 3 KB less than its minifier.
fn bundle(tools: &Path, folder: &Path) -> Result<()> {
    let whole = tools.join("bundle");
    let mut esbuild = Command::new(npm::program(tools, "esbuild"));
    esbuild.args([
        "src/app.tsx",
        "--bundle",
        "--minify-syntax",
        "--minify-whitespace",
        "--format=iife",
        "--target=es2022",
        "--charset=utf8",
        "--log-level=warning",
    ]);
    esbuild.arg(format!("--outfile={}", whole.join("app.js").display()));
    cargo::run(esbuild.current_dir(tools))?;
    let mut terser = Command::new(npm::program(tools, "terser"));
    terser.args(["bundle/app.js", "--mangle"]);
    terser.args(["--compress", "passes=3,ecma=2020,unsafe_arrows,keep_fargs=false"]);
    terser.arg("--output").arg(folder.join("app.js"));
    cargo::run(terser.current_dir(tools))?;
    std::fs::copy(whole.join("app.css"), folder.join("app.css")).context("failed to copy the styles")?;
    Ok(())
}

/// The folder of the files that were built last, if they are there.
pub(crate) fn built() -> Option<PathBuf> {
    // Absolute, because cargo runs build scripts in the package's folder.
    let folder = std::path::absolute(workspace::target().ok()?.join("dashboard")).ok()?;
    FILES.iter().all(|file| folder.join(file).is_file()).then_some(folder)
}

fn sources() -> Result<PathBuf> {
    Ok(workspace::root()?.join("host").join("informant").join("dashboard"))
}

/// Replaces a folder by a copy of another one.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to).with_context(|| format!("failed to remove {}", to.display()))?;
    }
    std::fs::create_dir_all(to).with_context(|| format!("failed to create {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("failed to read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => std::fs::copy(entry.path(), &target).map(drop)?,
        }
    }
    Ok(())
}
