// Reads the cache. Within one call all reads of a source see the same snapshot.
import contract from "informant:plugin/store@0.1.0";

import { callHost } from "./failure.js";
import { decoded } from "./text.js";

const text = (value) => (value === undefined || value === null ? "" : String(value));

// Reads pages until there are `limit` objects.
const pages = (read, { namespace, labelSelector, fields = [], limit = Infinity } = {}) => {
  const objects = [];
  let cursor = "";
  do {
    const left = limit - objects.length;
    const query = {
      namespace: namespace === undefined || namespace === null ? null : String(namespace),
      labelSelector: text(labelSelector),
      pointers: fields.map(String),
      limit: left === Infinity ? 0 : left,
      cursor,
    };
    const page = callHost(() => read(query));
    for (const { object } of page.items) objects.push(decoded(object));
    cursor = page.cursor;
  } while (cursor !== "" && objects.length < limit);
  return objects;
};

// The details of a source are constant and requested once.
const known = new Map();

export const store = Object.freeze({
  source(id) {
    let info = known.get(id);
    if (info === undefined) known.set(id, (info = Object.freeze(callHost(() => contract.source(id)))));
    return info;
  },
  sources: (informer) => callHost(() => contract.sources(informer)),
  version: (source) => callHost(() => contract.version(source)),
  get(informer, namespace, name, { fields = [] } = {}) {
    for (const source of store.sources(informer)) {
      try {
        return decoded(callHost(() => contract.get(source, text(namespace), String(name), fields.map(String))));
      } catch (error) {
        if (error.code !== "not-found") throw error;
      }
    }
    return undefined;
  },
  list: (informer, options) => pages((query) => contract.list(informer, query), options),
  byIndex: (informer, index, value, options) => pages((query) => contract.byIndex(informer, index, value, query), options),
  indexKeys: (informer, index, value) => callHost(() => contract.indexKeys(informer, index, value)),
  indexValues(informer, index) {
    const values = [];
    for (;;) {
      const more = callHost(() => contract.indexValues(informer, index, values.at(-1) ?? "", 0));
      if (more.length === 0) return values;
      values.push(...more);
    }
  },
});
