// Informant in a test: what the script runner imports, over the objects that the test has put.
import { deferChildren } from "./children.js";
import { Cluster, failed, keyText } from "./cluster.js";
import { project } from "./projection.js";
import { matches, parse } from "./selector.js";

/** As in Informant. */
const KEY_BYTES_MAX = 512;
const VALUE_BYTES_MAX = 256 << 10;
const KV_BYTES_MAX = 1 << 20;
const KV_KEY_BYTES = 64;
const LIST_MAX = 1_000;
const PAGE_BYTES_MAX = 1 << 20;
const IN_FLIGHT_MAX = 6;
const CALL_EVENTS_MAX = 100;
const REASON_BYTES_MAX = 128;
const NOTE_BYTES_MAX = 1_024;

/** As the script runner numbers them. */
export const REASONS = [
  "initial",
  "watch",
  "relist",
  "resync",
  "replay",
  "requeue",
  "reconfigured",
  "restored",
  "requeue-after",
  "trigger",
  "other",
  "related",
  "takeover",
];
const LEVELS = ["trace", "debug", "info", "warn", "error"];

/** Which calls of Informant may use what. */
const ALLOWED = { handler: ["store", "kube", "kv", "metrics", "recorder", "http"], init: ["kv"] };

const bytesOf = (text) => Buffer.byteLength(text);

const pairsOf = (flat) => Array.from({ length: flat.length / 2 }, (_, at) => [flat[2 * at], flat[2 * at + 1]]);

/** The key of a series in `series`. */
export const seriesOf = (name, labels) =>
  JSON.stringify([name, Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))]);

/** A page as the script runner returns it. */
const shown = (object, pointers) => (object === undefined ? undefined : project(object, pointers));

/** What a plugin in a test asks. */
export class FakeHost {
  cluster = new Cluster();
  /** Lines of the log: level, message and fields. */
  logs = [];
  /** Reads of the cache: function, informer and the other arguments. */
  reads = [];
  /** HTTP requests: method, url, headers and body. */
  requests = [];
  /** The Kubernetes Events that it has recorded. */
  events = [];
  /** What the plugin remembers: texts of JSON by key. */
  keys = new Map();
  /** The metrics in the manifest, by name, and the values of series: a number or, of a histogram, a list. */
  declared = new Map();
  series = new Map();
  /** The rules of the manifest for a reconciler. */
  reconciler = undefined;
  /** Functions of objects, by informer and name: indexes of config.toml and of other plugins. */
  indexes = new Map();
  /** How the test adds an index. */
  indexRemedy = (informer, name, pointer) => `add it with driver.addIndex("${informer}", "${name}", "${pointer}")`;
  /** The plugin's own index values of an object. */
  ownIndexes = [];
  ownValues = new WeakMap();
  service = undefined;
  storeError = undefined;
  kubeError = undefined;
  recorderError = undefined;
  #phase = "describe";
  #isIndex = false;
  #isBehind = false;
  #hasChildren = false;
  #before = undefined;
  /** The Events of the current call. */
  #recorded = [];
  #inFlight = [];
  #requestNumber = 0;

  // --- calls ---

  /** A call of the plugin begins. `source` is what it is about. `isBehind`: the cache may lack earlier writes. */
  begin(phase, { isIndex = false, source, isBehind = false } = {}) {
    this.#phase = phase;
    this.#isIndex = isIndex;
    this.#isBehind = isBehind;
    this.#hasChildren = false;
    this.#before = [new Map(this.keys), structuredClone(this.series)];
    this.cluster.deferred = [];
    this.#recorded = [];
    this.cluster.currentSource = source;
  }

  /** A call has ended: keeps what it changed if it succeeded. */
  end(hasSucceeded) {
    this.#phase = "";
    this.cluster.currentSource = undefined;
    this.#inFlight = [];
    if (hasSucceeded) {
      this.events.push(...this.#recorded);
      return;
    }
    [this.keys, this.series] = this.#before;
    this.cluster.deferred = [];
  }

  #check(name) {
    if (ALLOWED[this.#phase]?.includes(name) && !(this.#isIndex && this.#phase === "init")) return;
    const where = this.#phase === "index" ? "an index function" : this.#phase || "code outside of a call";
    throw failed("not-here", `${name} cannot be used in ${where}`);
  }

  /** The imports, for one instance of the script. */
  native(context) {
    const { store, kube, kv, metrics, recorder } = this.#interfaces(context);
    const log = (level, message, fields) => this.#log(level, message, fields);
    const http = { inFlightMax: IN_FLIGHT_MAX, start: (...request) => this.#start(...request) };
    return { context, reasons: REASONS, log, parse: JSON.parse, store, kube, kv, metrics, recorder, http };
  }

  #interfaces({ plugin }) {
    const own = (names) =>
      Object.fromEntries(Object.entries(names).map(([name, call]) => [name, (...args) => call.apply(this, args)]));
    return {
      store: own({
        source: this.#source,
        sources: this.#sources,
        version: this.#version,
        get: this.#get,
        find: this.#find,
        list: this.#list,
        byIndex: this.#byIndex,
        indexKeys: this.#indexKeys,
        indexValues: this.#indexValues,
      }),
      kube: this.#kube(plugin),
      kv: own({
        get: this.#kvGet,
        set: this.#kvSet,
        setIfAbsent: this.#kvSetIfAbsent,
        delete: this.#kvDelete,
        list: this.#kvList,
      }),
      metrics: own({ add: this.#add, set: this.#set, observe: this.#observe, replace: this.#replace }),
      recorder: own({ event: this.#event }),
    };
  }

  #log(level, message, fields) {
    const values = pairsOf(fields).map(([name, json]) => [name, JSON.parse(json)]);
    this.logs.push({ level: LEVELS[level], message, fields: Object.fromEntries(values) });
  }

  // --- store ---

  #reads(name, informer, ...args) {
    this.#check("store");
    if (this.storeError !== undefined) throw failed(this.storeError.code, this.storeError.message);
    this.reads.push({ function: name, informer, arguments: args });
  }

  #source(id) {
    this.#check("store");
    const info = this.cluster.sources[id];
    if (info === undefined) throw failed("not-found", `there is no source ${id}`);
    const { isWatched, ...source } = info;
    return source;
  }

  #sources(informer) {
    this.#check("store");
    const found = this.cluster.sources.filter((info) => info.informer === informer && info.isWatched);
    if (found.length === 0)
      throw failed("unknown-informer", `no informer named "${informer}" in this test: call addSource`);
    return found.map(({ id }) => this.#source(id));
  }

  #version(id) {
    this.#source(id);
    return { version: this.cluster.version, synced: true };
  }

  #get(source, namespace, name, pointers) {
    this.#reads("get", this.#source(source).informer, namespace, name, pointers);
    return shown(this.cluster.object({ source, namespace, name }), pointers);
  }

  #find(informer, namespace, name, pointers) {
    this.#reads("find", informer, namespace, name, pointers);
    const sources = this.#sources(informer);
    if (new Set(sources.map(({ kind }) => kind)).size > 1)
      throw failed("invalid", `informer "${informer}" has several kinds`);
    const { currentSource } = this.cluster;
    if (currentSource === undefined && new Set(sources.map((info) => info.cluster)).size > 1) {
      throw failed("invalid", `informer "${informer}" has several clusters, and this call is about no object`);
    }
    const { cluster } = currentSource === undefined ? sources[0] : this.cluster.sources[currentSource];
    const here = sources.filter((info) => info.cluster === cluster);
    if (here.length === 0) throw failed("not-ready", `informer "${informer}" has no source in cluster "${cluster}"`);
    const found = here.map(({ id: source }) => this.cluster.object({ source, namespace, name }));
    return shown(
      found.find((object) => object !== undefined),
      pointers,
    );
  }

  #list(informer, query) {
    this.#reads("list", informer, ...query);
    return this.#page(informer, query, () => true);
  }

  #byIndex(informer, index, value, query) {
    this.#reads("byIndex", informer, index, value, ...query);
    const values = this.#valuesOf(informer, index);
    return this.#page(informer, query, (object) => values(object).includes(value));
  }

  #indexKeys(informer, sources, index, value) {
    this.#reads("indexKeys", informer, index, value);
    const values = this.#valuesOf(informer, index);
    return this.#rows(informer, sources)
      .filter(({ object }) => values(object).includes(value))
      .map(({ key }) => ({ ...key }));
  }

  #indexValues(informer, sources, index, cursor) {
    this.#reads("indexValues", informer, index);
    const values = this.#valuesOf(informer, index);
    const all = new Set(this.#rows(informer, sources).flatMap(({ object }) => values(object)));
    return [...all]
      .sort()
      .filter((value) => cursor === "" || value > cursor)
      .slice(0, LIST_MAX);
  }

  /** The function that computes an index. */
  #valuesOf(informer, index) {
    const known = this.indexes.get(`${informer}/${index}`);
    if (known !== undefined) return known;
    // The informer's own index.
    if (index === "namespace") return (object) => [object.metadata.namespace ?? ""];
    if (!this.ownIndexes.includes(index)) {
      const pointer = index === "owner" ? "/metadata/ownerReferences/*/uid" : "/path/of/the/value";
      const remedy = this.indexRemedy(informer, index, pointer);
      throw failed("unknown-index", `informer "${informer}" has no index "${index}" in this test; ${remedy}`);
    }
    return (object) => this.ownValues.get(object)?.[index] ?? [];
  }

  #rows(informer, wanted) {
    const ids = this.#sources(informer).map(({ id }) => id);
    const stray = wanted.find((id) => !ids.includes(id));
    if (stray !== undefined) throw failed("invalid", `informer "${informer}" has no source ${stray}`);
    return this.cluster.rows().filter(({ key }) => (wanted.length === 0 ? ids : wanted).includes(key.source));
  }

  #page(informer, [sources, namespace, labelSelector, pointers, limit, cursor], isWanted) {
    try {
      parse(labelSelector);
    } catch (error) {
      throw failed("invalid", error.message);
    }
    const items = [];
    let size = 0;
    let last = "";
    for (const { key, object } of this.#rows(informer, sources)) {
      const at = JSON.stringify([String(key.source).padStart(10, "0"), key.namespace, key.name]);
      if (at <= cursor || ![undefined, key.namespace].includes(namespace)) continue;
      if (!matches(labelSelector, object) || !isWanted(object)) continue;
      const item = project(object, pointers);
      size += bytesOf(JSON.stringify(item));
      if ((limit > 0 && items.length === limit) || (items.length > 0 && size > PAGE_BYTES_MAX))
        return { items, cursor: last };
      last = at;
      items.push(item);
    }
    return { items, cursor: "" };
  }

  // --- kube ---

  #kube(plugin) {
    const addressOf = ([cluster, resource, namespace, name, subresource]) => ({
      cluster,
      resource,
      namespace,
      name,
      subresource,
    });
    const checked =
      (call) =>
      (...args) => {
        this.#check("kube");
        if (this.kubeError !== undefined) throw failed(this.kubeError.code, this.kubeError.message, this.kubeError);
        return call(...args);
      };
    const direct = (verb) => checked((address, ...args) => this.cluster[verb](addressOf(address), ...args));
    const deferred = (verb) => checked((address, ...args) => this.cluster.defer(verb, addressOf(address), ...args));
    return {
      get: direct("get"),
      list: direct("list"),
      create: direct("create"),
      update: direct("update"),
      patch: direct("patch"),
      delete: direct("delete"),
      deferCreate: deferred("create"),
      deferUpdate: deferred("update"),
      deferPatch: deferred("patch"),
      deferDelete: deferred("delete"),
      deferChildren: checked((...args) => this.#children(plugin, ...args)),
    };
  }

  #children(plugin, [source, namespace, name, uid], fields, whole) {
    if (this.reconciler === undefined || this.cluster.currentSource !== source)
      throw failed("not-here", "only reconcile has children: those of the object that it is about");
    if (this.#hasChildren) throw failed("invalid", "the call has set its children already: set all of them at once");
    this.#hasChildren = true;
    const wanted = [...fields.map((text) => ({ text })), ...whole.map((text) => ({ text, isWhole: true }))];
    const { owns = [] } = this.reconciler;
    const owner = { key: { source, namespace, name }, uid };
    return deferChildren(this.cluster, { plugin, owns, owner, isBehind: this.#isBehind }, wanted);
  }

  // --- kv ---

  #kvGet(key) {
    this.#key(key);
    const text = this.keys.get(key);
    return text === undefined ? undefined : JSON.parse(text);
  }

  #kvSet(key, text) {
    this.#key(key);
    const size = bytesOf(text);
    if (size > VALUE_BYTES_MAX)
      throw failed("too-large", `the value of "${key}" has ${size} bytes, and a value may have ${VALUE_BYTES_MAX}`);
    const rows = new Map(this.keys).set(key, text);
    const used = [...rows].reduce((sum, [name, value]) => sum + bytesOf(name) + bytesOf(value) + KV_KEY_BYTES, 0);
    if (used > KV_BYTES_MAX)
      throw failed("exhausted", `all keys and values have ${used} bytes, and may have ${KV_BYTES_MAX}`);
    this.keys = rows;
  }

  #kvSetIfAbsent(key, text) {
    if (this.#kvGet(key) !== undefined) return false;
    this.#kvSet(key, text);
    return true;
  }

  #kvDelete(key) {
    this.#key(key);
    this.keys.delete(key);
  }

  #kvList(prefix, cursor = "") {
    this.#check("kv");
    return [...this.keys.keys()]
      .filter((key) => key.startsWith(prefix) && key > cursor)
      .sort()
      .slice(0, LIST_MAX);
  }

  #key(key) {
    this.#check("kv");
    if (key === "") throw failed("invalid", "the key is empty");
    if (bytesOf(key) > KEY_BYTES_MAX)
      throw failed("invalid", `the key has ${bytesOf(key)} bytes, and may have ${KEY_BYTES_MAX}`);
    if (key.includes("\0")) throw failed("invalid", `the key ${JSON.stringify(key)} contains NUL`);
  }

  // --- metrics ---

  #add(name, amount, labels) {
    const series = this.#series(name, ["counter", "gauge"], labels);
    if (this.declared.get(name).type === "counter" && amount < 0) {
      throw failed("invalid", `the amount for a counter is not negative: ${amount}`);
    }
    this.series.set(series, (this.series.get(series) ?? 0) + finite(amount));
  }

  #set(name, value, labels) {
    this.series.set(this.#series(name, ["gauge"], labels), finite(value));
  }

  #observe(name, value, labels) {
    const series = this.#series(name, ["histogram"], labels);
    this.series.set(series, [...(this.series.get(series) ?? []), finite(value)]);
  }

  #replace(name, values, labels) {
    const rows = values.map((value, at) => [this.#series(name, ["gauge"], labels[at]), finite(value)]);
    if (values.length === 0) this.#series(name, ["gauge"]);
    const others = [...this.series].filter(([series]) => JSON.parse(series)[0] !== name);
    this.series = new Map([...others, ...rows]);
  }

  #series(name, types, labels) {
    this.#check("metrics");
    const declared = this.declared.get(name);
    if (declared === undefined) throw failed("invalid", `the manifest does not declare the metric "${name}"`);
    if (!types.includes(declared.type)) throw failed("invalid", `the metric "${name}" is a ${declared.type}`);
    if (labels === undefined) return undefined;
    const given = Object.fromEntries(pairsOf(labels));
    const [names, wanted] = [Object.keys(given).sort(), [...(declared.labels ?? [])].sort()];
    if (names.join() !== wanted.join())
      throw failed("invalid", `the metric "${name}" has the labels [${wanted}], not [${names}]`);
    return seriesOf(name, given);
  }

  // --- recorder ---

  #event(about, related, type, reason, action, note) {
    this.#check("recorder");
    if (this.recorderError !== undefined) throw failed(this.recorderError.code, this.recorderError.message);
    if (this.#recorded.length === CALL_EVENTS_MAX)
      throw failed("too-large", `a call can record at most ${CALL_EVENTS_MAX} Events`);
    for (const [name, text] of Object.entries({ reason, action })) {
      const size = bytesOf(text);
      if (!/^[A-Z][A-Za-z0-9]*$/.test(text)) throw failed("invalid", `the ${name} "${text}" is not CamelCase`);
      if (size > REASON_BYTES_MAX)
        throw failed("invalid", `the ${name} has ${size} bytes, and may have ${REASON_BYTES_MAX}`);
    }
    const shown = ([, , kind, namespace, name]) => `${kind} ${keyText({ namespace, name })}`;
    const others = related === undefined ? {} : { related: shown(related) };
    const event = { type, reason, action, note: cut(note), regarding: shown(about), ...others, cluster: about[0] };
    this.#recorded.push(event);
  }

  // --- http ---

  #start(method, [scheme, authority, path], headers, body, isBinary) {
    if (this.service === undefined || this.#phase !== "handler") {
      throw failed("denied", "not granted (allow.http): call serveHttp of the driver in the test");
    }
    const content = isBinary ? Buffer.from(body, "latin1") : body;
    const request = {
      method,
      url: `${scheme}://${authority}${path}`,
      headers: Object.fromEntries(pairsOf(headers)),
      body: content,
    };
    this.requests.push(request);
    const number = this.#requestNumber++;
    this.#inFlight.push({ number, request });
    return number;
  }

  /** Answers the requests in flight, and passes the answers to `settle`. Returns whether there were any. */
  async answer(settle) {
    const requests = this.#inFlight.splice(0);
    for (const { number, request } of requests) {
      const {
        error,
        message = `the test answers with ${error}`,
        status = 200,
        headers = {},
        body = "",
      } = answerOf(await this.service(request));
      Object.assign(request, error === undefined ? { status } : { error });
      if (error !== undefined) settle(number, error, message);
      else settle(number, undefined, undefined, status, Object.entries(headers).flat(), contentOf(body));
    }
    return requests.length > 0;
  }
}

/** A note, without what is too much of it. */
const cut = (note) => new TextDecoder().decode(Buffer.from(note).subarray(0, NOTE_BYTES_MAX), { stream: true });

const answerOf = (answer) => (typeof answer === "number" ? { status: answer } : (answer ?? {}));

const contentOf = (body) => (typeof body === "string" || ArrayBuffer.isView(body) ? body : JSON.stringify(body));

function finite(value) {
  if (!Number.isFinite(value)) throw failed("invalid", `a value must be a finite number, not ${value}`);
  return value;
}
