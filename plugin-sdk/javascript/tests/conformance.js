// @ts-check
// The conformance kit in JavaScript. tests/guests/README.md describes what it does.
import { HostError, HttpError, KubeError, Permanent, RetryAfter, config, kube, kv, log, metrics, store } from "informant";

// Longer texts are not logged, in bytes.
const SHOWN_MAX = 1000;

let calls = 0;

const { payload = "whole", old = "no" } = config;
export const manifest = {
  name: "conformance",
  version: "1",
  parallel: true,
  indexes: ["text"],
  metrics: [
    { name: "seen", type: "counter", help: "Seen texts", labels: ["text"] },
    { name: "bytes", type: "gauge", help: "Bytes of the last text" },
    { name: "sizes", type: "histogram", help: "Bytes of texts", buckets: [2, 4] },
    { name: "last", type: "gauge", help: "The last object", labels: ["name"] },
  ],
  events: [{ apiVersion: "*", kind: "*", payload: payload.startsWith("/") ? { fields: [payload] } : payload, old: old === "yes" }],
};

/** @param {any} pod */
const textOf = (pod) => pod?.spec?.text ?? "-";

/** @param {any} pod */
const shown = (pod) => {
  const { length } = new TextEncoder().encode(textOf(pod));
  return length > SHOWN_MAX ? length : textOf(pod);
};

/** @param {any[]} pods */
const texts = (pods) => pods.map(textOf).join(",");

/** @param {any} pod */
const partsOf = (pod) => ["metadata", "spec"].filter((part) => pod?.[part] !== undefined).join("+") || "nothing";

/** @param {import("informant").Event} event */
const labeled = ({ uid }) => ({ metadata: { uid, labels: { seen: "yes" } } });

/**
 * What became of a write.
 * @param {string} done
 * @param {() => void} write
 */
const outcome = (done, write) => {
  try {
    write();
    return done;
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    return error.code;
  }
};

/** @type {Record<string, (pod: any, event: import("informant").Event) => any>} */
const actions = {
  retryable(pod, { attempt }) {
    if (attempt === 0) throw new Error(textOf(pod));
  },
  "retry-after"(pod, { attempt }) {
    if (attempt === 0) throw new RetryAfter(50, textOf(pod));
  },
  permanent(pod) {
    throw new Permanent(textOf(pod));
  },
  trap(_, { attempt }) {
    while (attempt === 0);
  },
  requeue: (_, { reason }) => (reason === "requeue-after" ? undefined : { requeueAfter: 100 }),
  read() {
    const found = textOf(store.get("pods", "default", "peer"));
    const keys = store.indexKeys("pods", "namespace", "default").length;
    log.info(`found=${found} listed=${texts(store.list("pods"))} keys=${keys} everywhere=${texts(store.list("pods", { clusters: "all" }))}`);
  },
  remember(pod, { name, attempt }) {
    const count = (kv.get("count") ?? 0) + 1;
    kv.set("count", count);
    const isNew = kv.setIfAbsent(`seen/${name}`);
    log.info(`remembered=${count} new=${isNew} keys=${kv.list("seen/")}`);
    if (attempt === 0 && textOf(pod) === "fails") throw new Error("fails");
  },
  measure(pod, { name, attempt }) {
    const text = textOf(pod);
    metrics.add("seen", 1, { text });
    metrics.set("bytes", text.length);
    metrics.observe("sizes", text.length);
    metrics.replace("last", [{ value: 1, labels: { name } }]);
    try {
      metrics.add("undeclared");
    } catch (error) {
      if (!(error instanceof HostError)) throw error;
      log.info(`undeclared=${error.code}`);
    }
    if (attempt === 0 && text === "fails") throw new Error("fails");
  },
  async call(pod, { name }) {
    try {
      const headers = { "content-type": "text/plain", "x-id": name };
      const response = await fetch("http://a.svc/kit", { method: "POST", headers, body: textOf(pod) });
      log.info(`answered=${response.status} ${await response.text()}`);
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      log.info(`failed=${error.code === "denied" ? "denied" : "other"}`);
    }
  },
  patch: (_, event) => log.info(outcome("patched", () => kube.patch(event, labeled(event)))),
  defer(_, event) {
    const { namespace, name } = event;
    const maps = { resource: "v1/configmaps", namespace };
    const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name } };
    const outcomes = [
      `create=${outcome("deferred", () => kube.defer.create(maps, map))}`,
      `update=${outcome("deferred", () => kube.defer.update({ ...maps, name }, map))}`,
      `patch=${outcome("deferred", () => kube.defer.patch(event, labeled(event)))}`,
      `delete=${outcome("deferred", () => kube.defer.delete(event))}`,
    ];
    log.info(outcomes.join(" "));
  },
};

/**
 * @param {string} call
 * @param {any} pod
 * @param {import("informant").Event} event
 * @param {any} [before]
 */
const handle = (call, pod, event, before) => {
  log.info(`${++calls} ${call} ${event} ${event.reason} ${event.attempt} old=${shown(before)} sees=${partsOf(pod)} text=${shown(pod)}`);
  const action = pod?.metadata?.annotations?.do ?? "";
  if (action.startsWith("defer-")) actions.defer(pod, event);
  return actions[action.replace(/^defer-/, "")]?.(pod, event);
};

/** @type {import("informant").Handler} */
export const onAdd = (pod, event) => handle("add", pod, event);

/** @type {import("informant").Handler} */
export const onUpdate = (pod, event) => handle("update", pod, event, old === "yes" ? event.old : undefined);

/** @type {import("informant").DeleteHandler} */
export const onDelete = (last, event) => handle(event.finalStateUnknown ? "vanish" : "delete", last, event);

/** @type {import("informant").SyncHandler} */
export const onSynced = (source, { reason, attempt }) => log.info(`synced ${source.informer} ${source.cluster}`, { reason, attempt });

/** @param {any} pod */
export const index = (pod) => {
  if (pod.metadata.annotations?.do === "no-index") throw new Error(textOf(pod));
  return { text: textOf(pod) };
};

export const save = () => calls;

/** @param {number} saved */
export const restore = (saved) => {
  calls = saved;
};
