// Runs a scenario: the plugin in a driver, on a clock that only `wait` moves.
import { isDeepStrictEqual } from "node:util";

import { isMapping, keyText, merged, resourceOf } from "../cluster.js";
import { Driver } from "../driver.js";
import { seriesOf } from "../host.js";
import { Failed } from "../instance.js";
import { Calls } from "./calls.js";
import { stateDifferences, streamDifferences, pattern } from "./expect.js";
import { STREAMS, referenceText } from "./format.js";

const ROLES = {
  "on-add": "event-handler",
  "on-update": "event-handler",
  "on-delete": "event-handler",
  "on-timer": "timer-handler",
  "on-synced": "sync-handler",
  save: "state",
  restore: "state",
};

const DEFINITIONS = ["v1/namespaces", "apiextensions.k8s.io/v1/customresourcedefinitions"];

export class Run {
  #scenario;
  #driver;
  #calls;
  #answers;
  #refusal;
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
    if (driver.manifest.reconciler !== undefined) this.#scenario.root.needsInformant("a reconciler");
    const { cluster } = driver.host;
    cluster.watchesAll = false;
    this.#driver = driver;
    this.#calls = new Calls(driver, this.#scenario.root, this.#setClock);
    driver.host.keys = new Map(
      Object.entries(kv).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]),
    );
    if (plugin.allow.http !== undefined) driver.serveHttp((request) => this.#answer(request));
    if (plugin.allow.kube === undefined) driver.refuseKube({ code: "denied", message: "not granted (allow.kube)" });
    if (plugin.allow.events !== true) driver.refuseRecorder({ code: "denied", message: "not granted (allow.events)" });
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
      await this.#calls.make({ source: id }, { what: "synced" });
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
        await this.#calls.wait(value);
        break;
      case "http":
        this.#answers = value;
        break;
      case "swap":
        await this.#refusable(() => this.#swap(value));
        break;
      case "timer":
        this.#checkTimer(value, node.at("timer"));
        await this.#calls.tick(value);
        break;
      case "trigger":
        await this.#calls.ask(this.#existing(value), { what: "object", reason: "trigger", known: "asked" });
        break;
      case "requeue":
        await this.#redeliver(node, value);
        break;
    }
  }

  #checkTimer(name, node) {
    const { timers } = this.#driver;
    if (timers.includes(name)) return;
    node.fail(`the plugin has no timer ${JSON.stringify(name)}; it has ${timers.join(", ") || "none"}`);
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
    await this.#calls.event(key, before, reason);
    await this.#calls.settle();
  }

  async #delete(reference) {
    const { cluster } = this.#driver.host;
    const key = this.#existing(reference);
    const before = cluster.object(key);
    if ((before.metadata.finalizers ?? []).length > 0) {
      const deletionTimestamp = new Date(this.#calls.now).toISOString().replace(/\.\d+Z/, "Z");
      await this.#change(key, before, merged(before, { metadata: { deletionTimestamp } }), "watch");
      return;
    }
    cluster.remove(key);
    await this.#calls.event(key, before, "watch");
    await this.#calls.settle();
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

  async #swap(path) {
    await this.#driver.swap(path);
    this.#checkWhatCanMatch();
  }

  /** Redelivers dead letters, or the object of a key. */
  async #redeliver(node, reference) {
    let keys = [...this.#calls.deadLetters.values()].map(({ key }) => key);
    if (reference !== undefined)
      keys = [...keys, ...this.#keys()].filter((key) => this.#isIts(key, reference)).slice(0, 1);
    if (keys.length === 0) {
      const of = reference === undefined ? "" : ` of ${reference.text}`;
      node.at("requeue").fail(`the plugin has no dead letter${of}`);
    }
    for (const key of keys) await this.#calls.redeliver(key);
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
      for (const { call, object, timer, at } of callsOf(expect)) {
        if (!this.#has(ROLES[call])) at.fail(`the plugin has no function for ${call}`);
        if (timer !== undefined) this.#checkTimer(timer, at);
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
    if (driver === undefined) return { calls: [], log: [], writes: [], events: [], http: [], deadLetters: [] };
    const writeOf = ({ resource, object, ...write }) => {
      const [, base, subresource] = /^((?:[^/]+\/)?v[^/]+\/[^/]+)(?:\/(.+))?$/.exec(resource);
      return { ...write, object: `${base} ${object}`, ...(subresource === undefined ? {} : { subresource }) };
    };
    const letters = [...this.#calls.deadLetters.values()];
    const shown = ({ key }) => `${driver.host.cluster.sources[key.source].resource} ${keyText(key)}`;
    return {
      calls: driver.calls,
      log: driver.logs.filter(({ level }) => !["trace", "debug"].includes(level)),
      writes: driver.host.cluster.sent.map(writeOf),
      events: driver.events,
      http: driver.requests,
      deadLetters: letters.map((letter) => ({ object: shown(letter), error: letter.message })),
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
