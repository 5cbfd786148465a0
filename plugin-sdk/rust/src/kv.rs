//! Remembers values across calls, instances, versions of the plugin and restarts of Informant.
//!
//! Each plugin has keys of its own. They are in the state database: without a section `[state]` in config.toml, every
//! function fails with [`ErrorCode::Denied`].
//!
//! What a handler sets or deletes takes effect when it succeeds. A handler that fails or panics has changed nothing. It
//! reads its own changes. `init` and handler calls can use keys; other calls are denied.
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # fn example(event: &Event) -> Result {
//! // Notify once for each object, whatever happens.
//! if kv::set_if_absent(&format!("notified/{}", event.uid), b"")? {
//!     info!("{event} is new");
//! }
//! let calls: u64 = kv::get_json("calls")?.unwrap_or(0);
//! kv::set_json("calls", &(calls + 1))?;
//! # Ok(())
//! # }
//! ```
//!
//! A key has 1 to 512 bytes and no NUL, a value at most 256 KiB. `limits.kv` of the plugin's section limits all of them
//! together: [`ErrorCode::TooLarge`]. While the state database cannot be written, changes fail with
//! [`ErrorCode::Unavailable`], which `?` makes a failure that Informant retries.

use std::vec;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Result;
use crate::host;
#[cfg(doc)]
use crate::host_error::ErrorCode;
use crate::host_error::HostError;

/// Keys requested in each call: the most of the contract.
const KEYS_PER_CALL: u32 = 1_000;

/// The value of a key.
///
/// # Errors
/// [`ErrorCode::Denied`], [`ErrorCode::Invalid`] for a key that is not allowed, [`ErrorCode::Unavailable`].
pub fn get(key: &str) -> Result<Option<Vec<u8>>, HostError> {
    Ok(host::kv_get(key)?)
}

/// The value of a key that [`set_json`] has set.
///
/// # Errors
/// As for [`get`], and a value that does not match `T`.
pub fn get_json<T: DeserializeOwned>(key: &str) -> Result<Option<T>> {
    match get(key)? {
        Some(value) => Ok(Some(serde_json::from_slice(&value)?)),
        None => Ok(None),
    }
}

/// Sets a key.
///
/// # Errors
/// [`ErrorCode::Denied`], [`ErrorCode::Invalid`] for a key that is not allowed, [`ErrorCode::TooLarge`] for the value
/// or above `limits.kv`, [`ErrorCode::Unavailable`].
pub fn set(key: &str, value: impl AsRef<[u8]>) -> Result<(), HostError> {
    Ok(host::kv_set(key, value.as_ref())?)
}

/// Sets a key to `value` as JSON.
///
/// # Errors
/// As for [`set`], and a value that cannot be written as JSON.
pub fn set_json<T: Serialize + ?Sized>(key: &str, value: &T) -> Result {
    Ok(set(key, serde_json::to_vec(value)?)?)
}

/// Sets a key that has no value. Returns whether it did. Of several calls that run at the same time, one sets the key;
/// the others fail with [`ErrorCode::Unavailable`] until it has ended.
///
/// # Errors
/// As for [`set`].
pub fn set_if_absent(key: &str, value: impl AsRef<[u8]>) -> Result<bool, HostError> {
    Ok(host::kv_set_if_absent(key, value.as_ref())?)
}

/// Deletes a key, if it exists.
///
/// # Errors
/// As for [`get`].
pub fn delete(key: &str) -> Result<(), HostError> {
    Ok(host::kv_delete(key)?)
}

/// The keys that start with `prefix`, in the order of their bytes. An empty prefix: all.
pub fn keys(prefix: &str) -> Keys<'_> {
    Keys {
        prefix,
        cursor: Some(String::new()),
        page: Vec::new().into_iter(),
    }
}

/// Keys, read page by page. Ends after the first error.
#[derive(Debug)]
#[must_use = "iterators are lazy"]
pub struct Keys<'a> {
    prefix: &'a str,
    /// The last key seen: the next page starts after it. `None` after the last page.
    cursor: Option<String>,
    page: vec::IntoIter<String>,
}

impl Iterator for Keys<'_> {
    type Item = Result<String, HostError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(key) = self.page.next() {
            return Some(Ok(key));
        }
        let cursor = self.cursor.take()?;
        match host::kv_list(self.prefix, &cursor, KEYS_PER_CALL) {
            Ok(keys) => {
                // Only an empty page is the last one: Informant may return fewer keys than requested.
                self.cursor = keys.last().cloned();
                self.page = keys.into_iter();
                self.page.next().map(Ok)
            }
            Err(error) => Some(Err(error.into())),
        }
    }
}
