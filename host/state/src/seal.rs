//! Values that are kept enciphered: ChaCha20-Poly1305, each with a key of its own.
//!
//! The value's key is derived (HKDF-SHA256) from the key in the file and 32 bytes drawn at random, which stand before
//! the value: drawn for every value, the cipher's own 12 bytes of nonce would be too few.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// What is drawn at random for each value.
const SALT_BYTES: usize = 32;

/// What derived keys are for.
const PURPOSE: &[u8] = b"informant-state value";

/// Enciphers and deciphers.
#[derive(Clone)]
pub struct Sealer(Prk);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It holds something else.
    #[error(
        "{path} holds no key: it must hold 32 bytes, as they are or in base64; make one with `head -c 32 /dev/urandom | base64 > {path}`"
    )]
    NoKey {
        /// The file.
        path: PathBuf,
    },
}

impl Sealer {
    /// By this key.
    #[must_use]
    pub fn of(key: [u8; KEY_BYTES]) -> Self {
        Self(Salt::new(HKDF_SHA256, b"informant-state").extract(&key))
    }

    /// By the key in a file: 32 bytes, as they are or in base64.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let bytes = std::fs::read(path).map_err(|source| KeyFileError::Io {
            path: path.to_owned(),
            source,
        })?;
        let decoded = || STANDARD.decode(bytes.trim_ascii()).ok();
        let raw = (bytes.len() == KEY_BYTES).then(|| bytes.clone());
        let key = raw
            .or_else(decoded)
            .and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok());
        let no_key = || KeyFileError::NoKey { path: path.to_owned() };
        key.map(Self::of).ok_or_else(no_key)
    }

    /// `plain`, enciphered and bound to `bond`. None if the system has no randomness to give.
    pub(crate) fn seal(&self, plain: &[u8], bond: &[u8]) -> Option<Vec<u8>> {
        let mut salt = [0; SALT_BYTES];
        SystemRandom::new().fill(&mut salt).ok()?;
        let mut sealed = plain.to_vec();
        let (key, nonce) = self.key_for(&salt)?;
        key.seal_in_place_append_tag(nonce, Aad::from(bond), &mut sealed).ok()?;
        Some([&salt[..], &sealed].concat())
    }

    /// What [`seal`](Self::seal) was given; none for anything else.
    pub(crate) fn open(&self, sealed: &[u8], bond: &[u8]) -> Option<Vec<u8>> {
        let (salt, sealed) = sealed.split_first_chunk::<SALT_BYTES>()?;
        let (key, nonce) = self.key_for(salt)?;
        let mut plain = sealed.to_vec();
        let length = key.open_in_place(nonce, Aad::from(bond), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }

    /// The key of one value, which is used once; so its nonce may be constant.
    fn key_for(&self, salt: &[u8; SALT_BYTES]) -> Option<(LessSafeKey, Nonce)> {
        let info = [PURPOSE, salt];
        let key = self.0.expand(&info, &CHACHA20_POLY1305).ok()?;
        Some((
            LessSafeKey::new(UnboundKey::from(key)),
            Nonce::assume_unique_for_key([0; 12]),
        ))
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Sealer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_bytes_and_as_base64_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        for (content, good) in [
            (vec![9; 32], true),
            (b"CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=\n".to_vec(), true),
            (vec![9; 31], false),
            (b"secret".to_vec(), false),
        ] {
            std::fs::write(&path, content).unwrap();
            let sealer = Sealer::read(&path);
            assert_eq!(sealer.is_ok(), good);
            if let Ok(sealer) = sealer {
                let sealed = Sealer::of([9; 32]).seal(b"x", b"").unwrap();
                assert_eq!(sealer.open(&sealed, b"").as_deref(), Some(&b"x"[..]));
            }
        }
        assert!(Sealer::read(&folder.path().join("none")).is_err());
    }
}
