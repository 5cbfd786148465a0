// Calls the Kubernetes API server with Informant's identity. Informant checks every call against `allow.kube` in the plugin's section of
// config.toml.
import contract from "informant:plugin/kube@0.2.0";

import { KubeError } from "./failure.js";
import { decoded, encoded } from "./text.js";

const text = (value) => (value === undefined || value === null ? "" : String(value));

// The most objects in a page.
const PAGE_MAX = 500;

const PATCH_TYPES = ["merge", "json", "strategic"];

// The contract's address. Rejects unknown members: with a misspelled one, the address would be another.
const addressOf = (address) => {
  const { cluster, resource, namespace, name, subresource, ...unknown } = address ?? {};
  for (const key of Object.keys(unknown)) {
    throw new TypeError(`kube: an address has no member ${key}; it has resource, namespace, name, subresource and cluster`);
  }
  if (typeof resource !== "string") throw new TypeError('kube: an address must have a resource: { resource: "v1/pods", … }');
  return { cluster: text(cluster), resource, namespace: text(namespace), name: text(name), subresource: text(subresource) };
};

// Options are documents of Kubernetes' meta/v1. Informant rejects members that it does not pass on.
const optionsOf = (options) => (options === undefined ? new Uint8Array(0) : encoded(options));

// Sends a request. Its error arrives as a record in `payload`.
const send = (call) => {
  try {
    return call();
  } catch (error) {
    if (error?.payload?.code === undefined) throw error;
    throw new KubeError(error.payload);
  }
};

const sendPatch = (kind, address, document, options) =>
  decoded(send(() => contract.patch(addressOf(address), kind, encoded(document), optionsOf(options))));

export const kube = Object.freeze({
  status: (address) => Object.freeze({ ...address, subresource: "status" }),
  get(address) {
    try {
      return decoded(send(() => contract.get(addressOf(address))));
    } catch (error) {
      if (error.code !== "not-found") throw error;
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
      const page = send(() => contract.list(addressOf(address), optionsOf({ ...options, ...next })));
      for (const item of page.items) objects.push(decoded(item));
      cursor = page.cursor;
    } while (cursor !== "" && objects.length < limit);
    return objects;
  },
  create: (address, object, options) => decoded(send(() => contract.create(addressOf(address), encoded(object), optionsOf(options)))),
  update: (address, object, options) => decoded(send(() => contract.update(addressOf(address), encoded(object), optionsOf(options)))),
  patch(address, document, { type = "merge", ...options } = {}) {
    if (!PATCH_TYPES.includes(type)) throw new TypeError(`kube.patch: unknown type ${type}; use ${PATCH_TYPES.join(", ")}, or kube.apply`);
    return sendPatch(type, address, document, options);
  },
  apply: (address, object, options) => sendPatch("apply", address, object, options),
  delete(address, options) {
    send(() => contract.delete(addressOf(address), optionsOf(options)));
  },
});
