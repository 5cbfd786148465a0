// What the declarations accept and refuse. It is compiled, and never run.
import { ensureOk, kube, kv, metrics, recorder, store } from "informant";
import type {
  ConfigMap,
  Deployment,
  Event,
  Handler,
  KubernetesObject,
  Manifest,
  Node,
  Pod,
  Reconciler,
  Service,
  TimerHandler,
} from "informant";

export const manifest: Manifest = {
  events: [{ apiVersion: "v1", kind: "Pod", payload: { fields: ["/status/phase"] }, changedOnly: true }],
  needs: [{ kube: { verbs: ["patch", "create"], resource: "v1/configmaps" } }, { events: {} }],
  writes: "seen",
};

// @ts-expect-error The member is `events`.
export const misspelled: Manifest = { evnts: [] };

// @ts-expect-error There is no such verb.
export const unknownVerb: Manifest = { needs: [{ kube: { verbs: ["watch"], resource: "v1/pods" } }] };

// @ts-expect-error It has no members.
export const unknownNeed: Manifest = { needs: [{ events: { namespaces: ["web"] } }] };

export const onAdd = (pod: any, event: Event) => {
  const { namespace, name, uid } = event;
  const maps = { resource: "v1/configmaps", namespace };
  const map = { metadata: { name } };
  kube.create(maps, map);
  kube.defer.create(maps, map);
  kube.create({ resource: "v1/pods", namespace, name, subresource: "eviction" }, {});
  // @ts-expect-error The name is in the object.
  kube.defer.create({ ...maps, name }, map);
  // @ts-expect-error An event is the address of its object.
  kube.create(event, map);
  kube.list(maps);
  const calls: number = kv.get<number>("calls") ?? 0;
  kv.set("calls", calls + 1);
  const isNew: boolean = kv.setIfAbsent(`seen/${uid}`);
  if (isNew) kv.list("seen/").forEach((key: string) => kv.delete(key));
  // @ts-expect-error A value is required.
  kv.set("calls");
  metrics.add("calls");
  metrics.replace("phases", maps.resource ? [{ value: 1, labels: { phase: "Running" } }] : []);
  // @ts-expect-error A value is required.
  metrics.set("calls");
  // @ts-expect-error A name is no collection.
  kube.list({ ...maps, name });

  kube.delete({ ...maps, name });
  kube.defer.delete(event);
  kube.defer.delete({ ...maps, name }, { preconditions: { uid } });
  // @ts-expect-error Whose uid?
  kube.defer.delete({ ...maps, name });
  // @ts-expect-error Whose uid?
  kube.defer.delete({ ...maps, name }, { propagationPolicy: "Background" });

  const bytes: Uint8Array = new TextEncoder().encode(store.get("pods", namespace, name)?.metadata.name);
  const text: string = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  console.log(text, pod);
};

export const onUpdate = async (pod: any, event: Event) => {
  const headers = { "content-type": "application/json", "idempotency-key": event.id };
  const response = ensureOk(await fetch("https://example.com/", { method: "POST", headers, body: JSON.stringify(pod) }));
  const found: { name: string } = await response.json<{ name: string }>();
  const server: string | null = response.headers.get("server");
  // @ts-expect-error An object is no body.
  await fetch("https://example.com/", { method: "POST", body: { a: 1 } });
  // @ts-expect-error The response is not awaited.
  ensureOk(fetch("https://example.com/"));
  console.log(found.name, server);
};

// Timers and Kubernetes Events.
export const timed: Manifest = {
  timers: [
    { name: "report", cron: "0 8 * * 1-5", zone: "Europe/Berlin", missed: "skip" },
    { name: "sweep", every: "5m", jitter: "30s", atStart: true },
  ],
};

// @ts-expect-error A timer has one schedule.
export const twice: Manifest = { timers: [{ name: "report", cron: "0 8 * * *", every: "5m" }] };

// @ts-expect-error A timer without a schedule never runs.
export const never: Manifest = { timers: [{ name: "report" }] };

// @ts-expect-error Only `cron` has a zone.
export const zoned: Manifest = { timers: [{ name: "report", every: "5m", zone: "UTC" }] };

export const onTimer: TimerHandler = ({ name, scheduled, missed, attempt }) => {
  const day: string = scheduled.slice(0, 10);
  const node = { apiVersion: "v1", kind: "Node", name: "n1" };
  recorder.event(node, { reason: "Reported", note: `${name} of ${day}: ${missed}, ${attempt}` });
  for (const pod of store.list<Pod>("pods")) recorder.event(pod, { reason: "Listed", related: node });
};

export const records = (pod: Pod, event: Event<Pod>, other: any) => {
  recorder.event(pod, { type: "Warning", reason: "Crashing", action: "Restarting", note: "again", related: other });
  recorder.event(event, { reason: "Seen" });
  // @ts-expect-error An Event needs a reason.
  recorder.event(pod, { note: "again" });
  // @ts-expect-error There is no such type.
  recorder.event(pod, { type: "Error", reason: "Crashing" });
  // @ts-expect-error A key is no object.
  recorder.event("web/a", { reason: "Crashing" });
};

// What a reconciler writes.
interface Site extends KubernetesObject {
  spec: { host: string };
}

export const reconcile: Reconciler<Site> = async (site, request) => {
  const waits: boolean | Promise<boolean> = kube.finalize(request, site, async () => {});
  const proceeds: boolean = kube.finalize(request, site, () => {});
  if (!(await waits) || !proceeds || site === undefined) return;
  const owner = kube.ownerReference(site, { controller: false });
  const metadata = { name: "a", ownerReferences: [owner, kube.ownerReference(request)] };
  const map = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { host: site.spec.host } };
  kube.children(request, []);
  const done = kube.children(request, { whole: [map] });
  const skipped: string = done.pruneSkipped ?? `${done.written} ${done.pruned} ${done.refused.join()}`;
  const ready = { type: "Ready", status: "True", reason: "Deployed", message: skipped } as const;
  kube.setStatus(request, site, { host: site.spec.host, conditions: [...kube.conditionsOf(done), ready] });
  // @ts-expect-error A condition has a reason.
  kube.setStatus(request, site, { conditions: [{ type: "Ready", status: "True" }] });
  // @ts-expect-error A child has a name.
  kube.children(request, [{ apiVersion: "v1", kind: "ConfigMap", metadata: {} }]);
  // @ts-expect-error There is no such list.
  kube.children(request, { hole: [map] });
};

export const gone = (site: Site, event: Event<Site>) => {
  // @ts-expect-error An event is no request.
  kube.finalize(event, site, () => {});
};

// Kubernetes' own kinds.
export const handler: Handler<Pod> = (pod, event) => {
  const restarts: number = pod.status?.containerStatuses?.reduce((sum, { restartCount }) => sum + restartCount, 0) ?? 0;
  const was: string | undefined = event.old?.status?.phase;
  const owner: string | undefined = pod.metadata.ownerReferences?.find(({ controller }) => controller)?.name;
  // @ts-expect-error The status may be absent.
  const phase: string = pod.status.phase;
  // @ts-expect-error There is no such member.
  pod.spec?.nodename;
  // @ts-expect-error There is no such phase.
  if (pod.status?.phase === "Crashed") return;
  const general: KubernetesObject = pod;
  console.log(restarts, was, owner, phase, general.anything);
};

export function typed(node: Node, event: Event<Node>): void {
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  const isReady: boolean = ready?.status === "True";
  const services: Service[] = store.list<Service>("services");
  const address = { resource: "apps/v1/deployments", namespace: "a", name: "b" };
  const deployment: Deployment | undefined = kube.get<Deployment>(address);
  const data: Record<string, string> | undefined = store.get<ConfigMap>("configmaps", "a", "b")?.data;
  const image: string | undefined = deployment?.spec?.template.spec?.containers[0]?.image;
  console.log(isReady, services[0]?.spec?.ports?.[0]?.port, image, data, event.old?.spec);
}
