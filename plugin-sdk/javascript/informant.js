// Informant plugins in JavaScript. See README.md, and informant.d.ts for the types.
import contract from "informant:plugin/log@0.1.0";

import { Permanent, failure, format } from "./failure.js";
import { kube } from "./kube.js";
import { store } from "./store.js";
import { decoded, encoded } from "./text.js";

export { HostError, KubeError, Permanent, RetryAfter } from "./failure.js";
export { kube, store };

const logAt = (level) => (...values) => contract.log(level, values.map(format).join(" "));

/** Lines in Informant's log, marked with the plugin's name. */
export const log = Object.freeze({
  trace: logAt("trace"),
  debug: logAt("debug"),
  info: logAt("info"),
  warn: logAt("warn"),
  error: logAt("error"),
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
  // Requested only if the plugin reads them.
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

const validate = (definition) => {
  for (const [name, value] of Object.entries(definition)) {
    if (!KNOWN.includes(name)) throw new TypeError(`plugin: unknown member ${name}; Informant calls ${KNOWN.slice(1).join(", ")}`);
    if (name !== "manifest" && typeof value !== "function") throw new TypeError(`plugin: ${name} is not a function: ${format(value)}`);
  }
  for (const name of ["name", "version"]) {
    if (typeof definition.manifest?.[name] !== "string") throw new TypeError(`plugin: the manifest has no ${name}`);
  }
  if (("save" in definition) !== ("restore" in definition)) throw new TypeError("plugin: define both save and restore, or neither of them");
  return definition;
};

// The manifest, with the roles that the plugin plays and, by default, every object of its informers, whole.
const manifestOf = (definition) => {
  const roles = Object.keys(ROLES).filter((role) => ROLES[role].some((name) => name in definition));
  const events = [{ apiVersion: "*", kind: "*", payload: "whole", old: "onUpdate" in definition }];
  const { indexes, ...rest } = definition.manifest;
  const objects = [{ apiVersion: "*", kind: "*", payload: "whole" }];
  return { roles, events, ...rest, indexes: Array.isArray(indexes) ? { names: indexes, objects } : indexes };
};

// Index values as pairs of a name and its values. An invalid value is an error: as text it would be "[object Object]".
const pairs = (found) => {
  if (found === undefined || found === null) return [];
  if (typeof found !== "object" || Array.isArray(found)) {
    throw new TypeError(`index returned ${format(found)}; it must return an object of index names and values`);
  }
  return Object.entries(found).map(([name, values]) => {
    const list = (Array.isArray(values) ? values : [values]).filter((value) => value !== undefined && value !== null);
    const invalid = list.find((value) => !["string", "number", "boolean", "bigint"].includes(typeof value));
    if (invalid !== undefined) {
      throw new TypeError(`index returned ${format(invalid)} as a value of "${name}"; a value must be a string, a number or a boolean, or an array of these`);
    }
    return [name, list.map(String)];
  });
};

/** The exports of a plugin's module: `export const { lifecycle, eventHandler, syncHandler, indexFuncs, state } = plugin({ … })`. */
export const plugin = (definition) => {
  validate(definition);
  // Calls a function of the plugin, if it is defined. An exception becomes a failure, not a trap.
  const call = (name, ...rest) => {
    if (!(name in definition)) return undefined;
    let found;
    try {
      found = definition[name](...rest);
    } catch (error) {
      throw failure(error, name);
    }
    if (typeof found?.then === "function") throw failure(new Permanent(`${name} returned a promise; the functions of a plugin must not be async`), name);
    return found;
  };
  const read = (bytes) => {
    try {
      return decoded(bytes);
    } catch (error) {
      throw failure(new Permanent(`the document is not JSON: ${error.message}`), "Informant");
    }
  };
  // Ignores the return value, for functions without a result.
  const run = (name, ...rest) => void call(name, ...rest);
  // Like `run`, but logs a failure, unless it only delays the event.
  const runLogged = (name, subject, ...rest) => {
    try {
      run(name, ...rest, subject);
    } catch (thrown) {
      if (typeof thrown.val === "string") log.error(`${subject instanceof Event ? subject : `source ${subject}`}: ${thrown.val}`);
      throw thrown;
    }
  };
  return {
    lifecycle: {
      describe: () => encoded(manifestOf(definition)),
      init: (role, config) => run("init", read(config), role),
    },
    eventHandler: {
      onAdd: (o, c, object) => runLogged("onAdd", new Event(o, c), read(object)),
      onUpdate: (o, c, old, object) =>
        runLogged("onUpdate", new Event(o, c), old === null || old === undefined ? undefined : read(old), read(object)),
      onDelete: (o, c, last, finalStateUnknown) =>
        runLogged("onDelete", new Event(o, c, finalStateUnknown), last.length === 0 ? undefined : read(last)),
    },
    syncHandler: { onSynced: (source) => runLogged("onSynced", source) },
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
      restore: (saved) => run("restore", read(saved)),
    },
  };
};
