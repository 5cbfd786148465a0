//! What the plugin remembers in a native test.

use std::collections::BTreeMap;

use super::cache::{self, Cache};
use crate::bindings::imports::informant::plugin::types::{ErrorCode, HostError};

/// As in Informant.
const KEY_BYTES_MAX: usize = 512;

/// As in Informant.
const VALUE_BYTES_MAX: usize = 256 << 10;

/// As in Informant.
const LIST_MAX: usize = 1_000;

type Answer<T> = Result<T, HostError>;

/// The keys, and the changes of the present call.
#[derive(Default)]
pub(super) struct Keys {
    rows: BTreeMap<String, Vec<u8>>,
    changes: BTreeMap<String, Option<Vec<u8>>>,
    is_denied: bool,
    /// Why every function is denied throughout.
    refusal: Option<String>,
}

impl Cache {
    /// The value that the plugin remembers under a key.
    pub fn remembered(&self, key: &str) -> Option<Vec<u8>> {
        cache::with(|state| state.keys.rows.get(key).cloned())
    }

    /// Makes the plugin remember a value under a key, or nothing.
    pub fn remember(&self, key: &str, value: Option<&[u8]>) {
        cache::with(|state| match value {
            Some(value) => drop(state.keys.rows.insert(key.to_owned(), value.to_owned())),
            None => drop(state.keys.rows.remove(key)),
        });
    }

    /// A call has ended: keeps its changes if it succeeded.
    pub(super) fn end_changes(&self, has_succeeded: bool) {
        cache::with(|state| {
            for (key, value) in std::mem::take(&mut state.keys.changes) {
                match value {
                    _ if !has_succeeded => {}
                    Some(value) => drop(state.keys.rows.insert(key, value)),
                    None => drop(state.keys.rows.remove(&key)),
                }
            }
        });
    }

    /// Denies every function, with this message.
    pub(super) fn refuse_keys(&self, message: &str) {
        cache::with(|state| state.keys.refusal = Some(message.to_owned()));
    }

    /// Denies every function, or no longer.
    pub(super) fn deny_keys(&self, is_denied: bool) {
        cache::with(|state| state.keys.is_denied = is_denied);
    }
}

impl Keys {
    fn get(&self, key: &str) -> Option<&Vec<u8>> {
        match self.changes.get(key) {
            Some(value) => value.as_ref(),
            None => self.rows.get(key),
        }
    }

    fn set(&mut self, key: &str, value: &[u8]) -> Answer<()> {
        let bytes = value.len();
        if bytes > VALUE_BYTES_MAX {
            let message = format!("the value of {key:?} has {bytes} bytes, and a value may have {VALUE_BYTES_MAX}");
            return Err(error(ErrorCode::TooLarge, message));
        }
        self.changes.insert(key.to_owned(), Some(value.to_owned()));
        Ok(())
    }
}

pub(crate) fn get(key: &str) -> Answer<Option<Vec<u8>>> {
    with(key, |keys| Ok(keys.get(key).cloned()))
}

pub(crate) fn set(key: &str, value: &[u8]) -> Answer<()> {
    with(key, |keys| keys.set(key, value))
}

pub(crate) fn set_if_absent(key: &str, value: &[u8]) -> Answer<bool> {
    with(key, |keys| match keys.get(key) {
        Some(_) => Ok(false),
        None => keys.set(key, value).map(|()| true),
    })
}

pub(crate) fn delete(key: &str) -> Answer<()> {
    with(key, |keys| {
        keys.changes.insert(key.to_owned(), None);
        Ok(())
    })
}

pub(crate) fn list(prefix: &str, cursor: &str, limit: u32) -> Answer<Vec<String>> {
    ask(|keys| {
        let max = match limit {
            0 => LIST_MAX,
            limit => LIST_MAX.min(limit as usize),
        };
        let mut all: Vec<&String> = keys.rows.keys().chain(keys.changes.keys()).collect();
        all.sort_unstable();
        all.dedup();
        let wanted = |key: &&String| key.starts_with(prefix) && key.as_str() > cursor && keys.get(key).is_some();
        Ok(all.into_iter().filter(wanted).take(max).cloned().collect())
    })
}

fn with<T>(key: &str, answer: impl FnOnce(&mut Keys) -> Answer<T>) -> Answer<T> {
    ask(|keys| {
        let refusal = match key.len() {
            0 => "the key is empty".to_owned(),
            bytes if bytes > KEY_BYTES_MAX => format!("the key has {bytes} bytes, and may have {KEY_BYTES_MAX}"),
            _ if key.contains('\0') => format!("the key {key:?} contains NUL"),
            _ => return answer(keys),
        };
        Err(error(ErrorCode::Invalid, refusal))
    })
}

fn ask<T>(answer: impl FnOnce(&mut Keys) -> Answer<T>) -> Answer<T> {
    cache::with(|state| match &state.keys.refusal {
        _ if state.keys.is_denied => {
            let message = "kv can be used in init and in handler calls only".to_owned();
            Err(error(ErrorCode::NotHere, message))
        }
        Some(refusal) => Err(error(ErrorCode::Denied, refusal.clone())),
        None => answer(&mut state.keys),
    })
}

fn error(code: ErrorCode, message: String) -> HostError {
    HostError { code, message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::prelude::*;
    use crate::testing::{Cache, Driver};
    use crate::{Role, host_error};

    /// Counts the events of each object.
    struct Counts;

    impl Plugin for Counts {
        fn describe(_: Describe) -> Result<Manifest> {
            assert_eq!(kv::get("starts").unwrap_err().code, host_error::ErrorCode::NotHere);
            Ok(Manifest::new().events(Events::of("v1", "Pod")))
        }

        fn init(init: Init) -> Result<Self> {
            assert_eq!(kv::set("starts", "1").is_err(), init.role == Role::Index);
            Ok(Self)
        }
    }

    impl EventHandler<Value> for Counts {
        fn on_upsert(&mut self, event: &Event, _: Value) -> Result<Action> {
            let count = kv::get_json::<u32>(&event.name)?.unwrap_or(0) + 1;
            kv::set_json(&event.name, &count)?;
            let is_new = kv::set_if_absent(&format!("seen/{}", event.name), "")?;
            kv::delete("starts")?;
            assert_eq!(kv::get("starts")?, None, "a call sees its own changes");
            info!("{is_new} {:?}", kv::keys("seen/").collect::<Result<Vec<_>, _>>()?);
            match event.name.as_str() {
                "fails" => Err(Failure::retryable("not yet")),
                _ => Ok(Action::done()),
            }
        }
    }

    crate::export!(Counts: events);

    #[test]
    fn changes_of_keys_take_effect_with_a_success_only() {
        let pod =
            |name: &str| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "web", "name": name } });
        let mut driver = Driver::<Counts>::start(json!({})).unwrap();
        let value = |driver: &Driver<Counts>, key: &str| {
            driver
                .cache()
                .remembered(key)
                .map(|value| String::from_utf8(value).unwrap())
        };
        driver.put(pod("fails")).unwrap_err();
        assert_eq!(value(&driver, "starts").as_deref(), Some("1"));
        assert_eq!(value(&driver, "fails"), None);
        driver.cache().remember("b", Some(b"41"));
        driver.put(pod("b")).unwrap();
        driver.put(pod("b")).unwrap();
        assert_eq!(value(&driver, "b").as_deref(), Some("43"));
        assert_eq!(value(&driver, "starts"), None);
        assert_eq!(
            driver.take_log(),
            [
                r#"info: true ["seen/fails"]"#,
                r#"info: true ["seen/b"]"#,
                r#"info: false ["seen/b"]"#
            ]
        );
        drop(driver);
        Driver::<Counts>::start_index(json!({})).unwrap();
    }

    #[test]
    fn keys_and_values_have_the_bounds_of_informant() {
        let _cache = Cache::new();
        for key in ["", "a\0b", &"k".repeat(513)] {
            assert_eq!(
                kv::set(key, "").unwrap_err().code,
                host_error::ErrorCode::Invalid,
                "{key:?}"
            );
        }
        let large = kv::set("large", vec![0; (256 << 10) + 1]).unwrap_err();
        assert_eq!(large.code, host_error::ErrorCode::TooLarge);
        for number in 0..1_500 {
            kv::set(&format!("{number:04}"), "").unwrap();
        }
        assert_eq!(kv::keys("").count(), 1_500);
        assert_eq!(kv::keys("14").count(), 100);
    }
}
