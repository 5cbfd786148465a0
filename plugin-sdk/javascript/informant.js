// Informant plugins in JavaScript. See README.md, and informant.d.ts for the types.
import contract from "informant:plugin/log@0.2.0";

import { Permanent, failure, format } from "./failure.js";
import { kube } from "./kube.js";
import { beginCall, store } from "./store.js";
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

const MILLISECONDS_MAX = 2 ** 32 - 1;

// The milliseconds after which the plugin wants to be called again for the object, from what the function `name` returned.
const requeueAfter = (name, returned) => {
  if (returned === undefined || returned === null) return undefined;
  const [member, ...more] = typeof returned === "object" ? Object.keys(returned) : [];
  if (member !== "requeueAfter" || more.length > 0) {
    throw new TypeError(`${name} returned ${format(returned)}; return nothing or, to be called again for the object in a minute, return { requeueAfter: 60_000 }`);
  }
  const milliseconds = returned.requeueAfter;
  if (!Number.isInteger(milliseconds) || milliseconds < 0 || milliseconds > MILLISECONDS_MAX) {
    const range = `a whole number of milliseconds from 0 to ${MILLISECONDS_MAX}`;
    throw new TypeError(`${name} returned { requeueAfter: ${format(milliseconds)} }, which is not ${range}; for a minute, return { requeueAfter: 60_000 }`);
  }
  return milliseconds;
};

// The values for each of the indexes, in their order. An invalid value is an error: as text it would be "[object Object]".
const valuesOf = (found, indexes) => {
  if (found === undefined || found === null) return indexes.map(() => []);
  if (typeof found !== "object" || Array.isArray(found)) {
    throw new TypeError(`index returned ${format(found)}; it must return an object of index names and values`);
  }
  const unknown = Object.keys(found).find((name) => !indexes.includes(name));
  if (unknown !== undefined) throw new TypeError(`index returned values for "${unknown}", which is not in \`indexes\` of the manifest`);
  return indexes.map((name) => {
    const values = Object.hasOwn(found, name) ? found[name] : undefined;
    const list = (Array.isArray(values) ? values : [values]).filter((value) => value !== undefined && value !== null);
    const invalid = list.find((value) => !["string", "number", "boolean", "bigint"].includes(typeof value));
    if (invalid !== undefined) {
      throw new TypeError(`index returned ${format(invalid)} as a value of "${name}"; a value must be a string, a number or a boolean, or an array of these`);
    }
    return list.map(String);
  });
};

/** The exports of a plugin's module: `export const { lifecycle, eventHandler, syncHandler, indexFuncs, state } = plugin({ … })`. */
export const plugin = (definition) => {
  validate(definition);
  const manifest = manifestOf(definition);
  const indexes = manifest.indexes?.names ?? [];
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
      // Empty if the manifest asks for no payload.
      return bytes.length === 0 ? undefined : decoded(bytes);
    } catch (error) {
      throw failure(new Permanent(`the document is not JSON: ${error.message}`), "Informant");
    }
  };
  // Ignores the return value, for functions without a result.
  const run = (name, ...rest) => void call(name, ...rest);
  // Logs a failure, unless it only delays the event.
  const logged = (subject, work) => {
    try {
      return work();
    } catch (thrown) {
      if (typeof thrown.val === "string") log.error(`${subject instanceof Event ? subject : `source ${subject}`}: ${thrown.val}`);
      throw thrown;
    }
  };
  const handle = (name, event, ...rest) => {
    beginCall(event.source);
    return logged(event, () => {
      const returned = call(name, ...rest, event);
      try {
        return requeueAfter(name, returned);
      } catch (error) {
        throw failure(error, name);
      }
    });
  };
  // A document that can be absent.
  const readSome = (bytes) => (bytes === null || bytes === undefined ? undefined : read(bytes));
  return {
    lifecycle: {
      describe: () => encoded(manifest),
      init(bytes) {
        const context = read(bytes);
        run("init", context.config ?? {}, context);
      },
    },
    eventHandler: {
      onAdd: (about, reason, object) => handle("onAdd", new Event(about, reason), read(object)),
      onUpdate: (about, reason, old, object) => handle("onUpdate", new Event(about, reason), readSome(old), read(object)),
      onDelete: (about, reason, last, finalStateUnknown) => handle("onDelete", new Event(about, reason, finalStateUnknown), readSome(last)),
    },
    syncHandler: {
      onSynced(source) {
        beginCall(undefined);
        logged(source, () => run("onSynced", source));
      },
    },
    indexFuncs: {
      index(about, object) {
        try {
          return valuesOf(call("index", read(object), new Event(about, { reason: "initial", attempt: 0 })), indexes);
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
