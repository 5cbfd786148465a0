//! The columns of kubectl's printers, as functions of an object's JSON.
//!
//! The tables that the server sends consist of them, and so does `informant get -o wide`, which asks no API server.
//! Each column names the fields that it reads, so that a reader who does not have all fields can tell an unknown cell
//! from an empty one.
//!
//! Source: kubernetes `pkg/printers/internalversion/printers.go`.

pub(crate) mod cells;
pub(crate) mod column;
mod core;
mod duration;
mod networking;
mod pods;
mod policies;
mod storage;
mod workloads;

pub use self::cells::labels;
pub use self::column::{AGE, Column, NAME};
use self::column::{NAME_AND_AGE, NAME_AND_CREATION};
pub use self::duration::human as human_duration;

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

#[cfg(test)]
mod tests;
