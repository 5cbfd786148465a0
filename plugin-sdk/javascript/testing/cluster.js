// An API server for the logic of a plugin.
//
// The resource of a kind is its lowercase plural: `v1/pods` for Pod. A strategic patch and an apply work like a merge
// patch. A JSON patch, and subresources other than `status`, are `unsupported`.
import { isDeepStrictEqual } from "node:util";

import { matches } from "./selector.js";

/** The most objects in a page, and by default. */
const PAGE_OBJECTS = 500;

/** The most writes that one call may defer, as in Informant. */
const CALL_WRITES_MAX = 100;

const WRITE_OPTIONS = ["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE_OPTIONS = ["dryRun", "gracePeriodSeconds", "preconditions", "propagationPolicy"];
const LIST_OPTIONS = ["continue", "fieldSelector", "labelSelector", "limit"];

/** An error with a code of the contract. */
export const failed = (code, message, more = {}) => Object.assign(new Error(message), { code, ...more });

/** The apiVersion and the lowercase plural of the kind. */
export function resourceOf(apiVersion, kind) {
  const name = kind.toLowerCase();
  if (/[sx]$/.test(name)) return `${apiVersion}/${name}es`;
  return `${apiVersion}/${/[^ea]y$/.test(name) ? `${name.slice(0, -1)}ies` : `${name}s`}`;
}

/** A merge patch, RFC 7386. */
export function merged(target, patch) {
  if (!isMapping(patch)) return structuredClone(patch);
  const result = isMapping(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = merged(result[name], value);
  }
  return result;
}

export const isMapping = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const isEqual = (a, b) => isDeepStrictEqual(a, b);

/** The text of a key: `namespace/name`, or `name`. */
export const keyText = ({ namespace, name }) => (namespace === "" ? name : `${namespace}/${name}`);

const idOf = ({ source, namespace, name }) => `${String(source).padStart(10, "0")}/${namespace}/${name}`;

/** The objects of a test, and the plugin's writes to them. */
export class Cluster {
  sources = [];
  /** The writes that were sent, each with its result. */
  sent = [];
  /** The objects that these writes changed, each with its previous state. */
  changed = [];
  deferred = [];
  /** The source that the current call is about. */
  currentSource = undefined;
  #rows = new Map();
  #version = 0;

  // --- the content ---

  /** Adds a source to an informer, and returns it. */
  addSource(
    informer,
    apiVersion,
    kind,
    { cluster = "", namespaced = true, isWatched = true, resource = resourceOf(apiVersion, kind) } = {},
  ) {
    const id = this.sources.length;
    const info = {
      id,
      state: "live",
      informer,
      cluster,
      apiVersion,
      kind,
      resource,
      namespace: undefined,
      namespaced,
      partial: false,
      isWatched,
    };
    this.sources.push(info);
    return info;
  }

  /** The key under which `put` stores an object. Adds a source if there is none for its kind. */
  keyOf(object, cluster) {
    const { apiVersion, kind, metadata = {} } = object;
    for (const [member, value] of Object.entries({ apiVersion, kind, "metadata.name": metadata.name })) {
      if (!value) throw new Error(`the object has no ${member}: ${JSON.stringify(object)}`);
    }
    const namespace = metadata.namespace ?? "";
    const isIts = (info) =>
      info.apiVersion === apiVersion && info.kind === kind && [undefined, info.cluster].includes(cluster);
    const informer = resourceOf("", kind).slice(1);
    const options = { cluster: cluster ?? "", namespaced: namespace !== "", isWatched: this.watchesAll };
    const source = this.sources.find(isIts) ?? this.addSource(informer, apiVersion, kind, options);
    return { source: source.id, namespace, name: metadata.name };
  }

  /** Whether the kinds of objects without a source get one that the plugin watches. */
  watchesAll = true;

  /** Stores an object. Generates its uid and resource version if it has none. */
  put(object, cluster) {
    const key = this.keyOf(object, cluster);
    const stored = structuredClone(object);
    const before = this.object(key)?.metadata ?? {};
    this.#version += 1;
    const { metadata } = stored;
    metadata.uid ??= before.uid ?? `uid-${this.#version}`;
    if ([undefined, null, before.resourceVersion].includes(metadata.resourceVersion))
      metadata.resourceVersion = String(this.#version);
    this.#rows.set(idOf(key), { key, object: stored });
    return key;
  }

  object(key) {
    return this.#rows.get(idOf(key))?.object;
  }

  remove(key) {
    const object = this.object(key);
    this.#rows.delete(idOf(key));
    return object;
  }

  /** Keys and objects, sorted. */
  rows() {
    return [...this.#rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
  }

  /** The newest resource version. */
  get version() {
    return String(this.#version);
  }

  // --- requests ---

  get(at) {
    return structuredClone(this.#existing(at).object);
  }

  list(at, options) {
    const given = optionsOf(options, LIST_OPTIONS);
    if (given.fieldSelector) throw failed("unsupported", "the test kit does not support field selectors");
    const cluster = this.clusterOf(at);
    const isListed = ({ key, object }) => {
      const info = this.sources[key.source];
      const isThere =
        info.resource === at.resource && info.cluster === cluster && ["", key.namespace].includes(at.namespace);
      return isThere && matches(given.labelSelector ?? "", object);
    };
    const rows = this.rows().filter(isListed);
    const rest = rows.filter(({ key }) => `${key.namespace}/${key.name}` > (given.continue ?? ""));
    const page = rest.slice(0, Math.min(given.limit || PAGE_OBJECTS, PAGE_OBJECTS));
    const last = page.at(-1)?.key;
    return {
      items: page.map(({ object }) => structuredClone(object)),
      cursor: page.length < rest.length ? `${last.namespace}/${last.name}` : "",
    };
  }

  create(at, text, options) {
    const given = optionsOf(options, WRITE_OPTIONS);
    const object = documentOf(text);
    object.metadata ??= {};
    if (at.namespace !== "") object.metadata.namespace = at.namespace;
    if (!object.metadata.name) throw failed("invalid", "the test kit does not generate names: set metadata.name");
    const created = { ...at, name: object.metadata.name };
    return this.#sending("create", created, { document: object }, given, () => {
      if (this.#find(created) === undefined) return { after: object };
      const more = { status: 409, reason: "AlreadyExists" };
      throw failed("already-exists", `${created.resource} "${created.name}" already exists`, more);
    });
  }

  update(at, text, options) {
    const given = optionsOf(options, WRITE_OPTIONS);
    const document = documentOf(text);
    return this.#sending("update", at, { document }, given, () => {
      const { object: before } = this.#existing(at);
      checkPreconditions(before, document.metadata ?? {});
      return { before, after: at.subresource === "" ? document : withStatus(before, document) };
    });
  }

  patch(at, kind, text, options) {
    const given = optionsOf(options, WRITE_OPTIONS);
    if (given.force !== undefined && kind !== "apply") throw failed("invalid", "options: `force` is for apply only");
    if (kind === "json") throw failed("unsupported", "the test kit does not support JSON patches");
    const document = documentOf(text);
    return this.#sending("patch", at, { kind, document }, given, () => {
      if (kind === "apply" && this.#find(at) === undefined) return { after: document };
      const { object: before } = this.#existing(at);
      checkPreconditions(before, document.metadata ?? {});
      const after = merged(before, document);
      return { before, after: at.subresource === "" ? after : withStatus(before, after) };
    });
  }

  delete(at, options) {
    const given = optionsOf(options, DELETE_OPTIONS);
    this.#sending("delete", at, {}, given, () => {
      const { object: before } = this.#existing(at);
      checkPreconditions(before, given.preconditions ?? {});
      return { before };
    });
  }

  // --- deferred writes ---

  /** Keeps a write until the call has succeeded. What is invalid fails at once. */
  defer(verb, at, ...args) {
    if (this.deferred.filter(({ isChild }) => !isChild).length === CALL_WRITES_MAX)
      throw failed("too-large", `a call can defer at most ${CALL_WRITES_MAX} writes`);
    const given = optionsOf(args.at(-1), verb === "delete" ? DELETE_OPTIONS : WRITE_OPTIONS);
    if (verb === "create" && at.subresource === "" && !documentOf(args[0]).metadata?.name) {
      throw failed(
        "invalid",
        "a deferred create needs metadata.name: with generateName, each attempt creates one more object",
      );
    }
    if (verb === "delete" && !given.preconditions?.uid) {
      throw failed(
        "invalid",
        "a deferred delete needs preconditions.uid: the name may belong to another object by then",
      );
    }
    const there = { ...at, cluster: this.clusterOf(at) };
    const make = () => {
      try {
        this[verb](there, ...args);
      } catch (error) {
        const isAnother = error.code === "conflict" && !given.preconditions?.resourceVersion;
        if (verb !== "delete" || !(error.code === "not-found" || isAnother)) throw error;
      }
    };
    this.deferred.push({ make, isChild: false });
  }

  /** Keeps the write of a child, which does not count among those that a call may defer. */
  deferChild(verb, at, ...args) {
    this.deferred.push({ make: () => this[verb](at, ...args), isChild: true });
  }

  /** Makes the writes that a call has deferred. The first one that fails ends the rest. */
  makeDeferred() {
    const writes = this.deferred;
    this.deferred = [];
    for (const { make } of writes) make();
  }

  // --- details ---

  /** The cluster of an address: by default that of the object that the call is about. */
  clusterOf({ cluster }) {
    if (cluster) return cluster;
    if (this.currentSource !== undefined) return this.sources[this.currentSource].cluster;
    const clusters = new Set(this.sources.map((info) => info.cluster));
    if (clusters.size <= 1) return [...clusters][0] ?? "";
    throw failed(
      "invalid",
      "the test has several clusters, and this call is about no object: name the cluster in the address",
    );
  }

  #find(at) {
    if (!["", "status"].includes(at.subresource)) {
      throw failed("unsupported", `the test kit does not support the subresource "${at.subresource}"`);
    }
    const cluster = this.clusterOf(at);
    return this.rows().find(({ key }) => {
      const info = this.sources[key.source];
      return (
        info.cluster === cluster &&
        info.resource === at.resource &&
        key.namespace === at.namespace &&
        key.name === at.name
      );
    });
  }

  #existing(at) {
    const found = this.#find(at);
    if (found === undefined)
      throw failed("not-found", `${at.resource} "${at.name}" not found`, { status: 404, reason: "NotFound" });
    return found;
  }

  /** Sends a write: `change` returns the states before and after it, or throws why it is refused. */
  #sending(verb, at, more, { dryRun }, change) {
    const { resource, subresource, namespace, name } = at;
    const write = {
      verb,
      resource: subresource === "" ? resource : `${resource}/${subresource}`,
      object: keyText({ namespace, name }),
      ...more,
    };
    const record = (result) =>
      dryRun === undefined && this.sent.push({ ...structuredClone(write), cluster: this.clusterOf(at), result });
    let states;
    try {
      states = change();
    } catch (error) {
      record(error.code);
      throw error;
    }
    record("ok");
    const { before, after } = states;
    if (dryRun !== undefined || (after !== undefined && isEqual(before, after))) return structuredClone(after);
    if (after === undefined) {
      const { key } = this.#find(at);
      this.remove(key);
      this.changed.push({ key, before });
      return undefined;
    }
    const key = this.put(after, this.clusterOf(at));
    this.changed.push({ key, before });
    return structuredClone(this.object(key));
  }
}

/** Refuses a write that expects another uid or resource version than the stored one. */
function checkPreconditions(before, expected) {
  for (const member of ["uid", "resourceVersion"]) {
    if (!expected[member] || expected[member] === before.metadata[member]) continue;
    const message = "the object has been modified; please apply your changes to the latest version and try again";
    throw failed("conflict", message, { status: 409, reason: "Conflict" });
  }
}

const withStatus = (before, { status }) => ({ ...before, status });

function documentOf(text) {
  const parsed = JSON.parse(text);
  if (!isMapping(parsed)) throw failed("invalid", "the document is not a JSON object");
  return parsed;
}

function optionsOf(text, known) {
  const given = text ? JSON.parse(text) : {};
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw failed("invalid", `options: unknown member \`${unknown}\`; known are ${known.join(", ")}`);
  return given;
}
