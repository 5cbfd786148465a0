//! The columns of `-o wide`: those of kubectl, computed from the object alone, so that no API server is asked.
//!
//! Kinds that kubectl prints in no way of its own, and several kinds together, have version, age and labels. A column
//! with a field that the informer does not keep (`drop`, `metadata-only`) is `<none>`: an absent number is not 0.

use informant_apiserver::printers::{self, AGE, Column, NAME};
use serde_json::{Value, json};

use crate::admin::AbsentFields;

const NOTHING: &str = "<none>";

pub(super) const OF_ANY_KIND: &[Column] = &[
    NAME,
    Column::new("Version", &[], |object, _| {
        json!(object["metadata"]["resourceVersion"].as_str().unwrap_or(NOTHING))
    }),
    AGE,
    Column::new("Labels", &["/metadata/labels"], |object, _| {
        json!(printers::labels(&object["metadata"]["labels"]))
    }),
];

pub(super) fn columns(api_version: &str, kind: &str) -> &'static [Column] {
    printers::columns(api_version, kind).unwrap_or(OF_ANY_KIND)
}

/// The cell for an object that lacks the fields `absent`, at a time in seconds since 1970.
pub(super) fn show(column: &Column, object: &Value, absent: &AbsentFields, now: i64) -> String {
    if column.reads.iter().any(|pointer| absent.affects(pointer)) {
        return NOTHING.to_owned();
    }
    match column.cell(object, now) {
        Value::String(text) => first_line(text),
        other => other.to_string(),
    }
}

/// A text up to its first line break, marked if there is more. Source: kubectl `printRow`.
fn first_line(mut text: String) -> String {
    if let Some(end) = text.find(['\n', '\r', '\u{c}']) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-01.
    const NOW: i64 = 1_767_225_600;

    fn shown(object: &Value, absent: &AbsentFields) -> String {
        let columns = columns(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let cells = columns.iter().map(|column| {
            let cell = show(column, object, absent, NOW);
            format!("{} {cell}", column.name)
        });
        cells.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn common_kinds_have_kubectls_columns_and_others_our_own() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a", "creationTimestamp": "2025-12-31T00:00:00Z" },
            "spec": { "nodeName": "node-1", "initContainers": [{ "name": "i" }], "containers": [{}, {}] },
            "status": { "phase": "Pending", "initContainerStatuses": [
                { "name": "i", "restartCount": 2, "state": { "waiting": { "reason": "CrashLoopBackOff" } } },
            ] },
        });
        assert_eq!(
            shown(&pod, &AbsentFields::default()),
            "Name a | Ready 0/2 | Status Init:CrashLoopBackOff | Restarts 2 | Age 24h | IP <none> | Node node-1 \
             | Nominated Node <none> | Readiness Gates <none>"
        );
        let event = json!({ "apiVersion": "v1", "kind": "Event", "message": "one\ntwo", "metadata": { "name": "a" } });
        assert!(shown(&event, &AbsentFields::default()).contains(" | Message one... | "));
        let metadata = json!({ "name": "a", "resourceVersion": "7", "labels": { "b": "2", "a": "1" } });
        for (api_version, kind) in [
            ("example.com/v1", "Widget"),
            ("autoscaling/v1", "HorizontalPodAutoscaler"),
        ] {
            let object = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata });
            assert_eq!(
                shown(&object, &AbsentFields::default()),
                "Name a | Version 7 | Age <unknown> | Labels a=1,b=2"
            );
        }
    }

    #[test]
    fn cells_of_fields_that_are_not_kept_are_none() {
        let cells = |api_version: &str, kind: &str, absent: &AbsentFields| {
            let object = json!({ "metadata": { "name": "a" } });
            let cells = columns(api_version, kind)
                .iter()
                .map(|column| show(column, &object, absent, NOW));
            cells.collect::<Vec<_>>().join(" ")
        };
        let metadata_only = AbsentFields {
            metadata_only: true,
            ..AbsentFields::default()
        };
        assert_eq!(cells("v1", "ConfigMap", &metadata_only), "a <none> <unknown>");
        assert_eq!(
            cells("v1", "Pod", &metadata_only),
            "a <none> <none> <none> <unknown> <none> <none> <none> <none>"
        );
        let dropping = |pointer: &str| AbsentFields {
            metadata_only: false,
            drop: [pointer.to_owned()].into(),
            ..AbsentFields::default()
        };
        assert_eq!(cells("v1", "Secret", &dropping("/data")), "a  <none> <unknown>");
        let pod = |pointer: &str| cells("v1", "Pod", &dropping(pointer));
        assert_eq!(
            pod("/status"),
            "a <none> <none> <none> <unknown> <none> <none> <none> <none>"
        );
        assert_eq!(
            pod("/spec/containers/*/env"),
            "a 0/0  0 <unknown> <none> <none> <none> <none>"
        );
    }
}
