//! Typed access to a TOML table that reports every problem.
//!
//! ```text
//! text ──toml──▶ spanned tree ──Table::{string, duration, …, finish}──▶ values with their positions
//!                                        └──▶ Problems: all of them, not only the first
//! ```
//!
//! A getter returns `None` if a key is absent or invalid; the latter has been reported. A key that no getter was called
//! for is unknown: there is no list of keys next to the code that reads them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::problem::{Problem, Problems};
use crate::source::{FilePosition, Located, SourceFile};
use crate::units;
use informant_spec::suggest;

/// Collects the problems of one file.
#[derive(Debug)]
pub(crate) struct Reporter<'f> {
    file: &'f SourceFile,
    problems: RefCell<Vec<Problem>>,
}

impl<'f> Reporter<'f> {
    pub(crate) fn new(file: &'f SourceFile) -> Self {
        Self {
            file,
            problems: RefCell::default(),
        }
    }

    pub(crate) fn file(&self) -> &'f SourceFile {
        self.file
    }

    /// Creates an error at a position, to pass to [`report`](Self::report).
    pub(crate) fn error(&self, position: FilePosition, message: impl Into<String>) -> Problem {
        Problem::at(self.file.path(), position, message)
    }

    pub(crate) fn report(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    pub(crate) fn finish(self) -> Problems {
        let mut problems = Problems(self.problems.into_inner());
        problems.sort();
        problems
    }
}

/// Keys that are planned but not supported yet, each with what to do instead.
pub(crate) type Planned = [(&'static str, &'static str)];

/// One table of the file. It remembers the keys that a getter was called for: these are the known ones.
pub(crate) struct Table<'t> {
    reporter: &'t Reporter<'t>,
    /// As in the header: `informer.pods`. Empty for the root.
    path: String,
    position: FilePosition,
    entries: &'t DeTable<'t>,
    asked: RefCell<BTreeSet<String>>,
}

/// An item of a list of strings and tables.
pub(crate) enum Entry<'t> {
    Text(Located<String>),
    Table(Table<'t>),
}

impl<'t> Table<'t> {
    pub(crate) fn root(reporter: &'t Reporter<'t>, entries: &'t DeTable<'t>) -> Self {
        Self {
            reporter,
            path: String::new(),
            position: FilePosition { line: 1, column: 1 },
            entries,
            asked: RefCell::default(),
        }
    }

    pub(crate) fn reporter(&self) -> &'t Reporter<'t> {
        self.reporter
    }

    pub(crate) fn position(&self) -> FilePosition {
        self.position
    }

    /// The table's name in messages.
    pub(crate) fn title(&self) -> String {
        if self.path.is_empty() {
            "the file".into()
        } else {
            format!("[{}]", self.path)
        }
    }

    /// Reports each key that no getter was called for. Call it when everything has been read.
    pub(crate) fn finish(&self, planned: &Planned) {
        let asked = self.asked.borrow();
        for key in self.entries.keys() {
            let name = key.get_ref().as_ref();
            if asked.contains(name) {
                continue;
            }
            if let Some((_, instead)) = planned.iter().find(|(planned, _)| *planned == name) {
                self.report_planned(self.key_position(key), &format!("`{name}`"), instead);
                continue;
            }
            let known: Vec<&str> = asked.iter().map(String::as_str).collect();
            let words = known.iter().copied().chain(planned.iter().map(|(word, _)| *word));
            let problem = self.error(
                self.key_position(key),
                format!("unknown key `{name}` in {}", self.title()),
            );
            let help = match suggest::nearest(name, words) {
                Some(word) => format!("did you mean `{word}`?"),
                None => format!("keys of {}: {}", self.title(), known.join(", ")),
            };
            self.reporter.report(problem.help(help));
        }
    }

    /// Takes keys for known without reading them.
    pub(crate) fn ignore(&self, keys: &[&str]) {
        keys.iter().for_each(|key| self.asked(key));
    }

    /// Reports something that is planned but not supported yet.
    pub(crate) fn report_planned(&self, position: FilePosition, what: &str, instead: &str) {
        let problem = self.error(position, format!("{what} is not supported yet"));
        self.reporter.report(if instead.is_empty() {
            problem
        } else {
            problem.help(instead)
        });
    }

    pub(crate) fn error(&self, position: FilePosition, message: impl Into<String>) -> Problem {
        self.reporter.error(position, message)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The keys with their positions, in alphabetical order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Located<&'t str>> + use<'t> {
        let reporter = self.reporter;
        self.entries.keys().map(move |key| Located {
            value: key.get_ref().as_ref(),
            position: reporter.file.position(key.span().start),
        })
    }

    pub(crate) fn string(&self, key: &str) -> Option<Located<String>> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(self.located(value, text.to_string())),
            other => self.wrong_type(key, value, "a string", other),
        }
    }

    /// Like [`string`](Self::string), but also reports its absence.
    pub(crate) fn required_string(&self, key: &str, help: &str) -> Option<Located<String>> {
        if !self.has(key) {
            let problem = self.error(self.position, format!("{} lacks `{key}`", self.title()));
            self.reporter.report(problem.help(help));
        }
        self.string(key)
    }

    pub(crate) fn boolean(&self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Boolean(value) => Some(*value),
            other => self.wrong_type(key, value, "true or false", other),
        }
    }

    /// A whole number within `range`.
    pub(crate) fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Option<Located<u64>> {
        let value = self.get(key)?;
        let DeValue::Integer(number) = value.get_ref() else {
            return self.wrong_type(key, value, "a whole number", value.get_ref());
        };
        let parsed = u64::from_str_radix(number.as_str(), number.radix()).ok();
        match parsed.filter(|number| range.contains(number)) {
            Some(number) => Some(self.located(value, number)),
            None => self.out_of_range(key, value, &number.to_string(), &range.start(), &range.end()),
        }
    }

    pub(crate) fn duration(&self, key: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let text = self.string_with_unit(key, units::DURATION_FORM)?;
        let Some(duration) = units::parse_duration(&text.value) else {
            return self.malformed(key, &text, "a duration", units::DURATION_FORM);
        };
        if range.contains(&duration) {
            return Some(duration);
        }
        let (low, high) = (units::show_duration(*range.start()), units::show_duration(*range.end()));
        self.out_of_range(key, self.get(key)?, &text.value, &low, &high)
    }

    /// A size in bytes.
    pub(crate) fn size_bytes(&self, key: &str, range: RangeInclusive<usize>) -> Option<usize> {
        let text = self.string_with_unit(key, units::SIZE_FORM)?;
        let Some(bytes) = units::parse_size_bytes(&text.value).and_then(|bytes| usize::try_from(bytes).ok()) else {
            return self.malformed(key, &text, "a size", units::SIZE_FORM);
        };
        if range.contains(&bytes) {
            return Some(bytes);
        }
        let (low, high) = (
            units::show_size(*range.start() as u64),
            units::show_size(*range.end() as u64),
        );
        self.out_of_range(key, self.get(key)?, &text.value, &low, &high)
    }

    /// How many in a second.
    pub(crate) fn rate(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let text = self.string_with_unit(key, units::RATE_FORM)?;
        let Some(rate) = units::parse_rate(&text.value) else {
            return self.malformed(key, &text, "a rate", units::RATE_FORM);
        };
        if range.contains(&rate) {
            return Some(rate);
        }
        let (low, high) = (format!("{}/s", range.start()), format!("{}/s", range.end()));
        self.out_of_range(key, self.get(key)?, &text.value, &low, &high)
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        self.word(key, &self.string(key)?, choices)
    }

    /// The value of the word at `key`.
    pub(crate) fn word<T: Copy>(&self, key: &str, text: &Located<String>, choices: &[(&str, T)]) -> Option<T> {
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text.value) {
            return Some(*value);
        }
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        let problem = self.error(text.position, format!("`{key}` cannot be \"{}\"", text.value));
        self.reporter
            .report(problem.help(suggest::did_you_mean(&text.value, &words, "possible values")));
        None
    }

    pub(crate) fn strings(&self, key: &str) -> Option<Vec<Located<String>>> {
        let value = self.get(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            return self.wrong_type(key, value, "a list of strings", value.get_ref());
        };
        let mut strings = Vec::with_capacity(items.len());
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(text) => strings.push(self.located(item, text.to_string())),
                other => self
                    .wrong_type::<()>(key, item, "a list of strings", other)
                    .unwrap_or_default(),
            }
        }
        Some(strings)
    }

    /// Whether the key holds a table; reports nothing, and does not make the key a known one.
    pub(crate) fn is_table(&self, key: &str) -> bool {
        matches!(self.entries.get(key).map(Spanned::get_ref), Some(DeValue::Table(_)))
    }

    pub(crate) fn is_string(&self, key: &str) -> bool {
        matches!(self.get(key).map(Spanned::get_ref), Some(DeValue::String(_)))
    }

    pub(crate) fn table(&self, key: &str) -> Option<Table<'t>> {
        self.asked(key);
        let (name, value) = self.entries.get_key_value(key)?;
        match value.get_ref() {
            DeValue::Table(entries) => Some(self.child(name, entries)),
            other => self.wrong_type(key, value, &format!("a table, [{}]", self.child_path(key)), other),
        }
    }

    /// The strings and tables of a list. `expected` describes it in messages.
    pub(crate) fn entries(&self, key: &str, expected: &str) -> Option<Vec<Entry<'t>>> {
        let value = self.get(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            return self.wrong_type(key, value, expected, value.get_ref());
        };
        let mut entries = Vec::with_capacity(items.len());
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(text) => entries.push(Entry::Text(self.located(item, text.to_string()))),
                DeValue::Table(table) => entries.push(Entry::Table(self.item(key, item, table))),
                other => self.wrong_type::<()>(key, item, expected, other).unwrap_or_default(),
            }
        }
        Some(entries)
    }

    pub(crate) fn tables(&self, key: &str) -> Option<Vec<Table<'t>>> {
        let value = self.get(key)?;
        let expected = "a list of tables, [{ … }]".to_owned();
        let DeValue::Array(items) = value.get_ref() else {
            return self.wrong_type(key, value, &expected, value.get_ref());
        };
        let mut tables = Vec::with_capacity(items.len());
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(entries) => tables.push(self.item(key, item, entries)),
                other => self.wrong_type::<()>(key, item, &expected, other).unwrap_or_default(),
            }
        }
        Some(tables)
    }

    /// The value under `key` as JSON.
    pub(crate) fn json(&self, key: &str) -> Option<serde_json::Value> {
        self.get(key).and_then(|value| self.to_json(key, value))
    }

    /// The position of the value of `key`; the table's own if it is absent.
    pub(crate) fn value_position(&self, key: &str) -> FilePosition {
        self.get(key).map_or(self.position, |value| self.span_position(value))
    }

    fn get(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.asked(key);
        self.entries.get(key)
    }

    fn asked(&self, key: &str) {
        self.asked.borrow_mut().insert(key.to_owned());
    }

    fn to_json(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<serde_json::Value> {
        use serde_json::Value;
        Some(match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Datetime(value) => Value::String(value.to_string()),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => number.into(),
                Err(_) => return self.no_json(key, value, &number.to_string()),
            },
            DeValue::Float(number) => {
                match number
                    .as_str()
                    .parse::<f64>()
                    .ok()
                    .and_then(serde_json::Number::from_f64)
                {
                    Some(number) => number.into(),
                    None => return self.no_json(key, value, number.as_str()),
                }
            }
            DeValue::Array(items) => Value::Array(items.iter().filter_map(|item| self.to_json(key, item)).collect()),
            DeValue::Table(entries) => Value::Object(
                entries
                    .iter()
                    .filter_map(|(name, value)| {
                        Some((name.get_ref().to_string(), self.to_json(name.get_ref(), value)?))
                    })
                    .collect(),
            ),
        })
    }

    fn no_json<T>(&self, key: &str, value: &Spanned<DeValue<'_>>, written: &str) -> Option<T> {
        let problem = self.error(
            self.span_position(value),
            format!("`{key}`: {written} cannot be written as JSON"),
        );
        self.reporter
            .report(problem.help("plugins receive their config as JSON: write it as a string"));
        None
    }

    fn string_with_unit(&self, key: &str, form: &str) -> Option<Located<String>> {
        if let Some(value @ (DeValue::Integer(_) | DeValue::Float(_))) = self.get(key).map(Spanned::get_ref) {
            let number = match value {
                DeValue::Integer(number) => number.to_string(),
                DeValue::Float(number) => number.to_string(),
                _ => String::new(),
            };
            let problem = self.error(self.value_position(key), format!("`{key}` = {number} lacks a unit"));
            self.reporter.report(problem.help(format!("write {form}")));
            return None;
        }
        self.string(key)
    }

    fn malformed<T>(&self, key: &str, text: &Located<String>, what: &str, form: &str) -> Option<T> {
        let problem = self.error(text.position, format!("`{key}` = \"{}\" is not {what}", text.value));
        self.reporter.report(problem.help(format!("write {form}")));
        None
    }

    fn out_of_range<T>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        written: &str,
        low: &dyn std::fmt::Display,
        high: &dyn std::fmt::Display,
    ) -> Option<T> {
        let message = format!("`{key}` = {written} is out of range");
        let problem = self.error(self.span_position(value), message);
        self.reporter.report(problem.help(format!("from {low} to {high}")));
        None
    }

    fn wrong_type<T>(&self, key: &str, at: &Spanned<DeValue<'_>>, expected: &str, found: &DeValue<'_>) -> Option<T> {
        let found = match found {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.reporter.report(self.error(
            self.span_position(at),
            format!("`{key}` must be {expected}, not {found}"),
        ));
        None
    }

    /// A table of the list at `key`.
    fn item(&self, key: &str, item: &Spanned<DeValue<'_>>, entries: &'t DeTable<'t>) -> Table<'t> {
        Table {
            reporter: self.reporter,
            path: self.child_path(key),
            position: self.span_position(item),
            entries,
            asked: RefCell::default(),
        }
    }

    fn child(&self, name: &Spanned<DeString<'_>>, entries: &'t DeTable<'t>) -> Table<'t> {
        Table {
            reporter: self.reporter,
            path: self.child_path(name.get_ref()),
            position: self.key_position(name),
            entries,
            asked: RefCell::default(),
        }
    }

    fn child_path(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn located<T>(&self, at: &Spanned<DeValue<'_>>, value: T) -> Located<T> {
        Located {
            value,
            position: self.span_position(at),
        }
    }

    fn key_position(&self, key: &Spanned<DeString<'_>>) -> FilePosition {
        self.reporter.file.position(key.span().start)
    }

    fn span_position(&self, value: &Spanned<DeValue<'_>>) -> FilePosition {
        self.reporter.file.position(value.span().start)
    }
}
