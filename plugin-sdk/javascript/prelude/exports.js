// What a script exports and returns: checks, and its manifest.
import { DELAY, delay, format, shown } from "informant:errors";
import { log } from "informant:log";
import { setPayload } from "informant:reconciler";
import { Event, setWarnsOfOld } from "informant:store";

const native = globalThis.native;

// The functions that Informant calls, by the role's name in the manifest.
const ROLES = {
  "event-handler": ["onAdd", "onUpdate", "onDelete"],
  reconciler: ["reconcile"],
  "timer-handler": ["onTimer"],
  "sync-handler": ["onSynced"],
  "index-funcs": ["index"],
  state: ["save", "restore"],
};
const FUNCTIONS = Object.values(ROLES).flat();
const EXPORTS = [...FUNCTIONS, "manifest"];
const CALLED = `Informant calls ${FUNCTIONS.join(", ")}`;

// Names that a newer version may call, or that other programs do.
const isHandlerLike = (name) => /^on[A-Z_]/.test(name) || name === "init";

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

const DISTANCE_MAX = 2;

/** The one of the `known` names that `name` may be a typo of. */
export const suggestion = (name, known) => {
  const nearest = known.map((other) => [distance(name.toLowerCase(), other.toLowerCase()), other]).sort((a, b) => a[0] - b[0]);
  return nearest[0]?.[0] <= DISTANCE_MAX ? nearest[0][1] : undefined;
};

const refuse = (message) => Object.assign(new Error(message), { refuses: true });

const checkExports = (script) => {
  const names = Object.keys(script);
  for (const name of FUNCTIONS) {
    if (name in script && typeof script[name] !== "function") {
      throw refuse(`exports ${name}, which is not a function: ${format(script[name])}`);
    }
  }
  for (const name of names.filter((name) => !EXPORTS.includes(name))) {
    const meant = suggestion(name, EXPORTS);
    const isTypo = meant !== undefined && !(meant in script);
    if (isTypo) throw refuse(`exports ${name}, which Informant does not call; did you mean ${meant}?`);
    if (name === "init") throw refuse("exports init, which Informant does not call: the top level of the script runs in each instance");
    if (isHandlerLike(name)) throw refuse(`exports ${name}, which this Informant does not call; ${CALLED}`);
  }
  if ("save" in script !== "restore" in script) {
    throw refuse(`exports ${"save" in script ? "save" : "restore"} alone: export both save and restore, or neither`);
  }
  const handler = ROLES["event-handler"].find((name) => name in script);
  if ("reconcile" in script && handler !== undefined) {
    throw refuse(`exports reconcile and ${handler}, of which a plugin may have one: reconcile is called for every change of its objects, and without one when it is deleted`);
  }
  const isCalled = FUNCTIONS.some((name) => name in script && !ROLES.state.includes(name));
  if (isCalled) return;
  if (names.length === 0) throw refuse(`exports nothing: write \`export function onAdd(object) { … }\`; ${CALLED}`);
  const hint = names.includes("default") ? "; export functions by name, not as default" : "";
  throw refuse(`exports no function to handle, only ${names.join(", ")}; ${CALLED}${hint}`);
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

// The names of the indexes that a script computes: from the manifest, or else those that `index` returns for the
// placeholder.
const indexesOf = (script, given) => {
  if (!("index" in script)) {
    if (given !== undefined) throw refuse("exports a manifest with `indexes`, but no function `index`");
    return undefined;
  }
  const objects = [{ apiVersion: "*", kind: "*" }];
  if (Array.isArray(given)) return { names: given, objects };
  if (typeof given === "object" && given !== null) return { objects, ...given };
  let names = [];
  try {
    const found = script.index(placeholder, new Event(0, "", "", "", "", 0, 0));
    if (typeof found === "object" && found !== null) names = Object.keys(found);
  } catch {
    // The function needs more of the object than the placeholder provides.
  }
  if (names.length === 0) {
    throw refuse('exports index, but the names of its indexes cannot be determined: declare them with `export const manifest = { indexes: ["NAME"] }`');
  }
  return { names, objects };
};

// Whether Informant calls `onTimer`: if the manifest names timers.
const hasTimers = (script, timers) => {
  if (timers === undefined) {
    if (!("onTimer" in script)) return false;
    throw refuse('exports onTimer, but the manifest does not say when to call it; write `export const manifest = { timers: [{ name: "report", every: "1h" }] }`');
  }
  if (!Array.isArray(timers)) throw refuse(`exports a manifest whose \`timers\` are not a list: ${shown(timers)}`);
  if (timers.length > 0 && !("onTimer" in script)) throw refuse("exports a manifest with `timers`, but no function `onTimer`");
  return timers.length > 0;
};

let indexNames = [];

// Members that are left out at these values: then an earlier Informant understands the manifest, too.
const DEFAULTS = { payload: "whole", old: false, changedOnly: false, parallel: false, writes: "done", zone: "UTC", missed: "once", atStart: false };
const withoutDefaults = (name, value) => (Object.hasOwn(DEFAULTS, name) && DEFAULTS[name] === value ? undefined : value);
const isDefault = (events) => JSON.stringify(events, withoutDefaults) === '[{"apiVersion":"*","kind":"*"}]';

/** The manifest of the script's module, as JSON. `stem` is the default name. */
export const describe = (script, stem) => {
  checkExports(script);
  const given = script.manifest ?? {};
  if (typeof given !== "object" || Array.isArray(given)) throw refuse("exports a `manifest` that is not an object");
  const indexes = indexesOf(script, given.indexes);
  indexNames = indexes?.names ?? [];
  const isTimed = hasTimers(script, given.timers);
  const isPlayed = (role) => ROLES[role].some((name) => name in script) && (role !== "timer-handler" || isTimed);
  const roles = Object.keys(ROLES).filter(isPlayed);
  const withOld = "onUpdate" in script ? [{ apiVersion: "*", kind: "*", old: true }] : undefined;
  if ("reconcile" in script && given.reconciler === undefined) {
    const hint = 'export const manifest = { reconciler: { for: { apiVersion: "v1", kind: "ConfigMap" } } }';
    throw refuse(`exports reconcile, but the manifest does not say for which objects; write \`${hint}\``);
  }
  const { name = stem, version = "0", events = withOld, ...rest } = given;
  setPayload(given.reconciler?.for?.payload);
  setWarnsOfOld(Array.isArray(events) && !events.some((rule) => rule?.old));
  const some = {
    events: isDefault(events) ? undefined : events,
    timers: isTimed ? given.timers : undefined,
    indexes,
    // The runner exports every role, and no script plays all.
    roles,
  };
  return JSON.stringify({ name, version, ...rest, ...some }, withoutDefaults);
};

/** Whether `handler` reads its object: whether it has a parameter. The object is not parsed for one that has none. */
export const readsObject = (handler) => {
  if (handler.length > 0) return true;
  // The length counts neither optional nor rest parameters, and `arguments` needs none.
  const text = Function.prototype.toString.call(handler);
  return !/^[^()=]*\(\s*\)/.test(text) || /\barguments\b|\[native code\]/.test(text);
};

/**
 * The milliseconds after which the script wants to be called again for the object, from what the function `name`
 * returned.
 */
export const requeueAfter = (name, returned) => {
  const names = typeof returned === "object" ? Object.keys(returned) : [];
  if (name === "onSynced" || name === "onTimer") {
    if (!names.includes("requeueAfter")) return undefined;
    const hint = name === "onTimer" ? "to try again before the next run, throw new RetryAfter(milliseconds)" : "return it from onAdd, onUpdate or onDelete";
    throw new TypeError(`${name} returned { requeueAfter }, but it is about no object: ${hint}`);
  }
  if (names.length !== 1 || names[0] !== "requeueAfter") {
    throw new TypeError(`${name} returned ${shown(returned)}; return nothing or, to be called again for the object in a minute, return { requeueAfter: 60_000 }`);
  }
  const milliseconds = delay(returned.requeueAfter);
  if (milliseconds === undefined) {
    throw new TypeError(`${name} returned { requeueAfter: ${shown(returned.requeueAfter)} }, which is not ${DELAY}; for a minute, return { requeueAfter: 60_000 }`);
  }
  return milliseconds;
};

/** The values for each index, in the order of the manifest, from what `index` returned. */
export const values = (found) => {
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
    return present.map((value) => String(value).toWellFormed());
  });
};

/** The document of what `save` returned. */
export const savedState = (state) => {
  const text = JSON.stringify(state ?? null);
  if (text === undefined) throw new TypeError(`save returned ${shown(state)}, which JSON cannot represent`);
  return text;
};
