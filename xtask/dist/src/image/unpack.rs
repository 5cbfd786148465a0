//! Unpacks an image and starts it as a container runtime does, for tests without one.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context, Result};

use super::base::{Base, uncompressed};
use super::layout::Layout;
use super::{CACHE, USER};
use crate::platform::Platform;

/// Unpacks the layers of the image for this machine into the new folder `root`, and writes the script `ROOT.start`,
/// which root may run: it starts the image's program with the arguments of the script, and with `shared` at the same
/// path as here.
pub(crate) fn unpack(layout: &Layout, root: &Path, shared: &Path) -> Result<()> {
    let platform = Platform::of_this_machine().context("releases do not support this machine")?;
    let image = Base::find(layout, platform)?;
    std::fs::create_dir_all(root).with_context(|| format!("failed to create {}", root.display()))?;
    for layer in image.manifest.layers() {
        let bytes = layout.get(layer)?;
        let mut archive = tar::Archive::new(uncompressed(layer, &bytes)?);
        archive.set_preserve_permissions(true);
        archive.set_preserve_ownerships(is_root());
        archive
            .unpack(root)
            .with_context(|| format!("failed to unpack the layer {}", layer.digest()))?;
    }
    let file = root.with_extension("start");
    crate::write(&file, start_script(&image, root, shared))?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("failed to make {} executable", file.display()))
}

/// A read-only root, an empty cache as an `emptyDir` gives it, the image's user, environment and entrypoint.
fn start_script(image: &Base, root: &Path, shared: &Path) -> String {
    let config = image.config.config().clone().unwrap_or_default();
    let quoted = |words: &Option<Vec<String>>| {
        let words = words.iter().flatten();
        words.map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
    };
    let (user, environment, entrypoint) = (
        config.user().clone().unwrap_or_default(),
        quoted(config.env()),
        quoted(config.entrypoint()),
    );
    let (root, shared) = (root.display(), shared.display());
    format!(
        r#"#!/bin/sh
set -eu
if [ "${{UNSHARED:-}}" != yes ]; then
  UNSHARED=yes exec unshare --mount "$0" "$@"
fi
root='{root}' shared='{shared}'
chown -R {user} "$shared"
mkdir -p "$root$shared"
mount --bind "$root" "$root"
mount --bind "$shared" "$root$shared"
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs -o uid={USER},gid={USER},mode=0700 cache "$root/{CACHE}"
mount -o remount,bind,ro "$root"
exec env -i {environment} chroot --userspec={user} "$root" {entrypoint} "$@"
"#
    )
}

/// Whether this process may give files to other users.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
