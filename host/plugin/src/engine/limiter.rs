//! The resource limits of one wasmtime store: memory, tables, instances.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::engine::TABLE_ELEMENTS_MAX;

/// Table elements of one instance, all tables together. A table is memory of the host: 8 bytes an element.
const TABLE_ELEMENTS: usize = 2 * TABLE_ELEMENTS_MAX;

/// Core instances, memories and tables of one component. CPython's has about 40 of the first.
const PARTS_MAX: usize = 200;

/// Counts what one instance holds and denies requests beyond its limits.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// Whose limit it is.
    plugin: Arc<str>,
    memory_bytes_max: usize,
    memory_bytes: usize,
    table_elements: usize,
    /// The bytes added by the last granted request, in case it fails afterwards.
    granted: usize,
    /// The total of the last denied request since [`begin`](Self::begin). Distinguishes a guest that ran out of memory
    /// from one with a bug: both trap alike.
    refused_bytes: Option<usize>,
}

impl Limiter {
    pub(crate) fn new(plugin: Arc<str>, memory_bytes_max: usize) -> Limiter {
        Limiter {
            plugin,
            memory_bytes_max,
            memory_bytes: 0,
            table_elements: 0,
            granted: 0,
            refused_bytes: None,
        }
    }

    /// A new call begins.
    pub(crate) fn begin(&mut self) {
        self.refused_bytes = None;
    }

    /// Linear memory now, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The likely cause of a failure, if the guest was denied memory in this call.
    pub(crate) fn explain(&self) -> Option<String> {
        let refused = self.refused_bytes?;
        let max = Mib(self.memory_bytes_max).to_string().replace(' ', "");
        Some(format!(
            "it requested {} of memory, but limits.memory = \"{max}\" of [plugin.{}]",
            Mib(refused),
            self.plugin
        ))
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _max: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let total = self.memory_bytes.saturating_add(more);
        if total > self.memory_bytes_max {
            self.refused_bytes = Some(total);
            return Ok(false);
        }
        (self.memory_bytes, self.granted) = (total, more);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory_bytes -= std::mem::take(&mut self.granted);
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _max: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.table_elements.saturating_add(desired.saturating_sub(current));
        if total > TABLE_ELEMENTS {
            return Ok(false);
        }
        self.table_elements = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        PARTS_MAX
    }

    fn tables(&self) -> usize {
        PARTS_MAX
    }

    fn memories(&self) -> usize {
        PARTS_MAX
    }
}

/// Formats bytes for people: `64 MiB`, `2.5 MiB`.
pub(crate) struct Mib(pub(crate) usize);

impl std::fmt::Display for Mib {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const MIB: usize = 1_024 * 1_024;
        match self.0 {
            bytes if bytes < 1_024 => write!(f, "{bytes} bytes"),
            bytes if bytes < MIB => write!(f, "{} KiB", bytes / 1_024),
            bytes if bytes % MIB == 0 => write!(f, "{} MiB", bytes / MIB),
            bytes => write!(f, "{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 65_536;

    fn limiter(memory_bytes_max: usize) -> Limiter {
        Limiter::new("greeter".into(), memory_bytes_max)
    }

    #[test]
    fn memories_share_one_limit() {
        let mut limiter = limiter(10 * PAGE);
        assert!(limiter.memory_growing(0, 6 * PAGE, None).unwrap());
        assert!(limiter.memory_growing(0, 4 * PAGE, None).unwrap());
        assert!(!limiter.memory_growing(4 * PAGE, 5 * PAGE, None).unwrap());
        assert_eq!(limiter.memory_bytes(), 10 * PAGE);
        insta::assert_snapshot!(limiter.explain().unwrap(), @r#"it requested 704 KiB of memory, but limits.memory = "640KiB" of [plugin.greeter]"#);
        limiter.begin();
        assert_eq!(limiter.explain(), None);
    }

    #[test]
    fn a_granted_request_that_fails_is_taken_back() {
        let mut limiter = limiter(10 * PAGE);
        assert!(limiter.memory_growing(0, PAGE, None).unwrap());
        assert!(limiter.memory_growing(PAGE, 3 * PAGE, None).unwrap());
        limiter.memory_grow_failed(wasmtime::Error::msg("no")).unwrap();
        assert_eq!(limiter.memory_bytes(), PAGE);
    }

    #[test]
    fn tables_are_bounded() {
        let mut limiter = limiter(PAGE);
        assert!(limiter.table_growing(0, TABLE_ELEMENTS, None).unwrap());
        assert!(!limiter.table_growing(0, 1, None).unwrap());
    }

    #[test]
    fn sizes_are_readable() {
        let sizes = [10, 2_048, 64 << 20, (5 << 20) / 2].map(|bytes| Mib(bytes).to_string());
        assert_eq!(sizes, ["10 bytes", "2 KiB", "64 MiB", "2.5 MiB"]);
    }
}
