//! Ages in kubectl's format.

pub(crate) use informant_apiserver::printers::human_duration as human;

/// A duration: exact below ten seconds, otherwise in kubectl's format.
pub(crate) fn duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..10_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        _ => ago(millis),
    }
}

/// An age, in kubectl's format.
pub(crate) fn ago(millis: u64) -> String {
    human(i64::try_from(millis / 1_000).unwrap_or(i64::MAX))
}

/// The age of a Kubernetes timestamp.
pub(crate) fn since(created: Option<&str>) -> String {
    match created.and_then(|created| created.parse::<jiff::Timestamp>().ok()) {
        Some(created) => human(jiff::Timestamp::now().as_second() - created.as_second()),
        None => "<unknown>".to_owned(),
    }
}
