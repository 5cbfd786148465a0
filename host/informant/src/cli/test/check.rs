//! Compares one `expect` with what happened and what is the case, and makes the edits that would let it match.

use serde_json::{Map, Value, json};

use super::flow::flow;
use super::matching::{compare_stream, differences, expectation_of, fitted, matches, matches_text};
use super::scenario::{Amount, Expect, Indexed, Object};
use super::series;
use super::update::{Edit, edit};
use super::world::{World, object_of};
use crate::recorded::literal;
use informant_config::FilePosition;

/// An expectation that did not match, or a step that could not be done.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) position: FilePosition,
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    /// Whether an update of the expectation lets it match.
    pub(super) is_updated: bool,
}

/// Collects the failures of one expectation, and the edits.
pub(super) struct Check<'c> {
    pub(super) world: &'c mut World,
    /// The text of the scenario.
    pub(super) text: &'c str,
    pub(super) failures: Vec<Failure>,
    pub(super) edits: Vec<Edit>,
}

impl Check<'_> {
    pub(super) fn run(&mut self, expect: &Expect) {
        self.streams(expect);
        self.objects(expect);
        self.absent(expect);
        self.indexes(expect);
        self.keys(expect);
        self.metrics(expect);
        self.refused(expect);
    }

    fn fail(&mut self, position: FilePosition, title: impl Into<String>, lines: Vec<String>) {
        self.failures.push(Failure {
            position,
            title: title.into(),
            lines,
            is_updated: true,
        });
    }

    /// What no other expectation would match.
    fn fail_for_good(&mut self, position: FilePosition, title: impl Into<String>, lines: Vec<String>) {
        self.fail(position, title, lines);
        self.failures
            .iter_mut()
            .last()
            .into_iter()
            .for_each(|failure| failure.is_updated = false);
    }

    /// Makes the edit for the failures of one member, which are those since `first`.
    fn update(&mut self, expect: &Expect, name: &str, value: &Value, first: usize) {
        if let Some(edit) = edit(self.text, expect, name, value) {
            self.edits.push(edit);
            return;
        }
        for failure in &mut self.failures[first..] {
            failure.is_updated = false;
            failure.lines.push(format!(
                "`{name}` has an anchor or an alias: --update does not rewrite it"
            ));
        }
    }

    fn streams(&mut self, expect: &Expect) {
        let happened = self.world.take_happened();
        let mut open_call = self.world.open_call();
        for listed in &expect.streams {
            let happened = happened.of(listed.stream);
            if let Some(mut lines) = compare_stream(listed, happened) {
                lines.extend(open_call.take());
                let (name, first) = (listed.stream.name(), self.failures.len());
                self.fail(listed.position, format!("{name} differ"), lines);
                self.update(expect, name, &expectation_of(listed, happened), first);
            }
        }
    }

    fn objects(&mut self, expect: &Expect) {
        let (mut has_failed, first) = (false, self.failures.len());
        let mut found = Vec::new();
        for object in &expect.objects {
            let Object { kind, name, .. } = object;
            let Some(actual) = object_of(&self.world.server, object) else {
                self.fail(object.position, format!("{kind} {name} does not exist"), Vec::new());
                has_failed = true;
                continue;
            };
            let mut lines = Vec::new();
            differences(&object.value, &actual, "", &mut lines);
            found.push(fitted(&object.value, &actual));
            if !lines.is_empty() {
                self.fail(object.position, format!("{kind} {name} differs"), lines);
                has_failed = true;
            }
        }
        if has_failed {
            self.update(expect, "objects", &Value::Array(found), first);
        }
    }

    fn absent(&mut self, expect: &Expect) {
        let server = self.world.server.clone();
        let exists = |about: &&super::scenario::Reference| {
            let found = server.get(&about.resource, &about.namespace, &about.name);
            found.is_ok_and(|found| found.is_some())
        };
        let (there, absent): (Vec<_>, Vec<_>) = expect.absent.iter().partition(exists);
        let first = self.failures.len();
        for about in &there {
            self.fail(about.position, format!("{about} exists"), Vec::new());
        }
        if !there.is_empty() {
            let absent = absent.iter().map(|about| Value::from(about.to_string()));
            self.update(expect, "absent", &Value::Array(absent.collect()), first);
        }
    }

    fn indexes(&mut self, expect: &Expect) {
        let mut actual = json!({});
        let (mut has_failed, first) = (false, self.failures.len());
        for indexed in &expect.indexes {
            let Indexed {
                informer, index, value, ..
            } = indexed;
            let title = format!("index {index} of {informer}, value {}", flow(&json!(value)));
            match self.world.index_keys(informer, index, value) {
                Ok(keys) => {
                    if keys != indexed.keys {
                        let missing = indexed.keys.iter().filter(|key| !keys.contains(key));
                        let extra = keys.iter().filter(|key| !indexed.keys.contains(key));
                        let missing = missing.map(|key| format!("- {key}"));
                        let lines = missing.chain(extra.map(|key| format!("+ {key}"))).collect();
                        self.fail(indexed.position, format!("{title} differs"), lines);
                        has_failed = true;
                    }
                    actual[informer.as_str()][index.as_str()][value.as_str()] = json!(keys);
                }
                Err(error) => self.fail_for_good(indexed.position, format!("{title}: {error}"), Vec::new()),
            }
        }
        if has_failed {
            self.update(expect, "indexes", &actual, first);
        }
    }

    fn keys(&mut self, expect: &Expect) {
        let read = |world: &World, amount: &Amount| {
            let Some(bytes) = world.keys.value(&amount.name) else {
                return Value::Null;
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            match (&amount.value, serde_json::from_str(&text)) {
                // Of JSON, a text is the text in quotes.
                (Value::String(expected), Ok(Value::String(inner))) if *expected != text => Value::String(inner),
                (Value::String(_), _) | (_, Err(_)) => Value::String(text),
                (_, Ok(value)) => value,
            }
        };
        self.amounts(expect, "kv", &expect.kv, read);
    }

    fn metrics(&mut self, expect: &Expect) {
        let series = self.world.series();
        let read = |_: &World, amount: &Amount| {
            let value = series::name(&amount.name).and_then(|name| series.get(&name).copied());
            match value {
                Some(value) if value.fract() == 0.0 && value.abs() < 1e15 => json!(value as i64),
                value => json!(value),
            }
        };
        self.amounts(expect, "metrics", &expect.metrics, read);
    }

    fn amounts(&mut self, expect: &Expect, member: &str, amounts: &[Amount], read: impl Fn(&World, &Amount) -> Value) {
        let (mut actual, mut has_failed, first) = (Map::new(), false, self.failures.len());
        for amount in amounts {
            let found = read(self.world, amount);
            if !matches(&amount.value, &found) {
                let mut lines = Vec::new();
                differences(&amount.value, &found, &amount.name, &mut lines);
                self.fail(amount.position, format!("{member} differ"), lines);
                has_failed = true;
            }
            actual.insert(amount.name.clone(), fitted(&amount.value, &found));
        }
        if has_failed {
            self.update(expect, member, &Value::Object(actual), first);
        }
    }

    fn refused(&mut self, expect: &Expect) {
        let Some(expected) = &expect.refused else { return };
        let refused = self.world.refused.take();
        let pattern = expected.value.as_str().unwrap_or_default();
        if refused.as_ref().is_some_and(|refused| matches_text(pattern, refused)) {
            return;
        }
        let mut lines = vec![format!("- {}", flow(&expected.value))];
        match refused {
            Some(refused) => {
                lines.push(format!("+ {}", flow(&json!(refused))));
                let first = self.failures.len();
                self.fail(expected.position, "the version was refused with another error", lines);
                self.update(expect, "refused", &json!(literal(&refused)), first);
            }
            None => self.fail_for_good(expected.position, "no version was refused", lines),
        }
    }
}
