// Sources, events, and the cache.
import { HostError, shown, store as host } from "informant:errors";
import { log } from "informant:log";

const native = globalThis.native;

const text = (value) => (value === undefined || value === null ? "" : String(value));

// --- sources and events ---

// The source that the current call is about, or whose object it is about. Undefined in a call about neither.
let current;
// The object of the current call. In a call about none, the name is empty.
const currentObject = { namespace: "", name: "", uid: "" };
// The sources of each informer, as the current call has read them.
const sourcesInCall = new Map();

// The details of a source are constant, except its state. They are requested once, and only if the script reads them.
const details = new Map();
const detailsOf = (source) => {
  let info = details.get(source);
  if (info === undefined) details.set(source, (info = Object.freeze(host.source(source))));
  return info;
};

const sourcesOf = (informer) => {
  let sources = sourcesInCall.get(informer);
  if (sources === undefined) sourcesInCall.set(informer, (sources = host.sources(informer)));
  return sources;
};

export class Source {
  constructor(id) {
    this.id = id;
  }
  get state() {
    return host.source(this.id).state;
  }
  toString() {
    return `source ${this.id}`;
  }
}

// The names of the reasons, in the order of the contract.
const REASONS = native.reasons;

let warnsOfOld = false;
const warnOfOld = () => {
  if (!warnsOfOld) return;
  warnsOfOld = false;
  log.warn("event.old is undefined: to receive it, write `old: true` into the rules of manifest.events");
};

export class Event {
  // The document of the previous state, and then its object.
  #document;
  #old;
  constructor(source, namespace, name, uid, resourceVersion, reason, attempt, document) {
    this.source = source;
    this.namespace = namespace;
    this.name = name;
    this.uid = uid;
    this.resourceVersion = resourceVersion;
    this.reason = REASONS[reason];
    this.attempt = attempt;
    this.#document = document;
  }
  // The previous state, of which only handlers that read it pay for the parsing.
  get old() {
    if (this.#document === undefined) {
      if (this.#old === undefined) warnOfOld();
      return this.#old;
    }
    this.#old = native.parse(this.#document);
    this.#document = undefined;
    return this.#old;
  }
  // The same in each attempt to handle this state of the object: an idempotency key.
  get id() {
    return `${this.uid}/${this.resourceVersion}`;
  }
  toString() {
    return this.namespace === "" ? this.name : `${this.namespace}/${this.name}`;
  }
}

for (const name of ["informer", "cluster", "apiVersion", "kind", "resource", "namespaced", "partial"]) {
  Object.defineProperty(Source.prototype, name, { get() { return detailsOf(this.id)[name]; }, configurable: true });
  Object.defineProperty(Event.prototype, name, { get() { return detailsOf(this.source)[name]; }, configurable: true });
}
// In an event, it is the namespace of the object.
Object.defineProperty(Source.prototype, "namespace", { get() { return detailsOf(this.id).namespace; }, configurable: true });

/** Starts a call about an object. */
export const beginEvent = (source, namespace, name, uid, resourceVersion, reason, attempt, document) => {
  current = source;
  if (sourcesInCall.size > 0) sourcesInCall.clear();
  currentObject.namespace = namespace;
  currentObject.name = name;
  currentObject.uid = uid;
  return new Event(source, namespace, name, uid, resourceVersion, reason, attempt, document);
};

/** Starts a call about a source. */
export const beginSource = (source) => {
  current = source;
  currentObject.name = "";
  sourcesInCall.clear();
  return new Source(source);
};

/** Starts the run of a timer, which is about no source. */
export const beginTick = (name, scheduled, missed, attempt) => {
  current = undefined;
  currentObject.name = "";
  sourcesInCall.clear();
  return Object.freeze({ name, scheduled, missed, attempt });
};

/** The details of the current call's source, undefined if it is about none, and its object. */
export const currentCall = () => ({ source: current === undefined ? undefined : detailsOf(current), object: currentObject });

/** Says whether the manifest requests no previous state, so that `event.old` is always undefined. */
export const setWarnsOfOld = (warns) => {
  warnsOfOld = warns;
};

// --- the cache ---

// An event or a source stands for its informer.
const sourceIn = (from) => (from instanceof Event ? from.source : from instanceof Source ? from.id : undefined);

const informerName = (from) => {
  if (from instanceof Event || from instanceof Source) return from.informer;
  if (typeof from !== "string") throw new TypeError(`store: ${shown(from)} is not an informer: pass its name, an event, or a source`);
  return from;
};

const clusterNames = (sources) => [...new Set(sources.map(({ cluster }) => cluster))];

// The numbers of the sources that a call reads: those in the cluster of what it is about, or of the event or source
// that stands for the informer. An empty array stands for all sources of the informer.
const sourcesToRead = (from, clusters) => {
  if (clusters === "all") return [];
  if (clusters !== undefined) throw new TypeError(`clusters is ${shown(clusters)}; write { clusters: "all" }, or leave it out`);
  const informer = informerName(from);
  const about = sourceIn(from) ?? current;
  if (about === undefined) {
    const names = clusterNames(sourcesOf(informer));
    if (names.length <= 1) return [];
    const hint = 'write { clusters: "all" }, or pass a source instead of the name';
    throw new HostError("invalid", `informer "${informer}" reads several clusters (${names.join(", ")}), and this call is about none of them: ${hint}`);
  }
  const { cluster } = detailsOf(about);
  // The only cluster.
  if (cluster === "") return [];
  const sources = sourcesOf(informer);
  const here = sources.filter((source) => source.cluster === cluster).map(({ id }) => id);
  if (here.length > 0) return here;
  // A pattern has its sources only after its cluster was asked for its kinds. So a retry can succeed.
  const names = clusterNames(sources).join(", ");
  throw new HostError("not-ready", `informer "${informer}" has no source in cluster "${cluster}", only in: ${names}; to read these, write { clusters: "all" }`);
};

// A misspelled option would read something else without an error.
const checked = (name, options, known) => {
  if (options === undefined || options === null) return {};
  if (typeof options !== "object" || Array.isArray(options)) {
    throw new TypeError(`store.${name}: the options are ${shown(options)}; write an object of ${known.join(", ")}`);
  }
  const unknown = Object.keys(options).find((option) => !known.includes(option));
  if (unknown !== undefined) throw new TypeError(`store.${name} has no option ${unknown}; it has ${known.join(", ")}`);
  return options;
};

const QUERY = ["clusters", "namespace", "labelSelector", "fields", "limit"];

const pointers = (fields = []) => (typeof fields === "string" ? [fields] : fields).map(String);

// Reads pages until there are `limit` objects.
const pages = (from, read, { clusters, namespace, labelSelector, fields, limit = Infinity }) => {
  const sources = sourcesToRead(from, clusters);
  const objects = [];
  if (limit <= 0) return objects;
  let cursor = "";
  do {
    const left = limit - objects.length;
    const page = read([
      sources,
      namespace === undefined || namespace === null ? undefined : String(namespace),
      text(labelSelector),
      pointers(fields),
      left === Infinity ? 0 : left,
      cursor,
    ]);
    for (const object of page.items) objects.push(object);
    cursor = page.cursor;
  } while (cursor !== "" && objects.length < limit);
  return objects;
};

export const store = Object.freeze({
  get(from, namespace, name, options) {
    if (name === undefined || name === null) {
      throw new TypeError('store.get(informer, namespace, name): the name is missing; the namespace of a cluster-scoped object is ""');
    }
    const key = [text(namespace), String(name), pointers(checked("get", options, ["fields"]).fields)];
    const id = sourceIn(from);
    if (id === undefined) return host.find(informerName(from), ...key);
    // The object is of the kind and in the cluster of the event or source. There can be a source for each namespace.
    const { informer, cluster, apiVersion, kind } = detailsOf(id);
    const isPossible = (source) =>
      source.cluster === cluster &&
      source.apiVersion === apiVersion &&
      source.kind === kind &&
      (source.namespace === undefined || source.namespace === key[0]);
    for (const source of sourcesOf(informer).filter(isPossible)) {
      const object = host.get(source.id, ...key);
      if (object !== undefined) return object;
    }
    return undefined;
  },
  list: (from, options) => pages(from, (query) => host.list(informerName(from), query), checked("list", options, QUERY)),
  byIndex: (from, index, value, options) =>
    pages(from, (query) => host.byIndex(informerName(from), String(index), String(value), query), checked("byIndex", options, QUERY)),
  indexKeys: (from, index, value, options) =>
    host.indexKeys(informerName(from), sourcesToRead(from, checked("indexKeys", options, ["clusters"]).clusters), String(index), String(value)),
  indexValues(from, index, options) {
    const sources = sourcesToRead(from, checked("indexValues", options, ["clusters"]).clusters);
    const values = [];
    let cursor = "";
    do {
      const more = host.indexValues(informerName(from), sources, String(index), cursor);
      for (const value of more) values.push(value);
      // The empty value sorts first, and it cannot be a cursor: a page that ends with it has nothing else.
      cursor = more.at(-1) ?? "";
    } while (cursor !== "");
    return values;
  },
  source: (id) => new Source(detailsOf(id).id),
  sources: (informer) => host.sources(informerName(informer)).map(({ id }) => new Source(id)),
  version: (source) => host.version(sourceIn(source) ?? source),
});
