// Calls a plugin as Informant does.
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";

import { keyText } from "./cluster.js";
import { FakeHost, seriesOf } from "./host.js";
import { Failed, Instance } from "./instance.js";
import { isPointer, payload, scalarsAt } from "./projection.js";
import { matches } from "./selector.js";

/** The most calls of `settle`. */
export const SETTLE_CALLS_MAX = 1_000;

/** The contract's version, and the names of its roles. */
const CONTRACT = "0.3.0";
const ROLES = ["event-handler", "reconciler", "timer-handler", "sync-handler", "index-funcs", "state"];

const EVERYTHING = [{ apiVersion: "*", kind: "*" }];

/** See index.d.ts. */
export class Driver {
  #file;
  #members;
  #instance;
  #indexer;
  #requeues = new Map();
  host = new FakeHost();
  manifest = {};
  calls = [];

  static async start(plugin, { config = {}, name = "test", context = {} } = {}) {
    const driver = new Driver();
    driver.#file = found(plugin);
    driver.#members = { plugin: name, config, ...context };
    driver.#instance = await driver.#start("start");
    return driver;
  }

  // --- what the plugin did ---

  get writes() {
    return this.host.cluster.sent.filter(({ result }) => result === "ok").map(({ result, ...write }) => write);
  }

  get logs() {
    return this.host.logs;
  }

  get messages() {
    const isShown = ({ level }) => level !== "debug" && level !== "trace";
    return this.logs.filter(isShown).map(({ level, message }) => `${level}: ${message}`);
  }

  get reads() {
    return this.host.reads;
  }

  get requests() {
    return this.host.requests;
  }

  get events() {
    return this.host.events;
  }

  get kv() {
    const { keys } = this.host;
    return Object.fromEntries([...keys].sort().map(([key, text]) => [key, JSON.parse(text)]));
  }

  set kv(values) {
    this.host.keys = new Map(Object.entries(values).map(([key, value]) => [key, JSON.stringify(value)]));
  }

  get requeues() {
    return Object.fromEntries([...this.#requeues.values()].map(({ key, afterMs }) => [keyText(key), afterMs]));
  }

  metric(name, labels = {}) {
    const texts = Object.entries(labels).map(([label, value]) => [label, String(value)]);
    return this.host.series.get(seriesOf(name, Object.fromEntries(texts)));
  }

  clear() {
    const { cluster, logs, reads, requests, events } = this.host;
    for (const list of [cluster.sent, logs, reads, requests, events, this.calls]) list.length = 0;
  }

  // --- what the plugin meets ---

  addSource(informer, apiVersion, kind, options) {
    return this.host.cluster.addSource(informer, apiVersion, kind, options).id;
  }

  add(object, { cluster } = {}) {
    this.host.cluster.put(object, cluster);
  }

  addIndex(informer, name, values) {
    this.host.indexes.set(`${informer}/${name}`, indexFunction(informer, name, values));
  }

  serveHttp(service) {
    this.host.service = service;
  }

  refuseStore(error) {
    this.host.storeError = error;
  }

  refuseKube(error) {
    this.host.kubeError = error;
  }

  refuseRecorder(error) {
    this.host.recorderError = error;
  }

  object(key, kind) {
    const [first] = this.#keys(key, kind);
    return first === undefined ? undefined : this.host.cluster.object(first);
  }

  // --- calls ---

  async put(object, { cluster, reason = "watch", attempt = 0 } = {}) {
    const key = this.host.cluster.keyOf(object, cluster);
    let before = this.host.cluster.object(key);
    const uid = object.metadata?.uid;
    if (before !== undefined && ![undefined, before.metadata.uid].includes(uid)) {
      await this.#delete(key, false, { reason, attempt });
      before = undefined;
    }
    this.host.cluster.put(object, cluster);
    return this.deliver(key, before, this.host.cluster.object(key), { reason, attempt });
  }

  async delete(object, { kind, finalStateUnknown = false, reason = "watch", attempt = 0 } = {}) {
    const keys = typeof object === "string" ? this.#keys(object, kind) : [this.host.cluster.keyOf(object)];
    const shown = typeof object === "string" ? object : keyText(keys[0]);
    if (keys.length > 1) throw new Error(`several objects have the key ${shown}: pass { kind }, too`);
    if (keys.length === 0 || this.host.cluster.object(keys[0]) === undefined) {
      throw new Error(`the test deletes ${shown}, which is not in the cache`);
    }
    return this.#delete(keys[0], finalStateUnknown, { reason, attempt });
  }

  async synced(informer) {
    for (const { id, informer: name, isWatched } of this.host.cluster.sources) {
      if (!isWatched || ![undefined, name].includes(informer)) continue;
      await this.syncedSource(id, 0);
    }
  }

  async replay() {
    this.#requeues.clear();
    for (const { key, object } of this.host.cluster.rows()) {
      if (this.selects(object, key))
        await this.upsert(key, undefined, object, { reason: "replay", attempt: 0, isNew: true });
    }
  }

  async trigger(key, kind) {
    const [first] = this.#keys(key, kind);
    if (first === undefined) throw new Error(`the test triggers ${key}, which is not in the cache`);
    return this.#again(first, "trigger");
  }

  async reconcile(text, { kind, reason = "watch", attempt = 0, cacheIsBehind = false } = {}) {
    const rule = this.manifest.reconciler?.for;
    if (rule === undefined) throw new Error("the plugin reconciles nothing: its manifest has no `reconciler`");
    const [first] = this.#keys(text, kind ?? rule.kind);
    const object = first === undefined ? undefined : this.host.cluster.object(first);
    const key = first ?? this.#goneKey(text, rule);
    const [about, call] = [aboutOf(key, object ?? { metadata: {} }), { reason, attempt }];
    const shown = object === undefined ? undefined : payload(object, rule.payload);
    const reconciled = () => this.#instance.reconcile(about, call, shown, cacheIsBehind);
    return this.#handlingAbout("reconcile", about, call, reconciled, cacheIsBehind);
  }

  /** The key of an object that is not in the cache. */
  #goneKey(text, { apiVersion, kind }) {
    const source = this.host.cluster.sources.findIndex((of) => of.apiVersion === apiVersion && of.kind === kind);
    const [name, namespace = ""] = text.split("/").reverse();
    return { source: Math.max(source, 0), namespace, name };
  }

  async tick(name, { scheduled = new Date(), missed = 0, attempt = 0 } = {}) {
    const { timers } = this;
    if (timers.length === 0) throw new Error("the plugin has no timers: its manifest has no `timers`");
    if (!timers.includes(name)) throw new Error(`the plugin has no timer "${name}"; it has ${timers.join(", ")}`);
    const tick = { name, scheduled: timeText(scheduled), missed, attempt };
    const made = { call: "on-timer", timer: name, missed, attempt, result: "ok" };
    await this.#handling(made, {}, () => this.#instance.onTimer(tick));
  }

  async runRequeues() {
    const due = [...this.#requeues.values()];
    this.#requeues.clear();
    for (const requeue of due) await this.#makeRequeue(requeue);
    return due.length;
  }

  async settle() {
    let calls = 0;
    const { cluster } = this.host;
    while (cluster.changed.length > 0) {
      for (const { key, before } of cluster.changed.splice(0)) {
        if (++calls > SETTLE_CALLS_MAX) {
          const why = "each write causes another; compare before writing";
          throw new Error(`the plugin still writes after ${SETTLE_CALLS_MAX} calls: ${why}`);
        }
        const now = cluster.object(key);
        const call = { reason: "watch", attempt: 0 };
        if (now !== undefined) await this.deliver(key, before, now, call);
        else if (before !== undefined && this.selects(before, key)) await this.callDelete(key, before, false, call);
      }
    }
    return calls;
  }

  async index(object) {
    const values = await this.#indexValues(this.host.cluster.keyOf(object), object);
    return values ?? {};
  }

  async save() {
    return JSON.parse(await this.#calling("save", {}, () => this.#instance.save()));
  }

  async swap(plugin, { config } = {}) {
    const hasState = () => (this.manifest.roles ?? ROLES).includes("state");
    const saved = hasState() ? await this.#handingOver("save", () => this.#instance.save()) : undefined;
    const before = [this.#file, this.#members, this.manifest, this.#indexer];
    if (plugin !== undefined) this.#file = found(plugin);
    if (config !== undefined) this.#members = { ...this.#members, config };
    try {
      const instance = await this.#start("swap");
      if (saved !== undefined && hasState()) await this.#handingOver("restore", () => instance.restore(saved));
      this.#instance = instance;
    } catch (error) {
      [this.#file, this.#members, this.manifest, this.#indexer] = before;
      this.#declare();
      throw error;
    }
  }

  // --- details ---

  #context(role, because) {
    const all = {
      informant: "test",
      contract: CONTRACT,
      offers: ["store", "kube", "kv", "metrics", "recorder", "log"],
      roles: ROLES,
    };
    const limits = { memoryBytes: 64 << 20, callMs: 30_000 };
    const own = role === undefined ? {} : { role, because, instance: 0, instances: 1, logLevel: "trace" };
    return structuredClone({ ...all, limits, ...own, ...this.#members });
  }

  async #start(because) {
    const described = await this.#calling("describe", {}, () => this.#load(undefined, because));
    this.manifest = described.manifest;
    this.#indexer = undefined;
    this.#declare();
    return this.#calling("init", {}, () => this.#load("events", because));
  }

  /** A script is evaluated in each instance, and has no other initialization. */
  #load(role, because) {
    return Instance.load(this.#file, this.#context(role, because), this.host);
  }

  #declare() {
    const { metrics = [], indexes, reconciler } = this.manifest;
    this.host.declared = new Map(metrics.map((metric) => [metric.name, metric]));
    this.host.reconciler = reconciler;
    this.host.ownIndexes = indexes?.names ?? [];
    this.host.ownValues = new WeakMap();
  }

  /** Makes a call of the plugin, and what it deferred. */
  async #calling(phase, options, call) {
    this.host.begin(phase, options);
    let returned;
    try {
      returned = await call();
    } catch (error) {
      this.host.end(false);
      throw error;
    }
    try {
      if (phase === "handler") this.host.cluster.makeDeferred();
    } catch (error) {
      throw error.code === undefined ? error : this.#instance.failureOfWrite(error);
    } finally {
      this.host.end(true);
    }
    return returned;
  }

  /** Makes a call of a swap, and records it. */
  async #handingOver(name, call) {
    return this.#recording({ call: name, result: "ok" }, () => this.#calling(name, {}, call));
  }

  /** Makes a call of a handler about an object or a source, and records it. */
  async #handlingAbout(name, about, { reason, attempt }, call, isBehind) {
    const { resource } = this.host.cluster.sources[about.source];
    const object = about.name === undefined ? resource : `${resource} ${keyText(about)}`;
    const made = { call: name, reason, attempt, result: "ok", object };
    return this.#handling(made, { source: about.source, isBehind }, call);
  }

  /** Makes a call of a handler, and records it as `made`. */
  async #handling(made, about, call) {
    await this.#updateIndexes();
    const asked = await this.#recording(made, () => this.#calling("handler", about, call));
    if (asked !== undefined) made.requeueAfter = asked;
    return asked;
  }

  /** Makes a call, and records it as `made`, with the result. */
  async #recording(made, call) {
    this.calls.push(made);
    try {
      return await call();
    } catch (error) {
      Object.assign(made, { result: resultOf(error), error: error.message });
      if (error.afterMs !== undefined) made.requeueAfter = error.afterMs;
      throw error;
    }
  }

  /**
   * Computes the index values of objects that have none, as Informant does when an object changes. One on which the
   * function fails has none.
   */
  async #updateIndexes() {
    if (this.host.ownIndexes.length === 0) return;
    for (const { key, object } of this.host.cluster.rows()) {
      if (this.host.ownValues.has(object)) continue;
      this.host.ownValues.set(object, {});
      try {
        this.host.ownValues.set(object, (await this.#indexValues(key, object)) ?? {});
      } catch (error) {
        if (!(error instanceof Failed)) throw error;
      }
    }
  }

  async #indexValues(key, object) {
    const { names = [], objects = [] } = this.manifest.indexes ?? {};
    const rule = ruleOf(objects, object);
    if (rule === undefined) return undefined;
    this.#indexer ??= await this.#calling("init", { isIndex: true }, () => this.#load("index", "start"));
    const shown = payload(object, rule.payload);
    const call = () => this.#indexer.index(aboutOf(key, object), shown);
    const values = await this.#calling("index", { isIndex: true, source: key.source }, call);
    return Object.fromEntries(names.map((name, at) => [name, values[at]]));
  }

  #rule(object) {
    const { roles = ROLES, events = EVERYTHING } = this.manifest;
    return roles.includes("event-handler") ? ruleOf(events, object) : undefined;
  }

  selects(object, { source }) {
    const rule = this.#rule(object);
    if (rule === undefined || !this.host.cluster.sources[source].isWatched) return false;
    const { namespaces, labelSelector = "" } = rule;
    const isIn = namespaces === undefined || namespaces.includes(object.metadata.namespace ?? "");
    return isIn && matches(labelSelector, object);
  }

  // --- for scenarios ---

  /** The names of the timers. */
  get timers() {
    return (this.manifest.timers ?? []).map(({ name }) => name);
  }

  /** The requeue of a key. */
  requeueOf(key) {
    return this.#requeues.get(JSON.stringify(key));
  }

  /** Calls the plugin for a source, after its objects. */
  async syncedSource(id, attempt) {
    const call = { reason: "initial", attempt };
    await this.#handlingAbout("on-synced", { source: id }, call, () => this.#instance.onSynced(id, call));
  }

  /** An object that starts to match its rule is an add, one that no longer matches is a delete. */
  async deliver(key, before, object, call) {
    const known = before !== undefined && this.selects(before, key) ? before : undefined;
    if (!this.selects(object, key)) return known === undefined ? undefined : this.callDelete(key, known, false, call);
    const { changedOnly, payload: wanted } = this.#rule(object);
    const isSame = known !== undefined && isDeepStrictEqual(payload(known, wanted), payload(object, wanted));
    if (changedOnly && isSame) return undefined;
    return this.upsert(key, known, object, { ...call, isNew: known === undefined });
  }

  async upsert(key, before, object, { isNew, ...call }) {
    const { payload: wanted, old } = this.#rule(object);
    const about = aboutOf(key, object);
    const shown = payload(object, wanted);
    this.#requeues.delete(JSON.stringify(key));
    const asked = await this.#handlingAbout(isNew ? "on-add" : "on-update", about, call, () =>
      isNew
        ? this.#instance.onAdd(about, call, shown)
        : this.#instance.onUpdate(about, call, old && before ? payload(before, wanted) : undefined, shown),
    );
    return this.#requeue(key, asked);
  }

  async #delete(key, finalStateUnknown, call) {
    const last = this.host.cluster.remove(key);
    return this.selects(last, key) ? this.callDelete(key, last, finalStateUnknown, call) : undefined;
  }

  async callDelete(key, last, finalStateUnknown, call) {
    const about = aboutOf(key, last);
    const shown = payload(last, this.#rule(last).payload);
    this.#requeues.delete(JSON.stringify(key));
    const asked = await this.#handlingAbout("on-delete", about, call, () =>
      this.#instance.onDelete(about, call, shown, finalStateUnknown),
    );
    return this.#requeue(key, asked, { last, finalStateUnknown });
  }

  #requeue(key, afterMs, deleted) {
    if (afterMs !== undefined) this.#requeues.set(JSON.stringify(key), { key, afterMs, deleted });
    return afterMs;
  }

  async #makeRequeue({ key, deleted }) {
    const call = { reason: "requeue-after", attempt: 0 };
    if (deleted !== undefined) await this.callDelete(key, deleted.last, deleted.finalStateUnknown, call);
    else if (this.host.cluster.object(key) !== undefined) await this.#again(key, call.reason);
  }

  /** Calls the plugin for an object that has not changed. */
  async #again(key, reason) {
    const object = this.host.cluster.object(key);
    if (!this.selects(object, key)) return undefined;
    return this.upsert(key, undefined, object, { reason, attempt: 0, isNew: false });
  }

  #keys(text, kind) {
    const isIt = ({ key }) =>
      keyText(key) === text && [undefined, this.host.cluster.sources[key.source].kind].includes(kind);
    return this.host.cluster
      .rows()
      .filter(isIt)
      .map(({ key }) => key);
  }
}

/** The file of a plugin: relative to the test's folder, or to the current one. */
function found(plugin) {
  if (plugin instanceof URL) return fileURLToPath(plugin);
  const folders = [dirname(process.argv[1] ?? "."), process.cwd()];
  const file = folders.map((folder) => resolve(folder, plugin)).find(existsSync);
  if (file === undefined) throw new Error(`${plugin} is neither in ${folders.join(" nor in ")}`);
  return file;
}

/** The function of an index: that of the test or, for a JSON pointer, the one of `[informer.NAME.index]`. */
function indexFunction(informer, name, values) {
  const shown = [informer, name, values].map((value) => JSON.stringify(value) ?? String(value));
  const called = `addIndex(${shown.join(", ")})`;
  for (const [argument, value] of Object.entries({ informer, name })) {
    if (typeof value !== "string" || value === "") throw new TypeError(`${called}: \`${argument}\` is not a name`);
  }
  if (isPointer(values)) return (object) => scalarsAt(object, values);
  if (typeof values !== "function") {
    const needed = 'a JSON pointer such as "/metadata/ownerReferences/*/uid", or a function of an object';
    throw new TypeError(`${called}: \`values\` must be ${needed}`);
  }
  const isValue = (value) => value !== undefined && value !== null;
  return (object) => [values(structuredClone(object))].flat().filter(isValue).map(String);
}

/** The rule for an object's type: the one that names more of it. */
function ruleOf(rules, { apiVersion, kind }) {
  const types = [
    [apiVersion, kind],
    [apiVersion, "*"],
    ["*", kind],
    ["*", "*"],
  ];
  const isOf =
    ([version, name]) =>
    (rule) =>
      rule.apiVersion === version && rule.kind === name;
  return types.map((type) => rules.find(isOf(type))).find((rule) => rule !== undefined);
}

const aboutOf = (key, { metadata }) => ({
  ...key,
  uid: metadata.uid ?? "",
  resourceVersion: metadata.resourceVersion ?? "",
});

/** RFC 3339, in seconds. */
const timeText = (time) => new Date(time).toISOString().replace(/\.\d+Z$/, "Z");

const resultOf = ({ kind }) => (kind === "permanent" ? "permanent" : "retry");
