// Posts a message when a container was killed because it ran out of memory. README.md says how.
import { Permanent, config, ensureOk, fetch, kv } from "informant";

const { url, channel, "pause-minutes": pauseMinutes = 60, ...rest } = config;
const [unknown] = Object.keys(rest);
if (unknown !== undefined) throw new Permanent(`config: unknown key \`${unknown}\`, expected \`url\`, \`channel\` or \`pause-minutes\``);
if (typeof url !== "string") throw new Permanent('config: say where to post messages: url = "https://slack.com/api/chat.postMessage"');
if (!(pauseMinutes >= 0)) throw new Permanent("config: `pause-minutes` is not a number from 0 on");

const MINUTE_MS = 60_000;
// Earlier kills are history when the plugin is installed.
const AGE_MAX_MS = 24 * 60 * MINUTE_MS;

const LISTS = ["/status/initContainerStatuses", "/status/containerStatuses"];
const STATES = ["state", "lastState"].flatMap((state) => ["reason", "finishedAt"].map((field) => `${state}/terminated/${field}`));

export const manifest = {
  name: "oom-to-slack",
  version: "0.1.0",
  events: [
    {
      apiVersion: "v1",
      kind: "Pod",
      payload: {
        fields: [
          ...LISTS.flatMap((list) => ["name", "restartCount", ...STATES].map((field) => `${list}/*/${field}`)),
          "/spec/nodeName",
          "/spec/containers/*/name",
          "/spec/containers/*/resources/limits/memory",
        ],
      },
      changedOnly: true,
    },
  ],
};

/** The containers of a pod that were killed, each with the time of its last kill in milliseconds. */
const killed = ({ status = {} }) =>
  [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])].flatMap(({ name, restartCount = 0, state, lastState }) => {
    const kill = [state?.terminated, lastState?.terminated].find((ended) => ended?.reason === "OOMKilled");
    const at = Date.parse(kill?.finishedAt);
    return Date.now() - at < AGE_MAX_MS ? [{ name, restartCount, at }] : [];
  });

const describe = (pod, event, { name, restartCount }) => {
  const limit = pod.spec?.containers?.find((container) => container.name === name)?.resources?.limits?.memory ?? "none";
  const where = [event.cluster, pod.spec?.nodeName].filter(Boolean).map((part) => ` on ${part}`).join("");
  return `Container ${name} of pod ${event}${where} was killed: out of memory (limit ${limit}, ${restartCount} restarts)`;
};

/** Slack answers 200 even if it refuses a message, and says why. */
const refusal = (text) => {
  try {
    const { ok, error } = JSON.parse(text);
    return ok === false ? error : undefined;
  } catch {
    return undefined;
  }
};

const post = async (message, id) => {
  const headers = { "content-type": "application/json; charset=utf-8", "idempotency-key": id };
  const response = ensureOk(await fetch(url, { method: "POST", headers, body: JSON.stringify(message) }));
  const why = refusal(await response.text());
  if (why !== undefined) throw new Permanent(`the message was refused: ${why}`);
};

export async function onAdd(pod, event) {
  const fresh = killed(pod).filter(({ name, at }) => {
    const reported = kv.get(`${event.uid}/${name}`);
    return reported === undefined || (at > reported && at - reported >= pauseMinutes * MINUTE_MS);
  });
  if (fresh.length === 0) return;
  // Takes effect only if the call succeeds. If it cannot be remembered, nothing is posted.
  for (const { name, at } of fresh) kv.set(`${event.uid}/${name}`, at);
  // One message for the pod: if it fails, all of it is repeated.
  await post({ channel, text: fresh.map((kill) => describe(pod, event, kill)).join("\n") }, event.id);
}

export const onUpdate = onAdd;

/** Forgets pods that were deleted while Informant was stopped: kills that are so old are not reported anyway. */
export function onSynced() {
  const since = Date.now() - Math.max(AGE_MAX_MS, pauseMinutes * MINUTE_MS);
  for (const key of kv.list("")) if (kv.get(key) < since) kv.delete(key);
}

export function onDelete(last, event) {
  for (const key of kv.list(`${event.uid}/`)) kv.delete(key);
}
