/**
 * The types of Informant's JavaScript: of `import { … } from "informant"`, in scripts and in components. Copy this file
 * next to your script, and write `// @ts-check` into its first line. docs/reference/script-api.md describes the API.
 */
declare module "informant" {
  /** A Kubernetes object, or the fields of it that the manifest requests. */
  interface KubernetesObject {
    apiVersion: string;
    kind: string;
    metadata: ObjectMeta & { [field: string]: any };
    [field: string]: any;
  }

  /** Why a call is made. */
  type Reason =
    | "initial"
    | "watch"
    | "relist"
    | "resync"
    | "replay"
    | "requeue"
    | "reconfigured"
    | "restored"
    | "requeue-after"
    | "trigger"
    | "related"
    | "takeover"
    | "other";

  /** What the instance is. Members may be added. */
  interface Context {
    /** The plugin's name in config.toml. */
    readonly plugin: string;
    /** The `config` table of the plugin's section. */
    readonly config: any;
    /** The versions of the host, and of its contract. */
    readonly informant: string;
    readonly contract: string;
    /**
     * The purpose of the instance; absent while the manifest is read. Instances with different roles share no memory.
     */
    readonly role?: "events" | "index";
    /** The number of the instance among those of its role, from 0, and how many there are. */
    readonly instance?: number;
    readonly instances?: number;
    /** Why the instance is created: `start`, `swap`, `rebuild`, `resume`, or an unknown one of a later version of
     * Informant; absent while the manifest is read. */
    readonly because?: string;
    /** The names of the roles that Informant calls: `event-handler` and so on. */
    readonly roles: readonly string[];
    /** The memory of one instance in bytes, and the longest that one call may take. */
    readonly limits: { readonly memoryBytes: number; readonly callMs: number };
    readonly [member: string]: any;
  }

  /** What is constant for a source of objects. */
  interface SourceInfo {
    /** The plugin's name for the informer. */
    readonly informer: string;
    /** Empty if config.toml has a single, unnamed cluster. */
    readonly cluster: string;
    readonly apiVersion: string;
    readonly kind: string;
    /** As `kube` wants it: `v1/pods`, `apps/v1/deployments`. */
    readonly resource: string;
    /** Whether objects of the resource have namespaces. */
    readonly namespaced: boolean;
    /**
     * Whether the source may lack objects that exist, because of a selector. An object that is not found may exist
     * then.
     */
    readonly partial: boolean;
  }

  /** A source of an informer: a kind in a cluster. As text it is `source NUMBER`. */
  interface Source extends SourceInfo {
    readonly id: number;
    /** `live` if the watch is open. Requested at each access. */
    readonly state:
      | "syncing"
      | "live"
      | "stale"
      | "waiting-for-resource"
      | "forbidden"
      | "refused"
      | "stopped"
      | "other";
    /** The only namespace that is read, if it is one. */
    readonly namespace?: string;
    toString(): string;
  }

  /** The object that a call is about, and why the call is made. As text it is `namespace/name`. */
  interface Event<T = KubernetesObject> extends SourceInfo {
    /** The number of the source. */
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
    /**
     * The previous state, in `onUpdate`. Undefined if it is not known any more, or if the manifest has rules without
     * `old: true`. Only a handler that reads it pays for its parsing.
     */
    readonly old: T | undefined;
    /**
     * `uid/resourceVersion`: the same in each attempt to handle this state of the object, so that services that take an
     * idempotency key recognize a repetition. A handler that sends several requests adds what each is for.
     */
    readonly id: string;
    toString(): string;
  }

  interface DeleteEvent<T = KubernetesObject> extends Event<T> {
    /**
     * Whether the delete happened while no watch was running, so that the object may have changed after its last known
     * state.
     */
    readonly finalStateUnknown: boolean;
  }

  /** The object that is to be reconciled, and the reason of the first cause since the last call. */
  interface ReconcileRequest<T = KubernetesObject> extends Event<T> {
    /**
     * The cache may lack writes of earlier calls for this object, or a watch is down: do not conclude that something is
     * absent.
     */
    readonly cacheIsBehind: boolean;
  }

  /** A run of a timer. */
  interface Tick {
    /** The name of the timer. */
    readonly name: string;
    /** When the run was due. */
    readonly scheduled: Time;
    /** How many earlier runs were missed since the last one; this run stands for them. */
    readonly missed: number;
    /** 0 for the first attempt; each retry adds 1. */
    readonly attempt: number;
  }

  /** The whole object, only `metadata`, nothing, or the fields at JSON pointers; `*` matches every element. */
  type Payload = "whole" | "metadata" | "none" | { fields: string[] };

  interface EventRule {
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

  interface IndexRule {
    apiVersion: string;
    kind: string;
    payload?: Payload;
  }

  /**
   * A part of an object: `generation`, `labels`, or a JSON pointer. `generation` stands for any change of an object
   * that has none.
   */
  type Part = "generation" | "labels" | `/${string}`;

  /** A kind whose objects lead to those that are reconciled. */
  interface RelatedRule {
    apiVersion: string;
    kind: string;
    /** What has to change in an object. By default, anything. */
    when?: Part[];
    /** How it leads there. In `owns`, by default by the owner that is its controller. */
    by?: "owner" | "anyOwner" | "namespace" | { label: string } | { annotation: string } | { index: string };
  }

  /** What `reconcile` is called for. */
  interface ReconcilerRules {
    /** The objects that are reconciled. */
    for: {
      apiVersion: string;
      kind: string;
      payload?: Payload;
      /**
       * What has to change in an object for a call. By default, anything. That it is being deleted, and its
       * finalizers, always count.
       */
      when?: Part[];
      /** Only objects in these namespaces. */
      namespaces?: string[];
      /** Only objects that match this selector. */
      labelSelector?: string;
    };
    /** Kinds that the plugin makes for them. */
    owns?: RelatedRule[];
    /** Other kinds that lead to them. Each needs `by`. */
    watches?: RelatedRule[];
    /**
     * The shortest time from the end of one call for an object to the start of the next: "500ms", "10s". The section's
     * `min-interval` overrides it.
     */
    minInterval?: string;
  }

  /** When `onTimer` is called: at the times of `cron`, or each time that the duration `every` has passed. */
  type Timer = {
    /** Unique among the plugin's timers. */
    name: string;
    /**
     * Whether one run stands for those that were missed (`once`, the default), because Informant was down or the run
     * before had not ended, or they are left out.
     */
    missed?: "once" | "skip";
    /** The most by which a run is delayed at random, such as `30s`. By default, runs are not delayed. */
    jitter?: string;
    /** Run it at the start, too. */
    atStart?: boolean;
  } & (
    | {
        /** Five fields: minute, hour, day of the month, month, day of the week. */
        cron: string;
        /** An IANA name, such as `Europe/Berlin`. The default is `UTC`. */
        zone?: string;
        every?: never;
      }
    | {
        /** Such as `10s`, `5m` or `1h 30m`. */
        every: string;
        cron?: never;
        zone?: never;
      }
  );

  /** The manifest (docs/reference/manifest.md), which a script exports as `manifest`. Every member has a default. */
  interface Manifest {
    /** By default the file's name. */
    name?: string;
    /** By default `0`. */
    version?: string;
    /** By default, every object of the plugin's informers, whole. */
    events?: EventRule[];
    /** Which objects `reconcile` brings to their wanted state, and what leads to them. Required with `reconcile`. */
    reconciler?: ReconcilerRules;
    /** When `onTimer` is called. Required with `onTimer`. */
    timers?: Timer[];
    /** The names of the indexes that `index` returns, or an object that also lists the objects to index. */
    indexes?: string[] | { names: string[]; objects?: IndexRule[] };
    /** The permissions that the plugin requires. */
    needs?: Need[];
    /**
     * When an event counts as handled whose call deferred writes: when the API server has accepted them (`done`, the
     * default), or when the cache has seen them.
     */
    writes?: "done" | "seen";
    /** The metrics that the plugin has of its own, for `metrics`. */
    metrics?: Metric[];
    /**
     * Several instances may handle the events: `limits.instances` in the plugin's section. Each object belongs to one
     * of them; instances share no memory. By default false.
     */
    parallel?: boolean;
  }

  /** A metric of the plugin's own. Informant exports it as `informant_plugin_custom_NAME`, with the label `plugin`. */
  interface Metric {
    /** Letters, digits and underscores. A counter gets the suffix `_total`. */
    name: string;
    type: "counter" | "gauge" | "histogram";
    help: string;
    /** The names of its labels. Each change passes a value for each of them. */
    labels?: string[];
    /** The upper bounds of a histogram's buckets, ascending. The default is for seconds: 5 ms to 10 s. */
    buckets?: number[];
  }

  /** What `allow` in the plugin's section must grant: access (`kube`), or to record Kubernetes Events (`events`). */
  type Need = KubeNeed | { kube?: never; events: Record<string, never> };

  /** Access that `allow.kube` in the plugin's section must grant. */
  interface KubeNeed {
    events?: never;
    kube: {
      verbs: ("get" | "list" | "create" | "update" | "patch" | "delete")[];
      /** With the version: `v1/pods`, `apps/v1/deployments`. */
      resource: string;
      /** By default, the operator chooses. */
      namespaces?: string[];
      /** By default, the operator chooses. */
      names?: string[];
      /** By default, the object itself. */
      subresources?: string[];
    };
  }

  /** Returned by a handler: done; call me again for this object in that many milliseconds; below 0 means 0. */
  interface Requeue {
    requeueAfter: number;
  }

  /** What a handler returns. A promise is awaited. */
  type Result = Requeue | null | undefined | void;

  /** `onAdd` and `onUpdate`. The object is undefined if the manifest requests the payload `none`. */
  type Handler<T = any> = (object: T, event: Event<T>) => Result | Promise<Result>;

  /** `onDelete`. `last` is undefined if only the key is known. */
  type DeleteHandler<T = any> = (last: T | undefined, event: DeleteEvent<T>) => Result | Promise<Result>;

  /**
   * `reconcile`: called for one object at a time, when it or one that leads to it has changed, and after a start. The
   * object is undefined if it is gone.
   */
  type Reconciler<T = any> = (object: T | undefined, request: ReconcileRequest<T>) => Result | Promise<Result>;

  /** `onTimer`: called on the schedule of each timer in the manifest. Runs of one timer follow each other. */
  type TimerHandler = (tick: Tick) => void | Promise<void>;

  /** `onSynced`: called when the handler has received every object of a source. */
  type SyncHandler = (source: Source, call: Call) => void | Promise<void>;

  /** Why the call is made, and which attempt it is: 0 is the first. */
  interface Call {
    readonly reason: Reason;
    readonly attempt: number;
  }

  type IndexValue = string | number | boolean | null | undefined;

  /** `index`: returns the values of each index for an object. */
  type IndexFunction<T = any> = (
    object: T,
    event: Event<T>,
  ) => Record<string, IndexValue | IndexValue[]> | null | undefined;

  /** The `config` table of the plugin's section, read-only. It can be read at the top level and in the manifest. */
  const config: any;

  /** The plugin's name, the instance's role and more. */
  const context: Context;

  /**
   * Writes lines to Informant's log, labeled with the plugin's name. `log.info("restarted", { restarts: 3 })` writes a
   * line with fields. Of other arguments, those that are no strings are written as JSON, as `console` does.
   */
  const log: Readonly<Record<"trace" | "debug" | "info" | "warn" | "error", (...values: unknown[]) => void>>;

  /** Throw it for an event that must not be retried: it becomes a dead letter. */
  class Permanent extends Error {}

  /** Throw it to have the event retried after this many milliseconds. */
  class RetryAfter extends Error {
    constructor(milliseconds: number, message?: string, options?: { cause?: unknown });
    readonly milliseconds: number;
  }

  /** A host call failed. */
  class HostError extends Error {
    /**
     * For `store`, `kv`, `metrics` and `recorder`: denied, not-here, not-ready, not-found, unknown-informer,
     * unknown-index, too-large, exhausted, conflict, timeout, stale, unavailable, unsupported, invalid, other.
     */
    readonly code: string;
  }

  interface Clusters {
    /** By default, the cluster of the object that the call is about; in `onSynced`, that of its source. */
    clusters?: "all";
  }

  interface Fields {
    /** JSON pointers to the fields to return; `*` matches every element. By default, whole objects. */
    fields?: string[];
  }

  interface Query extends Fields, Clusters {
    /** By default, all namespaces. */
    namespace?: string;
    labelSelector?: string;
    /** The maximum number of objects. */
    limit?: number;
  }

  /**
   * The name of an informer, as in `informers` of the plugin's section; or an event or a source, which stand for
   * theirs.
   */
  type From = string | Event<any> | Source;

  /**
   * Reads the cache. During one call, all reads of a source see the same snapshot, which is at least as new as the
   * event.
   */
  const store: {
    /**
     * Returns the object, or undefined, from the cluster of the object that the call is about; in `onSynced`, from that
     * of its source.
     */
    get<T = KubernetesObject>(from: From, namespace: string | undefined, name: string, options?: Fields): T | undefined;
    list<T = KubernetesObject>(from: From, options?: Query): T[];
    byIndex<T = KubernetesObject>(from: From, index: string, value: string, options?: Query): T[];
    indexKeys(
      from: From,
      index: string,
      value: string,
      options?: Clusters,
    ): { source: number; namespace: string; name: string }[];
    /** The values in use, sorted. */
    indexValues(from: From, index: string, options?: Clusters): string[];
    source(id: number): Source;
    /** The sources of an informer. */
    sources(from: From): Source[];
    version(source: number | Event<any> | Source): { version: string; synced: boolean };
  };

  /** The address of an object in the cluster or, without a name, of a collection. */
  interface Address {
    /** As in config.toml, with the version: `v1/pods`, `apps/v1/deployments`. */
    resource: string;
    /** Left out for cluster-scoped resources; for `list`, also for all namespaces. */
    namespace?: string;
    name?: string;
    /** `status`, `scale`, `eviction` … */
    subresource?: string;
    /** By default, the cluster of the object that the call is about; in `onSynced`, that of its source. */
    cluster?: string;
  }

  /** The address of a collection, for `list` and `create`. */
  type CollectionAddress = Address & { name?: never; subresource?: never };

  /** Options are those of Kubernetes' meta/v1. Informant rejects other members. */
  interface WriteOptions {
    /** The field manager that owns the written fields. The default is `informant-` followed by the plugin's name. */
    fieldManager?: string;
    fieldValidation?: "Ignore" | "Warn" | "Strict";
    /** Validate the request and return the result without changing anything. */
    dryRun?: ["All"];
  }

  interface PatchOptions extends WriteOptions {
    /** `merge` (RFC 7386, the default), `json` (RFC 6902), or `strategic`, which merges lists by key. */
    type?: "merge" | "json" | "strategic";
  }

  interface ApplyOptions extends WriteOptions {
    /** Take ownership of fields from other managers. */
    force?: boolean;
  }

  interface DeleteOptions {
    propagationPolicy?: "Background" | "Foreground" | "Orphan";
    gracePeriodSeconds?: number;
    /** Delete the object only if it has this uid and this resource version. */
    preconditions?: { uid?: string; resourceVersion?: string };
    dryRun?: ["All"];
  }

  interface ListOptions {
    labelSelector?: string;
    fieldSelector?: string;
    /** The maximum number of objects. By default all, read in pages. */
    limit?: number;
  }

  /** A JSON document. */
  type Document = object;

  /** An event is the address of its object. */
  type ObjectAddress = Address | Event<any>;

  /** Ways to write. All of them take the same arguments. */
  interface Writes<Stored> {
    /**
     * Creates an object, whose name is in its `metadata.name`. The address has a name only together with a subresource,
     * such as `eviction`.
     */
    create(
      address: CollectionAddress | (Address & { name: string; subresource: string }),
      object: Document,
      options?: WriteOptions,
    ): Stored;
    /** Replaces an object. */
    update(address: ObjectAddress, object: Document, options?: WriteOptions): Stored;
    /**
     * Patches an object. If the document has `metadata.uid` or `metadata.resourceVersion`, only that object or state is
     * changed.
     */
    patch(address: ObjectAddress, document: Document | Document[], options?: PatchOptions): Stored;
    /** Server-side apply: sets these fields, and removes the other fields that this field manager owned. */
    apply(address: ObjectAddress, object: Document, options?: ApplyOptions): Stored;
    delete(address: ObjectAddress, options?: DeleteOptions): void;
  }

  /** A deferred delete needs a uid, which an event brings with it. */
  interface DeferredWrites extends Omit<Writes<void>, "delete"> {
    delete(address: Event<any>, options?: DeleteOptions): void;
    delete(
      address: Address,
      options: DeleteOptions & { preconditions: { uid: string; resourceVersion?: string } },
    ): void;
  }

  /**
   * Remembers values, which must be JSON, across calls, crashes, versions of the script and restarts of Informant.
   * Needs a section `[state]` in config.toml. Changes take effect when the handler has succeeded; one that throws has
   * changed nothing. For handlers, timers and `onSynced` only.
   */
  const kv: {
    /** Returns the value of a key, or undefined. */
    get<T = any>(key: string): T | undefined;
    set(key: string, value: unknown): void;
    /** Sets a key that has no value, and returns whether it did. The default value is `true`. */
    setIfAbsent(key: string, value?: unknown): boolean;
    delete(key: string): void;
    /** Returns the keys that start with `prefix`, sorted; by default, all. */
    list(prefix?: string): string[];
  };

  /** The value of each label that the manifest declares. */
  type Labels = Record<string, string | number | boolean>;

  /**
   * Changes metrics of the plugin's own, which the manifest declares in `metrics`. Changes take effect when the handler
   * has succeeded; one that throws has changed nothing. For handlers, timers and `onSynced` only. A plugin has at most
   * 1,000 series, and one that nothing has changed for an hour ends.
   */
  const metrics: {
    /** Adds to a counter or a gauge. The default amount is 1. */
    add(name: string, amount?: number, labels?: Labels): void;
    /** Sets a gauge. */
    set(name: string, value: number, labels?: Labels): void;
    /** Counts a value in a histogram. */
    observe(name: string, value: number, labels?: Labels): void;
    /** Replaces all series of a gauge: those that `samples` lacks end. */
    replace(name: string, samples: Iterable<{ value: number; labels?: Labels }>): void;
  };

  /** Names an object. */
  interface Reference {
    apiVersion: string;
    kind: string;
    /** Left out for cluster-scoped objects. */
    namespace?: string;
    name: string;
    uid?: string;
    /** By default, the cluster of the object that the call is about; in `onSynced`, that of its source. */
    cluster?: string;
  }

  /** An object, the event of one, or a reference to one. */
  type Regarding = KubernetesObject | Event<any> | Reference;

  interface RecordOptions {
    /** The default is `Normal`. */
    type?: "Normal" | "Warning";
    /** Why, in CamelCase: `Crashing`. At most 128 bytes. */
    reason: string;
    /** What was done, in CamelCase. By default, the reason. */
    action?: string;
    /** For people. Informant cuts its end if it has more than 1,024 bytes. */
    note?: string;
    /** Another object that it is about. */
    related?: Regarding;
  }

  /**
   * Records Kubernetes Events, which `kubectl describe` shows. Needs `events = true` in the plugin's `allow`. They are
   * sent when the call has succeeded: equal ones as a series, and of each object a limited number. One that is lost
   * fails no call. A call records at most 100.
   */
  const recorder: {
    /**
     * Records an Event about an object. If the manifest requests `fields` without the name, the namespace and the uid,
     * pass the event instead of the object.
     */
    event(about: Regarding, options: RecordOptions): void;
  };

  /** An object that belongs to another one. */
  interface Child {
    apiVersion: string;
    kind: string;
    /** Without a namespace, it is in that of its owner. */
    metadata: { name: string; namespace?: string; [field: string]: any };
    [field: string]: any;
  }

  /** What `kube.children` has deferred. */
  interface Children {
    /** How many objects are written, unless they turn out to be as they should. */
    written: number;
    /** How many are deleted: they belong to the owner, and are no longer among its children. */
    pruned: number;
    /** Objects that exist and belong to somebody else: they stay as they are. `Secret web/a`. */
    refused: string[];
    /** Why none is deleted, such as a source that is not live. Absent: all that have to be are. */
    pruneSkipped?: string;
  }

  /** A condition for `kube.setStatus`, which adds `lastTransitionTime` and `observedGeneration`. */
  interface NewCondition {
    /** In CamelCase, such as `Ready`. An object has one condition of each type. */
    type: string;
    status: "True" | "False" | "Unknown";
    /** In CamelCase. */
    reason: string;
    /** For people. */
    message?: string;
  }

  /** What a reconciler writes for the object that it is called for. All writes are deferred. */
  interface Reconciliation {
    /**
     * Makes these the objects that belong to the one that is reconciled: `kube.children(request, [deployment])`. It
     * defers writes of those that are not as they should be, and deletes of those that are no longer among them. The
     * manifest names their kinds in `reconciler.owns`. Call it once in a call, with all of them, at most 1,000.
     *
     * The fields of those in `fields` are applied, and those that others have set stay; a list stands for `fields`. Of
     * those in `whole`, everything but metadata and status becomes as it is here: for ConfigMap, Secret, Role,
     * RoleBinding, ResourceQuota and NetworkPolicy.
     */
    children(request: ReconcileRequest<any>, objects: Child[] | { fields?: Child[]; whole?: Child[] }): Children;
    /** The conditions `ChildrenRefused` and `PruneSkipped`, for `setStatus`: what `children` has not done. */
    conditionsOf(done: Children): NewCondition[];
    /**
     * An element of `metadata.ownerReferences`, for an owner in the same namespace or without one. `children` adds it
     * by itself. An object has one controller; with `controller: false`, the owner is another one.
     */
    ownerReference(owner: KubernetesObject | Event<any>, options?: { controller?: boolean }): Required<OwnerReference>;
    /**
     * Writes these members of the status, unless the object has them. `null` removes a member, and lists are replaced,
     * except `conditions`: each takes the place of the one of its type, and the others stay. `lastTransitionTime`
     * changes only with the `status` of the condition. If the object has a `metadata.generation`, it becomes
     * `observedGeneration` of the status and of these conditions.
     *
     * It is a merge patch of exactly the state that `object` has: if somebody has changed the object since, the write
     * fails with `conflict`, and `reconcile` is called again. So call it once in a call.
     */
    setStatus(
      request: ReconcileRequest<any>,
      object: KubernetesObject,
      status: { conditions?: NewCondition[] | null; [member: string]: any },
    ): void;
    /**
     * Returns whether the object is to be reconciled, for a plugin that has to clean up before its object is gone:
     * `if (!kube.finalize(request, site, () => removeRecord(site))) return;`
     *
     * While the object lacks the finalizer `informant.dev/PLUGIN`, that is added, which leads to the next call: nothing
     * has an effect before it is there. If the object is being deleted, `cleanup` is called, and then the finalizer is
     * removed. If `cleanup` throws, the finalizer stays, and so the object; a RetryAfter waits for what takes its time.
     * If `cleanup` returns a promise, await the result.
     *
     * The writes are merge patches of exactly the state that `object` has. If somebody has changed the object since,
     * `reconcile` is called again, also after `cleanup`, which must be able to run twice.
     */
    finalize(
      request: ReconcileRequest<any>,
      object: KubernetesObject | undefined,
      cleanup: () => PromiseLike<unknown>,
    ): boolean | Promise<boolean>;
    finalize(request: ReconcileRequest<any>, object: KubernetesObject | undefined, cleanup: () => void): boolean;
  }

  /**
   * Calls the Kubernetes API server with Informant's identity. Informant checks every call against `allow.kube` in the
   * plugin's section. A call that is not granted throws a KubeError with the code `denied`; its message contains the
   * line that would grant it. Reads cost the API server work: read what informers cache from `store`. In `index` every
   * call fails with `not-here`. Writes return the object as stored.
   */
  const kube: Writes<any> & Reconciliation & {
    /** The address of an object's status: `kube.patch(kube.status(event), { status: { … } })`. */
    status(address: ObjectAddress): Address;
    /** Returns the object, or undefined. */
    get<T = KubernetesObject>(address: ObjectAddress): T | undefined;
    list<T = KubernetesObject>(address: CollectionAddress, options?: ListOptions): T[];
    /**
     * Writes that Informant makes once the call has succeeded; it makes none of a call that fails. They are validated
     * and authorized at once. The first write that fails ends the rest and becomes the failure of the event.
     */
    readonly defer: DeferredWrites;
  };

  /**
   * A call of `kube` failed. If the script does not catch it, the event is retried, unless the same call would fail
   * again.
   */
  class KubeError extends HostError {
    /**
     * denied, not-here, forbidden, unauthorized, not-found, already-exists, conflict, invalid, expired, too-large,
     * too-many-requests, timeout, unavailable, unsupported, other.
     */
    readonly code: string;
    /** The HTTP status of the API server's response, if there was one. */
    readonly status?: number;
    /** The `reason` of the API server's Status: `AlreadyExists`, `Expired` and so on. */
    readonly reason?: string;
    /** How long the API server asks the client to wait before it retries. */
    readonly retryAfterMs?: number;
    /** Whether a write may have succeeded although no response arrived. */
    readonly mayBeDone: boolean;
  }

  /**
   * Sends an HTTP request, as far as `allow.http` in the plugin's section grants it. The global `fetch` does the same.
   * Up to six requests of a call are in flight at once, further ones wait. The promise resolves when the body has
   * arrived, whatever the status; `ensureOk` checks that. A request that fails rejects with an HttpError.
   */
  function fetch(url: string, options?: FetchOptions): Promise<Response>;

  /**
   * Returns the response if its status is 200 to 299. Else it throws: RetryAfter for 429 and 503, with the delay of the
   * header Retry-After (by default 30 s, at most 1 h); an HttpError, which is retried, for 408 and 5xx; Permanent
   * otherwise. After a RetryAfter, Informant sends the host no request of the plugin until the delay has passed.
   */
  function ensureOk(response: Response): Response;

  interface FetchOptions {
    /** By default, GET. */
    method?: string;
    headers?: Record<string, string> | Iterable<readonly [string, string]>;
    /** A text or bytes. For an object, write `JSON.stringify(…)` and the header `content-type`. */
    body?: string | ArrayBuffer | ArrayBufferView;
    /**
     * By default, `follow`: at most five, each of which has to be granted. Credentials are dropped on the way to
     * another origin. `manual` returns the redirect, `error` rejects.
     */
    redirect?: "follow" | "manual" | "error";
  }

  /** The complete response. Its body can be read as often as you like. */
  interface Response {
    readonly status: number;
    /** Whether the status is 200 to 299. */
    readonly ok: boolean;
    readonly headers: Headers;
    /** Where it comes from, after redirects. */
    readonly url: string;
    readonly redirected: boolean;
    text(): Promise<string>;
    json<T = any>(): Promise<T>;
    bytes(): Promise<Uint8Array>;
    arrayBuffer(): Promise<ArrayBuffer>;
  }

  /** Names are case-insensitive. Values of one name are joined with a comma. */
  interface Headers extends Iterable<[string, string]> {
    get(name: string): string | null;
    has(name: string): boolean;
    forEach(call: (value: string, name: string) => void): void;
    keys(): Iterable<string>;
    values(): Iterable<string>;
    entries(): Iterable<[string, string]>;
  }

  /**
   * A request failed, or `ensureOk` found a status that is worth a retry. If the script does not catch it, the event is
   * retried, except after denied, invalid, request-too-large and response-too-large. The message names the host.
   */
  class HttpError extends HostError {
    /**
     * denied, address, dns, connect, connect-timeout, certificate, tls, timeout, request-too-large, response-too-large,
     * interrupted, protocol, header-file, unavailable, invalid, redirect, status, other.
     */
    readonly code: string;
    /** With the code `status`. */
    readonly status?: number;
  }

  // --- Kubernetes' own kinds ---
  //
  // Members are optional where they are in Kubernetes. An object has only the fields that the manifest requests.

  /** RFC 3339: `2026-01-01T00:00:00Z`. */
  type Time = string;

  /** A number with a unit: `500m`, `64Mi`. */
  type Quantity = string | number;

  type Resources = Record<string, Quantity>;

  type IntOrString = number | string;

  interface ObjectMeta {
    name: string;
    namespace?: string;
    uid: string;
    resourceVersion: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    generateName?: string;
    generation?: number;
    creationTimestamp?: Time;
    deletionTimestamp?: Time;
    deletionGracePeriodSeconds?: number;
    finalizers?: string[];
    ownerReferences?: OwnerReference[];
    managedFields?: object[];
  }

  interface OwnerReference {
    apiVersion: string;
    kind: string;
    name: string;
    uid: string;
    controller?: boolean;
    blockOwnerDeletion?: boolean;
  }

  interface LabelSelector {
    matchLabels?: Record<string, string>;
    matchExpressions?: { key: string; operator: "In" | "NotIn" | "Exists" | "DoesNotExist"; values?: string[] }[];
  }

  interface Condition {
    type: string;
    status: "True" | "False" | "Unknown";
    reason?: string;
    message?: string;
    lastTransitionTime?: Time;
    lastUpdateTime?: Time;
    lastProbeTime?: Time;
    lastHeartbeatTime?: Time;
    observedGeneration?: number;
  }

  interface ObjectReference {
    apiVersion?: string;
    kind?: string;
    namespace?: string;
    name?: string;
    uid?: string;
    resourceVersion?: string;
    fieldPath?: string;
  }

  interface LocalObjectReference {
    name?: string;
  }

  interface KeySelector {
    name?: string;
    key: string;
    optional?: boolean;
  }

  interface Pod {
    apiVersion: "v1";
    kind: "Pod";
    metadata: ObjectMeta;
    spec?: PodSpec;
    status?: PodStatus;
  }

  interface PodTemplate {
    metadata?: Partial<ObjectMeta>;
    spec?: PodSpec;
  }

  interface PodSpec {
    containers: Container[];
    initContainers?: Container[];
    ephemeralContainers?: (Container & { targetContainerName?: string })[];
    volumes?: Volume[];
    nodeName?: string;
    nodeSelector?: Record<string, string>;
    affinity?: { nodeAffinity?: object; podAffinity?: object; podAntiAffinity?: object };
    tolerations?: Toleration[];
    topologySpreadConstraints?: object[];
    serviceAccountName?: string;
    automountServiceAccountToken?: boolean;
    imagePullSecrets?: LocalObjectReference[];
    restartPolicy?: "Always" | "OnFailure" | "Never";
    terminationGracePeriodSeconds?: number;
    activeDeadlineSeconds?: number;
    priority?: number;
    priorityClassName?: string;
    preemptionPolicy?: "Never" | "PreemptLowerPriority";
    runtimeClassName?: string;
    schedulerName?: string;
    schedulingGates?: { name: string }[];
    readinessGates?: { conditionType: string }[];
    hostNetwork?: boolean;
    hostPID?: boolean;
    hostIPC?: boolean;
    hostUsers?: boolean;
    hostname?: string;
    subdomain?: string;
    hostAliases?: { ip: string; hostnames?: string[] }[];
    dnsPolicy?: "ClusterFirst" | "ClusterFirstWithHostNet" | "Default" | "None";
    dnsConfig?: { nameservers?: string[]; searches?: string[]; options?: { name?: string; value?: string }[] };
    securityContext?: PodSecurityContext;
    enableServiceLinks?: boolean;
    shareProcessNamespace?: boolean;
  }

  interface Container {
    name: string;
    image?: string;
    imagePullPolicy?: "Always" | "IfNotPresent" | "Never";
    command?: string[];
    args?: string[];
    workingDir?: string;
    env?: EnvVar[];
    envFrom?: {
      prefix?: string;
      configMapRef?: { name?: string; optional?: boolean };
      secretRef?: { name?: string; optional?: boolean };
    }[];
    ports?: { name?: string; containerPort: number; hostPort?: number; hostIP?: string; protocol?: Protocol }[];
    resources?: { limits?: Resources; requests?: Resources; claims?: { name: string; request?: string }[] };
    volumeMounts?: {
      name: string;
      mountPath: string;
      readOnly?: boolean;
      subPath?: string;
      subPathExpr?: string;
      mountPropagation?: string;
    }[];
    volumeDevices?: { name: string; devicePath: string }[];
    livenessProbe?: Probe;
    readinessProbe?: Probe;
    startupProbe?: Probe;
    lifecycle?: { postStart?: object; preStop?: object };
    restartPolicy?: string;
    securityContext?: SecurityContext;
    terminationMessagePath?: string;
    terminationMessagePolicy?: "File" | "FallbackToLogsOnError";
    stdin?: boolean;
    stdinOnce?: boolean;
    tty?: boolean;
  }

  type Protocol = "TCP" | "UDP" | "SCTP";

  interface EnvVar {
    name: string;
    value?: string;
    valueFrom?: {
      configMapKeyRef?: KeySelector;
      secretKeyRef?: KeySelector;
      fieldRef?: { apiVersion?: string; fieldPath: string };
      resourceFieldRef?: { containerName?: string; resource: string; divisor?: Quantity };
    };
  }

  interface Probe {
    exec?: { command?: string[] };
    httpGet?: {
      path?: string;
      port: IntOrString;
      host?: string;
      scheme?: "HTTP" | "HTTPS";
      httpHeaders?: { name: string; value: string }[];
    };
    tcpSocket?: { port: IntOrString; host?: string };
    grpc?: { port: number; service?: string };
    initialDelaySeconds?: number;
    periodSeconds?: number;
    timeoutSeconds?: number;
    successThreshold?: number;
    failureThreshold?: number;
    terminationGracePeriodSeconds?: number;
  }

  interface PodSecurityContext {
    runAsUser?: number;
    runAsGroup?: number;
    runAsNonRoot?: boolean;
    fsGroup?: number;
    fsGroupChangePolicy?: "OnRootMismatch" | "Always";
    supplementalGroups?: number[];
    seccompProfile?: { type: string; localhostProfile?: string };
    sysctls?: { name: string; value: string }[];
  }

  interface SecurityContext {
    privileged?: boolean;
    allowPrivilegeEscalation?: boolean;
    readOnlyRootFilesystem?: boolean;
    runAsUser?: number;
    runAsGroup?: number;
    runAsNonRoot?: boolean;
    capabilities?: { add?: string[]; drop?: string[] };
    seccompProfile?: { type: string; localhostProfile?: string };
    procMount?: string;
  }

  interface Toleration {
    key?: string;
    operator?: string;
    value?: string;
    effect?: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
    tolerationSeconds?: number;
  }

  interface Volume {
    name: string;
    configMap?: { name?: string; optional?: boolean; defaultMode?: number; items?: KeyToPath[] };
    secret?: { secretName?: string; optional?: boolean; defaultMode?: number; items?: KeyToPath[] };
    emptyDir?: { medium?: string; sizeLimit?: Quantity };
    hostPath?: { path: string; type?: string };
    persistentVolumeClaim?: { claimName: string; readOnly?: boolean };
    projected?: { sources?: object[] | null; defaultMode?: number };
    downwardAPI?: { items?: object[]; defaultMode?: number };
    csi?: { driver: string; readOnly?: boolean; fsType?: string; volumeAttributes?: Record<string, string> };
    nfs?: { server: string; path: string; readOnly?: boolean };
    ephemeral?: { volumeClaimTemplate?: { metadata?: Partial<ObjectMeta>; spec: PersistentVolumeClaimSpec } };
    [source: string]: unknown;
  }

  interface KeyToPath {
    key: string;
    path: string;
    mode?: number;
  }

  interface PodStatus {
    phase?: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
    reason?: string;
    message?: string;
    conditions?: Condition[];
    containerStatuses?: ContainerStatus[];
    initContainerStatuses?: ContainerStatus[];
    ephemeralContainerStatuses?: ContainerStatus[];
    podIP?: string;
    podIPs?: { ip?: string }[];
    hostIP?: string;
    hostIPs?: { ip?: string }[];
    startTime?: Time;
    qosClass?: "Guaranteed" | "Burstable" | "BestEffort";
    nominatedNodeName?: string;
    observedGeneration?: number;
  }

  interface ContainerStatus {
    name: string;
    image: string;
    imageID: string;
    containerID?: string;
    ready: boolean;
    started?: boolean;
    restartCount: number;
    state?: ContainerState;
    lastState?: ContainerState;
  }

  interface ContainerState {
    waiting?: { reason?: string; message?: string };
    running?: { startedAt?: Time };
    terminated?: {
      exitCode: number;
      signal?: number;
      reason?: string;
      message?: string;
      startedAt?: Time;
      finishedAt?: Time;
      containerID?: string;
    };
  }

  interface Deployment {
    apiVersion: "apps/v1";
    kind: "Deployment";
    metadata: ObjectMeta;
    spec?: {
      replicas?: number;
      selector: LabelSelector;
      template: PodTemplate;
      strategy?: {
        type?: "Recreate" | "RollingUpdate";
        rollingUpdate?: { maxSurge?: IntOrString; maxUnavailable?: IntOrString };
      };
      minReadySeconds?: number;
      paused?: boolean;
      progressDeadlineSeconds?: number;
      revisionHistoryLimit?: number;
    };
    status?: {
      replicas?: number;
      readyReplicas?: number;
      availableReplicas?: number;
      unavailableReplicas?: number;
      updatedReplicas?: number;
      terminatingReplicas?: number;
      observedGeneration?: number;
      collisionCount?: number;
      conditions?: Condition[];
    };
  }

  interface ReplicaSet {
    apiVersion: "apps/v1";
    kind: "ReplicaSet";
    metadata: ObjectMeta;
    spec?: { replicas?: number; selector: LabelSelector; template?: PodTemplate; minReadySeconds?: number };
    status?: {
      replicas: number;
      readyReplicas?: number;
      availableReplicas?: number;
      fullyLabeledReplicas?: number;
      terminatingReplicas?: number;
      observedGeneration?: number;
      conditions?: Condition[];
    };
  }

  interface StatefulSet {
    apiVersion: "apps/v1";
    kind: "StatefulSet";
    metadata: ObjectMeta;
    spec?: {
      replicas?: number;
      selector: LabelSelector;
      template: PodTemplate;
      serviceName?: string;
      volumeClaimTemplates?: { metadata?: Partial<ObjectMeta>; spec?: PersistentVolumeClaimSpec }[];
      podManagementPolicy?: "OrderedReady" | "Parallel";
      updateStrategy?: { type?: string; rollingUpdate?: { partition?: number; maxUnavailable?: IntOrString } };
      persistentVolumeClaimRetentionPolicy?: { whenDeleted?: string; whenScaled?: string };
      ordinals?: { start?: number };
      minReadySeconds?: number;
      revisionHistoryLimit?: number;
    };
    status?: {
      replicas: number;
      readyReplicas?: number;
      availableReplicas?: number;
      currentReplicas?: number;
      updatedReplicas?: number;
      currentRevision?: string;
      updateRevision?: string;
      observedGeneration?: number;
      collisionCount?: number;
      conditions?: Condition[];
    };
  }

  interface DaemonSet {
    apiVersion: "apps/v1";
    kind: "DaemonSet";
    metadata: ObjectMeta;
    spec?: {
      selector: LabelSelector;
      template: PodTemplate;
      updateStrategy?: {
        type?: "OnDelete" | "RollingUpdate";
        rollingUpdate?: { maxSurge?: IntOrString; maxUnavailable?: IntOrString };
      };
      minReadySeconds?: number;
      revisionHistoryLimit?: number;
    };
    status?: {
      currentNumberScheduled: number;
      desiredNumberScheduled: number;
      numberMisscheduled: number;
      numberReady: number;
      numberAvailable?: number;
      numberUnavailable?: number;
      updatedNumberScheduled?: number;
      observedGeneration?: number;
      collisionCount?: number;
      conditions?: Condition[];
    };
  }

  interface JobSpec {
    template: PodTemplate;
    parallelism?: number;
    completions?: number;
    completionMode?: "NonIndexed" | "Indexed";
    backoffLimit?: number;
    backoffLimitPerIndex?: number;
    maxFailedIndexes?: number;
    activeDeadlineSeconds?: number;
    ttlSecondsAfterFinished?: number;
    selector?: LabelSelector;
    manualSelector?: boolean;
    suspend?: boolean;
    podFailurePolicy?: object;
    podReplacementPolicy?: "TerminatingOrFailed" | "Failed";
    successPolicy?: object;
    managedBy?: string;
  }

  interface Job {
    apiVersion: "batch/v1";
    kind: "Job";
    metadata: ObjectMeta;
    spec?: JobSpec;
    status?: {
      active?: number;
      ready?: number;
      succeeded?: number;
      failed?: number;
      terminating?: number;
      startTime?: Time;
      completionTime?: Time;
      completedIndexes?: string;
      failedIndexes?: string;
      conditions?: Condition[];
    };
  }

  interface CronJob {
    apiVersion: "batch/v1";
    kind: "CronJob";
    metadata: ObjectMeta;
    spec?: {
      schedule: string;
      timeZone?: string;
      jobTemplate: { metadata?: Partial<ObjectMeta>; spec?: JobSpec };
      concurrencyPolicy?: "Allow" | "Forbid" | "Replace";
      startingDeadlineSeconds?: number;
      suspend?: boolean;
      successfulJobsHistoryLimit?: number;
      failedJobsHistoryLimit?: number;
    };
    status?: { active?: ObjectReference[]; lastScheduleTime?: Time; lastSuccessfulTime?: Time };
  }

  interface Service {
    apiVersion: "v1";
    kind: "Service";
    metadata: ObjectMeta;
    spec?: {
      type?: "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
      selector?: Record<string, string>;
      ports?: {
        name?: string;
        port: number;
        targetPort?: IntOrString;
        nodePort?: number;
        protocol?: Protocol;
        appProtocol?: string;
      }[];
      clusterIP?: string;
      clusterIPs?: string[];
      externalIPs?: string[];
      externalName?: string;
      externalTrafficPolicy?: "Cluster" | "Local";
      internalTrafficPolicy?: "Cluster" | "Local";
      trafficDistribution?: string;
      ipFamilies?: string[];
      ipFamilyPolicy?: string;
      loadBalancerIP?: string;
      loadBalancerClass?: string;
      loadBalancerSourceRanges?: string[];
      allocateLoadBalancerNodePorts?: boolean;
      healthCheckNodePort?: number;
      publishNotReadyAddresses?: boolean;
      sessionAffinity?: "ClientIP" | "None";
    };
    status?: { conditions?: Condition[]; loadBalancer?: LoadBalancerStatus };
  }

  interface LoadBalancerStatus {
    ingress?: { ip?: string; ipMode?: string; hostname?: string; ports?: object[] }[];
  }

  interface EndpointSlice {
    apiVersion: "discovery.k8s.io/v1";
    kind: "EndpointSlice";
    metadata: ObjectMeta;
    addressType: "IPv4" | "IPv6" | "FQDN";
    endpoints: {
      addresses: string[];
      conditions?: { ready?: boolean; serving?: boolean; terminating?: boolean };
      hostname?: string;
      nodeName?: string;
      zone?: string;
      targetRef?: ObjectReference;
    }[];
    ports?: { name?: string; port?: number; protocol?: Protocol; appProtocol?: string }[];
  }

  interface Ingress {
    apiVersion: "networking.k8s.io/v1";
    kind: "Ingress";
    metadata: ObjectMeta;
    spec?: {
      ingressClassName?: string;
      defaultBackend?: IngressBackend;
      rules?: {
        host?: string;
        http?: {
          paths: { path?: string; pathType: "Exact" | "Prefix" | "ImplementationSpecific"; backend: IngressBackend }[];
        };
      }[];
      tls?: { hosts?: string[]; secretName?: string }[];
    };
    status?: { loadBalancer?: LoadBalancerStatus };
  }

  interface IngressBackend {
    service?: { name: string; port?: { name?: string; number?: number } };
    resource?: { apiGroup?: string; kind: string; name: string };
  }

  interface ConfigMap {
    apiVersion: "v1";
    kind: "ConfigMap";
    metadata: ObjectMeta;
    data?: Record<string, string>;
    /** Base64. */
    binaryData?: Record<string, string>;
    immutable?: boolean;
  }

  interface Secret {
    apiVersion: "v1";
    kind: "Secret";
    metadata: ObjectMeta;
    type?: string;
    /** Base64. */
    data?: Record<string, string>;
    /** For writes only. */
    stringData?: Record<string, string>;
    immutable?: boolean;
  }

  interface ServiceAccount {
    apiVersion: "v1";
    kind: "ServiceAccount";
    metadata: ObjectMeta;
    secrets?: ObjectReference[];
    imagePullSecrets?: LocalObjectReference[];
    automountServiceAccountToken?: boolean;
  }

  interface Namespace {
    apiVersion: "v1";
    kind: "Namespace";
    metadata: ObjectMeta;
    spec?: { finalizers?: string[] };
    status?: { phase?: "Active" | "Terminating"; conditions?: Condition[] };
  }

  interface Node {
    apiVersion: "v1";
    kind: "Node";
    metadata: ObjectMeta;
    spec?: {
      podCIDR?: string;
      podCIDRs?: string[];
      providerID?: string;
      taints?: {
        key: string;
        value?: string;
        effect: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
        timeAdded?: Time;
      }[];
      unschedulable?: boolean;
    };
    status?: {
      addresses?: { type: string; address: string }[];
      allocatable?: Resources;
      capacity?: Resources;
      conditions?: Condition[];
      images?: { names?: string[] | null; sizeBytes?: number }[];
      nodeInfo?: {
        architecture: string;
        bootID: string;
        containerRuntimeVersion: string;
        kernelVersion: string;
        kubeProxyVersion: string;
        kubeletVersion: string;
        machineID: string;
        operatingSystem: string;
        osImage: string;
        systemUUID: string;
      };
      volumesAttached?: { name: string; devicePath: string }[];
      volumesInUse?: string[];
    };
  }

  interface PersistentVolumeClaimSpec {
    accessModes?: string[];
    resources?: { limits?: Resources; requests?: Resources };
    selector?: LabelSelector;
    storageClassName?: string;
    volumeAttributesClassName?: string;
    volumeMode?: "Block" | "Filesystem";
    volumeName?: string;
    dataSource?: { apiGroup?: string; kind: string; name: string };
  }

  interface PersistentVolumeClaim {
    apiVersion: "v1";
    kind: "PersistentVolumeClaim";
    metadata: ObjectMeta;
    spec?: PersistentVolumeClaimSpec;
    status?: {
      phase?: "Pending" | "Bound" | "Lost";
      accessModes?: string[];
      capacity?: Resources;
      allocatedResources?: Resources;
      conditions?: Condition[];
    };
  }

  interface PersistentVolume {
    apiVersion: "v1";
    kind: "PersistentVolume";
    metadata: ObjectMeta;
    spec?: {
      accessModes?: string[];
      capacity?: Resources;
      claimRef?: ObjectReference;
      mountOptions?: string[];
      persistentVolumeReclaimPolicy?: "Retain" | "Recycle" | "Delete";
      storageClassName?: string;
      volumeMode?: "Block" | "Filesystem";
      [source: string]: unknown;
    };
    status?: {
      phase?: "Pending" | "Available" | "Bound" | "Released" | "Failed";
      reason?: string;
      message?: string;
      lastPhaseTransitionTime?: Time;
    };
  }
}

/** Sends an HTTP request: `fetch` of "informant". */
declare function fetch(
  url: string,
  options?: import("informant").FetchOptions,
): Promise<import("informant").Response>;

/** Writes to Informant's log, as `log` does. */
interface Console {
  trace(...values: any[]): void;
  debug(...values: any[]): void;
  log(...values: any[]): void;
  info(...values: any[]): void;
  warn(...values: any[]): void;
  error(...values: any[]): void;
}
declare var console: Console;

// If the compiler has its own declarations (its default libraries have), these merge with them.

/** UTF-8 only. */
interface TextDecoder {
  decode(input?: ArrayBuffer | ArrayBufferView): string;
}
declare var TextDecoder: typeof globalThis extends { onmessage: any; TextDecoder: infer Declared }
  ? Declared
  : { new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder };

interface TextEncoder {
  encode(input?: string): Uint8Array;
}
declare var TextEncoder: typeof globalThis extends { onmessage: any; TextEncoder: infer Declared }
  ? Declared
  : { new (): TextEncoder };
