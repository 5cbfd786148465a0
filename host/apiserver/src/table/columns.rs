//! The columns of each kind.

use serde_json::{Value, json};

use super::cells::{self, text};
use super::{core, networking, pods, policies, storage, workloads};
use crate::kinds::Kind;

/// One column.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) type_: &'static str,
    /// Shown with `-o wide` only.
    pub(super) wide: bool,
    /// The cell's value, from the object and the time in seconds since 1970.
    pub(super) cell: fn(&Value, i64) -> Value,
}

pub(super) const fn column(name: &'static str, cell: fn(&Value, i64) -> Value) -> Column {
    Column {
        name,
        type_: "string",
        wide: false,
        cell,
    }
}

pub(super) const fn integer(name: &'static str, cell: fn(&Value, i64) -> Value) -> Column {
    Column {
        type_: "integer",
        ..column(name, cell)
    }
}

pub(super) const fn wide(name: &'static str, cell: fn(&Value, i64) -> Value) -> Column {
    Column {
        wide: true,
        ..column(name, cell)
    }
}

pub(super) const NAME: Column = column("Name", cells::name);
pub(super) const AGE: Column = column("Age", cells::age);

/// The columns of a kind without a kubectl printer.
const OTHERS: &[Column] = &[
    NAME,
    Column {
        type_: "date",
        ..column("Created At", |it, _| json!(text(&it["metadata"]["creationTimestamp"])))
    },
];

/// The columns of a kind whose printer shows only name and age.
const NAME_AND_AGE: &[Column] = &[NAME, AGE];

/// The columns of a built-in kind.
pub(super) fn of(kind: &Kind) -> &'static [Column] {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pods::PODS,
        ("", "PodTemplate") => workloads::POD_TEMPLATES,
        ("", "ReplicationController") => workloads::REPLICATION_CONTROLLERS,
        ("", "Service") => networking::SERVICES,
        ("", "Endpoints") => networking::ENDPOINTS,
        ("", "Node") => core::NODES,
        ("", "Namespace") => core::NAMESPACES,
        ("", "PersistentVolume") => storage::PERSISTENT_VOLUMES,
        ("", "PersistentVolumeClaim") => storage::PERSISTENT_VOLUME_CLAIMS,
        ("", "ConfigMap") => core::CONFIG_MAPS,
        ("", "Secret") => core::SECRETS,
        ("", "ServiceAccount") => NAME_AND_AGE,
        ("", "Event") => core::EVENTS,
        ("", "ResourceQuota") => policies::RESOURCE_QUOTAS,
        ("apps", "Deployment") => workloads::DEPLOYMENTS,
        ("apps", "ReplicaSet") => workloads::REPLICA_SETS,
        ("apps", "StatefulSet") => workloads::STATEFUL_SETS,
        ("apps", "DaemonSet") => workloads::DAEMON_SETS,
        ("apps", "ControllerRevision") => workloads::CONTROLLER_REVISIONS,
        ("autoscaling", _) => policies::AUTOSCALERS,
        ("batch", "Job") => workloads::JOBS,
        ("batch", "CronJob") => workloads::CRON_JOBS,
        ("coordination.k8s.io", _) => policies::LEASES,
        ("discovery.k8s.io", _) => networking::ENDPOINT_SLICES,
        ("networking.k8s.io", "Ingress") => networking::INGRESSES,
        ("networking.k8s.io", "IngressClass") => networking::INGRESS_CLASSES,
        ("networking.k8s.io", "NetworkPolicy") => networking::NETWORK_POLICIES,
        ("policy", _) => policies::DISRUPTION_BUDGETS,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => policies::ROLE_BINDINGS,
        ("scheduling.k8s.io", _) => policies::PRIORITY_CLASSES,
        ("storage.k8s.io", "StorageClass") => storage::STORAGE_CLASSES,
        // Kinds that a test registers without a definition.
        _ if kind.custom => NAME_AND_AGE,
        _ => OTHERS,
    }
}
