// @ts-check

/** @type {import("informant").Handler<import("informant").Pod>} */
export function onAdd(pod, event) {
  console.log(`${event} is ${pod.status?.phase}`);
}

export const onUpdate = onAdd;
