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
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::deprecated::{DEPRECATED, Deprecated, Successor};
use crate::folder_of;
use crate::problem::{Problem, Problems};
use crate::source::{FilePosition, Located, SourceFile};
use crate::units;
use informant_spec::suggest;

/// Collects the problems of one file.
#[derive(Debug)]
pub(crate) struct Reporter<'f> {
    file: &'f SourceFile,
    deprecated: &'static [Deprecated],
    problems: RefCell<Vec<Problem>>,
}

impl<'f> Reporter<'f> {
    pub(crate) fn new(file: &'f SourceFile) -> Self {
        Self::with_deprecated(file, DEPRECATED)
    }

    /// With other deprecated keys than those of this version.
    pub(crate) fn with_deprecated(file: &'f SourceFile, deprecated: &'static [Deprecated]) -> Self {
        Self {
            file,
            deprecated,
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
            if let Some(former) = self.deprecated(|former| former.key == name) {
                self.report_deprecated(self.key_position(key), former);
                continue;
            }
            if let Some((_, instead)) = planned.iter().find(|(planned, _)| *planned == name) {
                self.report_planned(self.key_position(key), &format!("`{name}`"), instead);
                continue;
            }
            let known: Vec<&str> = asked.iter().map(String::as_str).collect();
            let words = known.iter().copied().chain(planned.iter().map(|(word, _)| *word));
            let message = format!("unknown key `{name}` in {}", self.title());
            let help = match suggest::nearest(name, words) {
                Some(word) => format!("did you mean `{word}`?"),
                None => format!("keys of {}: {}", self.title(), known.join(", ")),
            };
            self.refuse(self.key_position(key), message, help);
        }
    }

    fn deprecated(&self, pick: impl Fn(&Deprecated) -> bool) -> Option<&'static Deprecated> {
        let mut all = self.reporter.deprecated.iter();
        all.find(|former| former.is_in(&self.path) && pick(former))
    }

    fn report_deprecated(&self, position: FilePosition, former: &Deprecated) {
        let key = former.key;
        match former.now {
            Successor::Key(now) if self.entries.contains_key(now) => {
                let message = format!(
                    "`{key}` is the former name of `{now}`, and both are set in {}",
                    self.title()
                );
                self.refuse(position, message, format!("remove `{key}`"));
            }
            _ => self.warn(
                position,
                format!("`{key}` is deprecated in {}", self.title()),
                former.help(),
            ),
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

    pub(crate) fn report(&self, position: FilePosition, message: impl Into<String>) {
        self.reporter.report(self.error(position, message));
    }

    /// Reports an error with what to do about it.
    pub(crate) fn refuse(&self, position: FilePosition, message: impl Into<String>, help: impl Into<String>) {
        self.reporter.report(self.error(position, message).help(help));
    }

    pub(crate) fn warn(&self, position: FilePosition, message: impl Into<String>, help: impl Into<String>) {
        self.reporter.report(self.error(position, message).help(help).warning());
    }

    /// A path in the file, which is relative to its folder.
    pub(crate) fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        folder_of(self.reporter.file.path()).join(path)
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
            self.refuse(self.position, format!("{} lacks `{key}`", self.title()), help);
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
    pub(crate) fn integer<T: TryFrom<u64>>(&self, key: &str, range: RangeInclusive<u64>) -> Option<T> {
        let value = self.get(key)?;
        let DeValue::Integer(number) = value.get_ref() else {
            return self.wrong_type(key, value, "a whole number", value.get_ref());
        };
        let parsed = u64::from_str_radix(number.as_str(), number.radix()).ok();
        match parsed.filter(|number| range.contains(number)) {
            Some(number) => T::try_from(number).ok(),
            None => self.out_of_range(key, value, &number.to_string(), &range.start(), &range.end()),
        }
    }

    pub(crate) fn duration(&self, key: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let show = |duration: &Duration| units::show_duration(*duration);
        let what = ("a duration", units::DURATION_FORM);
        self.quantity(key, range, what, units::parse_duration, show)
    }

    pub(crate) fn size_bytes(&self, key: &str, range: RangeInclusive<usize>) -> Option<usize> {
        let parse = |text: &str| units::parse_size_bytes(text).and_then(|bytes| usize::try_from(bytes).ok());
        let show = |bytes: &usize| units::show_size(*bytes as u64);
        self.quantity(key, range, ("a size", units::SIZE_FORM), parse, show)
    }

    /// How many in a second.
    pub(crate) fn rate(&self, key: &str, range: RangeInclusive<u64>) -> Option<u32> {
        let show = |rate: &u64| format!("{rate}/s");
        let rate = self.quantity(key, range, ("a rate", units::RATE_FORM), units::parse_rate, show);
        u32::try_from(rate?).ok()
    }

    /// A number with a unit; messages say what it is, and how it is written.
    fn quantity<T: PartialOrd>(
        &self,
        key: &str,
        range: RangeInclusive<T>,
        (what, form): (&str, &str),
        parse: impl Fn(&str) -> Option<T>,
        show: impl Fn(&T) -> String,
    ) -> Option<T> {
        let text = self.string_with_unit(key, form)?;
        let Some(value) = parse(&text.value) else {
            let message = format!("`{key}` = \"{}\" is not {what}", text.value);
            self.refuse(text.position, message, format!("write {form}"));
            return None;
        };
        if range.contains(&value) {
            return Some(value);
        }
        let (low, high) = (show(range.start()), show(range.end()));
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
        let message = format!("`{key}` cannot be \"{}\"", text.value);
        let help = suggest::did_you_mean(&text.value, &words, "possible values");
        self.refuse(text.position, message, help);
        None
    }

    pub(crate) fn strings(&self, key: &str) -> Option<Vec<Located<String>>> {
        self.items(key, "a list of strings", |item| match item.get_ref() {
            DeValue::String(text) => Some(self.located(item, text.to_string())),
            _ => None,
        })
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
            DeValue::Table(entries) => Some(self.child(key, self.key_position(name), entries)),
            other => self.wrong_type(key, value, &format!("a table, [{}]", self.child_path(key)), other),
        }
    }

    /// The strings and tables of a list. `expected` describes it in messages.
    pub(crate) fn entries(&self, key: &str, expected: &str) -> Option<Vec<Entry<'t>>> {
        self.items(key, expected, |item| match item.get_ref() {
            DeValue::String(text) => Some(Entry::Text(self.located(item, text.to_string()))),
            DeValue::Table(table) => Some(Entry::Table(self.child(key, self.span_position(item), table))),
            _ => None,
        })
    }

    pub(crate) fn tables(&self, key: &str) -> Option<Vec<Table<'t>>> {
        self.items(key, "a list of tables, [{ … }]", |item| match item.get_ref() {
            DeValue::Table(entries) => Some(self.child(key, self.span_position(item), entries)),
            _ => None,
        })
    }

    fn items<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&'t Spanned<DeValue<'t>>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let value = self.get(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            return self.wrong_type(key, value, expected, value.get_ref());
        };
        let read = |item| read(item).or_else(|| self.wrong_type(key, item, expected, item.get_ref()));
        Some(items.iter().filter_map(read).collect())
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
        self.entries.get(key).or_else(|| {
            let former = self.deprecated(|former| matches!(former.now, Successor::Key(now) if now == key))?;
            self.entries.get(former.key)
        })
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
        let message = format!("`{key}`: {written} cannot be written as JSON");
        let help = "plugins receive their config as JSON: write it as a string";
        self.refuse(self.span_position(value), message, help);
        None
    }

    fn string_with_unit(&self, key: &str, form: &str) -> Option<Located<String>> {
        if let Some(value @ (DeValue::Integer(_) | DeValue::Float(_))) = self.get(key).map(Spanned::get_ref) {
            let number = match value {
                DeValue::Integer(number) => number.to_string(),
                DeValue::Float(number) => number.to_string(),
                _ => String::new(),
            };
            let message = format!("`{key}` = {number} lacks a unit");
            self.refuse(self.value_position(key), message, format!("write {form}"));
            return None;
        }
        self.string(key)
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
        let help = format!("from {low} to {high}");
        self.refuse(self.span_position(value), message, help);
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
        let message = format!("`{key}` must be {expected}, not {found}");
        self.report(self.span_position(at), message);
        None
    }

    fn child(&self, key: &str, position: FilePosition, entries: &'t DeTable<'t>) -> Table<'t> {
        Table {
            reporter: self.reporter,
            path: self.child_path(key),
            position,
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
