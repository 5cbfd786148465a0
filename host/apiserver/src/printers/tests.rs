//! What a column reads, against what it says that it reads.

use serde_json::{Map, Value};

use super::{Column, columns};

/// One object of each kind.
const EVERY_KIND: &str = include_str!("../../../../tests/tests/end_to_end/kubectl/every_kind.yaml");

/// Objects with the fields that those lack: what a controller or a kubelet sets.
const WITH_STATUS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: crashed}
spec:
  nodeName: a
  initContainers: [{name: i}, {name: s, restartPolicy: Always}]
  containers: [{name: a}, {name: b}]
  readinessGates: [{conditionType: Gate}]
status:
  phase: Running
  podIPs: [{ip: 10.0.0.1}]
  nominatedNodeName: b
  conditions: [{type: Ready, status: "True"}, {type: Gate, status: "True"}, {type: Initialized, status: "True"}]
  initContainerStatuses:
  - {name: i, restartCount: 1, state: {terminated: {exitCode: 0}}, lastState: {terminated: {finishedAt: "2026-01-01T00:00:00Z"}}}
  - {name: s, restartCount: 2, ready: true, started: true, state: {running: {}}, lastState: {terminated: {finishedAt: "2026-01-02T00:00:00Z"}}}
  containerStatuses:
  - {name: a, ready: true, restartCount: 3, state: {running: {}}, lastState: {terminated: {finishedAt: "2026-01-03T00:00:00Z"}}}
  - {name: b, ready: false, restartCount: 4, state: {terminated: {exitCode: 1, reason: Completed}}}
---
apiVersion: v1
kind: Pod
metadata: {name: starting}
spec: {initContainers: [{name: i}], containers: [{name: a}]}
status:
  phase: Pending
  conditions: [{type: Initialized, status: "False"}]
  initContainerStatuses: [{name: i, restartCount: 5, state: {waiting: {reason: ImagePullBackOff}}}]
  containerStatuses: [{name: a, ready: true, restartCount: 1, state: {running: {}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {containers: [{name: a}]}
status: {phase: Pending, reason: Evicted, podIP: 10.0.0.2, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waiting}
spec: {containers: [{name: a}]}
status: {phase: Running, containerStatuses: [{name: a, ready: false, restartCount: 4, state: {waiting: {reason: CrashLoopBackOff}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: deleted, deletionTimestamp: "2026-01-01T00:00:00Z"}
spec: {containers: [{name: a}]}
status: {phase: Running, reason: NodeLost}
---
apiVersion: v1
kind: Namespace
metadata: {name: deleted, deletionTimestamp: "2026-01-01T00:00:00Z"}
status: {phase: Terminating}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: template}
template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: "a:1"}]}}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: web}
spec: {replicas: 2, selector: {app: web}, template: {spec: {containers: [{name: a, image: "a:1"}]}}}
status: {replicas: 1, readyReplicas: 1}
---
apiVersion: v1
kind: Service
metadata: {name: balanced}
spec: {type: LoadBalancer, clusterIP: 10.0.0.3, externalIPs: [192.0.2.1], ports: [{port: 80, nodePort: 30080, protocol: TCP}]}
status: {loadBalancer: {ingress: [{ip: 192.0.2.2}, {hostname: a.example.com}]}}
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere}
spec: {type: ExternalName, externalName: example.com, clusterIPs: [10.0.0.4]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: web}
subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 80}]}]
---
apiVersion: v1
kind: Node
metadata: {name: a}
status: {addresses: [{type: ExternalIP, address: 192.0.2.1}]}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: bound}
spec: {claimRef: {namespace: default, name: data}, volumeAttributesClassName: gold}
status: {phase: Bound, reason: because}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: bound}
spec: {volumeName: disk, volumeAttributesClassName: gold}
status: {phase: Bound, capacity: {storage: 1Gi}, accessModes: [ReadWriteMany]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: binary}
binaryData: {a: QQ==}
---
apiVersion: v1
kind: Event
metadata: {name: series}
eventTime: "2026-01-01T00:00:00Z"
reportingComponent: scheduler
reportingInstance: b
series: {count: 7, lastObservedTime: "2026-01-02T00:00:00Z"}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota}
status: {hard: {pods: "4", limits.cpu: "2"}, used: {pods: "1", limits.cpu: "1"}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3}
status: {readyReplicas: 1, updatedReplicas: 2, availableReplicas: 1}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
status: {desiredNumberScheduled: 5, currentNumberScheduled: 4, numberReady: 3, updatedNumberScheduled: 2, numberAvailable: 1}
---
apiVersion: apps/v1
kind: ControllerRevision
metadata: {name: agent-1, ownerReferences: [{controller: true, apiVersion: apps/v1, kind: DaemonSet, name: agent}]}
revision: 3
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {metrics: [{type: Pods, pods: {target: {averageValue: "5"}}}]}
status: {currentReplicas: 4, currentMetrics: [{type: Pods, pods: {current: {averageValue: "3"}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: done}
spec: {parallelism: 2}
status: {succeeded: 1, startTime: "2026-01-01T00:00:00Z", completionTime: "2026-01-01T00:01:00Z", conditions: [{type: Complete, status: "True"}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {suspend: true, jobTemplate: {spec: {selector: {matchLabels: {app: web}}}}}
status: {active: [{}, {}], lastScheduleTime: "2026-01-01T00:00:00Z"}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
status: {loadBalancer: {ingress: [{ip: 192.0.2.2}]}}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}
spec: {parameters: {apiGroup: example.com, kind: Parameters, name: a}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1}
status: {disruptionsAllowed: 2}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: admins}
roleRef: {kind: ClusterRole, name: admin}
subjects: [{kind: Group, name: admins}, {kind: User, name: me}, {kind: ServiceAccount, namespace: default, name: bot}]
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
globalDefault: true
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
reclaimPolicy: Retain
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
"#;

/// 2026-02-01.
const NOW: i64 = 1_769_904_000;

fn objects() -> Vec<Value> {
    let texts = EVERY_KIND.split("\n---\n").chain(WITH_STATUS.split("\n---\n"));
    texts.map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

fn columns_of(object: &Value) -> &'static [Column] {
    columns(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap()).unwrap()
}

/// `value` with those fields only to which one of the pointers leads; `*` is each item of a list.
fn keep(value: &Value, pointers: &[Vec<&str>]) -> Value {
    if pointers.iter().any(Vec::is_empty) {
        return value.clone();
    }
    let below = |part: &str| -> Vec<Vec<&str>> {
        let below = pointers.iter().filter(|pointer| pointer[0] == part);
        below.map(|pointer| pointer[1..].to_vec()).collect()
    };
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !below(name).is_empty());
            let kept = kept.map(|(name, value)| (name.clone(), keep(value, &below(name))));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| keep(item, &below("*"))).collect(),
        other => other.clone(),
    }
}

/// What no informer lacks.
const ALWAYS: [&str; 3] = [
    "/metadata/name",
    "/metadata/creationTimestamp",
    "/metadata/deletionTimestamp",
];

#[test]
fn a_cell_depends_only_on_what_its_column_reads() {
    for object in objects() {
        for column in columns_of(&object) {
            let fields = ALWAYS.iter().chain(column.reads);
            let fields: Vec<Vec<&str>> = fields.map(|field| field.split('/').skip(1).collect()).collect();
            let restricted = column.cell(&keep(&object, &fields), NOW);
            assert_eq!(restricted, column.cell(&object, NOW), "{} of {object}", column.name);
        }
    }
}

#[test]
fn objects_without_fields_have_a_cell_in_each_column() {
    for object in objects() {
        for column in columns_of(&object) {
            column.cell(&Value::Null, NOW);
            column.cell(&serde_json::json!({}), NOW);
        }
    }
}
