// What the declarations accept and refuse. It is compiled, and never run.
import { ensureOk, kube, kv, metrics, store } from "informant";
import type { ConfigMap, Deployment, Event, Handler, KubernetesObject, Manifest, Node, Pod, Service } from "informant";

export const manifest: Manifest = {
  events: [{ apiVersion: "v1", kind: "Pod", payload: { fields: ["/status/phase"] }, changedOnly: true }],
  needs: [{ kube: { verbs: ["patch", "create"], resource: "v1/configmaps" } }],
  writes: "seen",
};

// @ts-expect-error The member is `events`.
export const misspelled: Manifest = { evnts: [] };

// @ts-expect-error There is no such verb.
export const unknownVerb: Manifest = { needs: [{ kube: { verbs: ["watch"], resource: "v1/pods" } }] };

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
