//! A column, and the columns of each kind.

use serde_json::{Value, json};

use super::cells::{self, text};
use super::{core, networking, pods, policies, storage, workloads};

/// One column.
pub struct Column {
    /// The heading; kubectl prints it in capitals.
    pub name: &'static str,
    /// JSON pointers to the fields that the cell depends on, besides name and age. `*` stands for each item of a list.
    pub reads: &'static [&'static str],
    pub(crate) type_: &'static str,
    /// Shown with `-o wide` only.
    pub(crate) wide: bool,
    cell: fn(&Value, i64) -> Value,
}

impl Column {
    /// A column of text that [`cell`](Self::cell) computes with a function.
    pub const fn new(name: &'static str, reads: &'static [&'static str], cell: fn(&Value, i64) -> Value) -> Self {
        Self {
            name,
            reads,
            type_: "string",
            wide: false,
            cell,
        }
    }

    /// The cell's value for an object, at a time in seconds since 1970.
    pub fn cell(&self, object: &Value, now_unix_seconds: i64) -> Value {
        (self.cell)(object, now_unix_seconds)
    }
}

pub(super) const fn column(
    name: &'static str,
    reads: &'static [&'static str],
    cell: fn(&Value, i64) -> Value,
) -> Column {
    Column::new(name, reads, cell)
}

pub(super) const fn integer(
    name: &'static str,
    reads: &'static [&'static str],
    cell: fn(&Value, i64) -> Value,
) -> Column {
    Column {
        type_: "integer",
        ..Column::new(name, reads, cell)
    }
}

pub(super) const fn wide(name: &'static str, reads: &'static [&'static str], cell: fn(&Value, i64) -> Value) -> Column {
    Column {
        wide: true,
        ..Column::new(name, reads, cell)
    }
}

/// The name of the object.
pub const NAME: Column = column("Name", &[], cells::name);
/// How long ago the object was created.
pub const AGE: Column = column("Age", &[], cells::age);

/// The columns of a kind without a printer.
pub(crate) const NAME_AND_CREATION: &[Column] = &[
    NAME,
    Column {
        type_: "date",
        ..column("Created At", &[], |it, _| {
            json!(text(&it["metadata"]["creationTimestamp"]))
        })
    },
];

/// The columns of a kind whose printer shows only name and age, and of custom resources without columns of their own.
pub(crate) const NAME_AND_AGE: &[Column] = &[NAME, AGE];

/// The columns of a kind of Kubernetes, in kubectl's order; `None` for other kinds and versions.
pub fn columns(api_version: &str, kind: &str) -> Option<&'static [Column]> {
    Some(match (api_version, kind) {
        ("v1", "Pod") => pods::PODS,
        ("v1", "PodTemplate") => workloads::POD_TEMPLATES,
        ("v1", "ReplicationController") => workloads::REPLICATION_CONTROLLERS,
        ("v1", "Service") => networking::SERVICES,
        ("v1", "Endpoints") => networking::ENDPOINTS,
        ("v1", "Node") => core::NODES,
        ("v1", "Namespace") => core::NAMESPACES,
        ("v1", "PersistentVolume") => storage::PERSISTENT_VOLUMES,
        ("v1", "PersistentVolumeClaim") => storage::PERSISTENT_VOLUME_CLAIMS,
        ("v1", "ConfigMap") => core::CONFIG_MAPS,
        ("v1", "Secret") => core::SECRETS,
        ("v1", "ServiceAccount") => NAME_AND_AGE,
        ("v1", "Event") => core::EVENTS,
        ("v1", "LimitRange") => NAME_AND_CREATION,
        ("v1", "ResourceQuota") => policies::RESOURCE_QUOTAS,
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => NAME_AND_CREATION,
        ("apps/v1", "Deployment") => workloads::DEPLOYMENTS,
        ("apps/v1", "ReplicaSet") => workloads::REPLICA_SETS,
        ("apps/v1", "StatefulSet") => workloads::STATEFUL_SETS,
        ("apps/v1", "DaemonSet") => workloads::DAEMON_SETS,
        ("apps/v1", "ControllerRevision") => workloads::CONTROLLER_REVISIONS,
        ("autoscaling/v2", "HorizontalPodAutoscaler") => policies::AUTOSCALERS,
        ("batch/v1", "Job") => workloads::JOBS,
        ("batch/v1", "CronJob") => workloads::CRON_JOBS,
        ("coordination.k8s.io/v1", "Lease") => policies::LEASES,
        ("discovery.k8s.io/v1", "EndpointSlice") => networking::ENDPOINT_SLICES,
        ("networking.k8s.io/v1", "Ingress") => networking::INGRESSES,
        ("networking.k8s.io/v1", "IngressClass") => networking::INGRESS_CLASSES,
        ("networking.k8s.io/v1", "NetworkPolicy") => networking::NETWORK_POLICIES,
        ("policy/v1", "PodDisruptionBudget") => policies::DISRUPTION_BUDGETS,
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => policies::ROLE_BINDINGS,
        ("rbac.authorization.k8s.io/v1", "Role" | "ClusterRole") => NAME_AND_CREATION,
        ("scheduling.k8s.io/v1", "PriorityClass") => policies::PRIORITY_CLASSES,
        ("storage.k8s.io/v1", "StorageClass") => storage::STORAGE_CLASSES,
        _ => return None,
    })
}
