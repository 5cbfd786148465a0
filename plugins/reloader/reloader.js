// Restarts workloads when a ConfigMap or Secret that they use changes. README.md says how.
import { HostError, Permanent, RetryAfter, config, kube, log, store } from "informant";

const { all = false, annotation = "informant/reload", ...rest } = config;
const [unknown] = Object.keys(rest);
if (unknown !== undefined) throw new Permanent(`config: unknown key \`${unknown}\`, expected \`all\` or \`annotation\``);

// On the workload: the state of each ConfigMap and Secret that it used when it was last looked at.
const SEEN = "informant/reload-seen";
// On the pod template. A new value restarts the pods.
const RESTARTED_FOR = "informant/restarted-for";

// Deferred writes of one call, and the delay before the rest.
const WRITES_MAX = 100;
const REST_AFTER_MS = 100;
const NOT_READY_RETRY_MS = 500;

const RESOURCES = { Deployment: "apps/v1/deployments", StatefulSet: "apps/v1/statefulsets", DaemonSet: "apps/v1/daemonsets" };

const pointerTo = (key) => `/metadata/annotations/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;

const TEMPLATE = "/spec/template/spec";
const CONTAINERS = [`${TEMPLATE}/containers/*`, `${TEMPLATE}/initContainers/*`];
const FIELDS = [
  ...["name", "namespace", "uid"].map((name) => `/metadata/${name}`),
  ...[annotation, SEEN].map(pointerTo),
  ...CONTAINERS.flatMap((container) => [
    `${container}/env/*/valueFrom/configMapKeyRef/name`,
    `${container}/env/*/valueFrom/secretKeyRef/name`,
    `${container}/envFrom/*/configMapRef/name`,
    `${container}/envFrom/*/secretRef/name`,
  ]),
  ...["configMap/name", "secret/secretName", "projected/sources/*/configMap/name", "projected/sources/*/secret/name"].map(
    (source) => `${TEMPLATE}/volumes/*/${source}`,
  ),
];
const DATA = ["/data", "/binaryData"];

const rules = Object.keys(RESOURCES).map((kind) => ({ apiVersion: "apps/v1", kind, payload: { fields: FIELDS } }));

export const manifest = {
  name: "reloader",
  version: "0.1.0",
  events: [
    ...rules.map((rule) => ({ ...rule, changedOnly: true })),
    { apiVersion: "v1", kind: "ConfigMap", payload: { fields: DATA }, changedOnly: true },
    // Nothing of a Secret but its version enters the script.
    { apiVersion: "v1", kind: "Secret", payload: "none" },
  ],
  indexes: { names: ["reloads"], objects: rules },
  // The next change of a ConfigMap waits until the cache shows what was written for this one.
  writes: "seen",
};

/** The ConfigMaps and Secrets that a pod template refers to, as `configmap/NAME` and `secret/NAME`. */
const referred = ({ containers = [], initContainers = [], volumes = [] } = {}) => {
  const env = [...containers, ...initContainers].flatMap(({ env = [], envFrom = [] }) => [
    ...env.map(({ valueFrom }) => [valueFrom?.configMapKeyRef?.name, valueFrom?.secretKeyRef?.name]),
    ...envFrom.map(({ configMapRef, secretRef }) => [configMapRef?.name, secretRef?.name]),
  ]);
  const mounts = volumes.flatMap(({ configMap, secret, projected }) => [
    [configMap?.name, secret?.secretName],
    ...(projected?.sources ?? []).map(({ configMap, secret }) => [configMap?.name, secret?.name]),
  ]);
  return [...env, ...mounts].flatMap(([map, secret]) => [map && `configmap/${map}`, secret && `secret/${secret}`]).filter(Boolean);
};

/** What a change of restarts the workload: by its annotation, or by the references of its pod template. */
const usesOf = ({ metadata, spec }) => {
  const wanted = (metadata.annotations?.[annotation] ?? String(all)).trim();
  if (wanted === "false") return [];
  const uses = wanted === "true" ? referred(spec?.template?.spec) : wanted.split(",").map((use) => use.trim());
  return [...new Set(uses)].sort();
};

/** Two hashes of 32 bits, in hexadecimal. They notice a change; they do not hide the text. */
const hash = (text) => {
  let [first, second] = [0x811c9dc5, 0x41c6ce57];
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    first = Math.imul(first ^ unit, 0x01000193);
    second = Math.imul(second ^ unit, 0x5bd1e995);
  }
  return [first, second].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
};

const sorted = (members = {}) => Object.entries(members).sort(([a], [b]) => (a < b ? -1 : 1));

/** The state of a ConfigMap or Secret, or undefined if there is none: a hash of the data or its digest, or the version. */
const stateOf = (namespace, use) => {
  const [kind, name] = use.split("/");
  if (kind === "secret") return store.get("secrets", namespace, name, { fields: ["/metadata/resourceVersion"] })?.metadata.resourceVersion;
  if (kind !== "configmap" || !name) throw new Permanent(`${annotation}: ${use} is neither configmap/NAME nor secret/NAME`);
  const map = store.get("configmaps", namespace, name, { fields: DATA });
  return map && hash(JSON.stringify([sorted(map.data), sorted(map.binaryData)]));
};

/** What `text` remembers. Another program may have written it. */
const parsed = (text) => {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
};

/** Restarts the workload if what it uses has changed since it was last looked at. Returns whether it wrote. */
const restartIfChanged = (workload, stateIn) => {
  const { namespace, name, uid, annotations = {} } = workload.metadata;
  const seen = parsed(annotations[SEEN]);
  const now = {};
  for (const use of usesOf(workload)) {
    // One that is deleted keeps its last state: it may return as it was.
    const state = stateIn(namespace, use) ?? seen[use];
    if (state !== undefined) now[use] = state;
  }
  const text = JSON.stringify(now);
  if (text === (annotations[SEEN] ?? "{}")) return false;
  const patch = { metadata: { uid, annotations: { [SEEN]: text === "{}" ? null : text } } };
  // A use that is new to the workload is no reason: its pods have just been replaced, or start only now.
  const changed = Object.keys(now).filter((use) => seen[use] !== undefined && seen[use] !== now[use]);
  if (changed.length > 0) {
    patch.spec = { template: { metadata: { annotations: { [RESTARTED_FOR]: hash(text) } } } };
    log.info(`${namespace}/${name}: restarting the ${workload.kind}, because ${changed.join(", ")} changed`);
  }
  kube.defer.patch({ resource: RESOURCES[workload.kind], namespace, name }, patch);
  return true;
};

/** The workloads that an event concerns. */
const concerned = (object, event) => {
  if (event.kind in RESOURCES) return [object];
  return store.byIndex("workloads", "reloads", `${event.namespace}/${event.kind.toLowerCase()}/${event.name}`, { fields: FIELDS });
};

export function onAdd(object, event) {
  // Many workloads may use one ConfigMap, which is hashed once.
  const states = new Map();
  const stateIn = (namespace, use) => {
    if (!states.has(use)) states.set(use, stateOf(namespace, use));
    return states.get(use);
  };
  try {
    let writes = 0;
    for (const workload of concerned(object, event)) {
      if (writes === WRITES_MAX) return { requeueAfter: REST_AFTER_MS };
      try {
        if (restartIfChanged(workload, stateIn)) writes += 1;
      } catch (error) {
        // The other workloads are restarted. This one's own event shows the error: a misspelled use, or no grant.
        const isOfWorkload = error instanceof Permanent || error.code === "denied";
        if (!isOfWorkload || workload === object) throw error;
        log.warn(`${workload.metadata.namespace}/${workload.metadata.name}: ${error.message}`);
      }
    }
  } catch (error) {
    const isEarly = error instanceof HostError && error.code === "not-ready";
    throw isEarly ? new RetryAfter(NOT_READY_RETRY_MS, error.message) : error;
  }
}

export const onUpdate = onAdd;

export const index = (workload, event) => ({ reloads: usesOf(workload).map((use) => `${event.namespace}/${use}`) });
