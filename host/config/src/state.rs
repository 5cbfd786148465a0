//! `[state]`, and `durable` of an informer: what is persisted, and where.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use informant_spec::StoredContent;

use crate::table::Table;

/// Between writes of shared state, in milliseconds: fewer are too much load for a small control plane, and with more
/// events wait longer than a second.
const GROUP_MILLIS: RangeInclusive<u64> = 50..=1_000;
/// By default, five writes in a second.
const GROUP_MILLIS_DEFAULT: u64 = 200;

/// Least bytes in `kv`: a few small keys.
const KV_BYTES_MIN: usize = 1 << 10;
/// Most bytes in `kv` with a file: they are in memory.
const KV_BYTES_MAX_IN_FILE: usize = 64 << 20;
/// Most bytes in `kv` in Secrets, which are in etcd.
const KV_BYTES_MAX_IN_SECRETS: usize = 1 << 20;
/// Bytes in `kv` in Secrets by default: 32 plugins fill the 8 MiB of a group.
const KV_BYTES_IN_SECRETS: usize = 256 << 10;

/// Where what plugins remember is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StateStore {
    /// In the database file of each replica.
    #[default]
    File,
    /// In Secrets of Informant's namespace, for all replicas of a group.
    Kubernetes,
}

/// Where plugins remember keys, by the whole configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStore {
    /// There is no section `[state]`.
    Nowhere,
    /// In the database file.
    File,
    /// In Secrets, for all replicas of a group.
    Secrets,
    /// There are several replicas, and each would remember something else: keys are denied.
    FileOfEachReplica,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateSection {
    /// Whether the section exists: plugins may remember keys only then.
    pub is_set: bool,
    /// Where they are stored.
    pub store: StateStore,
    /// The shortest time between two writes of shared state.
    pub group_interval: Duration,
    /// The file, resolved relative to the current folder; `None`: the default location. With shared state it has only
    /// what durable informers keep.
    pub path: Option<PathBuf>,
}

impl Default for StateSection {
    fn default() -> Self {
        Self {
            is_set: false,
            store: StateStore::File,
            group_interval: Duration::from_millis(GROUP_MILLIS_DEFAULT),
            path: None,
        }
    }
}

impl StateStore {
    /// The values that `limits.kv` may have.
    pub(crate) fn kv_bytes(self) -> RangeInclusive<usize> {
        match self {
            StateStore::File => KV_BYTES_MIN..=KV_BYTES_MAX_IN_FILE,
            StateStore::Kubernetes => KV_BYTES_MIN..=KV_BYTES_MAX_IN_SECRETS,
        }
    }

    /// `limits.kv`, if a plugin does not set it. `in_file` is the one in a file.
    pub(crate) fn kv_bytes_default(self, in_file: usize) -> usize {
        match self {
            StateStore::File => in_file,
            StateStore::Kubernetes => KV_BYTES_IN_SECRETS,
        }
    }
}

const STORES: [(&str, StateStore); 2] = [("file", StateStore::File), ("kubernetes", StateStore::Kubernetes)];

/// `has_durable`: whether an informer is durable, which needs a file.
pub(crate) fn read(root: &Table<'_>, has_durable: bool) -> StateSection {
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
    let store = table.choice("store", &STORES).unwrap_or_default();
    let group_millis = table.integer("group-ms", GROUP_MILLIS).unwrap_or(GROUP_MILLIS_DEFAULT);
    if store == StateStore::File && table.has("group-ms") {
        let help = "remove it, or set store = \"kubernetes\"";
        table.refuse(
            table.value_position("group-ms"),
            "`group-ms` has no effect in a file",
            help,
        );
    }
    if store == StateStore::Kubernetes && table.has("path") && !has_durable {
        let message = "`path` has no effect with store = \"kubernetes\": no informer is durable";
        let help = "remove it: what plugins remember is in Secrets, and the file is for durable informers";
        table.refuse(table.value_position("path"), message, help);
    }
    table.finish(&[]);
    StateSection {
        is_set: true,
        store,
        group_interval: Duration::from_millis(group_millis),
        path,
    }
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
