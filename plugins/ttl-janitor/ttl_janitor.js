// Deletes objects whose time is over. README.md says how.
import { HostError, KubeError, Permanent, config, context, kube, kv, log, recorder, store } from "informant";

const { informers = [], "max-deletes": deletesMax = 100, ...rest } = config;
const [unknown] = Object.keys(rest);
if (unknown !== undefined) {
  throw new Permanent(`config: unknown key \`${unknown}\`, expected \`informers\` or \`max-deletes\``);
}
if (!Array.isArray(informers) || informers.length === 0) {
  throw new Permanent('config: name the informers whose objects are deleted: informers = ["jobs"]');
}
if (!Number.isInteger(deletesMax) || deletesMax < 1 || deletesMax > 100) {
  throw new Permanent("config: `max-deletes` is not a number from 1 to 100");
}

// Events of one call.
const EVENTS_MAX = 100;
// Objects with a wrong value that one run reads of an informer.
const WRONG_MAX = 1_000;
// Characters of a wrong value that an Event shows.
const SHOWN_MAX = 60;

// The index has the time at which an object expires, or this, which sorts behind all times.
const INDEX = "janitor";
const WRONG = "wrong";
// Later times would not sort as text. They are as good as never.
const LAST = Date.parse("9999-12-31T23:59:59Z");

const UNITS_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const RFC_3339 = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** How each annotation is read, as a time in milliseconds: NaN is a wrong value, and Infinity is never. */
const ANNOTATIONS = {
  "janitor/ttl": {
    expected: 'a number with a unit, such as 30m, 8h, 7d or 2w, or "forever"',
    read(text, creationTimestamp) {
      if (text === "forever") return Infinity;
      const [, number, unit] = /^(\d{1,15})([smhdw])$/.exec(text) ?? [];
      return Date.parse(creationTimestamp) + number * UNITS_MS[unit];
    },
  },
  "janitor/expires": {
    expected: "a time in RFC 3339, such as 2036-12-24T18:00:00Z",
    read(text) {
      const [, local] = RFC_3339.exec(text) ?? [];
      const inUtc = Date.parse(`${local}Z`);
      // JavaScript reads February 30 as March 2.
      if (Number.isNaN(inUtc) || !new Date(inUtc).toISOString().startsWith(local)) return NaN;
      return Date.parse(text);
    },
  },
};

const FIELDS = [
  ...["name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"],
  ...Object.keys(ANNOTATIONS).map((name) => `annotations/${name.replaceAll("/", "~1")}`),
].map((field) => `/metadata/${field}`);

export const manifest = {
  name: "ttl-janitor",
  version: "0.1.0",
  timers: [{ name: "clean", every: "5m" }],
  indexes: { names: [INDEX], objects: [{ apiVersion: "*", kind: "*", payload: { fields: FIELDS } }] },
  needs: [{ events: {} }],
};

/** The annotations of an object, each with the time that it means. */
const expiriesOf = ({ annotations = {}, creationTimestamp }) =>
  Object.entries(ANNOTATIONS).flatMap(([name, { read, expected }]) => {
    const text = annotations[name];
    return text === undefined ? [] : [{ name, text, expected, at: read(text, creationTimestamp) }];
  });

export const index = ({ metadata }) => {
  // NaN if one of them is, and Infinity if there is none.
  const at = Math.min(...expiriesOf(metadata).map(({ at }) => at));
  if (metadata.deletionTimestamp !== undefined || at > LAST) return {};
  return { [INDEX]: Number.isNaN(at) ? WRONG : new Date(at).toISOString() };
};

/** The objects of an informer that have this value in the index, at most `max`. */
function* objectsAt(informer, value, max = Infinity) {
  const keys = store.indexKeys(informer, INDEX, value, { clusters: "all" });
  for (const { source: id, namespace, name } of keys.slice(0, max)) {
    const source = store.source(id);
    const { apiVersion, kind, metadata } = store.get(source, namespace, name, { fields: FIELDS });
    const { cluster, resource } = source;
    const about = { cluster, apiVersion, kind, namespace, name, uid: metadata.uid };
    // Where `kv` has the last warning about it.
    const key = `warned/${cluster}/${metadata.uid}`;
    yield { about, address: { cluster, resource, namespace, name }, metadata, key };
  }
}

// Refused deletes that `kv` has no room for, so that they come last, too.
const REFUSED_MAX = 10_000;
const refused = new Set();

/** What has expired, oldest first. It is read only as far as the caller goes. */
function* expired(now) {
  const due = informers.flatMap((informer) => {
    const values = store.indexValues(informer, INDEX, { clusters: "all" });
    return values.filter((value) => value <= now).map((value) => ({ informer, value }));
  });
  due.sort((a, b) => (a.value < b.value ? -1 : 1));
  for (const { informer, value } of due) yield* objectsAt(informer, value);
}

/** What could not be deleted before comes last, so that it does not keep others from being deleted. */
function* warnedLast(objects) {
  const warned = [];
  for (const object of objects) {
    if (kv.get(object.key) === undefined && !refused.has(object.key)) yield object;
    else warned.push(object);
  }
  yield* warned;
}

function* wrong() {
  for (const informer of informers) yield* objectsAt(informer, WRONG, WRONG_MAX);
}

/** Records a Warning, unless it is the last one about this object. Returns whether it did. */
const warn = ({ key, about }, reason, action, note) => {
  if (kv.get(key) === note) return false;
  try {
    kv.set(key, note);
  } catch (error) {
    if (!(error instanceof HostError) || error.code !== "exhausted") throw error;
    // Each run would record it again.
    if (refused.size >= REFUSED_MAX) refused.clear();
    refused.add(key);
    log.warn(`no Event ${reason}: ${error.message}`);
    return false;
  }
  recorder.event(about, { type: "Warning", reason, action, note });
  return true;
};

const warnOfValue = (object) => {
  const value = expiriesOf(object.metadata).find(({ at }) => Number.isNaN(at));
  // The cache may lack an annotation of more than 4 KiB.
  if (value === undefined) return false;
  const { name, text, expected } = value;
  const shown = JSON.stringify(text.slice(0, SHOWN_MAX));
  return warn(object, "WrongValue", "Keep", `The object is kept: ${name} is ${shown}, but should be ${expected}`);
};

/** Whether other deletes would fail, too. 500 is about one object: a webhook that fails, for example. */
const isDown = ({ code, status }) =>
  ["timeout", "too-many-requests", "unauthorized", "unavailable"].includes(code) && status !== 500;

/** Deletes an object in exactly the state that was read. Errors: no other can be deleted now, either. */
const remove = (object) => {
  const { about, address, metadata } = object;
  const [{ name, text, at }] = expiriesOf(metadata).sort((a, b) => a.at - b.at);
  const expired = `expired at ${new Date(at).toISOString().replace(".000", "")} (${name}: ${text})`;
  const preconditions = { uid: metadata.uid, resourceVersion: metadata.resourceVersion };
  try {
    // Not deferred: the first deferred write that fails would end the others.
    kube.delete(address, { preconditions, propagationPolicy: "Background" });
  } catch (error) {
    if (!(error instanceof KubeError) || isDown(error)) throw error;
    // Somebody has changed or deleted it meanwhile.
    if (["conflict", "not-found"].includes(error.code)) return;
    const note = `The object ${expired}, but the delete was refused: ${error.code}`;
    if (warn(object, "DeleteRefused", "Delete", note)) log.warn(error.message);
    return;
  }
  recorder.event(about, { reason: "Expired", action: "Delete", note: `The object ${expired}` });
  log.info(`${address.resource} ${[address.namespace, address.name].filter(Boolean).join("/")} ${expired}`);
};

export function onTimer() {
  const began = Date.now();
  const isLate = () => Date.now() - began > context.limits.callMs / 2;
  const seen = new Set();
  let isComplete = true;

  // Each records at most one Event.
  let attempts = 0;
  for (const object of warnedLast(expired(new Date(began).toISOString()))) {
    if (attempts === deletesMax || isLate()) {
      isComplete = false;
      break;
    }
    attempts += 1;
    seen.add(object.key);
    try {
      remove(object);
    } catch (error) {
      // A run that fails sends no Events, also not those of what it has deleted.
      if (attempts === 1) throw error;
      log.warn(`the rest is left to the next run: ${error.message}`);
      isComplete = false;
      break;
    }
  }

  let events = attempts;
  for (const object of wrong()) {
    if (events === EVENTS_MAX) {
      isComplete = false;
      break;
    }
    seen.add(object.key);
    if (warnOfValue(object)) events += 1;
  }

  // What is gone or corrected is forgotten.
  if (isComplete) for (const key of kv.list("warned/")) if (!seen.has(key)) kv.delete(key);
}
