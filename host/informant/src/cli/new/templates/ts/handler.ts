import type { Event, Pod } from "informant";

export function onAdd(pod: Pod, event: Event<Pod>): void {
  console.log(`${event} is ${pod.status?.phase}`);
}

export const onUpdate = onAdd;
