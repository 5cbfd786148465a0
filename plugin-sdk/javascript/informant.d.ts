/** Informant plugins in JavaScript and TypeScript. */

/** A Kubernetes object, or of it what the manifest asks for. */
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
export type Reason = "initial" | "watch" | "relist" | "resync" | "replay" | "requeue" | "reconfigured" | "restored";

/** What an instance is for. Instances of different roles share no memory. */
export type Role = "events" | "index" | "transform";

/** Where objects come from. */
export interface SourceInfo {
  readonly informer: string;
  /** Empty for the only cluster. */
  readonly cluster: string;
  readonly apiVersion: string;
  readonly kind: string;
}

/** What a call is about, and why it is made. As text it is `namespace/name`. */
export interface Event extends SourceInfo {
  readonly source: number;
  /** Empty outside of namespaces. */
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Compare only for equality. */
  readonly resourceVersion: string;
  readonly reason: Reason;
  /** 0 at the first try. */
  readonly attempt: number;
  toString(): string;
}

export interface DeleteEvent extends Event {
  /** It went while nobody watched: the last state known may be older than the one it was deleted in. */
  readonly finalStateUnknown: boolean;
}

/** All of an object, only `metadata`, or what JSON pointers name, `*` for every element. */
export type Payload = "whole" | "metadata" | { fields: string[] };

export interface EventRule {
  /** `v1`, `apps/v1`, or `*`. */
  apiVersion: string;
  /** `Pod`, or `*`. */
  kind: string;
  payload?: Payload;
  /** Hand over the state before with each update. */
  old?: boolean;
  /** Leave out updates after which the payload is what it was. */
  "changed-only"?: boolean;
}

export interface IndexRule {
  apiVersion: string;
  kind: string;
  payload?: Payload;
}

/** What the plugin wants (docs/plugins.md). Its roles are those whose functions it defines. */
export interface Manifest {
  name: string;
  version: string;
  /** Left out: every object of the plugin's informers, whole. */
  events?: EventRule[];
  /** The names of the indexes that `index` returns; to say of which objects too, the whole table. */
  indexes?: string[] | { names: string[]; objects: IndexRule[] };
  /** What has to be granted to it. */
  needs?: object[];
}

export type IndexValue = string | number | boolean | null | undefined;

/** A plugin: the functions that Informant calls. Whatever one throws makes the call a failure, which is tried again. None is async. */
export interface Definition<T = KubernetesObject, Config = any, State = any> {
  manifest: Manifest;
  /** Once in each instance, before all else; `config` is the section's table. */
  init?(config: Config, role: Role): void;
  onAdd?(object: T, event: Event): void;
  /** `old` is undefined if the state before is no longer known. */
  onUpdate?(old: T | undefined, object: T, event: Event): void;
  onDelete?(last: T | undefined, event: DeleteEvent): void;
  /** A source has been shown completely. */
  onSynced?(source: number): void;
  /** The values of each index for an object. */
  index?(object: T, event: Event): Record<string, IndexValue | IndexValue[]> | null | undefined;
  /** What the next version should know: what JSON can hold. */
  save?(): State;
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

/** What the module exports: `export const { lifecycle, eventHandler, syncHandler, indexFuncs, state } = plugin({ … });` */
export function plugin<T = KubernetesObject, Config = any, State = any>(definition: Definition<T, Config, State>): Exports;

/** Lines in Informant's log, marked with the plugin's name; what is no text is written as JSON. `console` is the same. */
export const log: Readonly<Record<"trace" | "debug" | "info" | "warn" | "error", (...values: unknown[]) => void>>;

/** Thrown: do not try again, the event becomes a dead letter. */
export class Permanent extends Error {}

/** Thrown: try again after so many milliseconds. */
export class RetryAfter extends Error {
  constructor(milliseconds: number, message?: string, options?: ErrorOptions);
  readonly milliseconds: number;
}

/** What the host refused. */
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
    | "invalid";
}

export interface Fields {
  /** JSON pointers of what is wanted, `*` for every element. Left out: all of it. */
  fields?: string[];
}

export interface Query extends Fields {
  /** Left out: all namespaces. */
  namespace?: string;
  labelSelector?: string;
  /** At most so many. */
  limit?: number;
}

/** The cache. Within one call all reads of a source see one snapshot, at least as new as the event. */
export const store: {
  source(id: number): SourceInfo;
  /** The sources of one of the plugin's informers. */
  sources(informer: string): number[];
  version(source: number): { version: string; synced: boolean };
  /** An object, or undefined. */
  get<T = KubernetesObject>(informer: string, namespace: string | undefined, name: string, options?: Fields): T | undefined;
  list<T = KubernetesObject>(informer: string, options?: Query): T[];
  byIndex<T = KubernetesObject>(informer: string, index: string, value: string, options?: Query): T[];
  indexKeys(informer: string, index: string, value: string): { source: number; namespace: string; name: string }[];
  /** The values in use, sorted. */
  indexValues(informer: string, index: string): string[];
};

/** Where an object is in the cluster; without a name, where objects of a resource are. */
export interface Address {
  /** As config.toml writes it, version included: `v1/pods`, `apps/v1/deployments`. */
  resource: string;
  /** Left out: outside of namespaces; for `list`: in all of them. */
  namespace?: string;
  name?: string;
  /** `status`, `scale`, `eviction` … */
  subresource?: string;
  /** Where config.toml has several. */
  cluster?: string;
}

export interface WriteOptions {
  /** Who owns the fields that are written. Left out: `informant-` and the plugin's name. */
  fieldManager?: string;
  /** Judge it and answer what it would come to, but change nothing. */
  dryRun?: boolean;
}

export interface PatchOptions extends WriteOptions {
  /** `merge` (RFC 7386, the default), `json` (RFC 6902), or `strategic`, which merges lists by key. */
  type?: "merge" | "json" | "strategic";
}

export interface ApplyOptions extends WriteOptions {
  /** Take fields over from other managers. */
  force?: boolean;
}

export interface DeleteOptions {
  propagation?: "background" | "foreground" | "orphan";
  /** Only that incarnation. */
  uid?: string;
  /** Only that state. */
  resourceVersion?: string;
  dryRun?: boolean;
}

export interface ListOptions {
  labelSelector?: string;
  fieldSelector?: string;
  /** At most so many. Left out: all, page after page. */
  limit?: number;
}

/** A document that JSON can hold. */
export type Document = object;

/**
 * The cluster, with Informant's identity there. Every call is judged by `allow.kube` of the plugin's section: what is not granted throws a
 * KubeError `denied`, whose message holds the line that would grant it. What is read here costs the API server something: read what the
 * informers have from `store`. In `index` every call is denied.
 */
export const kube: {
  /** The status of what is at an address: `kube.patch(kube.status(pod), { status: { … } })`. */
  status(address: Address): Address;
  /** An object, or undefined. */
  get<T = KubernetesObject>(address: Address): T | undefined;
  list<T = KubernetesObject>(address: Address, options?: ListOptions): T[];
  /** Makes an object. This and what follows answers the object as it was stored. */
  create<T = KubernetesObject>(address: Address, object: Document, options?: WriteOptions): T;
  /** Puts an object in the place of the one there is. */
  update<T = KubernetesObject>(address: Address, object: Document, options?: WriteOptions): T;
  /** With `metadata.uid` or `metadata.resourceVersion` in the document, only that object or state is changed. */
  patch<T = KubernetesObject>(address: Address, document: Document | Document[], options?: PatchOptions): T;
  /** Server-side apply: these fields, and no others that the field manager has owned so far. */
  apply<T = KubernetesObject>(address: Address, object: Document, options?: ApplyOptions): T;
  delete(address: Address, options?: DeleteOptions): void;
};

/** What the API server, or Informant in its place, answered instead. Thrown on, it is tried again unless the same call would be refused again. */
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
    | "unsupported";
  /** The HTTP status of the API server's answer, if it gave one. */
  readonly status?: number;
  /** How long the API server asks to be left alone. */
  readonly retryAfterMs?: number;
  /** Whether a write may have been made although there is no answer. */
  readonly mayBeDone: boolean;
}
