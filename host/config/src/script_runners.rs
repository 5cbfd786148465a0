//! `[script-runners]`: files of script runners, in place of those that come with Informant or for other languages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use informant_spec::{ContentSource, Suffix};

use crate::table::Table;

/// The runner's file, resolved relative to the current folder, for each suffix that the section names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptRunnersSection(pub BTreeMap<Suffix, PathBuf>);

impl ScriptRunnersSection {
    /// The suffixes of scripts that can run: those with a runner of Informant, and those of the section.
    pub fn suffixes(&self) -> impl Iterator<Item = Suffix> {
        let added = self.0.keys().filter(|suffix| suffix.language().is_none());
        Suffix::known().chain(added.cloned())
    }

    /// The content of `file`: a script if a runner is known for its suffix.
    #[must_use]
    pub fn source(&self, file: &Path) -> ContentSource {
        match Suffix::of(file).filter(|suffix| self.0.contains_key(suffix)) {
            Some(suffix) => ContentSource::script(file, suffix),
            None => file.into(),
        }
    }
}

pub(crate) fn read(root: &Table<'_>) -> ScriptRunnersSection {
    let Some(table) = root.table("script-runners") else {
        return ScriptRunnersSection::default();
    };
    let mut files = BTreeMap::new();
    for key in table.keys() {
        let Some(file) = table.string(key.value) else { continue };
        let Some(suffix) = Suffix::new(key.value) else {
            let message = format!("`{}` is not the suffix of a script", key.value);
            let help = "1 to 16 lower-case letters and digits, without the dot: py = \"FILE\"";
            table.refuse(key.position, message, help);
            continue;
        };
        let runner = suffix.runner();
        if runner != suffix {
            let message = format!("`{suffix}` has no runner of its own: it runs with that of `{runner}`");
            table.refuse(key.position, message, format!("write {runner} = \"{}\"", file.value));
            continue;
        }
        if file.value.is_empty() {
            let help = format!("name the runner's file: {suffix} = \"/usr/local/lib/informant/RUNNER.wasm\"");
            table.refuse(file.position, format!("`{suffix}` is empty"), help);
            continue;
        }
        files.insert(suffix, root.file(file.value));
    }
    table.finish(&[]);
    ScriptRunnersSection(files)
}
