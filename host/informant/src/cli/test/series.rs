//! The series of a plugin's own metrics, from the text that Informant exports.

use std::collections::BTreeMap;

/// What Informant puts before the names.
const PREFIX: &str = "informant_plugin_custom_";

/// The values of the series of `plugin`, by `NAME{LABEL="VALUE"}` in the order of [`name`].
pub(super) fn of_plugin(exported: &str, plugin: &str) -> BTreeMap<String, f64> {
    let lines = exported.lines().filter_map(|line| line.strip_prefix(PREFIX));
    lines.filter_map(|line| of_line(line, plugin)).collect()
}

fn of_line(line: &str, plugin: &str) -> Option<(String, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, mut labels) = parse(series)?;
    let own = labels
        .iter()
        .position(|(label, value)| label == "plugin" && value == plugin)?;
    labels.remove(own);
    Some((show(name, labels), value.parse().ok()?))
}

/// A series as people write it, in one form: with sorted labels and no spaces. None if it is not a series.
pub(super) fn name(text: &str) -> Option<String> {
    let (name, labels) = parse(text)?;
    Some(show(name, labels))
}

/// The name of the metric, without what a sample adds to it.
pub(super) fn metric_of(series: &str) -> &str {
    let name = series.split('{').next().unwrap_or_default().trim();
    let suffixes = ["_total", "_bucket", "_count", "_sum"];
    suffixes
        .into_iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name)
}

fn show(name: &str, mut labels: Vec<(String, String)>) -> String {
    labels.sort();
    if labels.is_empty() {
        return name.to_owned();
    }
    let labels: Vec<String> = labels
        .iter()
        .map(|(label, value)| format!("{label}={value:?}"))
        .collect();
    format!("{name}{{{}}}", labels.join(","))
}

/// `NAME{LABEL="VALUE", LABEL="VALUE"}`.
fn parse(text: &str) -> Option<(&str, Vec<(String, String)>)> {
    let text = text.trim();
    let Some((name, rest)) = text.split_once('{') else {
        return Some((text, Vec::new()));
    };
    let mut rest = rest.strip_suffix('}')?.trim();
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, behind) = rest.split_once('=')?;
        let mut value = String::new();
        let mut chars = behind.trim_start().strip_prefix('"')?.chars();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => value.push(match chars.next()? {
                    'n' => '\n',
                    other => other,
                }),
                other => value.push(other),
            }
        }
        labels.push((label.trim().to_owned(), value));
        let behind = chars.as_str().trim_start();
        rest = match behind.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if behind.is_empty() => behind,
            None => return None,
        };
    }
    Some((name.trim(), labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_those_of_the_plugin_without_its_label() {
        let exported = "\
# TYPE informant_plugin_custom_sent counter
informant_plugin_custom_sent_total{plugin=\"alarm\",node=\"a, \\\"b\\\"\"} 2
informant_plugin_custom_sent_total{plugin=\"other\",node=\"a\"} 3
informant_plugin_custom_open{plugin=\"alarm\"} 1.5
informant_store_objects{informer=\"pods\"} 4
# EOF
";
        let found: Vec<_> = of_plugin(exported, "alarm").into_iter().collect();
        let sent = name("sent_total{ node = \"a, \\\"b\\\"\" }").unwrap();
        assert_eq!(found, [("open".to_owned(), 1.5), (sent, 2.0)]);
        assert_eq!(name("sent{a}"), None);
        assert_eq!(metric_of("sent_total{node=\"a\"}"), "sent");
        assert_eq!(metric_of("open"), "open");
    }
}
