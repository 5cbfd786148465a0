//! Label selectors in Kubernetes syntax.

use serde_json::Value;

/// One requirement of a selector. An object must meet all of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    label: String,
    condition: Condition,
}

#[derive(Debug, PartialEq, Eq)]
enum Condition {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Requirement {
    pub(super) fn matches(&self, object: &Value) -> bool {
        let value = object["metadata"]["labels"].get(&self.label).and_then(Value::as_str);
        let is_in = |values: &[String]| value.is_some_and(|value| values.iter().any(|wanted| wanted == value));
        match &self.condition {
            Condition::Exists => value.is_some(),
            Condition::Absent => value.is_none(),
            Condition::In(values) => is_in(values),
            Condition::NotIn(values) => !is_in(values),
        }
    }
}

/// Parses `app=web,tier in (a, b),!canary`. An empty selector selects everything.
pub(super) fn parse(selector: &str) -> Result<Vec<Requirement>, String> {
    let mut depth = 0_i32;
    // Commas within parentheses separate values.
    let outer_comma = |letter: char| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ',' && depth == 0
    };
    let parts = selector.split(outer_comma).map(str::trim);
    if selector.trim().is_empty() {
        Ok(Vec::new())
    } else {
        parts.map(requirement).collect()
    }
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let one = |value: &str| vec![value.trim().to_owned()];
    let (label, condition) = if let Some((label, value)) = text.split_once("!=") {
        (label, Condition::NotIn(one(value)))
    } else if let Some((label, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (label, Condition::In(one(value)))
    } else if let Some((label, list)) = text.split_once(" notin ") {
        (label, Condition::NotIn(values(list)?))
    } else if let Some((label, list)) = text.split_once(" in ") {
        (label, Condition::In(values(list)?))
    } else if let Some(label) = text.strip_prefix('!') {
        (label, Condition::Absent)
    } else {
        (text, Condition::Exists)
    };
    let label = label.trim();
    if label.is_empty() || label.contains(char::is_whitespace) {
        return Err(format!("label selector: {text:?} is not a valid requirement"));
    }
    Ok(Requirement {
        label: label.to_owned(),
        condition,
    })
}

fn values(list: &str) -> Result<Vec<String>, String> {
    let inner = list.trim().strip_prefix('(').and_then(|list| list.strip_suffix(')'));
    let inner = inner.ok_or_else(|| format!("label selector: {list:?} is not a list of values in parentheses"))?;
    Ok(inner.split(',').map(|value| value.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selects_as_kubernetes_does() {
        let pod = json!({ "metadata": { "labels": { "app": "web", "tier": "a" } } });
        for (selector, selected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=a", true),
            ("app=db", false),
            ("app!=db", true),
            ("absent!=x", true),
            ("tier in (a, b),app", true),
            ("tier notin (a,b)", false),
            ("absent notin (a)", true),
            ("!absent", true),
            ("absent", false),
        ] {
            let requirements = parse(selector).expect("a valid selector");
            assert_eq!(
                requirements.iter().all(|requirement| requirement.matches(&pod)),
                selected,
                "{selector:?}"
            );
        }
        assert!(parse("tier in a,b").is_err());
        assert!(parse("a b").is_err());
    }
}
