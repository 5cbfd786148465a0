// Reports containers that crash-loop or were OOM-killed: the example of the Rust SDK in JavaScript, same reports.
//
// The plugin remembers its reports by the uid of the pod until the pod is deleted.
import { Permanent, config, log } from "informant";

// Ephemeral containers are never restarted. The messages of the state are not read, because they change with each back-off.
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

/** @typedef {{ isLooping: boolean, oomKills: number, loopingAt: number, oomKilledAt: number }} Reported -1: no report yet. */

/** @type {Map<string, Map<string, Reported>>} By pod uid, then container. */
const pods = new Map();

const { "min-restarts": minRestarts = 1, ...rest } = config;
const [unknown] = Object.keys(rest);
if (unknown !== undefined) throw new Permanent(`config: unknown key \`${unknown}\`, expected \`min-restarts\``);
if (!Number.isInteger(minRestarts) || minRestarts < 0) throw new Permanent("config: `min-restarts` is not an integer");

export const manifest = {
  name: "crash-loop-js",
  version: "0.1.0",
  events: [
    {
      apiVersion: "v1",
      kind: "Pod",
      payload: { fields: LISTS.flatMap((list) => FIELDS.map((field) => `${list}/*/${field}`)) },
      changedOnly: true,
    },
  ],
};

/** @returns {Reported} */
const noReports = () => ({ isLooping: false, oomKills: 0, loopingAt: -1, oomKilledAt: -1 });

const hasReports = (reported) => reported.isLooping || reported.oomKills > 0 || reported.loopingAt >= 0 || reported.oomKilledAt >= 0;

const counted = (restarts) => `${restarts} restart${restarts === 1 ? "" : "s"}`;

/** The ended runs in the status, oldest first: the number of restarts before each run, and how it ended. */
const endedRuns = ({ restartCount: restarts = 0, state = {}, lastState = {} }) => {
  // A restart is counted when the container starts. Until then, the last run is the one that has just ended.
  const hasBegun = state.running !== undefined || state.terminated !== undefined;
  const before = hasBegun ? restarts - 1 : restarts;
  const runs = [];
  if (lastState.terminated !== undefined && before >= 0) runs.push({ run: before, ended: lastState.terminated });
  if (state.terminated !== undefined) runs.push({ run: restarts, ended: state.terminated });
  return runs;
};

/** Updates the state of a container from its current status. Returns the new state and the new reports. */
const update = (before, container) => {
  const { restartCount: restarts = 0, state = {} } = container;
  // After a restart of the kubelet, the count of a container may start again from a lower number.
  const wasReset = restarts < Math.max(before.loopingAt, before.oomKilledAt);
  const reported = wasReset ? noReports() : { ...before };
  const reports = [];
  const runs = endedRuns(container);
  for (const { run, ended } of runs) {
    if (ended.reason !== "OOMKilled" || run <= reported.oomKilledAt) continue;
    reported.oomKilledAt = run;
    reported.oomKills += 1;
    const times = reported.oomKills === 1 ? "once" : `${reported.oomKills} times`;
    reports.push(`was OOM-killed: exit code ${ended.exitCode ?? 0}, seen ${times}, ${counted(restarts)}`);
  }
  reported.isLooping = state.waiting?.reason === "CrashLoopBackOff" && restarts >= minRestarts;
  if (reported.isLooping && restarts > reported.loopingAt) {
    reported.loopingAt = restarts;
    const last = runs.at(-1)?.ended;
    const how = last === undefined ? "" : `, last exit code ${last.exitCode ?? 0} (${last.reason ?? ""})`;
    reports.push(`is crash-looping: ${counted(restarts)}${how}`);
  }
  return { reported, reports };
};

const reportPod = (pod, event) => {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  for (const container of [...initContainerStatuses, ...containerStatuses]) {
    const { name = "" } = container;
    const { reported, reports } = update(pods.get(event.uid)?.get(name) ?? noReports(), container);
    for (const text of reports) log.warn(`${event}: container ${name} ${text}`);
    // Only containers with reports take memory.
    if (!hasReports(reported)) pods.get(event.uid)?.delete(name);
    else if (pods.has(event.uid)) pods.get(event.uid).set(name, reported);
    else pods.set(event.uid, new Map([[name, reported]]));
  }
};

// An update is handled like an add: the pod now has this state.
export const onAdd = reportPod;
export const onUpdate = reportPod;

export function onDelete(_, event) {
  pods.delete(event.uid);
}

export function onSynced(source) {
  const reported = [...pods.values()].flatMap((containers) => [...containers.values()]);
  const looping = reported.filter(({ isLooping }) => isLooping).length;
  const killed = reported.reduce((sum, { oomKills }) => sum + oomKills, 0);
  log.info(`${source} is synced; in all sources ${looping} containers crash-looping, ${killed} OOM kills seen`);
}
