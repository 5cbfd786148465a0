//! The built-in kinds. Source: `kubectl api-resources` of Kubernetes 1.36 and the
//! `GetAttrs`/`AddFieldLabelConversionFunc` of each kind.

use super::Kind;

/// A kind has a status subresource.
const STATUS: u8 = 1;
/// A kind counts generations.
const GENERATION: u8 = 2;
/// A kind is namespaced.
const NAMESPACED: u8 = 4;
/// A kind has a scale subresource.
const SCALE: u8 = 8;
/// A delete answers with the object (`ReturnDeletedObject` in kubernetes `pkg/registry`).
const RETURNED: u8 = 16;

struct Row {
    api: (&'static str, &'static str),
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
    category: &'static str,
    flags: u8,
    fields: &'static str,
}

const fn row(api: (&'static str, &'static str), kind: &'static str, plural: &'static str, flags: u8) -> Row {
    Row {
        api,
        kind,
        plural,
        short: "",
        category: "",
        flags,
        fields: "",
    }
}

impl Row {
    const fn short(self, short: &'static str) -> Self {
        Self { short, ..self }
    }

    const fn all(self) -> Self {
        self.category("all")
    }

    const fn category(self, category: &'static str) -> Self {
        Self { category, ..self }
    }

    const fn fields(self, fields: &'static str) -> Self {
        Self { fields, ..self }
    }
}

const CORE: (&str, &str) = ("", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const NETWORKING: (&str, &str) = ("networking.k8s.io", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");
const EXTENSIONS: (&str, &str) = ("apiextensions.k8s.io", "v1");
const FULL: u8 = NAMESPACED | STATUS | GENERATION;

const POD_FIELDS: &str = "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork \
     status.phase status.podIP status.nominatedNodeName";
const EVENT_FIELDS: &str = "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid \
     involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent \
     source.component type";

const ROWS: &[Row] = &[
    row(CORE, "ConfigMap", "configmaps", NAMESPACED).short("cm"),
    row(CORE, "Endpoints", "endpoints", NAMESPACED).short("ep"),
    row(CORE, "Event", "events", NAMESPACED)
        .short("ev")
        .fields(EVENT_FIELDS),
    row(CORE, "LimitRange", "limitranges", NAMESPACED).short("limits"),
    row(CORE, "Namespace", "namespaces", STATUS | RETURNED)
        .short("ns")
        .fields("status.phase"),
    row(CORE, "Node", "nodes", STATUS)
        .short("no")
        .fields("spec.unschedulable"),
    row(CORE, "PersistentVolume", "persistentvolumes", STATUS | RETURNED).short("pv"),
    row(
        CORE,
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        NAMESPACED | STATUS | RETURNED,
    )
    .short("pvc"),
    row(CORE, "Pod", "pods", FULL | RETURNED)
        .short("po")
        .all()
        .fields(POD_FIELDS),
    row(CORE, "PodTemplate", "podtemplates", NAMESPACED | GENERATION | RETURNED),
    row(CORE, "ReplicationController", "replicationcontrollers", FULL | SCALE)
        .short("rc")
        .all()
        .fields("status.replicas"),
    row(CORE, "ResourceQuota", "resourcequotas", NAMESPACED | STATUS | RETURNED).short("quota"),
    row(CORE, "Secret", "secrets", NAMESPACED).fields("type"),
    row(CORE, "Service", "services", NAMESPACED | STATUS | RETURNED)
        .short("svc")
        .all()
        .fields("spec.clusterIP spec.type"),
    row(CORE, "ServiceAccount", "serviceaccounts", NAMESPACED | RETURNED).short("sa"),
    row(APPS, "ControllerRevision", "controllerrevisions", NAMESPACED),
    row(APPS, "DaemonSet", "daemonsets", FULL).short("ds").all(),
    row(APPS, "Deployment", "deployments", FULL | SCALE)
        .short("deploy")
        .all(),
    row(APPS, "ReplicaSet", "replicasets", FULL | SCALE).short("rs").all(),
    row(APPS, "StatefulSet", "statefulsets", FULL | SCALE)
        .short("sts")
        .all(),
    row(
        EXTENSIONS,
        "CustomResourceDefinition",
        "customresourcedefinitions",
        STATUS | GENERATION,
    )
    .short("crd crds")
    .category("api-extensions"),
    row(
        ("autoscaling", "v2"),
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        NAMESPACED | STATUS,
    )
    .short("hpa")
    .all(),
    row(BATCH, "CronJob", "cronjobs", FULL).short("cj").all(),
    row(BATCH, "Job", "jobs", FULL).all().fields("status.successful"),
    row(("coordination.k8s.io", "v1"), "Lease", "leases", NAMESPACED),
    row(
        ("discovery.k8s.io", "v1"),
        "EndpointSlice",
        "endpointslices",
        NAMESPACED | GENERATION,
    ),
    row(("events.k8s.io", "v1"), "Event", "events", NAMESPACED),
    row(NETWORKING, "Ingress", "ingresses", FULL).short("ing"),
    row(NETWORKING, "IngressClass", "ingressclasses", GENERATION),
    row(NETWORKING, "NetworkPolicy", "networkpolicies", NAMESPACED | GENERATION).short("netpol"),
    row(("policy", "v1"), "PodDisruptionBudget", "poddisruptionbudgets", FULL).short("pdb"),
    row(RBAC, "ClusterRole", "clusterroles", 0),
    row(RBAC, "ClusterRoleBinding", "clusterrolebindings", 0),
    row(RBAC, "Role", "roles", NAMESPACED),
    row(RBAC, "RoleBinding", "rolebindings", NAMESPACED),
    row(
        ("scheduling.k8s.io", "v1"),
        "PriorityClass",
        "priorityclasses",
        GENERATION,
    )
    .short("pc"),
    row(STORAGE, "StorageClass", "storageclasses", RETURNED).short("sc"),
];

pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    ROWS.iter().map(|row| Kind {
        group: row.api.0.to_owned(),
        version: row.api.1.to_owned(),
        kind: row.kind.to_owned(),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        namespaced: row.flags & NAMESPACED != 0,
        short_names: row.short.split_whitespace().map(str::to_owned).collect(),
        categories: row.category.split_whitespace().map(str::to_owned).collect(),
        has_status: row.flags & STATUS != 0,
        has_scale: row.flags & SCALE != 0,
        has_generation: row.flags & GENERATION != 0,
        delete_returns_object: row.flags & RETURNED != 0,
        custom: false,
        custom_version: None,
        fields: row.fields.split_whitespace().map(str::to_owned).collect(),
    })
}
