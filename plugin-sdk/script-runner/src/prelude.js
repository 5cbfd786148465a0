// Defines the globals of scripts: `console` and `informant`. Evaluated once in each instance, before the script. The file
// is an expression: a function that takes the runner's functions (`native`) and returns the functions that the runner calls.
(native) => {
  "use strict";

  const FUNCTIONS = ["onAdd", "onUpdate", "onDelete", "onSynced", "index"];
  const EXPORTS = [...FUNCTIONS, "manifest"];

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
  const logAt = (level) => (...values) => native.log(level, values.map(format).join(" "));
  globalThis.console = Object.freeze({
    trace: logAt(0),
    debug: logAt(1),
    log: logAt(2),
    info: logAt(2),
    warn: logAt(3),
    error: logAt(4),
  });

  // --- informant ---

  const informerName = (named) => (typeof named === "object" && named !== null ? named.informer : String(named));
  const text = (value) => (value === undefined || value === null ? "" : String(value));

  // Reads pages until there are `limit` objects.
  const pages = (read, options = {}) => {
    const { namespace, labelSelector, fields = [], limit = Infinity } = options;
    const objects = [];
    let cursor = "";
    do {
      const left = limit - objects.length;
      const page = read(
        namespace === undefined || namespace === null ? undefined : String(namespace),
        text(labelSelector),
        fields.map(String),
        left === Infinity ? 0 : left,
        cursor,
      );
      for (const object of page.items) objects.push(object);
      cursor = page.cursor;
    } while (cursor !== "" && objects.length < limit);
    return objects;
  };

  const informant = {
    config: Object.freeze({}),
    get(from, namespace, name, { fields = [] } = {}) {
      for (const source of native.sources(informerName(from))) {
        const object = native.get(source, text(namespace), String(name), fields.map(String));
        if (object !== undefined) return object;
      }
      return undefined;
    },
    list: (from, options) => pages((...query) => native.list(informerName(from), query), options),
    byIndex: (from, index, value, options) =>
      pages((...query) => native.byIndex(informerName(from), String(index), String(value), query), options),
    indexKeys: (from, index, value) => native.indexKeys(informerName(from), String(index), String(value)),
    indexValues(from, index) {
      const values = [];
      for (;;) {
        const more = native.indexValues(informerName(from), String(index), values.at(-1) ?? "");
        if (more.length === 0) return values;
        values.push(...more);
      }
    },
    permanent: (message) => Object.assign(new Error(message), { permanent: true }),
    retryAfter: (milliseconds, message = "not yet") => Object.assign(new Error(message), { retryAfter: milliseconds }),
  };
  globalThis.informant = informant;

  // --- what the runner calls ---

  // The details of a source are constant. They are requested once, and only if the script reads them.
  const sources = new Map();
  const sourceInfo = (source) => {
    let info = sources.get(source);
    if (info === undefined) sources.set(source, (info = native.source(source)));
    return info;
  };

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
    event: (source, namespace, name, uid, resourceVersion, reason, attempt) =>
      new Event(source, namespace, name, uid, resourceVersion, reason, attempt),
    source: (source) => new Source(source),

    configure(config) {
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

    // The result of `index`, as lists of a name and its values.
    values(found) {
      if (found === undefined || found === null) return [];
      if (typeof found !== "object" || Array.isArray(found)) {
        throw new TypeError(`index returned ${format(found)}; it must return an object of index names and values`);
      }
      return Object.entries(found).map(([name, values]) => {
        if (!indexNames.includes(name)) {
          const hint = `export const manifest = { indexes: ${JSON.stringify([...indexNames, name])} }`;
          throw new TypeError(`index returned values for "${name}", which the manifest does not declare; write ${hint}`);
        }
        const list = Array.isArray(values) ? values : [values];
        const present = list.filter((value) => value !== undefined && value !== null);
        const invalid = present.find((value) => !["string", "number", "boolean", "bigint"].includes(typeof value));
        if (invalid !== undefined) {
          throw new TypeError(`index returned ${format(invalid)} as a value of "${name}"; a value must be a string, a number or a boolean, or an array of these`);
        }
        return [name, ...present.map(String)];
      });
    },
  };
}
