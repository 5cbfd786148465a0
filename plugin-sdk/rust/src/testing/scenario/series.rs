//! `failures_total{namespace="shop"}`.

use super::yaml::{Node, Read};

/// What the name of a series adds to that of its metric, by type.
const SUFFIXES: [(&str, &[&str]); 3] = [
    ("counter", &["_total"]),
    ("gauge", &[""]),
    ("histogram", &["_count", "_sum", "_bucket"]),
];

#[derive(Debug)]
pub(super) struct Series {
    name: String,
    labels: Vec<(String, String)>,
}

impl Series {
    pub(super) fn parse(text: &str, node: &Node) -> Read<Self> {
        let (name, mut rest) = match text.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}')),
            None => (text, Some("")),
        };
        let mut labels = Vec::new();
        while let Some(given) = rest.filter(|given| !given.trim().is_empty()) {
            rest = None;
            if let Some((label, value)) = given.split_once("=\"")
                && let Some((value, further)) = value.split_once('"')
            {
                labels.push((label.trim().to_owned(), value.to_owned()));
                let further = further.trim_start();
                rest = further.strip_prefix(',').or_else(|| further.is_empty().then_some(""));
            }
        }
        if rest.is_none() || name.is_empty() {
            let example = "write it as failures_total{namespace=\"shop\"}";
            return node.fail(format_args!("{text:?} is not a series: {example}"));
        }
        let name = name.to_owned();
        Ok(Self { name, labels })
    }

    /// What it adds to the name of this metric, if it is one of its series.
    pub(super) fn suffix_of(&self, metric: &str, kind: &str) -> Option<&'static str> {
        let (_, suffixes) = SUFFIXES.iter().find(|(name, _)| *name == kind)?;
        let suffix = self.name.strip_prefix(metric)?;
        suffixes.iter().copied().find(|known| *known == suffix)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The labels, without the bound of a bucket, and the bound.
    pub(super) fn labels(&self) -> (Vec<(String, String)>, f64) {
        let (bound, labels): (Vec<_>, Vec<_>) = self.labels.iter().cloned().partition(|(name, _)| name == "le");
        let bound = bound.first().and_then(|(_, bound)| bound.parse().ok());
        (labels, bound.unwrap_or(f64::INFINITY))
    }
}
