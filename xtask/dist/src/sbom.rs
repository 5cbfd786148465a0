//! The software bill of materials: what is in the programs, as CycloneDX.
//!
//! `cargo tree` resolves it, with the features that the program is built with. The script runner, a component in the
//! program, is resolved for its own target. The Python runner, a file of its own, is listed with its digest and with
//! the packages that `cargo xtask dist` names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::checksums::sha256;
use crate::program::Program;
use crate::python::{self, PythonRunner};
use crate::release::Release;

/// The package of the program.
const PROGRAM: &str = "informant";

/// The package that is embedded in it, and its target.
const EMBEDDED: (&str, &str) = ("informant-script-runner", "wasm32-wasip2");

/// Name and version.
type Id = (String, String);

/// The packages of a program.
#[derive(Default)]
struct Bill {
    /// Their licenses, in Cargo's notation.
    licenses: BTreeMap<Id, String>,
    /// The packages that each one uses.
    uses: BTreeMap<Id, BTreeSet<Id>>,
}

/// Writes the document for `programs`, built from the sources in `repository`, and for the Python runner.
pub(crate) fn generate(
    repository: &Path,
    programs: &[Program],
    runner: &PythonRunner,
    release: &Release,
) -> Result<String> {
    let mut bill = Bill::default();
    let mut roots = Vec::new();
    let targets = programs.iter().map(|program| (PROGRAM, program.platform.target()));
    for (package, target) in targets.chain([EMBEDDED]) {
        roots.push(bill.add(&resolve(repository, package, target)?)?);
    }
    if let [program, .., embedded] = roots.as_slice() {
        bill.uses.entry(program.clone()).or_default().insert(embedded.clone());
    }
    let checksums = checksums(&crate::read_text(&repository.join("Cargo.lock"))?)?;
    let document = bill.document(&roots[0], &checksums, runner, release)?;
    Ok(format!("{document:#}\n"))
}

/// The tree of `package`, one package a line: depth, name and version, license.
fn resolve(repository: &Path, package: &str, target: &str) -> Result<String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(repository)
        .args(["tree", "--locked", "--package", package, "--target", target]);
    command.args([
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "depth",
        "--format",
        "\t{p}\t{l}",
    ]);
    let output = command.output().context("failed to start `cargo tree`")?;
    ensure!(
        output.status.success(),
        "`cargo tree --package {package}` failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

impl Bill {
    /// Adds the packages of a tree, and returns its root.
    fn add(&mut self, tree: &str) -> Result<Id> {
        let mut above: Vec<Id> = Vec::new();
        for line in tree.lines() {
            let (depth, id, license) = package(line).with_context(|| format!("`cargo tree` wrote `{line}`"))?;
            above.truncate(depth);
            if let Some(user) = above.last() {
                self.uses.entry(user.clone()).or_default().insert(id.clone());
            }
            self.licenses.insert(id.clone(), license.to_owned());
            above.push(id);
        }
        above.into_iter().next().context("`cargo tree` wrote nothing")
    }

    fn document(
        &self,
        program: &Id,
        checksums: &BTreeMap<Id, String>,
        runner: &PythonRunner,
        release: &Release,
    ) -> Result<Value> {
        let libraries = self.licenses.keys().filter(|id| *id != program);
        let mut components: Vec<Value> = libraries.map(|id| self.component("library", id, checksums)).collect();
        components.push(runner_component(runner, release));
        let dependencies: Vec<Value> = self.licenses.keys().map(|id| self.dependency(id)).collect();
        Ok(json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "timestamp": release.created()?,
                "component": self.component("application", program, checksums),
            },
            "components": components,
            "dependencies": dependencies,
        }))
    }

    fn component(&self, kind: &str, id: &Id, checksums: &BTreeMap<Id, String>) -> Value {
        let mut component = json!({"type": kind, "bom-ref": url(id), "purl": url(id), "name": id.0, "version": id.1});
        // In old packages, a slash means `or`.
        match self.licenses.get(id).map(|license| license.replace('/', " OR ")) {
            Some(license) if !license.is_empty() => component["licenses"] = json!([{ "expression": license }]),
            _ => {}
        }
        if let Some(checksum) = checksums.get(id) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        component
    }

    fn dependency(&self, id: &Id) -> Value {
        let used = self.uses.get(id).into_iter().flatten();
        json!({"ref": url(id), "dependsOn": used.map(url).collect::<Vec<_>>()})
    }
}

/// The Python runner, with the packages in it.
fn runner_component(runner: &PythonRunner, release: &Release) -> Value {
    let parts = runner.parts.iter().map(|part| {
        json!({
            "type": "library",
            "bom-ref": part.url,
            "purl": part.url,
            "name": part.name,
            "version": part.version,
            "licenses": [{ "expression": part.license }],
        })
    });
    json!({
        "type": "file",
        "bom-ref": python::FILE,
        "name": python::FILE,
        "version": release.version,
        "hashes": [{ "alg": "SHA-256", "content": sha256(&runner.bytes) }],
        "components": parts.collect::<Vec<_>>(),
    })
}

/// `2\tserde v1.0.229 (…)\tMIT OR Apache-2.0 (*)`: the depth, the package and its license.
fn package(line: &str) -> Option<(usize, Id, &str)> {
    let mut columns = line.split('\t');
    let depth = columns.next()?.parse().ok()?;
    let mut words = columns.next()?.split(' ');
    let id = (words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned());
    let license = columns.next()?;
    Some((depth, id, license.strip_suffix(" (*)").unwrap_or(license)))
}

fn url((name, version): &Id) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// The digests in Cargo.lock.
fn checksums(lock: &str) -> Result<BTreeMap<Id, String>> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Locked>,
    }
    #[derive(Deserialize)]
    struct Locked {
        name: String,
        version: String,
        checksum: Option<String>,
    }
    let lock: Lock = toml::from_str(lock).context("failed to read Cargo.lock")?;
    let entries = lock.package.into_iter();
    Ok(entries
        .filter_map(|entry| Some(((entry.name, entry.version), entry.checksum?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{Bill, checksums};
    use crate::python::runner;
    use crate::release::release;

    const TREE: &str = "0\tinformant v0.1.0 (/src/host/informant)\tApache-2.0\n1\ta v1.2.3\tMIT/Apache-2.0\n2\tb v2.0.0+x\tISC\n\
                        1\tb v2.0.0+x\tISC (*)\n1\tc v3.0.0\t\n";

    const LOCK: &str = "[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nchecksum = \"abc\"\n[[package]]\nname = \"informant\"\n\
                        version = \"0.1.0\"\n";

    fn document() -> Value {
        let mut bill = Bill::default();
        let root = bill.add(TREE).unwrap();
        bill.document(&root, &checksums(LOCK).unwrap(), &runner(), &release())
            .unwrap()
    }

    #[test]
    fn bill_lists_each_package_once() {
        insta::assert_snapshot!(format!("{:#}", document()["components"]), @r#"
        [
          {
            "bom-ref": "pkg:cargo/a@1.2.3",
            "hashes": [
              {
                "alg": "SHA-256",
                "content": "abc"
              }
            ],
            "licenses": [
              {
                "expression": "MIT OR Apache-2.0"
              }
            ],
            "name": "a",
            "purl": "pkg:cargo/a@1.2.3",
            "type": "library",
            "version": "1.2.3"
          },
          {
            "bom-ref": "pkg:cargo/b@2.0.0+x",
            "licenses": [
              {
                "expression": "ISC"
              }
            ],
            "name": "b",
            "purl": "pkg:cargo/b@2.0.0+x",
            "type": "library",
            "version": "2.0.0+x"
          },
          {
            "bom-ref": "pkg:cargo/c@3.0.0",
            "name": "c",
            "purl": "pkg:cargo/c@3.0.0",
            "type": "library",
            "version": "3.0.0"
          },
          {
            "bom-ref": "informant-runner-python.wasm",
            "components": [
              {
                "bom-ref": "pkg:pypi/pyyaml@6.0.3",
                "licenses": [
                  {
                    "expression": "MIT"
                  }
                ],
                "name": "pyyaml",
                "purl": "pkg:pypi/pyyaml@6.0.3",
                "type": "library",
                "version": "6.0.3"
              }
            ],
            "hashes": [
              {
                "alg": "SHA-256",
                "content": "24eaf3439a60c96764c4f2c92a0a81b52bd4fe5d5b91f090184a0f6486b1bf29"
              }
            ],
            "name": "informant-runner-python.wasm",
            "type": "file",
            "version": "0.1.0"
          }
        ]
        "#);
    }

    #[test]
    fn bill_has_the_program_and_what_each_package_uses() {
        let mut document = document();
        document.as_object_mut().unwrap().remove("components");
        insta::assert_snapshot!(format!("{document:#}"), @r#"
        {
          "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
          "bomFormat": "CycloneDX",
          "dependencies": [
            {
              "dependsOn": [
                "pkg:cargo/b@2.0.0+x"
              ],
              "ref": "pkg:cargo/a@1.2.3"
            },
            {
              "dependsOn": [],
              "ref": "pkg:cargo/b@2.0.0+x"
            },
            {
              "dependsOn": [],
              "ref": "pkg:cargo/c@3.0.0"
            },
            {
              "dependsOn": [
                "pkg:cargo/a@1.2.3",
                "pkg:cargo/b@2.0.0+x",
                "pkg:cargo/c@3.0.0"
              ],
              "ref": "pkg:cargo/informant@0.1.0"
            }
          ],
          "metadata": {
            "component": {
              "bom-ref": "pkg:cargo/informant@0.1.0",
              "licenses": [
                {
                  "expression": "Apache-2.0"
                }
              ],
              "name": "informant",
              "purl": "pkg:cargo/informant@0.1.0",
              "type": "application",
              "version": "0.1.0"
            },
            "timestamp": "2023-11-14T22:13:20Z"
          },
          "specVersion": "1.5",
          "version": 1
        }
        "#);
    }

    #[test]
    fn unexpected_output_of_cargo_is_an_error() {
        insta::assert_snapshot!(Bill::default().add("warning: x").unwrap_err(), @"`cargo tree` wrote `warning: x`");
        insta::assert_snapshot!(Bill::default().add("").unwrap_err(), @"`cargo tree` wrote nothing");
    }
}
