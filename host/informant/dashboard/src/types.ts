// The messages of the admin API, as the page receives them.

export interface Problem {
  text: string;
  code: string | null;
  plugin: string | null;
  source: number | null;
}

export interface Series {
  stepSeconds: number;
  end: string;
  names: string[];
  values: (number | null)[][];
}

export interface Overview {
  time: string;
  version: string;
  pod: string;
  ready: boolean;
  notReady: string[];
  configuration: { path: string; state: string; problem: string | null; code: string | null };
  problems: Problem[];
  memory: { residentBytes: number; limitBytes: number | null; cacheBytes: number; cacheMaxBytes: number | null };
  counts: {
    plugins: number;
    pluginsNotWell: number;
    sources: number;
    sourcesNotLive: number;
    objects: number;
    deadLetters: number;
  };
  series: Series;
}

export interface PluginRow {
  name: string;
  state: string;
  because: string | null;
  code: string | null;
  version: string;
  sha256: string;
  informers: string[];
  instances: number;
  delivered: number;
  /** Null, as `cpu`, until the server has counted twice. */
  perSecond: number | null;
  pending: number;
  inFlight: number;
  failing: number;
  deadLetters: number;
  lagMs: number;
  restarts: number;
  reloads: number;
  cpuMs: number;
  cpu: number | null;
  cpuPerEventMs: number | null;
  memoryBytes: number;
  kubeRequests: number;
  kubeSentBytes: number;
  kubeReceivedBytes: number;
  effects: number;
  effectsPerSecond: number;
  paused: boolean;
  dryRun: boolean;
}

export interface SourceRow {
  id: number | null;
  key: string;
  informer: string;
  cluster: string;
  resource: string;
  namespace: string | null;
  state: string;
  trouble: string | null;
  code: string | null;
  objects: number;
  bytes: number;
  heads: number;
  indexes: string[];
  relists: number;
  perSecond: number;
}

export interface RowsMessage<R> {
  all: boolean;
  changed: R[];
  removed: string[];
}

export interface Replica {
  name: string;
  isThis: boolean;
  acts: boolean;
  live: boolean;
  ready: boolean;
  version: string | null;
  configuration: string | null;
  differs: boolean;
  address: string | null;
  seenMs: number | null;
}

export interface Replicas {
  lease: string | null;
  holder: string | null;
  transitions: number;
  standing: string;
  sinceMs: number | null;
  reason: string | null;
  items: Replica[];
}

export interface LogLine {
  time: string;
  level: string;
  line: string;
}

export interface ObjectRef {
  informer?: string;
  cluster?: string;
  resource: string;
  namespace?: string;
  name?: string;
  uid?: string;
  resourceVersion?: string;
}

export interface Cause {
  version: string;
  sha256: string;
  event: string;
  reason: string;
  attempt: number;
  object: ObjectRef | null;
  timer?: string;
  related?: ObjectRef;
  relatedEvent?: string;
  hidden?: boolean;
}

export interface Why {
  time: string;
  plugin: string;
  kind: string;
  verb: string;
  object: ObjectRef | null;
  subresource?: string;
  url?: string;
  result: string;
  error?: string;
  grant: string;
  identity: string | null;
  cause: Cause | null;
}

export interface WhyList {
  next: number;
  dropped: number;
  more: boolean;
  replica?: string;
  others?: { name: string; address: string }[];
  items: Why[];
}

export interface Reload {
  time: string;
  result: string;
  sha256: string;
  version: string;
  error: string | null;
}

export interface Timer {
  name: string;
  schedule: string;
  last: string | null;
  lastSucceeded: boolean | null;
  next: string | null;
}

export interface Plugin {
  name: string;
  component: string;
  informers: string[];
  state: string;
  because: string | null;
  code: string | null;
  /** What is to be said besides the reason for its state, the worst first. */
  problems: string[];
  manifestVersion: string | null;
  roles: string;
  sha256: string | null;
  memoryBytes: number;
  cpuMs: number;
  kubeRequests: number;
  kubeSentBytes: number;
  kubeReceivedBytes: number;
  effects: number;
  instances: number;
  restarts: number;
  /** Absent, as all that a component has, of a plugin that is not loaded. */
  reloadHistory?: Reload[];
  pending: number;
  inFlight: number;
  failing: number;
  deadLetters: number;
  delivered: number;
  coalesced: number;
  paused: boolean;
  dryRun: boolean;
  lastError: { message: string; ageMs: number } | null;
  timers?: Timer[];
  kv: { keys: number; bytes: number } | null;
  requeues: number;
  spaced: number;
  writesWaiting: number;
}

/** An event that a plugin failed on, and that it gets again only by a requeue. */
export interface DeadLetter {
  plugin: string;
  /** Null without an object, and of a source that is gone. */
  cluster: string | null;
  resource: string | null;
  namespace: string | null;
  name: string | null;
  event: string;
  reason: string;
  result: string;
  attempts: number;
  error: string | null;
  ageMs: number;
}

export interface Retry extends DeadLetter {
  nextMs: number | null;
}

export interface DryRun {
  dryRun: boolean;
  dropped: number;
  items: {
    kind: string;
    action: string;
    cluster: string;
    target: string;
    detail: string | null;
    error: string | null;
    ageMs: number;
  }[];
}

export interface Call {
  time: string;
  plugin: string;
  event: string;
  reason: string;
  attempt: number;
  outcome: string;
  error: string | null;
  effects: number;
  version: string;
}

export interface IndexValues {
  informer: string;
  index: string;
  values: string[] | null;
  error: string | null;
}
