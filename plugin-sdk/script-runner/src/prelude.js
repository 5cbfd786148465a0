// What scripts see besides the language: `console` and `informant`. Evaluated once in each instance, before the script.
// An expression: a function that is given what the runner offers (`native`) and returns what the runner calls.
(native) => {
  "use strict";

  const FUNCTIONS = ["onAdd", "onUpdate", "onDelete", "onSynced", "index"];
  const EXPORTS = [...FUNCTIONS, "manifest"];

  // --- console ---

  const shown = (value) => {
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
  const line = (level) => (...values) => native.log(level, values.map(shown).join(" "));
  globalThis.console = Object.freeze({
    trace: line(0),
    debug: line(1),
    log: line(2),
    info: line(2),
    warn: line(3),
    error: line(4),
  });

  // --- informant ---

  const informer = (named) => (typeof named === "object" && named !== null ? named.informer : String(named));
  const text = (value) => (value === undefined || value === null ? "" : String(value));

  // Reads page after page, until `limit` objects are there.
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
      for (const source of native.sources(informer(from))) {
        const object = native.get(source, text(namespace), String(name), fields.map(String));
        if (object !== undefined) return object;
      }
      return undefined;
    },
    list: (from, options) => pages((...query) => native.list(informer(from), query), options),
    byIndex: (from, index, value, options) =>
      pages((...query) => native.byIndex(informer(from), String(index), String(value), query), options),
    indexKeys: (from, index, value) => native.indexKeys(informer(from), String(index), String(value)),
    indexValues(from, index) {
      const values = [];
      for (;;) {
        const more = native.indexValues(informer(from), String(index), values.at(-1) ?? "");
        if (more.length === 0) return values;
        values.push(...more);
      }
    },
    permanent: (message) => Object.assign(new Error(message), { permanent: true }),
    retryAfter: (milliseconds, message = "not yet") => Object.assign(new Error(message), { retryAfter: milliseconds }),
  };
  globalThis.informant = informant;

  // --- what the runner calls ---

  // What is constant for a source is asked for once, and only if somebody wants to know.
  const sources = new Map();
  const about = (source) => {
    let info = sources.get(source);
    if (info === undefined) sources.set(source, (info = native.source(source)));
    return info;
  };

  class Source {
    constructor(source) {
      this.source = source;
    }
    get informer() {
      return about(this.source).informer;
    }
    get cluster() {
      return about(this.source).cluster;
    }
    get apiVersion() {
      return about(this.source).apiVersion;
    }
    get kind() {
      return about(this.source).kind;
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

  // As Levenshtein counts, letters' case aside.
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
  const meant = (name) => {
    const near = EXPORTS.map((known) => [distance(name.toLowerCase(), known.toLowerCase()), known]).sort((a, b) => a[0] - b[0]);
    return near[0][0] <= 2 ? near[0][1] : undefined;
  };

  const refuse = (message) => Object.assign(new Error(message), { refuses: true });

  const judgeExports = (script) => {
    const names = Object.keys(script);
    for (const name of FUNCTIONS) {
      if (name in script && typeof script[name] !== "function") {
        throw refuse(`exports ${name}, which is no function: ${shown(script[name])}`);
      }
    }
    const strangers = names.filter((name) => !EXPORTS.includes(name) && meant(name) !== undefined && !(meant(name) in script));
    const suspects = strangers.map((name) => `${name} (did you mean ${meant(name)}?)`).join(", ");
    if (!FUNCTIONS.some((name) => name in script)) {
      const known = `Informant calls ${FUNCTIONS.join(", ")}`;
      if (suspects !== "") throw refuse(`exports nothing that is known: ${suspects}; ${known}`);
      if (names.length === 0) throw refuse(`exports nothing: write \`export function onAdd(object) { … }\`; ${known}`);
      const hint = names.includes("default") ? "; functions are exported by name, not as default" : "";
      throw refuse(`exports nothing that is known: ${names.join(", ")}; ${known}${hint}`);
    }
    if (suspects !== "") native.log(3, `${native.script} exports what nobody calls: ${suspects}`);
  };

  // A stand-in for an object of any shape: every property is there, every list is empty, everything can be called.
  const standIn = new Proxy(() => {}, {
    get: (_, key) => {
      if (key === Symbol.iterator) return function* () {};
      if (key === Symbol.toPrimitive) return () => "";
      return key === "then" ? undefined : standIn;
    },
    has: () => true,
    apply: () => standIn,
    construct: () => standIn,
    ownKeys: () => [],
    set: () => true,
  });

  // The names of the indexes that a script computes: what the manifest says, or else what it returns for the stand-in.
  const indexesOf = (script, given) => {
    if (!("index" in script)) {
      if (given !== undefined) throw refuse("exports a manifest with `indexes` and no function `index`");
      return undefined;
    }
    const objects = [{ apiVersion: "*", kind: "*", payload: "whole" }];
    if (Array.isArray(given)) return { names: given, objects };
    if (typeof given === "object" && given !== null) return { objects, ...given };
    let names = [];
    try {
      const found = script.index(standIn, new Event(0, "", "", "", "", "initial", 0));
      if (typeof found === "object" && found !== null) names = Object.keys(found);
    } catch {
      // It looks closer at the object than the stand-in bears.
    }
    if (names.length === 0) {
      throw refuse('exports index, and its indexes\' names are not plain: name them with `export const manifest = { indexes: ["NAME"] }`');
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
      judgeExports(script);
      const given = script.manifest ?? {};
      if (typeof given !== "object" || Array.isArray(given)) throw refuse("exports a `manifest` that is no object");
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

    // What `index` returned, as lists of a name and its values.
    values(found) {
      if (found === undefined || found === null) return [];
      if (typeof found !== "object" || Array.isArray(found)) {
        throw new TypeError(`index returned ${shown(found)}: it returns an object of index names and values`);
      }
      return Object.entries(found).map(([name, values]) => {
        if (!indexNames.includes(name)) {
          const hint = `export const manifest = { indexes: ${JSON.stringify([...indexNames, name])} }`;
          throw new TypeError(`index returned values of "${name}", which is not announced: ${hint}`);
        }
        const list = Array.isArray(values) ? values : [values];
        const present = list.filter((value) => value !== undefined && value !== null);
        const odd = present.find((value) => !["string", "number", "boolean", "bigint"].includes(typeof value));
        if (odd !== undefined) {
          throw new TypeError(`index returned ${shown(odd)} as a value of "${name}": a value is a string, a number or a boolean; several are an array`);
        }
        return [name, ...present.map(String)];
      });
    },
  };
}
