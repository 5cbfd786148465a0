// Informant plugins in JavaScript. See README.md, and informant.d.ts for the types.
import contract from "informant:plugin/log@0.1.0";

import { Permanent, failure, shown } from "./failure.js";
import { kube } from "./kube.js";
import { store } from "./store.js";
import { decoded, encoded } from "./text.js";

export { HostError, KubeError, Permanent, RetryAfter } from "./failure.js";
export { kube, store };

const line = (level) => (...values) => contract.log(level, values.map(shown).join(" "));

/** Lines in Informant's log, marked with the plugin's name. */
export const log = Object.freeze({
  trace: line("trace"),
  debug: line("debug"),
  info: line("info"),
  warn: line("warn"),
  error: line("error"),
});
globalThis.console = Object.freeze({ ...log, log: log.info });

class Event {
  constructor({ source, namespace, name, uid, resourceVersion }, { reason, attempt }, finalStateUnknown) {
    this.source = source;
    this.namespace = namespace;
    this.name = name;
    this.uid = uid;
    this.resourceVersion = resourceVersion;
    this.reason = reason;
    this.attempt = attempt;
    if (finalStateUnknown !== undefined) this.finalStateUnknown = finalStateUnknown;
  }
  // Asked for only if somebody wants to know.
  get informer() {
    return store.source(this.source).informer;
  }
  get cluster() {
    return store.source(this.source).cluster;
  }
  get apiVersion() {
    return store.source(this.source).apiVersion;
  }
  get kind() {
    return store.source(this.source).kind;
  }
  toString() {
    return this.namespace === "" ? this.name : `${this.namespace}/${this.name}`;
  }
}

// The functions of each role, by the role's name in the manifest.
const ROLES = {
  "event-handler": ["onAdd", "onUpdate", "onDelete"],
  "sync-handler": ["onSynced"],
  "index-funcs": ["index"],
  state: ["save", "restore"],
};
const KNOWN = ["manifest", "init", ...Object.values(ROLES).flat()];

const judged = (definition) => {
  for (const [name, value] of Object.entries(definition)) {
    if (!KNOWN.includes(name)) throw new TypeError(`plugin: ${name} is not known; Informant calls ${KNOWN.slice(1).join(", ")}`);
    if (name !== "manifest" && typeof value !== "function") throw new TypeError(`plugin: ${name} is no function: ${shown(value)}`);
  }
  for (const name of ["name", "version"]) {
    if (typeof definition.manifest?.[name] !== "string") throw new TypeError(`plugin: the manifest has no ${name}`);
  }
  if (("save" in definition) !== ("restore" in definition)) throw new TypeError("plugin: save and restore belong together");
  return definition;
};

// The manifest, with the roles that the plugin plays and what it is told by default: every object of its informers, whole.
const described = (definition) => {
  const roles = Object.keys(ROLES).filter((role) => ROLES[role].some((name) => name in definition));
  const events = [{ apiVersion: "*", kind: "*", payload: "whole", old: "onUpdate" in definition }];
  const { indexes, ...rest } = definition.manifest;
  const objects = [{ apiVersion: "*", kind: "*", payload: "whole" }];
  return { roles, events, ...rest, indexes: Array.isArray(indexes) ? { names: indexes, objects } : indexes };
};

// Index values as pairs of a name and its values. What is none fails for its object: as text it would be found under "[object Object]".
const pairs = (found) => {
  if (found === undefined || found === null) return [];
  if (typeof found !== "object" || Array.isArray(found)) {
    throw new TypeError(`index returned ${shown(found)}: it returns an object of index names and values`);
  }
  return Object.entries(found).map(([name, values]) => {
    const list = (Array.isArray(values) ? values : [values]).filter((value) => value !== undefined && value !== null);
    const odd = list.find((value) => !["string", "number", "boolean", "bigint"].includes(typeof value));
    if (odd !== undefined) {
      throw new TypeError(`index returned ${shown(odd)} as a value of "${name}": a value is a string, a number or a boolean; several are an array`);
    }
    return [name, list.map(String)];
  });
};

/** What the module of a plugin exports: `export const { lifecycle, eventHandler, syncHandler, indexFuncs, state } = plugin({ … })`. */
export const plugin = (definition) => {
  judged(definition);
  // Calls what the plugin defines, if it does. Whatever is thrown is an answer, not a trap.
  const call = (name, ...rest) => {
    if (!(name in definition)) return undefined;
    let found;
    try {
      found = definition[name](...rest);
    } catch (error) {
      throw failure(error, name);
    }
    if (typeof found?.then === "function") throw failure(new Permanent(`${name} is async, and Informant waits for no promise`), name);
    return found;
  };
  const read = (bytes) => {
    try {
      return decoded(bytes);
    } catch (error) {
      throw failure(new Permanent(`what was handed over is not JSON: ${error.message}`), "Informant");
    }
  };
  // A result without a value is answered with nothing.
  const ask = (name, ...rest) => void call(name, ...rest);
  // As `ask`; what fails is told in the log, except for what is only to be done later.
  const tell = (name, subject, ...rest) => {
    try {
      ask(name, ...rest, subject);
    } catch (thrown) {
      if (typeof thrown.val === "string") log.error(`${subject instanceof Event ? subject : `source ${subject}`}: ${thrown.val}`);
      throw thrown;
    }
  };
  return {
    lifecycle: {
      describe: () => encoded(described(definition)),
      init: (role, config) => ask("init", read(config), role),
    },
    eventHandler: {
      onAdd: (o, c, object) => tell("onAdd", new Event(o, c), read(object)),
      onUpdate: (o, c, old, object) =>
        tell("onUpdate", new Event(o, c), old === null || old === undefined ? undefined : read(old), read(object)),
      onDelete: (o, c, last, finalStateUnknown) =>
        tell("onDelete", new Event(o, c, finalStateUnknown), last.length === 0 ? undefined : read(last)),
    },
    syncHandler: { onSynced: (source) => tell("onSynced", source) },
    indexFuncs: {
      index(o, object) {
        try {
          return pairs(call("index", read(object), new Event(o, { reason: "initial", attempt: 0 })));
        } catch (thrown) {
          const { val = String(thrown) } = thrown;
          throw typeof val === "string" ? val : val.message;
        }
      },
    },
    state: {
      save: () => encoded(call("save") ?? null),
      restore: (saved) => ask("restore", read(saved)),
    },
  };
};
