// What a reconciler writes for the object that it is called for: children, the status, and a finalizer.
import { kube as host, shown } from "informant:errors";
import { Event } from "informant:store";

const FINALIZER = `informant.dev/${globalThis.native.context.plugin}`;
const STATES = ["True", "False", "Unknown"];

// The most objects in the message of a condition. The API server accepts 32,768 bytes.
const LISTED_MAX = 20;

const isMapping = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

// --- what the manifest requests ---

let payload = "whole";

/** Sets what `reconcile` receives of an object: `reconciler.for.payload` of the manifest. */
export const setPayload = (given = "whole") => {
  payload = given;
};

// Whether the objects that `reconcile` receives have everything at a JSON pointer.
const isReceived = (pointer) => {
  if (payload === "whole") return true;
  const fields = payload === "metadata" ? ["/metadata"] : (payload?.fields ?? []);
  const covers = (field) => pointer === field || pointer.startsWith(`${field}/`);
  return fields.map((field) => String(field).replace(/(\/\*)+$/, "")).some(covers);
};

const checkRequest = (name, request) => {
  if (request instanceof Event && Object.hasOwn(request, "cacheIsBehind")) return;
  throw new TypeError(`kube.${name}: ${request instanceof Event ? "an event" : shown(request)} is not the request that reconcile receives`);
};

// Refuses objects without what is compared and replaced: what others have set there would be lost.
const checkReceived = (name, pointers) => {
  const missing = pointers.find((pointer) => !isReceived(pointer));
  if (missing === undefined) return;
  throw new TypeError(`kube.${name}: reconcile receives objects without ${missing}: add it to the fields in reconciler.for.payload`);
};

const checkObject = (name, request, object) => {
  if (!isMapping(object)) throw new TypeError(`kube.${name}: ${shown(object)} is not an object; if it is gone, there is nothing to write`);
  if (![undefined, request.uid].includes(object.metadata?.uid)) throw new TypeError(`kube.${name}: the object is not ${request}, which the request is about`);
};

// Defers a merge patch of exactly this state of the object.
const patch = (request, object, subresource, metadata, more) => {
  const { cluster, resource, namespace, name } = request;
  const resourceVersion = object.metadata?.resourceVersion ?? request.resourceVersion;
  const document = { metadata: { resourceVersion, ...metadata }, ...more };
  host.deferPatch([cluster, resource, namespace, name, subresource], "merge", JSON.stringify(document), "");
};

// --- children ---

const LISTS = ["fields", "whole"];

// The documents of a list of objects.
const documents = (name, objects = []) => {
  if (!Array.isArray(objects)) throw new TypeError(`kube.children: ${name} is ${shown(objects)}, which is not a list of objects`);
  return objects.map((object) => {
    if (!isMapping(object)) throw new TypeError(`kube.children: ${name} contains ${shown(object)}, which is not an object`);
    return JSON.stringify(object);
  });
};

export const children = (request, wanted) => {
  checkRequest("children", request);
  const lists = Array.isArray(wanted) ? { fields: wanted } : isMapping(wanted) ? wanted : {};
  const unknown = Object.keys(lists).find((name) => !LISTS.includes(name));
  if (unknown !== undefined) throw new TypeError(`kube.children has no option ${unknown}; it has ${LISTS.join(" and ")}`);
  // None by mistake would delete all.
  if (LISTS.every((name) => lists[name] === undefined)) {
    throw new TypeError(`kube.children: ${shown(wanted)} has no list of objects; for no children, pass []`);
  }
  const { source, namespace, name, uid } = request;
  return host.deferChildren([source, namespace, name, uid], documents("fields", lists.fields), documents("whole", lists.whole));
};

const condition = (type, message, reason, reasonOtherwise) =>
  message === "" ? { type, status: "False", reason: reasonOtherwise, message } : { type, status: "True", reason, message };

export const conditionsOf = ({ refused, pruneSkipped = "" }) => {
  const more = refused.length > LISTED_MAX ? ` and ${refused.length - LISTED_MAX} more` : "";
  return [
    condition("ChildrenRefused", refused.slice(0, LISTED_MAX).join(", ") + more, "OwnedByOthers", "NoneRefused"),
    condition("PruneSkipped", pruneSkipped, "CacheIncomplete", "NoneSkipped"),
  ];
};

export const ownerReference = (owner, { controller = true } = {}) => {
  if (!(owner instanceof Event) && !isMapping(owner)) throw new TypeError(`kube.ownerReference: ${shown(owner)} is no object: pass one, or the event`);
  const { apiVersion, kind } = owner;
  const { name, uid } = owner instanceof Event ? owner : (owner.metadata ?? {});
  const [missing] = Object.entries({ apiVersion, kind, name, uid }).find(([, value]) => !value) ?? [];
  if (missing !== undefined) throw new TypeError(`kube.ownerReference: the owner has no ${missing}: pass the whole object, or the event`);
  return { apiVersion, kind, name, uid, controller, blockOwnerDeletion: true };
};

// --- the status ---

const now = () => new Date().toISOString().replace(/\.\d+/, "");

const isEqual = (a, b) => {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  const names = Object.keys(a);
  if (Array.isArray(a) !== Array.isArray(b) || names.length !== Object.keys(b).length) return false;
  return names.every((name) => Object.hasOwn(b, name) && isEqual(a[name], b[name]));
};

// Whether a merge patch changes a value. An empty object is as good as none.
const changes = (value, change) => {
  const isAbsent = value === undefined || value === null;
  if (change === null) return !isAbsent;
  if (!isMapping(change)) return !isEqual(value, change);
  if (!isMapping(value) && !isAbsent) return true;
  return Object.keys(change).some((name) => changes(isMapping(value) && Object.hasOwn(value, name) ? value[name] : undefined, change[name]));
};

const checkCondition = (condition) => {
  for (const member of ["type", "status", "reason"]) {
    const value = condition?.[member];
    if (typeof value === "string" && value !== "") continue;
    throw new TypeError(`kube.setStatus: a condition has a type, a status and a reason, all text, but the ${member} is ${shown(value)}`);
  }
  const { type, status } = condition;
  if (!STATES.includes(status)) throw new TypeError(`kube.setStatus: the status of the condition ${type} is ${shown(status)}; it must be ${STATES.join(", ")}`);
};

// The conditions of the object, with those that are given in their place or at the end.
const merged = (present, given, observed) => {
  if (!Array.isArray(given)) throw new TypeError(`kube.setStatus: the conditions are ${shown(given)}, which is not a list`);
  const conditions = new Map((Array.isArray(present) ? present : []).map((condition) => [condition?.type, condition]));
  for (const condition of given) {
    checkCondition(condition);
    const { message = "", lastTransitionTime = now(), ...rest } = condition;
    const before = conditions.get(rest.type);
    const since = before?.status === rest.status ? before.lastTransitionTime : undefined;
    conditions.set(rest.type, { ...observed, ...rest, message, lastTransitionTime: since ?? lastTransitionTime });
  }
  return [...conditions.values()];
};

export const setStatus = (request, object, status) => {
  checkRequest("setStatus", request);
  checkReceived("setStatus", ["/status", "/metadata/generation"]);
  checkObject("setStatus", request, object);
  if (!isMapping(status)) throw new TypeError(`kube.setStatus: the status is ${shown(status)}, which is not an object`);
  const generation = object.metadata?.generation;
  const observed = typeof generation === "number" ? { observedGeneration: generation } : {};
  const all = { ...observed, ...status };
  if (all.conditions !== undefined && all.conditions !== null) all.conditions = merged(object.status?.conditions, all.conditions, observed);
  // What it is compared with was JSON, too.
  const wanted = JSON.parse(JSON.stringify(all));
  if (changes(object.status, wanted)) patch(request, object, "status", {}, { status: wanted });
};

// --- the finalizer ---

// A result that means something else than that the cleanup is done.
const checkDone = (returned) => {
  if (returned !== false && returned?.requeueAfter === undefined) return;
  throw new TypeError(`kube.finalize: cleanup returned ${shown(returned)}; if it is not done yet, throw new RetryAfter(milliseconds)`);
};

export const finalize = (request, object, cleanup) => {
  checkRequest("finalize", request);
  if (typeof cleanup !== "function") throw new TypeError(`kube.finalize: the cleanup is ${shown(cleanup)}, which is not a function`);
  checkReceived("finalize", ["/metadata/finalizers", "/metadata/deletionTimestamp"]);
  if (object === undefined) return false;
  checkObject("finalize", request, object);
  const finalizers = object.metadata?.finalizers ?? [];
  const isDeleted = (object.metadata?.deletionTimestamp ?? "") !== "";
  const isThere = finalizers.includes(FINALIZER);
  if (!isDeleted) {
    if (!isThere) patch(request, object, "", { finalizers: [...finalizers, FINALIZER] });
    return isThere;
  }
  if (!isThere) return false;
  const remove = (returned) => {
    checkDone(returned);
    patch(request, object, "", { finalizers: finalizers.filter((name) => name !== FINALIZER) });
    return false;
  };
  const returned = cleanup();
  return typeof returned?.then === "function" ? returned.then(remove) : remove(returned);
};
