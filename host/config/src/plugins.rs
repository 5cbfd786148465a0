//! `[plugins]`: what holds for all plugins together.

use crate::table::Table;

/// The smallest `compile-memory`: the smallest component takes it.
const COMPILE_MEMORY_BYTES_MIN: usize = 32 << 20;

/// The largest `compile-memory`.
const COMPILE_MEMORY_BYTES_MAX: usize = 1 << 40;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginsSection {
    /// The memory for compiling components side by side, in bytes; `None`: the default, which depends on what the
    /// container may use.
    pub compile_memory: Option<usize>,
}

pub(crate) fn read(root: &Table<'_>) -> PluginsSection {
    let Some(table) = root.table("plugins") else {
        return PluginsSection::default();
    };
    for key in table.keys().filter(|key| table.is_table(key.value)) {
        let name = key.value;
        let message = format!("[plugins.{name}] is not a section: [plugins] is about all plugins together");
        table.refuse(key.position, message, format!("write [plugin.{name}]"));
        // What is in it belongs to that section.
        table.has(name);
    }
    let range = COMPILE_MEMORY_BYTES_MIN..=COMPILE_MEMORY_BYTES_MAX;
    let compile_memory = table.size_bytes("compile-memory", range);
    table.finish(&[]);
    PluginsSection { compile_memory }
}
