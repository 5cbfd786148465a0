// What differs between the instances of scripts in one process: the imports of the module "informant", and globals.
import { AsyncLocalStorage } from "node:async_hooks";
import module from "node:module";

import * as hooks from "./hooks.js";

/**
 * By the number of the instance, what the global object is for the modules of "informant": `native` has the imports,
 * and the modules add `console` and `fetch`. Number 0 is for scripts that a test imports itself.
 */
export const realms = (globalThis[Symbol.for("informant.realms")] ??= new Map());

const running = new AsyncLocalStorage();

/** Calls a function of a script. */
export const inside = (realm, call) => running.run(realm, call);

/** Calls a function of the test while one of a script runs. */
export const outside = (call) => running.exit(call);

if (realms.size === 0) {
  realms.set(0, { native: unusable() });
  if (module.registerHooks !== undefined) module.registerHooks(hooks);
  else module.register("./hooks.js", import.meta.url);
  // The package `typescript` moves lines, and a source map says where from.
  if (!process.features.typescript) process.setSourceMapsEnabled(true);
  replaceGlobals();
}

/** The imports for a script that is not started. */
function unusable() {
  const refuse = () => {
    throw Object.assign(new Error("the script is not started: create a Driver in the test"), { code: "not-here" });
  };
  const calls = new Proxy({}, { get: () => refuse, ownKeys: () => [] });
  const named = (...names) => Object.fromEntries(names.map((name) => [name, calls[name]]));
  return {
    context: { plugin: "test", config: {} },
    reasons: [],
    log: (_level, message) => process.stderr.write(`${message}\n`),
    store: named("source", "sources", "version", "get", "find", "list", "byIndex", "indexKeys", "indexValues"),
    kube: named(
      "get",
      "list",
      "create",
      "update",
      "patch",
      "delete",
      "deferCreate",
      "deferUpdate",
      "deferPatch",
      "deferDelete",
      "deferChildren",
    ),
    kv: named("get", "set", "setIfAbsent", "delete", "list"),
    metrics: named("add", "set", "observe", "replace"),
    recorder: named("event"),
    http: { inFlightMax: 1, ...named("start") },
  };
}

/** Gives scripts the globals of Informant, and leaves the rest of the process those of Node. */
function replaceGlobals() {
  for (const name of ["trace", "debug", "log", "info", "warn", "error"]) {
    const print = console[name];
    console[name] = (...values) => (running.getStore()?.console?.[name] ?? print).apply(console, values);
  }
  const send = globalThis.fetch;
  globalThis.fetch = (...values) => (running.getStore()?.fetch ?? send)(...values);
  // Scripts cannot wait by themselves.
  for (const name of ["setTimeout", "setInterval", "setImmediate"]) {
    let value = globalThis[name];
    Object.defineProperty(globalThis, name, {
      get: () => (running.getStore() === undefined ? value : undefined),
      set: (other) => (value = other),
      configurable: true,
      enumerable: true,
    });
  }
}
