/** Informant plugins in JavaScript and TypeScript. */

/** A Kubernetes object, or the fields of it that the manifest requests. */
export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    uid: string;
    resourceVersion: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    [field: string]: any;
  };
  [field: string]: any;
}

/** Why a call is made. */
export type Reason = "initial" | "watch" | "relist" | "resync" | "replay" | "requeue" | "reconfigured" | "restored" | "requeue-after" | "trigger" | "other";

/** What `init` receives in addition to the configuration. Members may be added. */
export interface Context {
  /** The plugin's name in config.toml. */
  readonly plugin: string;
  /** The `config` table of the plugin's section. */
  readonly config: any;
  /** The versions of the host, and of its contract. */
  readonly informant: string;
  readonly contract: string;
  /** The purpose of the instance. Instances with different roles share no memory. */
  readonly role: "events" | "index";
  readonly [member: string]: any;
}

/** The details of a source of objects. */
export interface SourceInfo {
  readonly informer: string;
  /** Empty if config.toml has a single, unnamed cluster. */
  readonly cluster: string;
  readonly apiVersion: string;
  readonly kind: string;
}

/** A source of an informer. */
export interface Source extends SourceInfo {
  readonly id: number;
  /** `live` if the watch is open. */
  readonly state: "syncing" | "live" | "stale" | "waiting-for-resource" | "forbidden" | "refused" | "stopped" | "other";
  /** As `kube` wants it: `v1/pods`, `apps/v1/deployments`. */
  readonly resource: string;
  /** The only namespace that is read, if it is one. */
  readonly namespace?: string | null;
}

/** The object that a call is about, and why the call is made. As text it is `namespace/name`. */
export interface Event extends SourceInfo {
  readonly source: number;
  /** Empty for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Opaque: compare it only for equality. */
  readonly resourceVersion: string;
  readonly reason: Reason;
  /** 0 for the first attempt; each retry adds 1. */
  readonly attempt: number;
  toString(): string;
}

export interface DeleteEvent extends Event {
  /** Whether the delete happened while no watch was running, so that the object may have changed after its last known state. */
  readonly finalStateUnknown: boolean;
}

/** The whole object, only `metadata`, nothing, or the fields at JSON pointers; `*` matches every element. */
export type Payload = "whole" | "metadata" | "none" | { fields: string[] };

export interface EventRule {
  /** `v1`, `apps/v1`, or `*`. */
  apiVersion: string;
  /** `Pod`, or `*`. */
  kind: string;
  payload?: Payload;
  /** Include the previous state in updates. */
  old?: boolean;
  /** Skip updates that leave the payload identical. */
  changedOnly?: boolean;
  /** Only objects in these namespaces. */
  namespaces?: string[];
  /** Only objects that match this selector. */
  labelSelector?: string;
}

export interface IndexRule {
  apiVersion: string;
  kind: string;
  payload?: Payload;
}

/** The manifest (docs/reference/manifest.md). The plugin plays the roles whose functions it defines. */
export interface Manifest {
  name: string;
  version: string;
  /** By default, every object of the plugin's informers, whole. */
  events?: EventRule[];
  /** The names of the indexes that `index` returns, or an object that also lists the objects to index. */
  indexes?: string[] | { names: string[]; objects: IndexRule[] };
  /** The permissions that the plugin requires. */
  needs?: object[];
}

export type IndexValue = string | number | boolean | null | undefined;

/** Returned by a handler: done; call me again for this object in that many milliseconds, a whole number. */
export interface Requeue {
  requeueAfter: number;
}

/** A plugin: the functions that Informant calls. A call that throws is a failure and is retried. The functions must not be async. */
export interface Definition<T = KubernetesObject, Config = any, State = any> {
  manifest: Manifest;
  /** Called once in each instance, before any other function. `config` is the `config` table of the plugin's section. Only `log` can be called. */
  init?(config: Config, context: Context): void;
  onAdd?(object: T, event: Event): Requeue | void;
  /** `old` is undefined if the previous state is no longer known. */
  onUpdate?(old: T | undefined, object: T, event: Event): Requeue | void;
  /** `last` is undefined if only the key is known. */
  onDelete?(last: T | undefined, event: DeleteEvent): Requeue | void;
  /** Called when the handler has received every object of a source. */
  onSynced?(source: number): void;
  /** Returns the values of each index for an object. */
  index?(object: T, event: Event): Record<string, IndexValue | IndexValue[]> | null | undefined;
  /** Returns the state for the next version, which must be JSON. */
  save?(): State;
  /** Receives the state that the previous version saved. */
  restore?(state: State): void;
}

/** The contract's interfaces. */
export interface Exports {
  lifecycle: object;
  eventHandler: object;
  syncHandler: object;
  indexFuncs: object;
  state: object;
}

/** Creates the exports of a plugin's module: `export const { lifecycle, eventHandler, syncHandler, indexFuncs, state } = plugin({ … });` */
export function plugin<T = KubernetesObject, Config = any, State = any>(definition: Definition<T, Config, State>): Exports;

/** Writes lines to Informant's log, labeled with the plugin's name. Values other than strings are written as JSON. `console` does the same. */
export const log: Readonly<Record<"trace" | "debug" | "info" | "warn" | "error", (...values: unknown[]) => void>>;

/** Throw it for an event that must not be retried: it becomes a dead letter. */
export class Permanent extends Error {}

/** Throw it to have the event retried after this many milliseconds. */
export class RetryAfter extends Error {
  constructor(milliseconds: number, message?: string, options?: ErrorOptions);
  readonly milliseconds: number;
}

/** A host call failed. */
export class HostError extends Error {
  readonly code:
    | "denied"
    | "not-ready"
    | "not-found"
    | "unknown-informer"
    | "unknown-index"
    | "too-large"
    | "timeout"
    | "stale"
    | "unavailable"
    | "unsupported"
    | "invalid"
    | "other";
}

export interface Clusters {
  /** By default, the cluster of the object that the call is about. In a call about no object, the only cluster. */
  clusters?: "all";
}

export interface Fields {
  /** JSON pointers to the fields to return; `*` matches every element. By default, whole objects. */
  fields?: string[];
}

export interface Query extends Fields, Clusters {
  /** By default, all namespaces. */
  namespace?: string;
  labelSelector?: string;
  /** The maximum number of objects. */
  limit?: number;
}

/** Reads the cache. During one call, all reads of a source see the same snapshot, which is at least as new as the event. */
export const store: {
  /** Requested once: `state` is that of any earlier time. */
  source(id: number): Source;
  /** The sources of an informer of the plugin's section. */
  sources(informer: string): Source[];
  version(source: number): { version: string; synced: boolean };
  /** Returns the object, or undefined, from the cluster of the object that the call is about; in a call about no object, from the only cluster. */
  get<T = KubernetesObject>(informer: string, namespace: string | undefined, name: string, options?: Fields): T | undefined;
  list<T = KubernetesObject>(informer: string, options?: Query): T[];
  byIndex<T = KubernetesObject>(informer: string, index: string, value: string, options?: Query): T[];
  indexKeys(informer: string, index: string, value: string, options?: Clusters): { source: number; namespace: string; name: string }[];
  /** The values in use, sorted. */
  indexValues(informer: string, index: string, options?: Clusters): string[];
};

/** The address of an object in the cluster or, without a name, of a collection. */
export interface Address {
  /** As in config.toml, with the version: `v1/pods`, `apps/v1/deployments`. */
  resource: string;
  /** Left out for cluster-scoped resources; for `list`, also for all namespaces. */
  namespace?: string;
  name?: string;
  /** `status`, `scale`, `eviction` … */
  subresource?: string;
  /** By default, the cluster of the object that the call is about; in a call about no object, the only cluster. */
  cluster?: string;
}

/** Options are those of Kubernetes' meta/v1. Informant rejects other members. */
export interface WriteOptions {
  /** The field manager that owns the written fields. The default is `informant-` followed by the plugin's name. */
  fieldManager?: string;
  fieldValidation?: "Ignore" | "Warn" | "Strict";
  /** Validate the request and return the result without changing anything. */
  dryRun?: ["All"];
}

export interface PatchOptions extends WriteOptions {
  /** `merge` (RFC 7386, the default), `json` (RFC 6902), or `strategic`, which merges lists by key. */
  type?: "merge" | "json" | "strategic";
}

export interface ApplyOptions extends WriteOptions {
  /** Take ownership of fields from other managers. */
  force?: boolean;
}

export interface DeleteOptions {
  propagationPolicy?: "Background" | "Foreground" | "Orphan";
  gracePeriodSeconds?: number;
  /** Delete the object only if it has this uid and this resource version. */
  preconditions?: { uid?: string; resourceVersion?: string };
  dryRun?: ["All"];
}

export interface ListOptions {
  labelSelector?: string;
  fieldSelector?: string;
  /** The maximum number of objects. By default all, read in pages. */
  limit?: number;
}

/** A JSON document. */
export type Document = object;

/**
 * Calls the Kubernetes API server with Informant's identity. Informant checks every call against `allow.kube` in the plugin's section. A call
 * that is not granted throws a KubeError with the code `denied`; its message contains the line that would grant it. Reads cost the API server
 * work: read what informers cache from `store`. In `index` every call is denied.
 */
export const kube: {
  /** The address of an object's status: `kube.patch(kube.status(pod), { status: { … } })`. */
  status(address: Address): Address;
  /** Returns the object, or undefined. */
  get<T = KubernetesObject>(address: Address): T | undefined;
  list<T = KubernetesObject>(address: Address, options?: ListOptions): T[];
  /** Creates an object. Returns it as stored, as do `update`, `patch` and `apply`. */
  create<T = KubernetesObject>(address: Address, object: Document, options?: WriteOptions): T;
  /** Replaces an object. */
  update<T = KubernetesObject>(address: Address, object: Document, options?: WriteOptions): T;
  /** Patches an object. If the document has `metadata.uid` or `metadata.resourceVersion`, only that object or state is changed. */
  patch<T = KubernetesObject>(address: Address, document: Document | Document[], options?: PatchOptions): T;
  /** Server-side apply: sets these fields, and removes the other fields that this field manager owned. */
  apply<T = KubernetesObject>(address: Address, object: Document, options?: ApplyOptions): T;
  delete(address: Address, options?: DeleteOptions): void;
};

/** A call of `kube` failed. If the plugin does not catch it, the event is retried, unless the same call would fail again. */
export class KubeError extends Error {
  readonly code:
    | "denied"
    | "forbidden"
    | "unauthorized"
    | "not-found"
    | "already-exists"
    | "conflict"
    | "invalid"
    | "expired"
    | "too-large"
    | "too-many-requests"
    | "timeout"
    | "unavailable"
    | "unsupported"
    | "other";
  /** The HTTP status of the API server's response, if there was one. */
  readonly status?: number;
  /** How long the API server asks the client to wait before it retries. */
  readonly retryAfterMs?: number;
  /** Whether a write may have succeeded although no response arrived. */
  readonly mayBeDone: boolean;
}
