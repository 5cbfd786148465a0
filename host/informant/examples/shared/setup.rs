//! What the examples that measure plugins share: built guests, and a source.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use informant_cache::{Catalog, Snapshot, SourceInfo, SourceState, StoreWriter};
use informant_object::{Object, ResourceVersion, SourceId};

/// What `cargo xtask guests` has built.
pub(crate) fn built(file: &str) -> Result<PathBuf> {
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    };
    let path = target.join("wasm32-wasip2").join("plugin").join(file);
    ensure!(
        path.is_file(),
        "{} does not exist; run `cargo xtask guests`",
        path.display()
    );
    Ok(path)
}

/// A synced source with these objects.
pub(crate) fn synced(
    catalog: &Catalog,
    informer: &str,
    kind: &str,
    objects: Vec<Object>,
) -> Result<(SourceId, Snapshot)> {
    let source = catalog.add_source(SourceInfo {
        informer: informer.to_owned(),
        cluster: String::new(),
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        resource: format!("v1/{informer}"),
        namespace: None,
        namespaced: true,
        partial: false,
    });
    let mut writer = StoreWriter::publishing_to(catalog, source).context("no source")?;
    objects.into_iter().for_each(|object| drop(writer.add(object)));
    writer.set_version(ResourceVersion::new("1"), 0);
    let snapshot = writer.publish().clone();
    let published = catalog.source(source).context("no source")?;
    published.set_state(SourceState::Live);
    published.set_synced();
    Ok((source, snapshot))
}
