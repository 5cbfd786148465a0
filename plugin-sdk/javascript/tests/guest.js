// @ts-check
// The test guest in JavaScript: throws, reads the cache, writes, keeps state, computes an index, and converts UTF-8.
import { HostError, KubeError, Permanent, RetryAfter, config, context, kube, log, store } from "informant";

/** @type {string[]} */
const remembered = [];
if (context.role === "events") log.debug(`${config.greeting}, ${context.role}`);

/** @param {any} pod */
const check = (pod) => pod.spec.nodeName;

/** @type {Record<string, (pod: any, event: import("informant").Event) => any>} */
const throwing = {
  type: (pod) => check(pod),
  error() {
    throw new RangeError("too far");
  },
  text() {
    throw "boom";
  },
  nothing() {
    throw undefined;
  },
  circle() {
    /** @type {any} */
    const circle = {};
    circle.self = circle;
    throw circle;
  },
  permanent() {
    throw new Permanent("never again");
  },
  later(_, { attempt }) {
    if (attempt < 2) throw new RetryAfter(50);
    log.info("later: succeeded");
  },
  unknown: () => store.list("services"),
  promise: async () => {
    await null;
    throw new Error("too late");
  },
  awaited: async () => log.info(await Promise.all([1, Promise.resolve(2)])),
  floating() {
    void Promise.reject(new Error("lost"));
    void Promise.reject(new Error("caught later")).catch(() => {});
  },
  delay: () => {
    throw new RetryAfter(NaN);
  },
  number: () => 60_000,
  range: () => ({ requeueAfter: NaN }),
};

/** @param {import("informant").Event} event */
const reads = (event) => {
  log.info(event.informer, event.apiVersion, event.kind, event.resource, event, store.version(event.source).synced);
  log.info(store.sources("pods").map(({ id, state, resource }) => ({ id, state, resource })), store.get(event, "default", "first")?.kind);
  log.info(store.get("pods", "default", "first", { fields: ["/metadata/name"] }));
  log.info(store.get("pods", "default", "absent") ?? "no such pod");
  log.info(store.list("pods", { labelSelector: "team=blue" }).map((pod) => pod.metadata.name));
  log.info(store.list("pods", { namespace: "default", fields: ["/metadata/name"], limit: 2 }).length, store.list("pods", { namespace: "other" }).length);
  log.info(store.byIndex("pods", "namespace", "default").length, store.indexKeys("pods", "namespace", "default")[0], store.indexValues("pods", "namespace"));
  try {
    store.byIndex("pods", "color", "red");
  } catch (error) {
    if (error instanceof HostError) log.info(error.code, error instanceof KubeError, error);
  }
};

/** @param {number[]} bytes */
const shownIn = (bytes) => JSON.stringify(new TextDecoder().decode(Uint8Array.from(bytes)));

/** @param {any} pod */
const texts = (pod) => {
  const { text } = pod.metadata;
  const bytes = new TextEncoder().encode(text);
  log.info(text, text.length, bytes.length, new TextDecoder().decode(bytes) === text);
  log.info(shownIn([0x61, 0xff, 0xe2, 0x82, 0x62, 0xed, 0xa0, 0x80, 0xf0, 0x9f, 0x98, 0x80]), [...new TextEncoder().encode("\ud800")]);
  log.info(shownIn([0xef, 0xbb, 0xbf, 0x61]), new TextDecoder("utf8", { ignoreBOM: true }).decode(Uint8Array.of(0xef, 0xbb, 0xbf)).length);
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.of(0xc3, 0x28));
  } catch (error) {
    log.info(error);
  }
  const large = text.repeat(20_000);
  log.info(new TextDecoder().decode(new TextEncoder().encode(large)) === large);
  console.log("console", { speaks: "too" });
};

export const manifest = { name: "guest-javascript", version: "1", indexes: ["team"] };

/** @type {import("informant").Handler} */
export const onAdd = (pod, event) => {
  remembered.push(event.name);
  if (event.name === "reads") return reads(event);
  if (event.name === "texts") return texts(pod);
  if (event.name === "requeued") return event.reason === "requeue-after" ? log.info("called again") : { requeueAfter: 5_000 };
  return throwing[event.name]?.(pod, event);
};

/** @type {import("informant").Handler} */
export const onUpdate = (pod, event) => {
  log.info(event, event.old?.metadata.resourceVersion, event.old === event.old, pod.metadata.resourceVersion, event.reason, event.attempt);
};

/** @type {import("informant").DeleteHandler} */
export const onDelete = (last, event) => {
  log.warn(`${event} is gone`, last?.metadata.name, event.finalStateUnknown, remembered);
};

/** @param {any} pod */
export function index(pod) {
  if (pod.metadata.name === "no-index") throw new RangeError("no team");
  if (pod.metadata.name === "odd-index") return { team: ["blue", { of: "one" }] };
  if (pod.metadata.name === "no-object") return "blue";
  return { team: pod.metadata.labels?.team };
}

export const save = async () => remembered;

/** @param {string[]} saved */
export const restore = (saved) => {
  remembered.push(...saved);
};

// Calls the cluster. The message of a call that is not granted contains the line that would grant it.
throwing.acts = (_, event) => {
  const { namespace, name, uid } = event;
  const pod = { resource: "v1/pods", namespace, name };
  log.info(kube.get(pod)?.kind, kube.list({ resource: "v1/pods" }, { labelSelector: "a=b", limit: 7 }).map((found) => found.metadata.name));
  log.info(kube.create({ resource: "v1/configmaps", namespace }, { metadata: { name: "ä€😀" } }, { dryRun: ["All"] }).kind);
  kube.patch(event, { metadata: { uid, labels: { seen: "yes" } } });
  kube.patch(pod, [{ op: "remove", path: "/metadata/labels/seen" }], { type: "json" });
  kube.patch(kube.status(event), { status: { phase: "Running" } }, { type: "strategic", fieldManager: "me" });
  kube.apply(pod, { apiVersion: "v1", kind: "Pod" }, { force: true });
  kube.update(pod, { metadata: { uid } });
  kube.delete(pod, { preconditions: { uid }, propagationPolicy: "Foreground" });
  /** @type {any} */
  const untyped = kube;
  for (const wrong of [
    () => kube.get({ ...pod, resource: "v1/secrets" }),
    () => untyped.get({ ...pod, nmae: "a" }),
    () => untyped.patch(pod, {}, { type: "apply" }),
    () => untyped.patch(pod, "labels"),
    () => untyped.delete(undefined),
  ]) {
    try {
      wrong();
    } catch (error) {
      log.info(error instanceof KubeError && error.code, error);
    }
  }
  kube.delete({ ...pod, resource: "v1/nodes", namespace: "" });
};

// Informant makes these writes after the call.
throwing.defers = (_, event) => {
  /** @type {any} */
  const untyped = kube.defer;
  kube.defer.patch(event, { metadata: { labels: { seen: "yes" } } });
  kube.defer.delete(event);
  for (const wrong of [
    () => kube.defer.create({ resource: "v1/pods", namespace: "default" }, { metadata: { generateName: "a-" } }),
    () => untyped.delete({ resource: "v1/pods", namespace: "default", name: "a" }),
    () => kube.defer.apply(kube.status(event), {}),
  ]) {
    try {
      wrong();
    } catch (error) {
      log.info(error);
    }
  }
};

throwing.takes_back = (_, event) => {
  kube.defer.patch(event, { metadata: { labels: { seen: "no" } } });
  throw new Permanent("and so it was not written");
};
