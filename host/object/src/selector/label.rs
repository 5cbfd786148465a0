//! Label selectors: `app=web,tier in (front,back),!canary`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::SelectorError;
use super::label_syntax;
use crate::object::Object;

/// A label selector, in Kubernetes' full syntax: `=`, `==`, `!=`, `in`, `notin`, `key`, `!key`, `>`, `<`.
///
/// All of its requirements must hold; without any it matches everything. Written out, requirements are sorted by key.
///
/// Source: apimachinery `pkg/labels/selector.go`, `Parse` and `Requirement.Matches`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelRequirement {
    pub(super) key: String,
    pub(super) operator: Operator,
}

/// How a label is compared. The spellings `=` and `==` are kept for display only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Exists,
    DoesNotExist,
    Equals(String),
    DoubleEquals(String),
    NotEquals(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Reads a selector. The empty text selects everything.
    ///
    /// # Errors
    /// [`SelectorError`] with the position of the first fault: syntax, or a key or value that no label can have.
    pub fn parse(text: &str) -> Result<LabelSelector, SelectorError> {
        let mut requirements = label_syntax::parse(text)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(LabelSelector { requirements })
    }

    /// The selector that matches everything.
    #[must_use]
    pub fn everything() -> LabelSelector {
        LabelSelector::default()
    }

    /// Whether the selector matches everything because it requires nothing.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether `object`'s labels meet all requirements.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        self.matches_with(|key| object.label(key))
    }

    /// Whether the labels that `label` returns meet all requirements.
    pub fn matches_with<'l>(&self, mut label: impl FnMut(&str) -> Option<Cow<'l, str>>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.operator.holds(label(&requirement.key).as_deref()))
    }

    /// Whether labels can meet this selector and `other`. False only if a requirement contradicts another one.
    #[must_use]
    pub fn is_compatible_with(&self, other: &LabelSelector) -> bool {
        let both = || self.requirements.iter().chain(&other.requirements);
        both().all(|of| {
            let operators = both().filter(|one| one.key == of.key).map(|one| &one.operator);
            can_all_hold(&operators.collect::<Vec<_>>())
        })
    }
}

/// Whether one label can meet all of them: no label, one of their values, a number near their bounds, or another value.
fn can_all_hold(operators: &[&Operator]) -> bool {
    let listed: BTreeSet<&str> = operators.iter().flat_map(|operator| operator.values()).collect();
    // More numbers than values could exclude.
    let distance = i64::try_from(listed.len()).unwrap_or(i64::MAX);
    let near = |operator: &&Operator| match operator {
        Operator::GreaterThan(bound) => bound.saturating_add(1)..=bound.saturating_add(1).saturating_add(distance),
        Operator::LessThan(bound) => bound.saturating_sub(1).saturating_sub(distance)..=bound.saturating_sub(1),
        _ => std::ops::RangeInclusive::new(1, 0),
    };
    let holds = |label: Option<&str>| operators.iter().all(|operator| operator.holds(label));
    // No label has this value.
    holds(None)
        || holds(Some("\0"))
        || listed.iter().any(|value| holds(Some(value)))
        || operators
            .iter()
            .flat_map(near)
            .any(|number| holds(Some(&number.to_string())))
}

impl Operator {
    /// The values it names.
    fn values(&self) -> Vec<&str> {
        match self {
            Operator::Equals(value) | Operator::DoubleEquals(value) | Operator::NotEquals(value) => vec![value],
            Operator::In(values) | Operator::NotIn(values) => values.iter().map(String::as_str).collect(),
            Operator::Exists | Operator::DoesNotExist | Operator::GreaterThan(_) | Operator::LessThan(_) => Vec::new(),
        }
    }

    fn holds(&self, label: Option<&str>) -> bool {
        match self {
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Equals(value) | Operator::DoubleEquals(value) => label == Some(value),
            Operator::NotEquals(value) => label != Some(value),
            Operator::In(values) => label.is_some_and(|label| values.contains(label)),
            Operator::NotIn(values) => label.is_none_or(|label| !values.contains(label)),
            Operator::GreaterThan(bound) => number(label).is_some_and(|number| number > *bound),
            Operator::LessThan(bound) => number(label).is_some_and(|number| number < *bound),
        }
    }
}

/// A label as Go's `strconv.ParseInt` reads it: decimal, with an optional sign.
fn number(label: Option<&str>) -> Option<i64> {
    label?.parse().ok()
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<LabelSelector, SelectorError> {
        LabelSelector::parse(text)
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, requirement) in self.requirements.iter().enumerate() {
            if number > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals(value) => write!(f, "{key}={value}"),
            Operator::DoubleEquals(value) => write!(f, "{key}=={value}"),
            Operator::NotEquals(value) => write!(f, "{key}!={value}"),
            Operator::In(values) => write!(f, "{key} in ({})", Values(values)),
            Operator::NotIn(values) => write!(f, "{key} notin ({})", Values(values)),
            Operator::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Operator::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

/// The values of `in` and `notin`. The empty value alone is written as a comma: empty parentheses are not read back.
struct Values<'v>(&'v BTreeSet<String>);

impl fmt::Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, value) in self.0.iter().enumerate() {
            let only_the_empty_one = self.0.len() == 1 && value.is_empty();
            let comma = if number > 0 || only_the_empty_one { "," } else { "" };
            write!(f, "{comma}{value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selector: &str, labels: &[(&str, &'static str)]) -> bool {
        let selector = LabelSelector::parse(selector).expect(selector);
        selector.matches_with(|key| {
            labels
                .iter()
                .find(|(own, _)| *own == key)
                .map(|(_, value)| Cow::Borrowed(*value))
        })
    }

    #[test]
    fn requirements_hold_as_in_apimachinery() {
        let labels = [("app", "web"), ("tier", ""), ("replicas", "12")];
        for selector in [
            "",
            "app",
            "app=web",
            "app == web",
            "app!=db",
            "missing!=db",
            "app in (db, web)",
            "missing notin (a)",
            "app notin (db,)",
            "!missing",
            "tier=",
            "tier in (,x)",
            "replicas>11,replicas<13",
            " app , !missing ",
        ] {
            assert!(check(selector, &labels), "{selector:?}");
        }
        for selector in [
            "missing",
            "app=db",
            "app!=web",
            "missing=",
            "missing in (a)",
            "app notin (web)",
            "!app",
            "tier=x",
            "app>1",
            "missing>1",
            "replicas>12",
            "replicas<12",
            "app=web,missing",
        ] {
            assert!(!check(selector, &labels), "{selector:?}");
        }
    }

    #[test]
    fn selectors_are_compatible_unless_requirements_contradict() {
        let are_compatible = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| LabelSelector::parse(text).expect(text));
            assert_eq!(one.is_compatible_with(&other), other.is_compatible_with(&one));
            one.is_compatible_with(&other)
        };
        for (one, other) in [
            ("", "app=web"),
            ("app=web", "tier=front"),
            ("app in (a,b)", "app in (b,c)"),
            ("app", "app notin (a,b)"),
            ("app!=a", "!app"),
            ("n>3", "n<5"),
            ("n>3,n!=4", "n<6"),
            ("n<3", "n notin (1,2)"),
        ] {
            assert!(are_compatible(one, other), "{one:?} {other:?}");
        }
        for (one, other) in [
            ("app=web", "app=db"),
            ("app in (a,b)", "app in (c)"),
            ("app in (a,b)", "app notin (a,b)"),
            ("app", "!app"),
            ("app=web", "!app"),
            ("n>3", "n<4"),
            ("n>3,n!=4", "n<5"),
            ("n>3", "n=many"),
            ("app=a,app=b", ""),
        ] {
            assert!(!are_compatible(one, other), "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_selector_is_formatted_so_that_it_parses_equal() {
        for (text, written) in [
            ("", ""),
            ("b=1,a==2", "a==2,b=1"),
            ("x  in ( c ,a,b )", "x in (a,b,c)"),
            ("x notin (,)", "x notin (,)"),
            (" ! x , y ", "!x,y"),
            ("n>007", "n>7"),
            ("in in (in,notin),notin", "in in (in,notin),notin"),
        ] {
            let selector = LabelSelector::parse(text).expect(text);
            assert_eq!(selector.to_string(), written);
            assert_eq!(LabelSelector::parse(written).expect("own text"), selector);
        }
    }
}
