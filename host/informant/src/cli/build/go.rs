//! A core module of a Go package, by the stock Go toolchain.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use super::source::Source;
use super::tool::{Tool, read_result, scratch_folder};

/// The oldest version that the SDK supports.
const GO: Tool = Tool {
    name: "go",
    purpose: "compiles",
    install: "install Go 1.26 or newer (https://go.dev/dl)",
    oldest: (1, 26),
};

/// The SDK's run-time links to functions of Go's, which the linker refuses without the second flag.
const LINKER_FLAGS: &str = "-ldflags=-s -w -checklinkname=0";

/// Lists the files with `import "C"` of the package and of what it imports, but not of the standard library.
const CGO_FILES: &str = "{{if not .Standard}}{{range .CgoFiles}}{{$.Dir}}/{{.}}\n{{end}}{{end}}";

/// # Errors
/// If Go is missing or too old, or the package does not compile.
pub(super) fn build(source: &Source) -> Result<Vec<u8>> {
    let module = source.folder.join("go.mod");
    GO.check_version(go(source).arg("version"), &module)?;
    let scratch = scratch_folder()?;
    let core = scratch.path().join("core.wasm");
    let mut command = go(source);
    command.args(["build", "-buildmode=c-shared", LINKER_FLAGS, "-o"]).arg(&core).arg(".");
    match GO.run(command.env("CGO_ENABLED", "0"), &module, "the package must be main, with an empty func main()") {
        Ok(_) => read_result(&core, &GO),
        Err(failed) => {
            refuse_cgo(&cgo_files(source))?;
            Err(failed)
        }
    }
}

/// `go` in the folder, for WebAssembly.
fn go(source: &Source) -> Command {
    let mut command = Command::new("go");
    command.current_dir(&source.folder).env("GOOS", "wasip1").env("GOARCH", "wasm");
    command
}

/// The files that need a C compiler. Empty if Go cannot list them.
fn cgo_files(source: &Source) -> String {
    let mut command = go(source);
    command.args(["list", "-e", "-deps", "-f", CGO_FILES, "."]).env("CGO_ENABLED", "1");
    let listed = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    listed.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn refuse_cgo(files: &str) -> Result<()> {
    if let Some(file) = files.lines().find(|line| !line.is_empty()) {
        bail!(
            "{} imports \"C\" (cgo), which does not compile to WebAssembly: use a package in pure Go instead, or leave \
             the file out with the line `//go:build !wasip1`",
            Path::new(file).display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgo_is_refused_by_file() {
        let error = refuse_cgo("\n/home/me/go/pkg/sqlite3/sqlite3.go\n").unwrap_err();
        insta::assert_snapshot!(error, @r#"/home/me/go/pkg/sqlite3/sqlite3.go imports "C" (cgo), which does not compile to WebAssembly: use a package in pure Go instead, or leave the file out with the line `//go:build !wasip1`"#);
        refuse_cgo("\n").unwrap();
    }
}
