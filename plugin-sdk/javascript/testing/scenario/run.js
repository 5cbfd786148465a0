// Runs a scenario: the plugin in a driver, with retries, dead letters and a clock that only `wait` moves.
import { isDeepStrictEqual } from "node:util";

import { isMapping, keyText, merged, resourceOf } from "../cluster.js";
import { Driver } from "../driver.js";
import { seriesOf } from "../host.js";
import { Failed } from "../instance.js";
import { stateDifferences, streamDifferences, pattern } from "./expect.js";
import { STREAMS, referenceText } from "./format.js";

/** 2026-01-01T00:00:00Z. */
const START_MS = Date.UTC(2026, 0, 1);

/** As in Informant, without what it adds at random. */
const BACK_OFF_FIRST_MS = 1_000;
const BACK_OFF_MAX_MS = 300_000;
const REQUEUE_MIN_MS = 100;

/** The most events of the plugin's own writes after one call. */
const EVENTS_MAX = 1_000;

const ROLES = {
  "on-add": "event-handler",
  "on-update": "event-handler",
  "on-delete": "event-handler",
  "on-synced": "sync-handler",
  save: "state",
  restore: "state",
};

const DEFINITIONS = ["v1/namespaces", "apiextensions.k8s.io/v1/customresourcedefinitions"];

export class Run {
  now = START_MS;
  #scenario;
  #driver;
  #answers;
  #refusal;
  /** Calls that are due later, by key: retries, which have `failures`, and calls that the plugin asked for. */
  #timers = new Map();
  #deadLetters = new Map();
  #kinds;
  #setClock;

  constructor(scenario) {
    this.#scenario = scenario;
    this.#answers = scenario.answers.map((answer) => ({ ...answer }));
    const objects = [
      ...scenario.objects,
      ...scenario.steps.flatMap(({ action, value }) => (["apply", "patch"].includes(action) ? value : [])),
    ];
    this.#kinds = new Map(
      objects.flat().map(({ apiVersion, kind }) => [resourceOf(apiVersion, kind), { apiVersion, kind }]),
    );
  }

  /** Runs all steps. Returns what differs. */
  async all(setClock) {
    this.#setClock = setClock;
    const differences = [];
    await this.#refusable(() => this.#start());
    for (const step of this.#scenario.steps) {
      if (this.#driver !== undefined) await this.#act(step);
      if (step.expect !== undefined) differences.push(...this.#compare(step.expect));
      if (this.#refusal !== undefined)
        differences.push(`${step.node.place}: ${step.node.name}: the plugin was refused: ${this.#refusal}`);
      this.#refusal = undefined;
      if (this.#driver === undefined) break;
    }
    return differences;
  }

  // --- what happens ---

  async #start() {
    const { path, plugin, informers, objects, kv } = this.#scenario;
    const driver = await Driver.start(path, { name: plugin.name, config: plugin.config });
    const { cluster } = driver.host;
    cluster.watchesAll = false;
    this.#driver = driver;
    driver.host.keys = new Map(
      Object.entries(kv).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]),
    );
    if (plugin.allow.http !== undefined) driver.serveHttp((request) => this.#answer(request));
    if (plugin.allow.kube === undefined) driver.refuseKube({ code: "denied", message: "not granted (allow.kube)" });
    const isIts = ({ name }) => plugin.informers === undefined || plugin.informers.includes(name);
    driver.host.indexRemedy = (informer, name, pointer) =>
      `add it to the scenario: config: { informer: { ${informer}: { index: { ${name}: ${pointer} } } } }`;
    for (const { name, resource, indexes, node } of informers.filter(isIts)) {
      const known =
        this.#kindOf(resource) ?? node.needsInformant(`a resource that no object of the scenario has (${resource})`);
      cluster.addSource(name, known.apiVersion, known.kind, { resource });
      for (const [index, pointer] of indexes) driver.addIndex(name, index, pointer);
    }
    for (const { apiVersion, kind } of driver.manifest.events ?? []) {
      const isWatched =
        apiVersion === "*" ||
        kind === "*" ||
        cluster.sources.some((info) => info.apiVersion === apiVersion && info.kind === kind);
      if (!isWatched) cluster.addSource(resourceOf("", kind).slice(1), apiVersion, kind);
    }
    this.#checkWhatCanMatch();
    for (const object of objects) await this.#apply(object, "initial");
    const isSynced = ({ isWatched }) => isWatched && this.#has("sync-handler");
    for (const { id } of cluster.sources.filter(isSynced)) {
      await this.#make({ source: id }, { what: "synced" });
    }
  }

  /** The kind of a resource: of an object of the scenario, or of a rule in the manifest. */
  #kindOf(resource) {
    const rules = this.#driver.manifest.events ?? [];
    const rule = rules.find(({ apiVersion, kind }) => resourceOf(apiVersion, kind) === resource);
    return this.#kinds.get(resource) ?? rule;
  }

  #has(role) {
    return (this.#driver.manifest.roles ?? Object.values(ROLES)).includes(role);
  }

  async #refusable(call) {
    try {
      await call();
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      this.#refusal = error.message;
    }
  }

  async #act({ action, value, node }) {
    const driver = this.#driver;
    switch (action) {
      case "apply":
        for (const object of value) await this.#apply(object, "watch");
        break;
      case "patch": {
        const key = driver.host.cluster.keyOf(value);
        const before =
          driver.host.cluster.object(key) ?? node.fail(`${referenceText(value)} does not exist: apply it first`);
        await this.#change(key, before, merged(before, value), "watch");
        break;
      }
      case "delete":
        await this.#delete(value);
        break;
      case "wait":
        await this.#wait(value);
        break;
      case "http":
        this.#answers = value;
        break;
      case "swap":
        await this.#refusable(() => this.#swap(value));
        break;
      case "trigger":
        await this.#ask(this.#existing(value), { what: "object", reason: "trigger", known: "asked" });
        break;
      case "requeue":
        await this.#redeliver(node, value);
        break;
    }
  }

  async #apply(object, reason) {
    const { cluster } = this.#driver.host;
    const { namespace } = object.metadata;
    if (namespace !== undefined && namespace !== "default") await this.#createNamespace(namespace, reason);
    const key = cluster.keyOf(object);
    await this.#change(key, cluster.object(key), object, reason);
  }

  /** Namespaces that do not exist are created first. */
  async #createNamespace(name, reason) {
    const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
    const key = this.#driver.host.cluster.keyOf(namespace);
    if (this.#driver.host.cluster.object(key) === undefined) await this.#change(key, undefined, namespace, reason);
  }

  /** Writes an object to the cluster, and delivers the event. */
  async #change(key, before, after, reason) {
    const { cluster } = this.#driver.host;
    const { uid, resourceVersion } = before?.metadata ?? {};
    const { uid: newUid = uid, ...metadata } = after.metadata;
    const written = {
      ...after,
      metadata: {
        ...metadata,
        ...(newUid === undefined ? {} : { uid: newUid }),
        ...(resourceVersion && { resourceVersion }),
      },
    };
    // The API server writes nothing then.
    if (before !== undefined && isDeepStrictEqual(before, written)) return;
    cluster.put(written);
    await this.#event(key, before, reason);
    await this.#settle();
  }

  async #delete(reference) {
    const { cluster } = this.#driver.host;
    const key = this.#existing(reference);
    const before = cluster.object(key);
    if ((before.metadata.finalizers ?? []).length > 0) {
      const deletionTimestamp = new Date(this.now).toISOString().replace(/\.\d+Z/, "Z");
      await this.#change(key, before, merged(before, { metadata: { deletionTimestamp } }), "watch");
      return;
    }
    cluster.remove(key);
    await this.#event(key, before, "watch");
    await this.#settle();
  }

  #existing({ text, resource, namespace, name, node }) {
    return this.#keyOf({ resource, namespace, name }) ?? node.fail(`${text} does not exist`);
  }

  #keyOf(reference) {
    return this.#keys().find((key) => this.#isIts(key, reference));
  }

  /** The keys of all objects that exist. */
  #keys() {
    return this.#driver.host.cluster.rows().map(({ key }) => key);
  }

  #isIts(key, { resource, namespace, name }) {
    const { sources } = this.#driver.host.cluster;
    return sources[key.source].resource === resource && key.namespace === namespace && key.name === name;
  }

  /** Delivers what an object is now. While a retry is due, that delivers it. */
  async #event(key, before, reason) {
    const id = JSON.stringify(key);
    const was = before !== undefined && this.#driver.selects(before, key) ? before : undefined;
    const now = this.#received(key);
    const retry = this.#retry(id);
    // What follows is delivered after the end of the object before.
    if (retry?.call.what === "deleted" || (was === undefined && now === undefined)) return;
    let call = { what: "object", reason, known: this.#deadLetters.has(id) ? "maybe" : "exactly", before: was };
    if (now === undefined) call = { what: "deleted", reason, last: was, finalStateUnknown: false };
    else if (retry !== undefined) call = { ...retry.call, reason };
    if (retry === undefined) await this.#make(key, call);
    else Object.assign(retry, { attempt: 0, call });
  }

  /** The object of a key, if the plugin receives it. */
  #received(key) {
    const object = this.#driver.host.cluster.object(key);
    return object !== undefined && this.#driver.selects(object, key) ? object : undefined;
  }

  #retry(id) {
    const timer = this.#timers.get(id);
    return timer?.failures === undefined ? undefined : timer;
  }

  /** Makes a call that somebody asks for, unless a retry is due. */
  async #ask(key, call) {
    if (this.#retry(JSON.stringify(key)) === undefined) await this.#make(key, call);
    await this.#settle();
  }

  /** Delivers the events of the plugin's own writes. */
  async #settle() {
    const { changed } = this.#driver.host.cluster;
    for (let calls = 0; changed.length > 0; calls++) {
      if (calls > EVENTS_MAX)
        throw new Error(
          `${this.#scenario.root.place}: the plugin still writes after ${EVENTS_MAX} events: compare before writing`,
        );
      const { key, before } = changed.shift();
      await this.#event(key, before, "watch");
    }
  }

  /**
   * Makes a call, and keeps what follows from it. It is about
   * - an `object`, which is delivered as it is then. What the plugin knows before, it knows `exactly`: it has accepted
   *   the state `before`, or received none. Or `maybe`: a call has failed since, so it is called even if nothing that it
   *   receives has changed. Or somebody `asked`: an update without an old state.
   * - one that was `deleted`, whose `last` state this is.
   * - the end of a list, `synced`.
   */
  async #make(key, call, { attempt = 0, failures = 0 } = {}) {
    const id = JSON.stringify(key);
    const calls = this.#driver.calls.length;
    let failed;
    try {
      await this.#call(key, call, attempt);
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      failed = error;
    }
    // An event that the plugin is not called for cancels nothing.
    if (failed === undefined && this.#driver.calls.length === calls) return;
    this.#timers.delete(id);
    if (failed === undefined || failed.kind === "permanent") {
      await this.#end(key, call, failed);
      return;
    }
    const again = call.known === "exactly" ? { ...call, known: "maybe" } : call;
    // A wait that the handler asked for does not lengthen the next back-off.
    const counted = failed.kind === "retry-after" ? failures : failures + 1;
    const due = this.now + (failed.afterMs ?? Math.min(BACK_OFF_FIRST_MS * 2 ** failures, BACK_OFF_MAX_MS));
    this.#timers.set(id, { key, due, call: again, attempt: attempt + 1, failures: counted });
  }

  /** A call has succeeded, or is not retried. */
  async #end(key, call, failed) {
    const id = JSON.stringify(key);
    this.#deadLetters.delete(id);
    if (failed === undefined) this.#keepRequeue(key);
    // A dead letter is about an object.
    else if (call.what !== "synced") this.#deadLetters.set(id, { key, error: failed.message, call });
    // It was created again while the delete was retried.
    if (call.what === "deleted" && this.#received(key) !== undefined) await this.#event(key, undefined, "watch");
  }

  async #call(key, { what, reason, known, before, last, finalStateUnknown }, attempt) {
    const driver = this.#driver;
    const now = what === "object" ? this.#received(key) : undefined;
    if (what === "synced") await driver.syncedSource(key.source, attempt);
    else if (what === "deleted") await driver.callDelete(key, last, finalStateUnknown, { reason, attempt });
    else if (now !== undefined && known === "exactly") await driver.deliver(key, before, now, { reason, attempt });
    else if (now !== undefined) {
      const isNew = known === "maybe" && before === undefined;
      await driver.upsert(key, before, now, { reason, attempt, isNew });
    }
  }

  /** Keeps the call that the plugin has asked for. */
  #keepRequeue(key) {
    const requeue = this.#driver.requeueOf(key);
    if (requeue === undefined) return;
    const { afterMs, deleted } = requeue;
    const reason = "requeue-after";
    const call =
      deleted === undefined ? { what: "object", reason, known: "asked" } : { what: "deleted", reason, ...deleted };
    const due = this.now + Math.max(afterMs, REQUEUE_MIN_MS);
    this.#timers.set(JSON.stringify(key), { key, due, call });
  }

  async #wait(milliseconds) {
    const end = this.now + milliseconds;
    for (;;) {
      const [timer] = [...this.#timers.values()].filter(({ due }) => due <= end).sort((a, b) => a.due - b.due);
      if (timer === undefined) break;
      this.#setNow(Math.max(timer.due, this.now));
      this.#timers.delete(JSON.stringify(timer.key));
      await this.#make(timer.key, timer.call, timer);
      await this.#settle();
    }
    this.#setNow(end);
  }

  #setNow(now) {
    this.now = now;
    this.#setClock(now);
  }

  async #swap(path) {
    await this.#driver.swap(path);
    this.#checkWhatCanMatch();
  }

  /** Redelivers dead letters, or the object of a key. */
  async #redeliver(node, reference) {
    let keys = [...this.#deadLetters.values()].map(({ key }) => key);
    if (reference !== undefined)
      keys = [...keys, ...this.#keys()].filter((key) => this.#isIts(key, reference)).slice(0, 1);
    if (keys.length === 0) {
      const of = reference === undefined ? "" : ` of ${reference.text}`;
      node.at("requeue").fail(`the plugin has no dead letter${of}`);
    }
    for (const key of keys) {
      const letter = this.#deadLetters.get(JSON.stringify(key));
      const isGone = letter?.call.what === "deleted" && this.#received(key) === undefined;
      // An object is delivered as if for the first time.
      const call = isGone ? letter.call : { what: "object", known: "maybe" };
      await this.#ask(key, { ...call, reason: "requeue" });
    }
  }

  /** The answer to an HTTP request: of the first that matches and is not used up. */
  #answer({ method, url }) {
    const isIts = (answer) =>
      [undefined, method].includes(answer.method) && pattern(answer.url).test(url) && answer.times !== 0;
    const answer = this.#answers.find(isIts);
    if (answer === undefined) return { error: "connect", message: `the scenario has no answer to ${method} ${url}` };
    if (answer.times !== undefined) answer.times -= 1;
    const { status, headers, body, error } = answer;
    return { status, headers, body, error };
  }

  // --- what is expected ---

  /** Refuses expectations that can never match, and objects that nothing would notice. */
  #checkWhatCanMatch() {
    const { steps, plugin } = this.#scenario;
    const { cluster, declared } = this.#driver.host;
    const resources = cluster.sources.filter(({ isWatched }) => isWatched).map(({ resource }) => resource);
    for (const { action, value, node, expect } of steps) {
      for (const object of action === "apply" ? value : []) {
        const resource = resourceOf(object.apiVersion, object.kind);
        const isNoticed =
          resources.includes(resource) || plugin.allow.kube !== undefined || DEFINITIONS.includes(resource);
        if (!isNoticed)
          node.at("apply").fail(`no informer of the plugin watches ${resource}, and allow.kube does not cover it`);
      }
      for (const { call, object, at } of callsOf(expect)) {
        if (!this.#has(ROLES[call])) at.fail(`the plugin has no function for ${call}`);
        const resource = object?.split(" ")[0];
        if (resource !== undefined && !resources.includes(resource))
          at.fail(`no informer of the plugin watches ${resource}`);
      }
      const metrics = expect?.node.has("metrics") ? expect.node.at("metrics").members() : [];
      for (const [series, at] of metrics) metricOf(series, declared, at);
    }
  }

  #compare(expect) {
    const { node } = expect;
    const happened = this.#happened();
    const streams = Object.keys(STREAMS).filter((stream) => node.has(stream));
    const differences = streams.flatMap((stream) => streamDifferences(stream, node.at(stream), happened[stream]));
    if (this.#driver !== undefined) {
      differences.push(...stateDifferences(expect, this.#state()));
      this.#driver.clear();
    }
    if (!node.has("refused")) return differences;
    const at = node.at("refused");
    if (this.#refusal === undefined) differences.push(`${at.place}: refused: the plugin was not refused`);
    else if (!pattern(at.text()).test(this.#refusal))
      differences.push(
        `${at.place}: refused: expected ${JSON.stringify(at.value)}, found ${JSON.stringify(this.#refusal)}`,
      );
    this.#refusal = undefined;
    return differences;
  }

  /** What the streams of an `expect` are compared with. */
  #happened() {
    const driver = this.#driver;
    if (driver === undefined) return { calls: [], log: [], writes: [], http: [], deadLetters: [] };
    const writeOf = ({ resource, object, ...write }) => {
      const [, base, subresource] = /^((?:[^/]+\/)?v[^/]+\/[^/]+)(?:\/(.+))?$/.exec(resource);
      return { ...write, object: `${base} ${object}`, ...(subresource === undefined ? {} : { subresource }) };
    };
    const shown = ({ key }) => `${driver.host.cluster.sources[key.source].resource} ${keyText(key)}`;
    return {
      calls: driver.calls,
      log: driver.logs.filter(({ level }) => !["trace", "debug"].includes(level)),
      writes: driver.host.cluster.sent.map(writeOf),
      http: driver.requests,
      deadLetters: [...this.#deadLetters.values()].map((letter) => ({ object: shown(letter), error: letter.error })),
    };
  }

  #state() {
    const { host } = this.#driver;
    return {
      object: (object) => host.cluster.object(host.cluster.keyOf(object)),
      exists: (reference) => this.#keyOf(reference) !== undefined,
      kv: (key) => host.keys.get(key),
      metric: (series, node) => metricValue(metricOf(series, host.declared, node), host.series),
      index: (informer, index, value, node) => this.#indexed(informer, index, value, node),
    };
  }

  #indexed(informer, index, value, node) {
    const { host } = this.#driver;
    const known = host.indexes.get(`${informer}/${index}`);
    if (known === undefined && !host.ownIndexes.includes(index))
      node.fail(`neither the manifest nor informer.${informer}.index in config declares the index ${index}`);
    const sources = host.cluster.sources.filter((info) => info.informer === informer).map(({ id }) => id);
    if (sources.length === 0) node.fail(`the plugin has no informer ${informer}`);
    const valuesOf = known ?? ((object) => host.ownValues.get(object)?.[index] ?? []);
    const isIt = ({ key, object }) => sources.includes(key.source) && valuesOf(object).includes(value);
    return host.cluster
      .rows()
      .filter(isIt)
      .map(({ key }) => key);
  }
}

/** The expected calls of an `expect`. */
function callsOf(expect) {
  if (!expect?.node.has("calls")) return [];
  const calls = expect.node.at("calls");
  const entries = (isMapping(calls.value) ? calls.at("includes") : calls).list();
  return entries
    .map((at) => ({ ...(typeof at.value === "string" ? STREAMS.calls.short(at.value) : at.value), at }))
    .filter(({ call }) => call !== undefined);
}

/** The metric of a series such as `failures_total{namespace="shop"}`, its labels, and what of a histogram. */
function metricOf(series, declared, node) {
  const [, name, labels = ""] = /^([A-Za-z0-9_]+)(?:\{(.*)\})?$/.exec(series) ?? node.fail(`"${series}" is no series`);
  const pairs = [...labels.matchAll(/([A-Za-z0-9_]+)="([^"]*)"/g)].map(([, label, value]) => [label, value]);
  for (const [metric, { type }] of declared) {
    const suffixes = { counter: ["_total"], gauge: [""], histogram: ["_count", "_sum", "_bucket"] }[type];
    const suffix = suffixes.find((suffix) => name === `${metric}${suffix}`);
    if (suffix !== undefined) return { ...declared.get(metric), suffix, labels: Object.fromEntries(pairs) };
  }
  return node.fail(`the manifest declares no metric ${name}; a counter ends in _total`);
}

function metricValue({ name, suffix, labels: { le, ...labels } }, series) {
  const value = series.get(seriesOf(name, labels));
  if (!Array.isArray(value)) return value;
  if (suffix === "_count") return value.length;
  if (suffix === "_sum") return value.reduce((sum, one) => sum + one, 0);
  return value.filter((one) => le === "+Inf" || one <= Number(le)).length;
}
