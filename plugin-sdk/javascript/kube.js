// Acts on the cluster, with Informant's identity there. Every call is judged by `allow.kube` of the plugin's section in config.toml.
import contract from "informant:plugin/kube@0.1.0";

import { KubeError } from "./failure.js";
import { decoded, encoded } from "./text.js";

const text = (value) => (value === undefined || value === null ? "" : String(value));

const PATCHES = ["merge", "json", "strategic"];

// The contract's address. What is misspelt would be another place.
const at = (address) => {
  const { cluster, resource, namespace, name, subresource, ...unknown } = address ?? {};
  for (const key of Object.keys(unknown)) {
    throw new TypeError(`kube: an address has no ${key}; it has resource, namespace, name, subresource and cluster`);
  }
  if (typeof resource !== "string") throw new TypeError('kube: an address names a resource: { resource: "v1/pods", … }');
  return { cluster: text(cluster), resource, namespace: text(namespace), name: text(name), subresource: text(subresource) };
};

const how = ({ fieldManager, force = false, dryRun = false } = {}) => ({
  fieldManager: text(fieldManager),
  force: Boolean(force),
  dryRun: Boolean(dryRun),
});

// Calls the cluster: its error comes as a record in `payload`.
const sent = (call) => {
  try {
    return call();
  } catch (error) {
    if (error?.payload?.code === undefined) throw error;
    throw new KubeError(error.payload);
  }
};

const patched = (kind, address, document, options) =>
  decoded(sent(() => contract.patch(at(address), kind, encoded(document), how(options))));

export const kube = Object.freeze({
  status: (address) => Object.freeze({ ...address, subresource: "status" }),
  get(address) {
    try {
      return decoded(sent(() => contract.get(at(address))));
    } catch (error) {
      if (error.code !== "not-found") throw error;
      return undefined;
    }
  },
  // Reads page after page, until `limit` objects are there.
  list(address, { labelSelector, fieldSelector, limit = Infinity } = {}) {
    const objects = [];
    if (limit <= 0) return objects;
    let cursor = "";
    do {
      const left = limit - objects.length;
      const options = {
        labelSelector: text(labelSelector),
        fieldSelector: text(fieldSelector),
        limit: left === Infinity ? 0 : left,
        cursor,
      };
      const page = sent(() => contract.list(at(address), options));
      for (const item of page.items) objects.push(decoded(item));
      cursor = page.cursor;
    } while (cursor !== "" && objects.length < limit);
    return objects;
  },
  create: (address, object, options) => decoded(sent(() => contract.create(at(address), encoded(object), how(options)))),
  update: (address, object, options) => decoded(sent(() => contract.update(at(address), encoded(object), how(options)))),
  patch(address, document, { type = "merge", ...options } = {}) {
    if (!PATCHES.includes(type)) throw new TypeError(`kube.patch: there is no type ${type}; there are ${PATCHES.join(", ")}, and kube.apply`);
    return patched(type, address, document, options);
  },
  apply: (address, object, options) => patched("apply", address, object, options),
  delete(address, { propagation = "unset", uid, resourceVersion, dryRun = false } = {}) {
    const options = { propagation, uid: text(uid), resourceVersion: text(resourceVersion), dryRun: Boolean(dryRun) };
    sent(() => contract.delete(at(address), options));
  },
});
