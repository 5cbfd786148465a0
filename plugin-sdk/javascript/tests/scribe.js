// @ts-check
// The plugin of plugin-sdk/scenarios, whose README describes what it does.
import { Permanent, RetryAfter, KubeError, kube, kv, log, metrics, store } from "informant";

/** @type {import("informant").Manifest} */
export const manifest = {
  name: "scribe",
  events: [
    {
      apiVersion: "v1",
      kind: "Pod",
      payload: { fields: ["/metadata/annotations", "/metadata/labels", "/status/phase"] },
      old: true,
      changedOnly: true,
    },
  ],
  indexes: { names: ["node"], objects: [{ apiVersion: "v1", kind: "Pod", payload: { fields: ["/spec/nodeName"] } }] },
  metrics: [{ name: "handled", type: "counter", help: "Calls.", labels: ["call"] }],
};

let handled = 0;
/** @type {Set<string>} */
const seen = new Set();

export const save = () => handled;
/** @param {number} saved */
export const restore = (saved) => {
  handled = saved;
};

/** @param {any} pod */
const phaseOf = (pod) => pod?.status?.phase ?? "-";

/**
 * @param {string} call
 * @param {string} message
 * @param {import("informant").Event} event
 */
const begin = (call, message, event) => {
  handled += 1;
  log.info(message, { handled });
  kv.set("last", String(event));
  metrics.add("handled", 1, { call });
};

/** @type {Record<string, (pod: any, event: import("informant").Event) => any>} */
const actions = {
  fail(_, { attempt }) {
    if (attempt < 2) throw new Error("not yet");
  },
  later(_, { name }) {
    if (seen.has(name)) return;
    seen.add(name);
    throw new RetryAfter(30_000, "later");
  },
  never() {
    throw new Permanent("never");
  },
  label(pod, event) {
    if (pod.metadata.labels?.seen !== "yes") kube.defer.patch(event, { metadata: { labels: { seen: "yes" } } });
  },
  "label-fail"(pod, event) {
    actions.label(pod, event);
    if (event.attempt === 0 && pod.metadata.labels?.seen !== "yes") throw new Error("not yet");
  },
  create(_, { namespace, name }) {
    try {
      kube.create(
        { resource: "v1/configmaps", namespace },
        { apiVersion: "v1", kind: "ConfigMap", metadata: { name } },
      );
    } catch (error) {
      if (!(error instanceof KubeError) || error.code !== "already-exists") throw error;
      log.info("exists");
    }
  },
  again: (_, { reason }) => (reason === "requeue-after" ? undefined : { requeueAfter: 60_000 }),
  async post(pod, { name }) {
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ phase: phaseOf(pod) });
    const { status } = await fetch(`https://example.com/${name}`, { method: "POST", headers, body });
    if (status !== 200) throw new Error(`answered ${status}`);
  },
  nodes() {
    const pods = store.byIndex("pods", "node", "n1", { fields: ["/metadata/name"] });
    log.info(
      `neighbors ${pods
        .map((pod) => pod.metadata.name)
        .sort()
        .join(",")}`,
    );
  },
};

/** @param {any} pod @param {import("informant").Event} event */
const act = (pod, event) => actions[pod.metadata?.annotations?.do]?.(pod, event);

/** @type {import("informant").Handler} */
export const onAdd = (pod, event) => {
  begin("add", `add ${event} ${phaseOf(pod)}`, event);
  return act(pod, event);
};

/** @type {import("informant").Handler} */
export const onUpdate = (pod, event) => {
  begin("update", `update ${event} ${phaseOf(event.old)} to ${phaseOf(pod)}`, event);
  return act(pod, event);
};

/** @type {import("informant").DeleteHandler} */
export const onDelete = (last, event) => {
  begin("delete", `delete ${event} ${phaseOf(last)}`, event);
  const wanted = last?.metadata?.annotations?.do;
  if (wanted === "never-delete" && event.reason !== "requeue") throw new Permanent("never");
  if (wanted === "fail-delete" && event.attempt === 0) throw new Error("not yet");
};

/** @type {import("informant").SyncHandler} */
export const onSynced = () => {
  log.info(`synced with ${store.list("pods").length} pods`);
  if (kv.get("never")) throw new Permanent("never");
};

/** @type {import("informant").IndexFunction} */
export const index = (pod) => ({ node: pod.spec?.nodeName });
