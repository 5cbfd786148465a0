// Copies labels of a namespace to the workloads in it. README.md says how.
import { HostError, Permanent, RetryAfter, config, kube, store } from "informant";

const { labels = [], ...rest } = config;
const [unknown] = Object.keys(rest);
if (unknown !== undefined) throw new Permanent(`config: unknown key \`${unknown}\`, expected \`labels\``);
if (!Array.isArray(labels) || labels.length === 0) throw new Permanent('config: name the labels to copy: labels = ["team"]');

// Deferred writes of one call, and the delay before the rest.
const WRITES_MAX = 100;
const REST_AFTER_MS = 100;
const NOT_READY_RETRY_MS = 500;

const RESOURCES = { Deployment: "apps/v1/deployments", StatefulSet: "apps/v1/statefulsets", DaemonSet: "apps/v1/daemonsets" };

const FIELDS = [
  ...["name", "namespace", "uid"].map((name) => `/metadata/${name}`),
  ...labels.map((label) => `/metadata/labels/${label.replaceAll("~", "~0").replaceAll("/", "~1")}`),
];

export const manifest = {
  name: "owner-labels",
  version: "0.1.0",
  events: [
    ...Object.keys(RESOURCES).map((kind) => ({ apiVersion: "apps/v1", kind })),
    { apiVersion: "v1", kind: "Namespace" },
  ].map((rule) => ({ ...rule, payload: { fields: FIELDS }, changedOnly: true })),
};

/** Gives a workload the labels of its namespace. Returns whether it wrote. */
const label = (workload, namespace) => {
  const { name, uid, labels: own = {} } = workload.metadata;
  const wanted = Object.entries(namespace?.metadata.labels ?? {}).filter(([key, value]) => own[key] !== value);
  if (wanted.length === 0) return false;
  const address = { resource: RESOURCES[workload.kind], namespace: workload.metadata.namespace, name };
  kube.defer.patch(address, { metadata: { uid, labels: Object.fromEntries(wanted) } });
  return true;
};

const labelAll = (namespace, { name }) => {
  const workloads = store.list("workloads", { namespace: name, fields: FIELDS }).filter(({ kind }) => kind in RESOURCES);
  let writes = 0;
  for (const workload of workloads) {
    if (writes === WRITES_MAX) return { requeueAfter: REST_AFTER_MS };
    if (label(workload, namespace)) writes += 1;
  }
};

export function onAdd(object, event) {
  try {
    if (event.kind === "Namespace") return labelAll(object, event);
    label(object, store.get("namespaces", "", event.namespace, { fields: FIELDS }));
  } catch (error) {
    const isEarly = error instanceof HostError && error.code === "not-ready";
    throw isEarly ? new RetryAfter(NOT_READY_RETRY_MS, error.message) : error;
  }
}

export const onUpdate = onAdd;
