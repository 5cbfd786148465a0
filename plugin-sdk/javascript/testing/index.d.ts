/**
 * Replaces Informant in tests of a script, under `node --test`. No component is built.
 *
 * ```js
 * import assert from "node:assert/strict";
 * import { test } from "node:test";
 * import { Driver } from "informant-plugin/testing";
 *
 * test("pods with many restarts are labeled", async () => {
 *   const driver = await Driver.start("handler.js", { config: { maxRestarts: 3 } });
 *   await driver.put(pod("default", "a", { restarts: 4 }));
 *   assert.deepEqual(driver.object("default/a").metadata.labels, { restarts: "high" });
 * });
 * ```
 */

/** A URL: `new URL("handler.js", import.meta.url)`. */
export interface FileUrl {
  readonly href: string;
}

/** An object as a test writes it. */
export interface TestObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; [field: string]: any };
  [field: string]: any;
}

/** A write of the plugin to the API server. */
export interface Write {
  verb: "create" | "update" | "patch" | "delete";
  /** `v1/pods`, or `v1/pods/status` for a subresource. */
  resource: string;
  /** `namespace/name`, or `name`. */
  object: string;
  /** Of a patch. */
  kind?: "merge" | "strategic" | "apply";
  /** What was sent. Absent for a delete. */
  document?: any;
  /** Empty if the test has a single, unnamed one. */
  cluster: string;
}

/** A Kubernetes Event that the plugin has recorded. */
export interface RecordedEvent {
  type: "Normal" | "Warning";
  reason: string;
  action: string;
  note: string;
  /** `Pod default/a`, or `Node a`. */
  regarding: string;
  related?: string;
  /** Empty if the test has a single, unnamed one. */
  cluster: string;
}

export interface LogLine {
  level: "trace" | "debug" | "info" | "warn" | "error";
  message: string;
  fields: Record<string, any>;
}

/** A read of the cache. */
export interface Read {
  function: "get" | "find" | "list" | "byIndex" | "indexKeys" | "indexValues";
  informer: string;
  arguments: any[];
}

export interface HttpRequest {
  method: string;
  url: string;
  /** Names are in lowercase. */
  headers: Record<string, string>;
  /** A text or, if the script sent bytes, bytes. */
  body: any;
  /** Of the answer. */
  status?: number;
  error?: string;
}

/** The status, or what the answer has. An object as `body` is sent as JSON. */
export type HttpAnswer =
  | number
  | { status?: number; headers?: Record<string, string>; body?: string | Uint8Array | object }
  | { error: string; message?: string };

/** A call of a handler, or of `save` and `restore` in a swap, with its result. */
export interface HandlerCall {
  call: "on-add" | "on-update" | "on-delete" | "reconcile" | "on-timer" | "on-synced" | "save" | "restore";
  /** `v1/pods default/a`; of `on-synced`, `v1/pods`. */
  object?: string;
  /** Of `on-timer`. */
  timer?: string;
  missed?: number;
  reason?: import("informant").Reason;
  attempt?: number;
  result: "ok" | "retry" | "permanent";
  error?: string;
  /** Milliseconds, also of a failure that asked for a delay. */
  requeueAfter?: number;
}

export interface StartOptions {
  /** The `config` table of the plugin's section. */
  config?: Record<string, any>;
  /** The plugin's name. The default is `test`. */
  name?: string;
  /** Other members of the context: `instance` and so on. */
  context?: Record<string, any>;
}

/** Why a call is made. The defaults are `watch` and 0. */
export interface CallOptions {
  reason?: import("informant").Reason;
  attempt?: number;
}

/** What an index function returns for an object. */
export type IndexValue = string | number | boolean | null | undefined;

/** A call of the plugin failed. */
export class Failed extends Error {
  readonly kind: "retryable" | "retry-after" | "permanent";
  /** Of `retry-after`: milliseconds. */
  readonly afterMs?: number;
}

/** The most calls of `settle`. */
export const SETTLE_CALLS_MAX: number;

/**
 * A running plugin, and the objects that it sees.
 *
 * The plugin receives objects as its manifest requests: only those kinds and fields, `old` if requested, and no
 * unchanged payloads with `changedOnly`. So a test finds a field that is missing in `fields`. Deferred writes, `kv`,
 * metrics and Events take effect when a call has succeeded. Timers run only when the test calls `tick`. Retries and
 * limits are not simulated: test them in a scenario.
 *
 * A call that fails rejects with `Failed`. Make one call at a time: await each.
 */
export class Driver {
  private constructor();

  /** Starts the script in a file, whose path is relative to the folder of the test file, or to the current one. */
  static start(plugin: string | FileUrl, options?: StartOptions): Promise<Driver>;

  readonly manifest: import("informant").Manifest & { roles: string[] };

  /** The writes to the API server since `clear`, without failed ones and dry runs. */
  readonly writes: Write[];
  /** The lines logged since `clear`, with their fields. */
  readonly logs: LogLine[];
  /** The same lines as `level: message`, without `debug` and `trace`. */
  readonly messages: string[];
  /** The reads of the cache since `clear`. */
  readonly reads: Read[];
  /** The Kubernetes Events that calls have recorded since `clear`, without those of calls that failed. */
  readonly events: RecordedEvent[];
  /** The HTTP requests since `clear`. */
  readonly requests: HttpRequest[];
  /** The calls of handlers since `clear`. */
  readonly calls: HandlerCall[];
  /** What the plugin remembers. Assign other values to change it. */
  kv: Record<string, any>;
  /** The keys of the objects for which the plugin asked to be called again, and after how many milliseconds. */
  readonly requeues: Record<string, number>;
  /** The value of a series. Of a histogram, the observed values. */
  metric(name: string, labels?: Record<string, string | number | boolean>): number | number[] | undefined;
  /** Forgets writes, logs, reads, Events, requests and calls. */
  clear(): void;

  /**
   * Adds a source to an informer, and returns its number. Without it, the informer of Pods is called `pods`, and so on.
   */
  addSource(
    informer: string,
    apiVersion: string,
    kind: string,
    options?: { cluster?: string; namespaced?: boolean },
  ): number;
  /** Puts an object into the cache without a call of the plugin. */
  add(object: TestObject, options?: { cluster?: string }): void;
  /**
   * Adds an index of config.toml, or of another plugin, to an informer: by the JSON pointer in `[informer.NAME.index]`,
   * such as `/spec/nodeName`, or by a function of an object. The plugin's own indexes are there.
   */
  addIndex(informer: string, name: string, values: string | ((object: any) => IndexValue | IndexValue[])): void;
  /** Answers HTTP requests. Until then they are denied. */
  serveHttp(service: (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>): void;
  /** Makes every read of the cache fail with this error; `undefined` ends that. */
  refuseStore(error: { code: string; message: string } | undefined): void;
  /** Makes every call of `kube` fail with this error; `undefined` ends that. */
  refuseKube(
    error: { code: string; message: string; status?: number; reason?: string; retryAfterMs?: number } | undefined,
  ): void;
  /** Makes every call of `recorder` fail with this error; `undefined` ends that. */
  refuseRecorder(error: { code: string; message: string } | undefined): void;
  /** The object with this key, `namespace/name`, as it is in the cache. */
  object(key: string, kind?: string): any;

  /**
   * Puts an object into the cache and calls the plugin: an add if the key is new, otherwise an update. An object with
   * another uid is a delete and an add. Returns the milliseconds after which the plugin wants to be called again.
   */
  put(object: TestObject, options?: CallOptions & { cluster?: string }): Promise<number | undefined>;
  /** Removes an object, or the one with this key (`namespace/name`), and calls the plugin. */
  delete(
    object: TestObject | string,
    options?: CallOptions & { kind?: string; finalStateUnknown?: boolean },
  ): Promise<number | undefined>;
  /** Calls the plugin for each source of an informer, or of all: every object was attempted. */
  synced(informer?: string): Promise<void>;
  /** Calls the plugin for each object of the cache, as after a restart. */
  replay(): Promise<void>;
  /** Calls the plugin for an object, as `informant plugin trigger` does. */
  trigger(key: string, kind?: string): Promise<number | undefined>;
  /**
   * Calls `reconcile` for an object, as it is in the cache; as for one that is gone if it is not there. Resolves to the
   * milliseconds after which the plugin wants to be called again. `kube.children` sees the objects of the cache, as if
   * the plugin had an informer for each kind in `owns`; with `cacheIsBehind` it deletes nothing.
   */
  reconcile(
    key: string,
    options?: CallOptions & { kind?: string; cacheIsBehind?: boolean },
  ): Promise<number | undefined>;
  /**
   * Runs the timer with this name. It was due at `scheduled`, by default now, and the run stands for `missed` earlier
   * ones.
   */
  tick(name: string, options?: { scheduled?: string | Date; missed?: number; attempt?: number }): Promise<void>;
  /** Makes the calls that the plugin asked for, without waiting, each once. Returns the number of calls. */
  runRequeues(): Promise<number>;
  /** Delivers the events of the plugin's own writes until it stops writing. Returns the number of calls. */
  settle(): Promise<number>;
  /**
   * The values of an object in the plugin's indexes. The object is not put into the cache. Throws what the index
   * function throws; an object of the cache on which it fails has no values.
   */
  index(object: TestObject): Promise<Record<string, string[]>>;
  /** The state that the plugin hands over to its next version. */
  save(): Promise<any>;
  /**
   * Replaces the plugin by another version, or by itself, which receives its state. The cache and `kv` stay. If the new
   * version fails, the previous one keeps running.
   */
  swap(plugin?: string | FileUrl, options?: { config?: Record<string, any> }): Promise<void>;
}

export interface ScenarioOptions {
  /** The script. By default, the one in the file. */
  path?: string | FileUrl;
}

/** Registers a test that runs the scenario in a file. Needs the package `yaml`. */
export function scenario(file: string | FileUrl, options?: ScenarioOptions): Promise<void>;

/** Runs the scenario in a file. Rejects with an AssertionError that lists all that differs. */
export function runScenario(file: string | FileUrl, options?: ScenarioOptions): Promise<void>;
