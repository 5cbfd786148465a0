//! Ages in kubectl's format.

pub(crate) use informant_apiserver::printers::human_duration as human;

/// The age of a Kubernetes timestamp.
pub(crate) fn since(created: Option<&str>) -> String {
    match created.and_then(|created| created.parse::<jiff::Timestamp>().ok()) {
        Some(created) => human(jiff::Timestamp::now().as_second() - created.as_second()),
        None => "<unknown>".to_owned(),
    }
}
