//! `durable` and what belongs to it: what of an informer outlives the process.

use std::path::PathBuf;

use informant_state::StoredContent;

use super::folder_of;
use super::table::Table;

const DURABLE: [(&str, StoredContent); 2] = [("metadata", StoredContent::Metadata), ("whole", StoredContent::Whole)];

/// What of an informer outlives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable {
    /// How much of each object.
    pub keep: StoredContent,
    /// Whether secrets may be kept.
    pub secrets: bool,
    /// The file of the key that enciphers what is kept, already relative to the current folder.
    pub key_file: Option<PathBuf>,
}

impl Durable {
    /// Whether objects of this resource may be kept: secrets only if somebody said so, and enciphered.
    pub(crate) fn may_keep(&self, plural: &str) -> bool {
        !plural.eq_ignore_ascii_case("secrets") || (self.secrets && self.key_file.is_some())
    }
}

/// `durable = "metadata" | "whole"`, `durable-secrets`, `durable-key-file`. `resource` is as the section names it.
pub(super) fn read(table: &Table<'_>, resource: Option<&str>) -> Option<Durable> {
    let keep = table.choice("durable", &DURABLE);
    let secrets = table.boolean("durable-secrets").unwrap_or(false);
    let key_file = table.string("durable-key-file");
    if !table.has("durable") {
        for key in ["durable-secrets", "durable-key-file"] {
            if table.has(key) {
                let problem = table.error(
                    table.value_place(key),
                    format!("`{key}` says nothing without `durable`"),
                );
                let help = "add durable = \"metadata\", or leave it out";
                table.reporter().report(problem.help(help));
            }
        }
    }
    let durable = Durable {
        keep: keep?,
        secrets,
        key_file: key_file.map(|path| folder_of(table.reporter().file().path()).join(path.value)),
    };
    if resource.is_some_and(names_secrets) && !durable.may_keep("secrets") {
        let message = "secrets would be kept on disk in the clear";
        let help = "set durable-secrets = true and durable-key-file = \"…\" (32 bytes, as they are or in base64), or leave out `durable`";
        let problem = table.error(table.value_place("durable"), message);
        table.reporter().report(problem.help(help));
    }
    Some(durable)
}

/// Whether a resource, however it is named, is that of secrets.
fn names_secrets(resource: &str) -> bool {
    let last = resource.rsplit('/').next().unwrap_or(resource);
    ["secret", "secrets"].iter().any(|name| last.eq_ignore_ascii_case(name))
}
