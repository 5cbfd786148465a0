// One instance of a script: what the script runner does in Informant, in Node.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename, extname } from "node:path";
import { pathToFileURL } from "node:url";

import { inside, outside, realms } from "./realms.js";
import { REASONS } from "./host.js";

const PRELUDE = new URL("../prelude/", import.meta.url).href;

/** The maximum number of functions in an error, innermost first. */
const FRAMES_MAX = 5;

// Tests may replace it.
const { setImmediate } = globalThis;

/** Runs what JavaScript is left to run. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A call of the plugin failed. */
export class Failed extends Error {
  /** `kind` is `retryable`, `retry-after` (in `afterMs`) or `permanent`. */
  constructor(kind, message, { afterMs, cause } = {}) {
    super(message, { cause });
    this.kind = kind;
    this.afterMs = afterMs;
  }
}
Object.defineProperty(Failed.prototype, "name", { value: "Failed", configurable: true, writable: true });

const RELATED = { apiVersion: null, kind: null, when: null, by: { label: null, annotation: null, index: null } };
const RULE = { apiVersion: null, kind: null, payload: { fields: null } };
const ACCESS = { verbs: null, resource: null, namespaces: null, names: null, subresources: null };

/** The members of a manifest and of what is in it: see docs/reference/manifest.md. */
const MANIFEST = {
  name: null,
  version: null,
  roles: null,
  events: { ...RULE, old: null, changedOnly: null, namespaces: null, labelSelector: null },
  reconciler: {
    for: { ...RULE, when: null, namespaces: null, labelSelector: null },
    owns: RELATED,
    watches: RELATED,
    minInterval: null,
  },
  timers: { name: null, cron: null, zone: null, every: null, missed: null, jitter: null, atStart: null },
  indexes: { names: null, objects: RULE },
  needs: { kube: ACCESS },
  writes: null,
  metrics: { name: null, type: null, help: null, labels: null, buckets: null },
  parallel: null,
};

/** Refuses members of the manifest that Informant does not know. */
function checkMembers(value, suggestion, known = MANIFEST, path = "manifest") {
  if (known === null || typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    for (const [at, element] of value.entries()) checkMembers(element, suggestion, known, `${path}[${at}]`);
    return;
  }
  const names = Object.keys(known);
  for (const [name, member] of Object.entries(value)) {
    if (!names.includes(name)) {
      const meant = suggestion(name, names);
      const hint = meant === undefined ? `there are ${names.join(", ")}` : `did you mean ${meant}?`;
      throw Object.assign(new Error(`exports a manifest with the unknown member ${path}.${name}; ${hint}`), {
        refuses: true,
      });
    }
    checkMembers(member, suggestion, known[name], `${path}.${name}`);
  }
}

let instances = 0;

export class Instance {
  #name;
  #host;
  #realm;
  #exports;
  #prelude;
  manifest;

  /** Evaluates the script in a file. `context` is what `describe` and `init` receive. */
  static async load(file, context, host) {
    const instance = new Instance();
    const number = ++instances;
    instance.#name = basename(file);
    instance.#host = host;
    instance.#realm = { native: host.native(context) };
    realms.set(number, instance.#realm);
    const [errors, store, http, exports] = await Promise.all(
      ["errors", "store", "http", "exports"].map((name) => import(`${PRELUDE}${name}.js?informant=${number}`)),
    );
    instance.#prelude = { ...errors, ...store, ...http, ...exports };
    try {
      instance.#exports = await inside(
        instance.#realm,
        () => import(`${pathToFileURL(file).href}?informant=${number}`),
      );
      instance.manifest = JSON.parse(exports.describe(instance.#exports, basename(file, extname(file))));
      checkMembers(instance.manifest, exports.suggestion);
    } catch (error) {
      throw new Failed(
        "permanent",
        instance.#messageOf(error, () => lineOfSyntaxError(error, file)),
        { cause: error },
      );
    }
    return instance;
  }

  // The functions below return the milliseconds after which the script wants to be called again for the object.

  onAdd(about, call, object) {
    return this.#handle("onAdd", object, () => this.#event(about, call));
  }

  /** `old` is undefined if it is not known. */
  onUpdate(about, call, old, object) {
    // Nothing changed, somebody asked for the call: a script that handles adds only does so again.
    const isAskedFor = ["trigger", "requeue-after"].includes(call.reason);
    const name = !("onUpdate" in this.#exports) && isAskedFor ? "onAdd" : "onUpdate";
    return this.#handle(name, object, () => this.#event(about, call, old));
  }

  onDelete(about, call, last, finalStateUnknown) {
    return this.#handle("onDelete", last, () => Object.assign(this.#event(about, call), { finalStateUnknown }));
  }

  /** `object` is undefined if it is gone. */
  reconcile(about, call, object, cacheIsBehind) {
    return this.#handle("reconcile", object, () => Object.assign(this.#event(about, call), { cacheIsBehind }));
  }

  async onTimer({ name, scheduled, missed, attempt }) {
    const tick = this.#prelude.beginTick(name, scheduled, missed, attempt);
    return this.#call("onTimer", [tick], (returned) => this.#asked("onTimer", returned));
  }

  onSynced(source, call) {
    return this.#handle("onSynced", undefined, () => Object.freeze({ ...call }), this.#prelude.beginSource(source));
  }

  /** The values of an object in each index, in the order of the manifest. */
  async index(about, object) {
    if (!("index" in this.#exports)) return [];
    return this.#call("index", [object, this.#event(about, { reason: "initial", attempt: 0 })], this.#prelude.values);
  }

  /** The text of the script's state. */
  async save() {
    return "save" in this.#exports ? this.#call("save", [], this.#prelude.savedState) : "null";
  }

  async restore(text) {
    if ("restore" in this.#exports) await this.#call("restore", [JSON.parse(text)]);
  }

  async #handle(name, object, event, first) {
    const handler = this.#exports[name];
    if (handler === undefined) return undefined;
    const shown = first ?? (this.#prelude.readsObject(handler) ? object : undefined);
    return this.#call(name, [shown, event()], (returned) => this.#asked(name, returned));
  }

  #asked(name, returned) {
    return returned === undefined || returned === null ? undefined : this.#prelude.requeueAfter(name, returned);
  }

  #event({ source, namespace, name, uid, resourceVersion }, { reason, attempt }, old) {
    const document = old === undefined ? undefined : JSON.stringify(old);
    return this.#prelude.beginEvent(
      source,
      namespace,
      name,
      uid,
      resourceVersion,
      REASONS.indexOf(reason),
      attempt,
      document,
    );
  }

  /** Calls the script's function, and then `finish` with what it returned. */
  async #call(name, args, finish = (returned) => returned) {
    try {
      const returned = await this.#settled(
        name,
        inside(this.#realm, () => this.#exports[name](...args)),
      );
      // What the function started and did not await.
      while (await this.#advance());
      return finish(returned);
    } catch (error) {
      this.#prelude.forget();
      throw this.#failed(name, error);
    }
  }

  /** The value that a function returned or, if it is a promise, the value that it resolves to. */
  async #settled(name, returned) {
    if (typeof returned?.then !== "function") return returned;
    let result;
    returned.then(
      (value) => (result = { value }),
      (error) => (result = { error }),
    );
    for (;;) {
      await turn();
      if (result !== undefined) break;
      if (await this.#advance()) continue;
      const why = "a script cannot wait by itself; use `timers` of the manifest, or return { requeueAfter }";
      throw new Failed("retryable", `${this.#name}: ${name} waits for a promise that never settles: ${why}`);
    }
    if ("error" in result) throw result.error;
    return result.value;
  }

  /** Answers requests of `fetch`. Returns whether there were any. */
  async #advance() {
    const wereThere = await outside(() => this.#host.answer(this.#prelude.settle));
    if (wereThere) await turn();
    return wereThere;
  }

  #failed(name, error) {
    if (error instanceof Failed) return error;
    if (!(error instanceof Error)) {
      const thrown = `${name} threw ${this.#prelude.shown(error)}, which is not an Error; write throw new Error(…)`;
      return new Failed("retryable", `${this.#name}: ${thrown}`, { cause: error });
    }
    return this.failureOf(error);
  }

  /** What follows from an error of the script or, with `code`, of a deferred write. */
  failureOf(error) {
    const consequence = this.#prelude.consequence(error);
    const message = this.#messageOf(error);
    if (consequence === "permanent") return new Failed("permanent", message, { cause: error });
    if (consequence === undefined) return new Failed("retryable", message, { cause: error });
    return new Failed("retry-after", message, { afterMs: consequence, cause: error });
  }

  /** What follows from the error of a deferred write. */
  failureOfWrite(error) {
    return this.failureOf(Object.setPrototypeOf(error, this.#prelude.KubeError.prototype));
  }

  /** The message with file, line and column if they are known. */
  #messageOf(error, elsewhere = () => undefined) {
    if (error.isPlaced) return error.message;
    if (error.refuses) return `${this.#name} ${error.message}`;
    const frames = framesOf(error.stack ?? "", this.#name);
    const found = frames[0]?.location ?? elsewhere();
    const location = found === undefined ? "" : `:${found}`;
    const functions = frames
      .map((frame) => frame.function)
      .filter((name) => name !== undefined)
      .slice(0, FRAMES_MAX);
    const path = functions.length > 1 ? ` (in ${functions.join(" < ")})` : "";
    const [, type] = /'informant' does not provide an export named '([A-Z]\w*)'/.exec(error.message) ?? [];
    const hint = type === undefined ? "" : `; if ${type} is a type, write \`type ${type}\``;
    return `${this.#name}${location}: ${error.name}: ${error.message}${path}${hint}`;
  }
}

/** The frames of a stack that are in the script. */
function framesOf(stack, script) {
  const name = script.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const pattern = new RegExp(`/${name}(?:\\?informant=\\d+)?:(\\d+(?::\\d+)?)\\)?$`);
  return stack.split("\n").flatMap((line) => {
    const location = pattern.exec(line)?.[1];
    if (location === undefined) return [];
    return [{ location, function: /^ *at (?:async )?(?:Module\.)?([\w$.]+) \(/.exec(line)?.[1] }];
  });
}

/** The line of a syntax error in a script, which Node only prints. Undefined if the error is another one. */
function lineOfSyntaxError(error, file) {
  if (!(error instanceof SyntaxError) || !/\.m?js$/.test(file)) return undefined;
  const { stderr } = spawnSync(process.execPath, ["--check", "--input-type=module", "-"], {
    input: readFileSync(file),
  });
  return /^\[stdin\]:(\d+)$/m.exec(stderr.toString())?.[1];
}
