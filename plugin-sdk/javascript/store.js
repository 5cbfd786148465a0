// Reads the cache. Within one call all reads of a source see the same snapshot.
import contract from "informant:plugin/store@0.2.0";

import { HostError, callHost } from "./failure.js";
import { decoded } from "./text.js";

const text = (value) => (value === undefined || value === null ? "" : String(value));

// The source of the object that the current call is about. Undefined in a call about no object.
let current;
// The sources of each informer, as the current call has read them.
const sourcesInCall = new Map();

/** Starts a call from Informant. */
export const beginCall = (source) => {
  current = source;
  sourcesInCall.clear();
};

const sourcesOf = (informer) => {
  let sources = sourcesInCall.get(informer);
  if (sources === undefined) sourcesInCall.set(informer, (sources = callHost(() => contract.sources(informer))));
  return sources;
};

const clusterNames = (sources) => [...new Set(sources.map(({ cluster }) => cluster))];

// The sources that a call reads: those in the cluster of the object that it is about. An empty array stands for all.
const sourcesToRead = (informer, clusters) => {
  if (clusters === "all") return [];
  if (clusters !== undefined) throw new TypeError('store: clusters is not "all"; write { clusters: "all" }, or leave it out');
  if (current === undefined) {
    const names = clusterNames(sourcesOf(informer));
    if (names.length <= 1) return [];
    throw new HostError("invalid", `informer "${informer}" reads several clusters (${names.join(", ")}), and this call is about no object: write { clusters: "all" }`);
  }
  const { cluster } = store.source(current);
  // The only cluster.
  if (cluster === "") return [];
  const sources = sourcesOf(informer);
  const here = sources.filter((source) => source.cluster === cluster).map(({ id }) => id);
  if (here.length > 0) return here;
  // A pattern has its sources only after its cluster was asked for its kinds. So a retry can succeed.
  const names = clusterNames(sources).join(", ");
  throw new HostError("not-ready", `informer "${informer}" has no source in cluster "${cluster}", only in: ${names}; to read these, write { clusters: "all" }`);
};

// Reads pages until there are `limit` objects.
const pages = (informer, read, { clusters, namespace, labelSelector, fields = [], limit = Infinity } = {}) => {
  const sources = sourcesToRead(informer, clusters);
  const objects = [];
  let cursor = "";
  do {
    const left = limit - objects.length;
    const query = {
      sources,
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
    const found = callHost(() => contract.find(informer, text(namespace), String(name), fields.map(String)));
    return found === null || found === undefined ? undefined : decoded(found.object);
  },
  list: (informer, options) => pages(informer, (query) => contract.list(informer, query), options),
  byIndex: (informer, index, value, options) => pages(informer, (query) => contract.byIndex(informer, index, value, query), options),
  indexKeys: (informer, index, value, { clusters } = {}) =>
    callHost(() => contract.indexKeys(informer, sourcesToRead(informer, clusters), index, value)),
  indexValues(informer, index, { clusters } = {}) {
    const sources = sourcesToRead(informer, clusters);
    const values = [];
    for (;;) {
      const more = callHost(() => contract.indexValues(informer, sources, index, values.at(-1) ?? "", 0));
      if (more.length === 0) return values;
      values.push(...more);
    }
  },
});
