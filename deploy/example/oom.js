// Warns once each time that a container is killed because it ran out of memory. What was reported is forgotten
// when Informant restarts, so kills that pods still show are then reported again.
const fields = ["/status/initContainerStatuses", "/status/containerStatuses"].flatMap((list) => [
  `${list}/*/name`,
  `${list}/*/state/terminated`,
  `${list}/*/lastState/terminated`,
]);

// Only these fields are passed to the script, and only updates that change one of them.
export const manifest = {
  events: [{ apiVersion: "v1", kind: "Pod", payload: { fields }, changedOnly: true }],
};

// The kills that a pod shows and that were reported, by its uid.
const reported = new Map();

function report(pod, event) {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  const before = reported.get(event.uid) ?? [];
  const kills = [];
  for (const { name, state, lastState } of [...initContainerStatuses, ...containerStatuses]) {
    for (const ended of [lastState?.terminated, state?.terminated]) {
      if (ended?.reason !== "OOMKilled") continue;
      // Each run of a container has an ID of its own.
      const kill = `${name} ${ended.containerID}`;
      kills.push(kill);
      if (!before.includes(kill)) console.warn(`${event}: container ${name} ran out of memory`);
    }
  }
  if (kills.length > 0) reported.set(event.uid, kills);
  else reported.delete(event.uid);
}

export function onAdd(pod, event) {
  report(pod, event);
}

export function onUpdate(pod, event) {
  report(pod, event);
}

export function onDelete(last, event) {
  reported.delete(event.uid);
}
