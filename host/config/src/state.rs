//! `[state]`, and `durable` of an informer: what is persisted, and where.

use std::path::PathBuf;

use informant_spec::StoredContent;

use crate::table::Table;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateSection {
    /// Whether the section exists: plugins may remember keys only then.
    pub is_set: bool,
    /// The file, resolved relative to the current folder; `None`: the default location.
    pub path: Option<PathBuf>,
}

pub(crate) fn read(root: &Table<'_>) -> StateSection {
    let Some(table) = root.table("state") else {
        return StateSection::default();
    };
    let path = table.string("path").and_then(|path| {
        if path.value.is_empty() {
            let help = "name a file: path = \"/var/lib/informant/state.redb\"";
            table.refuse(path.position, "`path` is empty", help);
            return None;
        }
        Some(root.file(path.value))
    });
    table.finish(&[]);
    StateSection { is_set: true, path }
}

const DURABLE: [(&str, StoredContent); 2] = [("metadata", StoredContent::Metadata), ("whole", StoredContent::Whole)];

/// What is persisted of an informer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable {
    /// How much of each object is kept.
    pub keep: StoredContent,
    /// Whether Secrets may be persisted.
    pub secrets: bool,
    /// The file of the encryption key, resolved relative to the current folder.
    pub key_file: Option<PathBuf>,
}

impl Durable {
    /// Whether objects of this resource may be persisted: Secrets only if explicitly allowed, and encrypted.
    pub fn may_keep(&self, plural: &str) -> bool {
        !plural.eq_ignore_ascii_case("secrets") || (self.secrets && self.key_file.is_some())
    }
}

/// `durable = "metadata" | "whole"`, `durable-secrets`, `durable-key-file`. `resource` is as in the section.
pub(crate) fn read_durable(table: &Table<'_>, resource: Option<&str>) -> Option<Durable> {
    let keep = table.choice("durable", &DURABLE);
    let secrets = table.boolean("durable-secrets").unwrap_or(false);
    let key_file = table.string("durable-key-file");
    if !table.has("durable") {
        for key in ["durable-secrets", "durable-key-file"] {
            if table.has(key) {
                let message = format!("`{key}` has no effect without `durable`");
                let help = "add durable = \"metadata\", or remove it";
                table.refuse(table.value_position(key), message, help);
            }
        }
    }
    let durable = Durable {
        keep: keep?,
        secrets,
        key_file: key_file.map(|path| table.file(path.value)),
    };
    if resource.is_some_and(names_secrets) && !durable.may_keep("secrets") {
        let message = "secrets would be stored on disk unencrypted";
        let help =
            "set durable-secrets = true and durable-key-file = \"…\" (32 bytes, raw or in base64), or remove `durable`";
        table.refuse(table.value_position("durable"), message, help);
    }
    Some(durable)
}

/// Whether a resource, in any notation, is Secrets.
fn names_secrets(resource: &str) -> bool {
    let last = resource.rsplit('/').next().unwrap_or(resource);
    ["secret", "secrets"].iter().any(|name| last.eq_ignore_ascii_case(name))
}
