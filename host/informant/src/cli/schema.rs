//! `informant plugin schema`: the JSON schema of a document in the plugin contract.

use anyhow::Result;
use clap::{Args, ValueEnum};
use informant_plugin_host::{CONTEXT_SCHEMA, MANIFEST_SCHEMA};

use super::{Exit, output};

/// `informant plugin schema`.
#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// Which document
    #[arg(value_enum, default_value = "manifest")]
    document: Document,
}

/// The documents that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Document {
    /// What a plugin returns from `describe`
    Manifest,
    /// What a plugin receives in `describe` and `init`
    Context,
}

pub(super) fn run(args: &SchemaArgs) -> Result<Exit> {
    output::own_text(match args.document {
        Document::Manifest => MANIFEST_SCHEMA,
        Document::Context => CONTEXT_SCHEMA,
    })?;
    Ok(Exit::Done)
}
