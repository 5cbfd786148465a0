//! Output formats of `informant get`.

use super::template::Template;

/// See the help of `-o`.
#[derive(Debug, Clone)]
pub(super) enum Format {
    /// NAMESPACE, NAME and AGE.
    Table,
    /// More columns: those of kubectl, or version and labels for kinds that kubectl has none for.
    Wide,
    /// One object, or a List.
    Json,
    /// One object, or a List.
    Yaml,
    /// kind/name, to pass to other commands.
    Name,
    /// A template for the object, or the List.
    JsonPath(Template),
}

impl Format {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "table" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "name" => Ok(Self::Name),
            text => match text.strip_prefix("jsonpath=") {
                Some(template) => Template::parse(template).map(Self::JsonPath),
                None => Err("formats: table, wide, json, yaml, name, jsonpath='{.items[*].metadata.name}'".to_owned()),
            },
        }
    }

    /// Whether objects are rows of a table.
    pub(super) fn is_table(&self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}
