// @ts-check
// The reconciler of the conformance kit in JavaScript. tests/guests/README.md describes what it does.
import { Permanent, kube, log, recorder } from "informant";

/** @type {import("informant").Manifest} */
export const manifest = {
  name: "conformance-reconciler",
  version: "1",
  reconciler: {
    for: { apiVersion: "v1", kind: "Pod", when: ["/spec", "/metadata/annotations"] },
    owns: [{ apiVersion: "v1", kind: "ConfigMap" }],
  },
  timers: [{ name: "poll", every: "10s" }, { name: "fails", every: "1h" }],
  needs: [{ events: {} }],
};

/**
 * The children that the text names.
 * @param {import("informant").ReconcileRequest} request
 * @param {string} text
 */
const setChildren = (request, text) => {
  const names = text.split(",").filter((name) => name !== "");
  /** @param {string} name */
  const map = (name) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { of: text } });
  const fields = names.filter((name) => name.startsWith("fields-")).map(map);
  const whole = names.filter((name) => !name.startsWith("fields-")).map(map);
  const done = kube.children(request, { fields, whole });
  const isSkipped = done.pruneSkipped !== undefined;
  log.info(`written=${done.written} pruned=${done.pruned} refused=${done.refused.join(",")} skipped=${isSkipped}`);
  return done;
};

/** @type {import("informant").Reconciler} */
export const reconcile = (pod, request) => {
  const { reason, attempt, cacheIsBehind } = request;
  const text = pod?.spec?.text ?? "";
  log.info(`reconcile ${request} ${reason} ${attempt} ${pod ? `text=${text}` : "gone"}${cacheIsBehind ? " behind" : ""}`);
  const action = pod?.metadata.annotations?.do ?? "";
  if (action === "children") setChildren(request, text);
  if (action === "status") {
    const conditions = kube.conditionsOf(setChildren(request, text));
    kube.setStatus(request, pod, { text, conditions });
  }
  if (action === "finalize") log.info(`finalize=${kube.finalize(request, pod, () => log.info("clean up"))}`);
  if (action.startsWith("event")) recorder.event(request, { type: "Warning", reason: "Seen", note: text });
  if (/^(event-)?retryable$/.test(action) && attempt === 0) throw new Error(text);
  if (action === "event-permanent") throw new Permanent(text);
  if (action === "requeue" && reason !== "requeue-after") return { requeueAfter: 100 };
};

/** @type {import("informant").TimerHandler} */
export const onTimer = ({ name, scheduled, missed, attempt }) => {
  log.info(`timer ${name} ${scheduled} missed=${missed} attempt=${attempt}`);
  const pod = { apiVersion: "v1", kind: "Pod", namespace: "web", name: "a", uid: "uid-web-a" };
  recorder.event(pod, { reason: "Ticked", note: `${name} has run, attempt ${attempt}` });
  if (name === "fails" && attempt === 0) throw new Error("asked to fail");
};
