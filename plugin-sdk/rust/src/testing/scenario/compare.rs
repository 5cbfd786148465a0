//! Compares the `expect` of a step with what happened.

use std::mem;

use serde_json::{Map, Value, json};

use super::expect::{difference, fits, kv_difference, list_differences};
use super::format::{Check, Scenario, Step};
use super::run::{DeadLetter, Run};
use super::series::Series;
use super::yaml::Node;
use crate::failure::Failure;
use crate::log::Level;
use crate::testing::cache::LogLine;
use crate::testing::events::RecordedEvent;
use crate::testing::exported::Exported;

/// What differs if the plugin is refused when it starts: nothing else happens then.
pub(super) fn refused_start(scenario: &Scenario, refusal: Failure) -> Vec<String> {
    let Some(step) = scenario.steps.first() else {
        return vec![scenario.root.at(refused(&refusal))];
    };
    let checks = step.expect.iter().flat_map(|expect| &expect.checks);
    let nothing = |(node, check): &(Node, Check)| match check {
        Check::List(listed) => list_differences(node, listed, &[]),
        _ => Vec::new(),
    };
    let mut differences: Vec<String> = checks.flat_map(nothing).collect();
    differences.extend(refusal_difference(step, Some(&refusal)));
    differences
}

fn refused(failure: &Failure) -> String {
    format!("the plugin was refused: {}", failure.message())
}

fn refusal_difference(step: &Step, refusal: Option<&Failure>) -> Option<String> {
    let expected = step.expect.as_ref().and_then(|expect| expect.refused.as_ref());
    match (expected, refusal) {
        (None, None) => None,
        (None, Some(refusal)) => Some(step.node.at(refused(refusal))),
        (Some(node), None) => Some(node.at("the plugin was not refused")),
        (Some(node), Some(refusal)) => {
            let is_it = node
                .value
                .as_str()
                .is_some_and(|expected| fits(expected, refusal.message()));
            (!is_it).then(|| node.at(format_args!("expected {}, found {:?}", node.value, refusal.message())))
        }
    }
}

impl<P: Exported> Run<'_, P> {
    /// What differs. Forgets what happened, if there is an `expect`.
    pub(super) fn compare(&mut self, step: &Step, refusal: Option<Failure>) -> Vec<String> {
        let mut differences = Vec::new();
        if let Some(expect) = &step.expect {
            let happened = self.happened();
            self.index();
            for (node, check) in &expect.checks {
                differences.extend(self.differences(node, check, &happened));
            }
        }
        differences.extend(refusal_difference(step, refusal.as_ref()));
        differences
    }

    /// The lists of what happened, by name.
    fn happened(&mut self) -> Map<String, Value> {
        let cache = &self.driver.cache;
        let is_shown = |line: &LogLine| !matches!(line.level, Level::Trace | Level::Debug);
        let lines = cache.take_lines();
        let log: Value = lines.iter().filter(|line| is_shown(line)).map(line_of).collect();
        let letter = |letter: &DeadLetter| json!({ "object": cache.shown(&letter.key), "error": letter.message });
        let dead_letters: Value = self.dead_letters.iter().map(letter).collect();
        let lists = [
            ("calls", Value::Array(mem::take(&mut self.driver.calls))),
            ("log", log),
            ("writes", Value::Array(self.driver.cache.take_sent())),
            ("events", cache.take_events().iter().map(event_of).collect()),
            ("http", Value::Array(mem::take(&mut self.requests.borrow_mut().made))),
            ("deadLetters", dead_letters),
        ];
        lists.into_iter().map(|(name, list)| (name.to_owned(), list)).collect()
    }

    fn differences(&self, node: &Node, check: &Check, happened: &Map<String, Value>) -> Vec<String> {
        let cache = &self.driver.cache;
        let why = match check {
            Check::List(listed) => {
                let found = happened.get(&listed.name).and_then(Value::as_array);
                return list_differences(node, listed, found.map_or(&[], Vec::as_slice));
            }
            Check::Object(object) => match self.find(&object.at).and_then(|key| cache.get(&key)) {
                Some(found) => difference(&object.value, &found),
                None => Some(format!("{} does not exist", object.at)),
            },
            Check::Absent(reference) => self.find(reference).map(|_| format!("{reference} exists")),
            Check::Kv(key) => kv_difference(&node.value, cache.remembered(key).as_deref()),
            Check::Metric(series) => {
                let value = self.metric(series).map_or(Value::Null, Value::from);
                difference(&node.value, &value)
            }
            Check::Index { informer, index, value } => {
                let mut expected: Vec<Value> = node.value.as_array().cloned().unwrap_or_default();
                expected.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
                let all = cache.indexed(informer, index).flatten().unwrap_or_default();
                let having = all.into_iter().filter(|(_, values)| values.contains(value));
                let mut having: Vec<String> = having.map(|(key, _)| key).collect();
                having.sort_unstable();
                difference(&expected.into(), &json!(having))
            }
        };
        why.map(|why| node.at(why)).into_iter().collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a test counts few values")]
    fn metric(&self, series: &Series) -> Option<f64> {
        let mut metrics = self.driver.manifest.metrics().iter();
        let (name, suffix) =
            metrics.find_map(|metric| Some((&metric.name, series.suffix_of(&metric.name, metric.kind)?)))?;
        let (labels, bound) = series.labels();
        let amounts = self.driver.cache.amounts(name, labels)?;
        Some(match suffix {
            "_count" => amounts.len() as f64,
            "_bucket" => amounts.iter().filter(|amount| **amount <= bound).count() as f64,
            _ => amounts.iter().sum(),
        })
    }
}

fn event_of(event: &RecordedEvent) -> Value {
    let RecordedEvent {
        event_type,
        reason,
        action,
        note,
        regarding,
        related,
    } = event;
    json!({
        "type": event_type, "reason": reason, "action": action, "note": note,
        "regarding": regarding.to_string(), "related": related.as_ref().map(ToString::to_string),
    })
}

fn line_of(line: &LogLine) -> Value {
    // A text as it is, anything else is JSON.
    let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    let fields = line.fields.iter().map(|(name, text)| (name.clone(), value(text)));
    json!({ "level": line.level.as_str(), "message": line.message, "fields": fields.collect::<Map<_, _>>() })
}
