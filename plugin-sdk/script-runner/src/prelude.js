// Defines the globals of scripts: `console` and `informant`. Evaluated once in each instance, before the script. The file
// is an expression: a function that takes the runner's functions (`native`) and returns the functions that the runner calls.
(native) => {
  "use strict";

  const FUNCTIONS = ["onAdd", "onUpdate", "onDelete", "onSynced", "index"];
  const EXPORTS = [...FUNCTIONS, "manifest"];
  const SHOWN_CHARS_MAX = 200;
  const MILLISECONDS_MAX = 2 ** 32 - 1;

  // --- console ---

  const format = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    if (typeof value === "object" && value !== null) {
      try {
        return JSON.stringify(value) ?? String(value);
      } catch (error) {
        return `${String(value)} (${error.message})`;
      }
    }
    return String(value);
  };
  // A value in an error.
  const shown = (value) => {
    const text = typeof value === "string" ? JSON.stringify(value) : format(value);
    return text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text;
  };
  const logAt = (level) => (...values) => native.log(level, values.map(format).join(" "));
  globalThis.console = Object.freeze({
    trace: logAt(0),
    debug: logAt(1),
    log: logAt(2),
    info: logAt(2),
    warn: logAt(3),
    error: logAt(4),
  });

  // --- sources and clusters ---

  // The source of the object that the current call is about. Undefined in a call about no object.
  let current;
  // The sources of each informer, as the current call has read them.
  const sourcesInCall = new Map();
  const beginCall = (source) => {
    current = source;
    sourcesInCall.clear();
  };

  // The details of a source are constant. They are requested once, and only if the script reads them.
  const details = new Map();
  const sourceInfo = (source) => {
    let info = details.get(source);
    if (info === undefined) details.set(source, (info = native.source(source)));
    return info;
  };

  const sourcesOf = (informer) => {
    let sources = sourcesInCall.get(informer);
    if (sources === undefined) sourcesInCall.set(informer, (sources = native.sources(informer)));
    return sources;
  };

  const hostError = (code, message) => Object.assign(new Error(message), { name: "HostError", code });
  const clusterNames = (sources) => [...new Set(sources.map(({ cluster }) => cluster))];

  // The numbers of the sources that a call reads: those in the cluster of the object that it is about, or of the event or
  // source that stands for the informer. An empty array stands for all sources of the informer.
  const sourcesToRead = (from, clusters) => {
    if (clusters === "all") return [];
    if (clusters !== undefined) throw new TypeError(`clusters is ${shown(clusters)}; write { clusters: "all" }, or leave it out`);
    const informer = informerName(from);
    const about = from instanceof Source ? from.source : current;
    if (about === undefined) {
      const names = clusterNames(sourcesOf(informer));
      if (names.length <= 1) return [];
      const hint = 'write { clusters: "all" }, or pass the source that onSynced receives instead of the name';
      throw hostError("invalid", `informer "${informer}" reads several clusters (${names.join(", ")}), and this call is about no object: ${hint}`);
    }
    const { cluster } = sourceInfo(about);
    // The only cluster.
    if (cluster === "") return [];
    const sources = sourcesOf(informer);
    const here = sources.filter((source) => source.cluster === cluster).map(({ source }) => source);
    if (here.length > 0) return here;
    // A pattern has its sources only after its cluster was asked for its kinds. So a retry can succeed.
    const names = clusterNames(sources).join(", ");
    throw hostError("not-ready", `informer "${informer}" has no source in cluster "${cluster}", only in: ${names}; to read these, write { clusters: "all" }`);
  };

  // --- informant ---

  const informerName = (named) => (typeof named === "object" && named !== null ? named.informer : String(named));
  const text = (value) => (value === undefined || value === null ? "" : String(value));

  // Reads pages until there are `limit` objects.
  const pages = (from, read, options = {}) => {
    const { clusters, namespace, labelSelector, fields = [], limit = Infinity } = options;
    const sources = sourcesToRead(from, clusters);
    const objects = [];
    let cursor = "";
    do {
      const left = limit - objects.length;
      const page = read([
        sources,
        namespace === undefined || namespace === null ? undefined : String(namespace),
        text(labelSelector),
        fields.map(String),
        left === Infinity ? 0 : left,
        cursor,
      ]);
      for (const object of page.items) objects.push(object);
      cursor = page.cursor;
    } while (cursor !== "" && objects.length < limit);
    return objects;
  };

  const informant = {
    config: Object.freeze({}),
    get(from, namespace, name, { fields = [] } = {}) {
      const key = [text(namespace), String(name), fields.map(String)];
      if (!(from instanceof Source)) return native.find(informerName(from), ...key);
      // The object is of the kind and in the cluster of the event or source. There can be a source for each namespace.
      const { cluster, apiVersion, kind } = sourceInfo(from.source);
      const isPossible = (source) =>
        source.cluster === cluster &&
        source.apiVersion === apiVersion &&
        source.kind === kind &&
        (source.namespace === undefined || source.namespace === key[0]);
      for (const { source } of sourcesOf(from.informer).filter(isPossible)) {
        const object = native.get(source, ...key);
        if (object !== undefined) return object;
      }
      return undefined;
    },
    list: (from, options) => pages(from, (query) => native.list(informerName(from), query), options),
    byIndex: (from, index, value, options) =>
      pages(from, (query) => native.byIndex(informerName(from), String(index), String(value), query), options),
    indexKeys: (from, index, value, { clusters } = {}) =>
      native.indexKeys(informerName(from), sourcesToRead(from, clusters), String(index), String(value)),
    indexValues(from, index, { clusters } = {}) {
      const sources = sourcesToRead(from, clusters);
      const values = [];
      for (;;) {
        const more = native.indexValues(informerName(from), sources, String(index), values.at(-1) ?? "");
        if (more.length === 0) return values;
        values.push(...more);
      }
    },
    permanent: (message) => Object.assign(new Error(message), { permanent: true }),
    retryAfter: (milliseconds, message = "not yet") => Object.assign(new Error(message), { retryAfter: milliseconds }),
  };
  globalThis.informant = informant;

  // --- what the runner calls ---

  class Source {
    constructor(source) {
      this.source = source;
    }
    get informer() {
      return sourceInfo(this.source).informer;
    }
    get cluster() {
      return sourceInfo(this.source).cluster;
    }
    get apiVersion() {
      return sourceInfo(this.source).apiVersion;
    }
    get kind() {
      return sourceInfo(this.source).kind;
    }
    toString() {
      return `source ${this.source}`;
    }
  }

  class Event extends Source {
    constructor(source, namespace, name, uid, resourceVersion, reason, attempt) {
      super(source);
      this.namespace = namespace;
      this.name = name;
      this.uid = uid;
      this.resourceVersion = resourceVersion;
      this.reason = reason;
      this.attempt = attempt;
    }
    toString() {
      return this.namespace === "" ? this.name : `${this.namespace}/${this.name}`;
    }
  }

  // The Levenshtein distance.
  const distance = (a, b) => {
    let row = Array.from({ length: b.length + 1 }, (_, j) => j);
    for (let i = 1; i <= a.length; i++) {
      let diagonal = row[0];
      row[0] = i;
      for (let j = 1; j <= b.length; j++) {
        const cost = Math.min(row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] === b[j - 1] ? 0 : 1));
        diagonal = row[j];
        row[j] = cost;
      }
    }
    return row[b.length];
  };
  const suggestion = (name) => {
    const nearest = EXPORTS.map((known) => [distance(name.toLowerCase(), known.toLowerCase()), known]).sort((a, b) => a[0] - b[0]);
    return nearest[0][0] <= 2 ? nearest[0][1] : undefined;
  };

  const refuse = (message) => Object.assign(new Error(message), { refuses: true });

  const checkExports = (script) => {
    const names = Object.keys(script);
    for (const name of FUNCTIONS) {
      if (name in script && typeof script[name] !== "function") {
        throw refuse(`exports ${name}, which is not a function: ${format(script[name])}`);
      }
    }
    const typos = names.filter((name) => !EXPORTS.includes(name) && suggestion(name) !== undefined && !(suggestion(name) in script));
    const suggestions = typos.map((name) => `${name} (did you mean ${suggestion(name)}?)`).join(", ");
    if (!FUNCTIONS.some((name) => name in script)) {
      const known = `Informant calls ${FUNCTIONS.join(", ")}`;
      if (suggestions !== "") throw refuse(`exports no known function, only ${suggestions}; ${known}`);
      if (names.length === 0) throw refuse(`exports nothing: write \`export function onAdd(object) { … }\`; ${known}`);
      const hint = names.includes("default") ? "; export functions by name, not as default" : "";
      throw refuse(`exports no known function, only ${names.join(", ")}; ${known}${hint}`);
    }
    if (suggestions !== "") native.log(3, `${native.script} exports names that Informant does not call: ${suggestions}`);
  };

  // A placeholder for an object of any shape: every property exists, every list is empty, and every value is callable.
  const placeholder = new Proxy(() => {}, {
    get: (_, key) => {
      if (key === Symbol.iterator) return function* () {};
      if (key === Symbol.toPrimitive) return () => "";
      return key === "then" ? undefined : placeholder;
    },
    has: () => true,
    apply: () => placeholder,
    construct: () => placeholder,
    ownKeys: () => [],
    set: () => true,
  });

  // The names of the indexes that a script computes: from the manifest, or else those that `index` returns for the placeholder.
  const indexesOf = (script, given) => {
    if (!("index" in script)) {
      if (given !== undefined) throw refuse("exports a manifest with `indexes`, but no function `index`");
      return undefined;
    }
    const objects = [{ apiVersion: "*", kind: "*", payload: "whole" }];
    if (Array.isArray(given)) return { names: given, objects };
    if (typeof given === "object" && given !== null) return { objects, ...given };
    let names = [];
    try {
      const found = script.index(placeholder, new Event(0, "", "", "", "", "initial", 0));
      if (typeof found === "object" && found !== null) names = Object.keys(found);
    } catch {
      // The function needs more of the object than the placeholder provides.
    }
    if (names.length === 0) {
      throw refuse('exports index, but the names of its indexes cannot be determined: declare them with `export const manifest = { indexes: ["NAME"] }`');
    }
    return { names, objects };
  };

  let indexNames = [];

  return {
    event(source, namespace, name, uid, resourceVersion, reason, attempt) {
      beginCall(source);
      return new Event(source, namespace, name, uid, resourceVersion, reason, attempt);
    },
    source(source) {
      beginCall(undefined);
      return new Source(source);
    },

    // Takes the context of `describe` or `init`.
    configure({ config = {} }) {
      const freeze = (value) => {
        if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(freeze);
        return value;
      };
      informant.config = freeze(config);
    },

    // The manifest of the script's module, as JSON.
    describe(script, stem) {
      checkExports(script);
      const given = script.manifest ?? {};
      if (typeof given !== "object" || Array.isArray(given)) throw refuse("exports a `manifest` that is not an object");
      const indexes = indexesOf(script, given.indexes);
      indexNames = indexes?.names ?? [];
      const roles = [];
      if ("onAdd" in script || "onUpdate" in script || "onDelete" in script) roles.push("event-handler");
      if ("onSynced" in script) roles.push("sync-handler");
      if ("index" in script) roles.push("index-funcs");
      const events = [{ apiVersion: "*", kind: "*", payload: "whole", old: "onUpdate" in script }];
      const { name = stem, version = "0", events: wanted = events, ...rest } = given;
      return JSON.stringify({ name, version, ...rest, events: wanted, indexes, roles });
    },

    // The milliseconds after which the script wants to be called again for the object, from what the function `name` returned.
    requeue(name, returned) {
      const names = typeof returned === "object" ? Object.keys(returned) : [];
      if (name === "onSynced") {
        if (!names.includes("requeueAfter")) return undefined;
        throw new TypeError("onSynced returned { requeueAfter }, but it is about no object: return it from onAdd, onUpdate or onDelete");
      }
      if (names.length !== 1 || names[0] !== "requeueAfter") {
        throw new TypeError(`${name} returned ${shown(returned)}; return nothing or, to be called again for the object in a minute, return { requeueAfter: 60_000 }`);
      }
      const { requeueAfter } = returned;
      if (!Number.isInteger(requeueAfter) || requeueAfter < 0 || requeueAfter > MILLISECONDS_MAX) {
        const range = `a whole number of milliseconds from 0 to ${MILLISECONDS_MAX}`;
        throw new TypeError(`${name} returned { requeueAfter: ${shown(requeueAfter)} }, which is not ${range}; for a minute, return { requeueAfter: 60_000 }`);
      }
      return requeueAfter;
    },

    // The values for each index, in the order of the manifest, from what `index` returned.
    values(found) {
      if (found === undefined || found === null) return indexNames.map(() => []);
      if (typeof found !== "object" || Array.isArray(found)) {
        throw new TypeError(`index returned ${format(found)}; it must return an object of index names and values`);
      }
      const unknown = Object.keys(found).find((name) => !indexNames.includes(name));
      if (unknown !== undefined) {
        const hint = `export const manifest = { indexes: ${JSON.stringify([...indexNames, unknown])} }`;
        throw new TypeError(`index returned values for "${unknown}", which the manifest does not declare; write ${hint}`);
      }
      return indexNames.map((name) => {
        const values = Object.hasOwn(found, name) ? found[name] : undefined;
        const list = Array.isArray(values) ? values : [values];
        const present = list.filter((value) => value !== undefined && value !== null);
        const invalid = present.find((value) => !["string", "number", "boolean", "bigint"].includes(typeof value));
        if (invalid !== undefined) {
          throw new TypeError(`index returned ${format(invalid)} as a value of "${name}"; a value must be a string, a number or a boolean, or an array of these`);
        }
        return present.map(String);
      });
    },
  };
}
