//! `[state]`: where what outlives the process is kept.

use std::path::PathBuf;

use super::folder_of;
use super::table::{Keys, Table};

const KEYS: Keys = Keys {
    known: &["path"],
    planned: &[],
};

/// The state database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateSection {
    /// The file, already relative to the current folder; absent: the usual place.
    pub path: Option<PathBuf>,
}

pub(super) fn read(root: &Table<'_>) -> StateSection {
    let Some(table) = root.has("state").then(|| root.table("state")).flatten() else {
        return StateSection::default();
    };
    table.only(&KEYS);
    let path = table.string("path").and_then(|path| {
        if path.value.is_empty() {
            let problem = table.error(path.place, "`path` is empty");
            let help = "name a file: path = \"/var/lib/informant/state.redb\"";
            table.reporter().report(problem.help(help));
            return None;
        }
        Some(folder_of(root.reporter().file().path()).join(path.value))
    });
    StateSection { path }
}
