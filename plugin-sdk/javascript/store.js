// Reads the cache. Within one call all reads of a source see one snapshot.
import contract from "informant:plugin/store@0.1.0";

import { asked } from "./failure.js";
import { decoded } from "./text.js";

const text = (value) => (value === undefined || value === null ? "" : String(value));

// Reads page after page, until `limit` objects are there.
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
    const page = asked(() => read(query));
    for (const { object } of page.items) objects.push(decoded(object));
    cursor = page.cursor;
  } while (cursor !== "" && objects.length < limit);
  return objects;
};

// What is constant for a source is asked for once.
const known = new Map();

export const store = Object.freeze({
  source(id) {
    let info = known.get(id);
    if (info === undefined) known.set(id, (info = Object.freeze(asked(() => contract.source(id)))));
    return info;
  },
  sources: (informer) => asked(() => contract.sources(informer)),
  version: (source) => asked(() => contract.version(source)),
  get(informer, namespace, name, { fields = [] } = {}) {
    for (const source of store.sources(informer)) {
      try {
        return decoded(asked(() => contract.get(source, text(namespace), String(name), fields.map(String))));
      } catch (error) {
        if (error.code !== "not-found") throw error;
      }
    }
    return undefined;
  },
  list: (informer, options) => pages((query) => contract.list(informer, query), options),
  byIndex: (informer, index, value, options) => pages((query) => contract.byIndex(informer, index, value, query), options),
  indexKeys: (informer, index, value) => asked(() => contract.indexKeys(informer, index, value)),
  indexValues(informer, index) {
    const values = [];
    for (;;) {
      const more = asked(() => contract.indexValues(informer, index, values.at(-1) ?? "", 0));
      if (more.length === 0) return values;
      values.push(...more);
    }
  },
});
