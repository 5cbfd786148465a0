// The Kubernetes API server.
import { HostError, KubeError, kube as host, shown } from "informant:errors";
import { children, conditionsOf, finalize, ownerReference, setStatus } from "informant:reconciler";
import { Event } from "informant:store";

const text = (value) => (value === undefined || value === null ? "" : String(value));

// The most objects in a page.
const PAGE_MAX = 500;

const PATCH_TYPES = ["merge", "json", "strategic"];

// `force` is for apply: the host refuses it with a message of its own.
const PATCH_OPTIONS = ["type", "fieldManager", "fieldValidation", "dryRun", "force"];

// The members of an address, in the order in which the runner reads them.
const MEMBERS = ["cluster", "resource", "namespace", "name", "subresource"];

// The contract's address. An event is the address of its object. Rejects unknown members: with a misspelled one, the
// address would be another.
const addressOf = (address) => {
  if (address instanceof Event) return [address.cluster, address.resource, address.namespace, address.name, ""];
  const given = Object.keys(address ?? {});
  const unknown = given.find((name) => !MEMBERS.includes(name));
  if (unknown !== undefined) throw new TypeError(`kube: an address has no member ${unknown}; it has resource, namespace, name, subresource and cluster`);
  if (typeof address?.resource !== "string") {
    throw new TypeError('kube: an address must have a resource: { resource: "v1/pods", … }, or be the event');
  }
  return MEMBERS.map((name) => text(address[name]));
};

const json = (document) => {
  if (typeof document !== "object" || document === null) throw new TypeError(`kube: the document must be an object, not ${shown(document)}`);
  return JSON.stringify(document);
};

// Options are documents of Kubernetes' meta/v1. Informant rejects members that it does not pass on.
const optionsOf = (options) => (options === undefined ? "" : json(options));

// The functions that write, with a function of `send` for each of them. There is one set for each way to write.
const writes = (send) => ({
  create: (address, object, options) => send.create(addressOf(address), json(object), optionsOf(options)),
  update: (address, object, options) => send.update(addressOf(address), json(object), optionsOf(options)),
  patch(address, document, { type = "merge", ...options } = {}) {
    const unknown = Object.keys(options).find((name) => !PATCH_OPTIONS.includes(name));
    if (unknown !== undefined) throw new KubeError("invalid", `options: a patch has no option ${unknown}; it has ${PATCH_OPTIONS.slice(0, -1).join(", ")}`);
    if (!PATCH_TYPES.includes(type)) throw new TypeError(`kube.patch: unknown type ${shown(type)}; use ${PATCH_TYPES.join(", ")}, or kube.apply`);
    return send.patch(addressOf(address), type, json(document), json(options));
  },
  apply: (address, object, options) => send.patch(addressOf(address), "apply", json(object), optionsOf(options)),
  delete: (address, options) => send.delete(addressOf(address), optionsOf(options)),
});

// Writes that Informant makes after the call. A delete needs the uid, so that it never deletes another object.
const deferred = writes({ create: host.deferCreate, update: host.deferUpdate, patch: host.deferPatch, delete: host.deferDelete });
const defer = Object.freeze({
  ...deferred,
  delete(address, options) {
    const uid = address instanceof Event ? address.uid : undefined;
    deferred.delete(address, { ...options, preconditions: { uid, ...options?.preconditions } });
  },
});

export const kube = Object.freeze({
  defer,
  status(address) {
    const [cluster, resource, namespace, name] = addressOf(address);
    return Object.freeze({ cluster, resource, namespace, name, subresource: "status" });
  },
  get(address) {
    try {
      return host.get(addressOf(address));
    } catch (error) {
      if (!(error instanceof HostError) || error.code !== "not-found") throw error;
      return undefined;
    }
  },
  // Reads pages until there are `limit` objects.
  list(address, { limit = Infinity, ...options } = {}) {
    const objects = [];
    if (limit <= 0) return objects;
    let cursor = "";
    do {
      const left = limit - objects.length;
      const next = { limit: Math.min(left, PAGE_MAX), continue: cursor === "" ? undefined : cursor };
      const page = host.list(addressOf(address), json({ ...options, ...next }));
      for (const object of page.items) objects.push(object);
      cursor = page.cursor;
    } while (cursor !== "" && objects.length < limit);
    return objects;
  },
  ...writes(host),
  children,
  conditionsOf,
  ownerReference,
  setStatus,
  finalize,
});
