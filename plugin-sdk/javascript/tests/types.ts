// What the declarations accept and refuse. It is compiled, and never run.
import { ensureOk, kube, kv, metrics, store, type Event, type Manifest } from "informant";

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
