import type { Event, KubernetesObject } from "informant";

export function onAdd(pod: KubernetesObject, event: Event): void {
  console.log(`${event} is ${pod.status?.phase}`);
}

export const onUpdate = onAdd;
