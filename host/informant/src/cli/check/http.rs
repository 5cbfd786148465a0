//! Checks of `[http]` and `allow.http`: files that requests need, and names that lead to forbidden addresses.

use std::path::Path;

use informant_config::{Config, FilePosition, Problem};

use crate::http_client::{check_ca_file, check_header_file};

/// Names of the machine itself, and of the metadata service of a cloud.
const FORBIDDEN_NAMES: [&str; 3] = ["localhost", "ip6-localhost", "metadata.google.internal"];

/// With `offline`, a missing file is a note only: it may exist where Informant runs.
pub(super) fn check(config: &Config, offline: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some(file) = &config.http.ca_file {
        let unusable = check_ca_file(&file.value).err();
        problems.extend(
            unusable.map(|why| file_problem(config, file.position, "[http] ca-file", &file.value, &why, offline)),
        );
    }
    for (name, section) in &config.plugins {
        for (grant, position) in section.allow_http() {
            for (header, path) in &grant.header_files {
                let key = format!("[plugin.{name}] the file of the header {header}");
                let unusable = check_header_file(path).err();
                problems.extend(unusable.map(|why| file_problem(config, position, &key, path, &why, offline)));
            }
            // A proxy looks names up itself.
            let host = grant.host();
            let is_forbidden = FORBIDDEN_NAMES.contains(&&*host) || host.ends_with(".localhost");
            if config.http.proxy.is_none() && is_forbidden {
                let url = grant.url();
                let message =
                    format!("[plugin.{name}] may call {url}, but that name has an address that plugins must not reach");
                let help = "grant the address, as in \"http://127.0.0.1:8080\", and let the plugin call it by that";
                problems.push(config.problem(position, message).help(help).warning());
            }
        }
    }
    problems
}

fn file_problem(config: &Config, position: FilePosition, key: &str, path: &Path, why: &str, offline: bool) -> Problem {
    let problem = config.problem(position, format!("{key}: cannot use {}: {why}", path.display()));
    let is_missing = matches!(path.try_exists(), Ok(false));
    match (is_missing, offline) {
        (true, true) => problem.note(),
        (true, false) => problem.help("requests that need it fail until it exists").warning(),
        (false, _) => problem.help("requests that need it fail"),
    }
}
