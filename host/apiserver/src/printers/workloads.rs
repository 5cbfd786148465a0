//! Workloads: desired and actual replicas.

use serde_json::{Value, json};

use super::cells::{
    NONE, between, condition, count, each, is_deleted, items, labelled, number, or_none, plain, selecting, since, text,
};
use super::column::{AGE, Column, NAME, boolean, column, field, wide};

const CONTAINERS: Column = wide(
    "Containers",
    &[
        "/spec/template/spec/containers/*/name",
        "/spec/jobTemplate/spec/template/spec/containers/*/name",
    ],
    |it, _| json!(each(containers(it), "name")),
);
const IMAGES: Column = wide(
    "Images",
    &[
        "/spec/template/spec/containers/*/image",
        "/spec/jobTemplate/spec/template/spec/containers/*/image",
    ],
    |it, _| json!(each(containers(it), "image")),
);
const SELECTOR: Column = field("Selector", &["/spec/selector"], selecting).wide();

pub(super) const DEPLOYMENTS: &[Column] = &[
    NAME,
    column("Ready", &["/status/readyReplicas", "/spec/replicas"], |it, _| ready(it)),
    field("Up-to-date", &["/status/updatedReplicas"], count),
    field("Available", &["/status/availableReplicas"], count),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const REPLICA_SETS: &[Column] = &[NAME, DESIRED, CURRENT, READY, AGE, CONTAINERS, IMAGES, SELECTOR];

pub(super) const REPLICATION_CONTROLLERS: &[Column] = &[
    NAME,
    DESIRED,
    CURRENT,
    READY,
    AGE,
    CONTAINERS,
    IMAGES,
    field("Selector", &["/spec/selector"], labelled).wide(),
];

const DESIRED: Column = field("Desired", &["/spec/replicas"], count).integer();
const CURRENT: Column = field("Current", &["/status/replicas"], count).integer();
const READY: Column = field("Ready", &["/status/readyReplicas"], count).integer();

pub(super) const STATEFUL_SETS: &[Column] = &[
    NAME,
    column("Ready", &["/status/readyReplicas", "/spec/replicas"], |it, _| ready(it)),
    AGE,
    CONTAINERS,
    IMAGES,
];

pub(super) const DAEMON_SETS: &[Column] = &[
    NAME,
    field("Desired", &["/status/desiredNumberScheduled"], count).integer(),
    field("Current", &["/status/currentNumberScheduled"], count).integer(),
    field("Ready", &["/status/numberReady"], count).integer(),
    field("Up-to-date", &["/status/updatedNumberScheduled"], count).integer(),
    field("Available", &["/status/numberAvailable"], count).integer(),
    field("Node Selector", &["/spec/template/spec/nodeSelector"], labelled),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const JOBS: &[Column] = &[
    NAME,
    column(
        "Status",
        &["/status/conditions/*/type", "/status/conditions/*/status"],
        |job, _| json!(job_status(job)),
    ),
    column(
        "Completions",
        &["/status/succeeded", "/spec/completions", "/spec/parallelism"],
        |job, _| json!(completions(job)),
    ),
    column(
        "Duration",
        &["/status/startTime", "/status/completionTime"],
        |job, now| {
            json!(between(
                &job["status"]["startTime"],
                &job["status"]["completionTime"],
                now
            ))
        },
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const CRON_JOBS: &[Column] = &[
    NAME,
    field("Schedule", &["/spec/schedule"], plain),
    field("Timezone", &["/spec/timeZone"], or_none),
    boolean("Suspend", &["/spec/suspend"], |it, _| {
        json!(match it["spec"]["suspend"].as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        })
    }),
    column("Active", &["/status/active"], |it, _| {
        json!(items(&it["status"]["active"]).len())
    })
    .integer(),
    column(
        "Last Schedule",
        &["/status/lastScheduleTime"],
        |it, now| match it["status"]["lastScheduleTime"].as_str() {
            Some(last) => json!(since(last, now)),
            None => json!(NONE),
        },
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    field("Selector", &["/spec/jobTemplate/spec/selector"], selecting).wide(),
];

pub(super) const POD_TEMPLATES: &[Column] = &[
    NAME,
    column("Containers", &["/template/spec/containers/*/name"], |it, _| {
        json!(each(&it["template"]["spec"]["containers"], "name"))
    }),
    column("Images", &["/template/spec/containers/*/image"], |it, _| {
        json!(each(&it["template"]["spec"]["containers"], "image"))
    }),
    field("Pod Labels", &["/template/metadata/labels"], labelled),
];

pub(super) const CONTROLLER_REVISIONS: &[Column] = &[
    NAME,
    column("Controller", &["/metadata/ownerReferences"], |it, _| {
        json!(controller(it))
    }),
    field("Revision", &["/revision"], count),
    AGE,
];

/// The containers of a workload's pods; cron jobs have them a level deeper.
fn containers(workload: &Value) -> &Value {
    let spec = &workload["spec"];
    let job = &spec["jobTemplate"]["spec"];
    let template = if job.is_object() {
        &job["template"]
    } else {
        &spec["template"]
    };
    &template["spec"]["containers"]
}

fn ready(workload: &Value) -> Value {
    json!(format!(
        "{}/{}",
        number(&workload["status"]["readyReplicas"]),
        number(&workload["spec"]["replicas"])
    ))
}

fn job_status(job: &Value) -> &'static str {
    let has = |type_: &str| condition(&job["status"]["conditions"], type_) == Some("True");
    let statuses = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if is_deleted(job) {
        "Terminating"
    } else {
        statuses.into_iter().find(|status| has(status)).unwrap_or("Running")
    }
}

fn completions(job: &Value) -> String {
    let succeeded = number(&job["status"]["succeeded"]);
    match (job["spec"]["completions"].as_i64(), number(&job["spec"]["parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn controller(object: &Value) -> String {
    let owners = items(&object["metadata"]["ownerReferences"]);
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else {
        return NONE.to_owned();
    };
    let kind = text(&owner["kind"]).to_lowercase();
    match text(&owner["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text(&owner["name"])),
        None => format!("{kind}/{}", text(&owner["name"])),
    }
}
