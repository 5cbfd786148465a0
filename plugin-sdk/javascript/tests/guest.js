// The test guest in JavaScript: throws, reads the cache, keeps state, computes an index, and converts UTF-8.
import { KubeError, Permanent, RetryAfter, kube, log, plugin, store } from "informant-plugin-sdk";

const remembered = [];
let greeting;

const check = (pod) => pod.spec.nodeName;

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
  promise: async () => {},
  number: () => 60_000,
  range: () => ({ requeueAfter: -1 }),
};

const reads = (event) => {
  log.info(event.informer, event.apiVersion, event.kind, event, store.version(event.source).synced);
  log.info(store.get("pods", "default", "first", { fields: ["/metadata/name"] }));
  log.info(store.get("pods", "default", "absent") ?? "no such pod");
  log.info(store.list("pods", { labelSelector: "team=blue" }).map((pod) => pod.metadata.name));
  log.info(store.list("pods", { namespace: "default", fields: ["/metadata/name"], limit: 2 }).length, store.list("pods", { namespace: "other" }).length);
  log.info(store.byIndex("pods", "namespace", "default").length, store.indexKeys("pods", "namespace", "default")[0], store.indexValues("pods", "namespace"));
  try {
    store.byIndex("pods", "color", "red");
  } catch (error) {
    log.info(error.code, error);
  }
};

const shownIn = (bytes) => JSON.stringify(new TextDecoder().decode(Uint8Array.from(bytes)));

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

export const { lifecycle, eventHandler, syncHandler, indexFuncs, state } = plugin({
  manifest: { name: "guest-javascript", version: "1", indexes: ["team"] },
  init(config, { role }) {
    greeting = config.greeting;
    if (role === "events") log.debug(`${greeting}, ${role}`);
  },
  onAdd(pod, event) {
    remembered.push(event.name);
    if (event.name === "reads") return reads(event);
    if (event.name === "texts") return texts(pod);
    if (event.name === "requeued") return event.reason === "requeue-after" ? log.info("called again") : { requeueAfter: 5_000 };
    return throwing[event.name]?.(pod, event);
  },
  onUpdate(old, pod, event) {
    log.info(event, old?.metadata.resourceVersion, pod.metadata.resourceVersion, event.reason, event.attempt);
  },
  onDelete(last, event) {
    log.warn(`${event} is gone`, last?.metadata.name, event.finalStateUnknown, remembered);
  },
  index(pod) {
    if (pod.metadata.name === "no-index") throw new RangeError("no team");
    if (pod.metadata.name === "odd-index") return { team: ["blue", { of: "one" }] };
    if (pod.metadata.name === "no-object") return "blue";
    return { team: pod.metadata.labels?.team };
  },
  save: () => remembered,
  restore(saved) {
    remembered.push(...saved);
  },
});

// Calls the cluster. The message of a call that is not granted contains the line that would grant it.
throwing.acts = (_, { namespace, name, uid }) => {
  const pod = { resource: "v1/pods", namespace, name };
  log.info(kube.get(pod).kind, kube.list({ resource: "v1/pods" }, { labelSelector: "a=b", limit: 7 }).map((found) => found.metadata.name));
  log.info(kube.create({ resource: "v1/configmaps", namespace }, { metadata: { name: "ä€😀" } }, { dryRun: ["All"] }).kind);
  kube.patch(pod, { metadata: { uid, labels: { seen: "yes" } } });
  kube.patch(pod, [{ op: "remove", path: "/metadata/labels/seen" }], { type: "json" });
  kube.patch(kube.status(pod), { status: { phase: "Running" } }, { type: "strategic", fieldManager: "me" });
  kube.apply(pod, { apiVersion: "v1", kind: "Pod" }, { force: true });
  kube.update(pod, { metadata: { uid } });
  kube.delete(pod, { preconditions: { uid }, propagationPolicy: "Foreground" });
  for (const wrong of [() => kube.get({ ...pod, resource: "v1/secrets" }), () => kube.get({ ...pod, nmae: "a" }), () => kube.patch(pod, {}, { type: "apply" })]) {
    try {
      wrong();
    } catch (error) {
      log.info(error instanceof KubeError, error.code ?? "no code", error);
    }
  }
  kube.delete({ ...pod, resource: "v1/nodes", namespace: "" });
};
