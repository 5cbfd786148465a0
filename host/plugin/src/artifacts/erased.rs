//! JavaScript that is left of TypeScript, kept so that the types of each script are erased once.
//!
//! ```text
//! artifacts/DIGEST-erased-1.js      what is left of the script with that digest, with its checksum
//! ```

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use informant_spec::Digest;

use super::{ArtifactDir, Artifacts, checksum_of, shrink, write};
use crate::engine::erase::ERASER_VERSION;
use crate::error::LoadProblem;

impl Artifacts {
    /// What is left of the TypeScript `text`, which has this digest and comes from a file with this name: from the
    /// directory, or made now.
    /// Errors: [`LoadProblem::Types`].
    pub(crate) async fn erased(&self, digest: Digest, text: Arc<[u8]>, name: &str) -> Result<Bytes, LoadProblem> {
        let interrupted = |_| LoadProblem::Stopping;
        let directory = Arc::clone(&self.directory);
        let find = move || directory.find_erased(digest);
        if let Some(found) = self.handle.spawn_blocking(find).await.map_err(interrupted)? {
            return Ok(found);
        }
        let erased = self.compile_queue.erase_types(text).await;
        let erased = erased.map_err(|problem| LoadProblem::Types(in_file(name, &problem)))?;
        let (directory, bytes) = (Arc::clone(&self.directory), Bytes::from(erased));
        let kept = bytes.clone();
        let keep = move || directory.keep_erased(digest, &kept);
        self.handle.spawn_blocking(keep).await.map_err(interrupted)?;
        Ok(bytes)
    }
}

/// `handler.ts:3:14: message`, or `handler.ts: message` for a problem without a line.
fn in_file(name: &str, problem: &str) -> String {
    match problem.starts_with(|letter: char| letter.is_ascii_digit()) {
        true => format!("{name}:{problem}"),
        false => format!("{name}: {problem}"),
    }
}

impl ArtifactDir {
    fn find_erased(&self, digest: Digest) -> Option<Bytes> {
        let path = self.erased_file(digest)?;
        let checksum = fs::read_to_string(checksum_of(&path)).ok()?;
        let bytes = fs::read(&path).ok()?;
        // A damaged file is made again, and replaced.
        (checksum.trim().parse().ok() == Some(Digest::of(&bytes))).then(|| bytes.into())
    }

    fn keep_erased(&self, digest: Digest, text: &[u8]) {
        let Some(path) = self.erased_file(digest) else { return };
        match write(&path, text) {
            Ok(()) => path.parent().into_iter().for_each(shrink),
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "script without types not cached; they are erased again at the next start");
            }
        }
    }

    fn erased_file(&self, digest: Digest) -> Option<PathBuf> {
        let name = format!("{digest}-erased-{ERASER_VERSION}.js");
        self.path.as_ref().map(|directory| directory.join(name))
    }
}
