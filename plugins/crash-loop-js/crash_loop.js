// Reports containers that crash-loop, or that were killed for want of memory: plugins/crash-loop, in JavaScript, line by line the same
// reports.
//
// What was said of a pod is remembered by its uid and forgotten when the pod is deleted.
import { Permanent, log, plugin } from "informant-plugin-sdk";

// Ephemeral containers are never restarted. Not the whole state is read, whose messages change with each back-off.
const LISTS = ["/status/initContainerStatuses", "/status/containerStatuses"];
const FIELDS = [
  "name",
  "restartCount",
  "state/waiting/reason",
  "state/running/startedAt",
  "state/terminated/reason",
  "state/terminated/exitCode",
  "lastState/terminated/reason",
  "lastState/terminated/exitCode",
];

/** @typedef {{ isLooping: boolean, oomKills: number, loopingAt: number, oomKilledAt: number }} Known -1: nothing was said yet. */

/** @type {Map<string, Map<string, Known>>} By pod uid, then container. */
const pods = new Map();
let minRestarts = 1;

/** @returns {Known} */
const nothing = () => ({ isLooping: false, oomKills: 0, loopingAt: -1, oomKilledAt: -1 });

const isNews = (known) => known.isLooping || known.oomKills > 0 || known.loopingAt >= 0 || known.oomKilledAt >= 0;

const counted = (restarts) => `${restarts} restart${restarts === 1 ? "" : "s"}`;

/** The runs that are over and still shown, oldest first: how many restarts came before each, and how it ended. */
const endedRuns = ({ restartCount: restarts = 0, state = {}, lastState = {} }) => {
  // A restart is counted when it happens: until then the last run is the one that has just ended.
  const hasBegun = state.running !== undefined || state.terminated !== undefined;
  const before = hasBegun ? restarts - 1 : restarts;
  const runs = [];
  if (lastState.terminated !== undefined && before >= 0) runs.push({ run: before, ended: lastState.terminated });
  if (state.terminated !== undefined) runs.push({ run: restarts, ended: state.terminated });
  return runs;
};

/** Takes in what the container is like now. Returns what is to be remembered, and the news. */
const lookAt = (before, container) => {
  const { restartCount: restarts = 0, state = {} } = container;
  // The kubelet counts from what it still remembers of a container: after it was restarted itself, perhaps from 0.
  const isAfresh = restarts < Math.max(before.loopingAt, before.oomKilledAt);
  const known = isAfresh ? nothing() : { ...before };
  const news = [];
  const runs = endedRuns(container);
  for (const { run, ended } of runs) {
    if (ended.reason !== "OOMKilled" || run <= known.oomKilledAt) continue;
    known.oomKilledAt = run;
    known.oomKills += 1;
    const times = known.oomKills === 1 ? "once" : `${known.oomKills} times`;
    news.push(`was OOM-killed: exit code ${ended.exitCode ?? 0}, seen ${times}, ${counted(restarts)}`);
  }
  known.isLooping = state.waiting?.reason === "CrashLoopBackOff" && restarts >= minRestarts;
  if (known.isLooping && restarts > known.loopingAt) {
    known.loopingAt = restarts;
    const last = runs.at(-1)?.ended;
    const how = last === undefined ? "" : `, last exit code ${last.exitCode ?? 0} (${last.reason ?? ""})`;
    news.push(`is crash-looping: ${counted(restarts)}${how}`);
  }
  return { known, news };
};

const lookAtPod = (pod, event) => {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  for (const container of [...initContainerStatuses, ...containerStatuses]) {
    const { name = "" } = container;
    const { known, news } = lookAt(pods.get(event.uid)?.get(name) ?? nothing(), container);
    for (const text of news) log.warn(`${event}: container ${name} ${text}`);
    // Only containers of which something was said take memory.
    if (!isNews(known)) pods.get(event.uid)?.delete(name);
    else if (pods.has(event.uid)) pods.get(event.uid).set(name, known);
    else pods.set(event.uid, new Map([[name, known]]));
  }
};

export const { lifecycle, eventHandler, syncHandler, indexFuncs, state } = plugin({
  manifest: {
    name: "crash-loop-js",
    version: "0.1.0",
    events: [
      {
        apiVersion: "v1",
        kind: "Pod",
        payload: { fields: LISTS.flatMap((list) => FIELDS.map((field) => `${list}/*/${field}`)) },
        "changed-only": true,
      },
    ],
  },

  init({ "min-restarts": restarts = 1, ...rest }) {
    const [unknown] = Object.keys(rest);
    if (unknown !== undefined) throw new Permanent(`config: unknown key \`${unknown}\`, expected \`min-restarts\``);
    if (!Number.isInteger(restarts) || restarts < 0) throw new Permanent("config: `min-restarts` is no whole number");
    minRestarts = restarts;
  },

  onAdd: lookAtPod,

  // Events say what the cache saw: it is now like this.
  onUpdate: (_, pod, event) => lookAtPod(pod, event),

  onDelete(_, event) {
    pods.delete(event.uid);
  },

  onSynced(source) {
    const known = [...pods.values()].flatMap((containers) => [...containers.values()]);
    const looping = known.filter(({ isLooping }) => isLooping).length;
    const killed = known.reduce((sum, { oomKills }) => sum + oomKills, 0);
    log.info(`source ${source} is synced; in all sources ${looping} containers crash-looping, ${killed} OOM kills seen`);
  },
});
