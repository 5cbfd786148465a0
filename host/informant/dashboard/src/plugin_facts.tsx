// The facts about one plugin: progress, cost, version, timers, reloads and the effects of a dry run.

import { Fragment, h } from "preact";
import type { Loaded } from "./api";
import { ago, bytes, count, duration, NONE, plural, rate, Time } from "./format";
import { List, type Field } from "./list";
import { Facts, Hash, Panel, Unavailable } from "./parts";
import { Pill } from "./state";
import { code, foreign, multiline } from "./text";
import type { DryRun, Plugin, PluginRow, Reload, Timer } from "./types";

interface FactsProps {
  data: Plugin;
  row: PluginRow | undefined;
}

export function Progress({ data, row }: FactsProps) {
  const now = row ?? data;
  return (
    <Panel title="Events">
      <Facts
        items={[
          ["Delivered", `${count(now.delivered)}${row ? ` · ${rate(row.perSecond)}` : ""}`],
          ["Pending", count(now.pending)],
          ["In flight", count(now.inFlight)],
          ["Lag", duration(row?.lagMs)],
          ["Failing", count(now.failing)],
          ["Dead letters", count(now.deadLetters)],
          ["Coalesced", count(data.coalesced)],
          ["Will be called again", count(data.requeues)],
          ["Wait for min-interval", count(data.spaced)],
          data.lastError && [
            "Last crash or refused reload",
            <>
              {multiline(data.lastError.message)} <span class="muted">({ago(data.lastError.ageMs)})</span>
            </>,
          ],
        ]}
      />
    </Panel>
  );
}

export function Cost({ data, row }: FactsProps) {
  const now = row ?? data;
  return (
    <Panel title="Cost">
      <Facts
        items={[
          ["Memory", bytes(now.memoryBytes)],
          ["CPU time", `${duration(now.cpuMs)}${row ? ` · ${duration(row.cpuPerEventMs)} per event` : ""}`],
          ["Instances", count(now.instances)],
          ["Restarts", count(now.restarts)],
          [
            "Kubernetes requests",
            `${count(now.kubeRequests)} · sent ${bytes(now.kubeSentBytes)}, received ${bytes(now.kubeReceivedBytes)}`,
          ],
          ["Effects", count(now.effects)],
          ["Writes waiting", count(data.writesWaiting)],
          ["Key-value store", data.kv ? `${plural(data.kv.keys, "key")}, ${bytes(data.kv.bytes)}` : "none"],
        ]}
      />
    </Panel>
  );
}

export function Version({ data }: { data: Plugin }) {
  return (
    <Panel title="Version">
      <Facts
        items={[
          ["Version", foreign(data.manifestVersion ?? NONE)],
          ["Component", code(data.component)],
          ["SHA-256", <Hash value={data.sha256} />],
          ["Roles", foreign(data.roles || NONE)],
          ["Informers", foreign(data.informers.join(", ") || NONE)],
        ]}
      />
    </Panel>
  );
}

const TIMERS: Field<Timer>[] = [
  ["Timer", (timer) => foreign(timer.name), "name"],
  ["Schedule", (timer) => code(timer.schedule)],
  ["Last run", (timer) => <Time at={timer.last} day />],
  [
    "Last result",
    ({ lastSucceeded }) =>
      lastSucceeded === null ? (
        NONE
      ) : (
        <Pill tone={lastSucceeded ? "ok" : "bad"} text={lastSucceeded ? "succeeded" : "failed"} />
      ),
  ],
  ["Next run", (timer) => <Time at={timer.next} day />],
];

export function Timers({ timers }: { timers: Timer[] }) {
  return (
    <Panel title="Timers">
      <List label="Timers" items={timers} fields={TIMERS} keyOf={(timer) => timer.name} empty="No timers." />
    </Panel>
  );
}

const RELOADS: Field<Reload>[] = [
  ["Time", (reload) => <Time at={reload.time} day />],
  ["Result", (reload) => <Pill tone={reload.error === null ? "ok" : "bad"} text={reload.result} />],
  ["Version", (reload) => foreign(reload.version)],
  ["SHA-256", (reload) => <Hash value={reload.sha256} />],
  ["Error", (reload) => multiline(reload.error)],
];

export function Reloads({ reloads }: { reloads: Reload[] }) {
  return (
    <Panel title="Reload history" aside={<span class="muted">newest first</span>}>
      <List
        label="Reload history"
        items={reloads.toReversed()}
        fields={RELOADS}
        keyOf={(reload) => reload.time + reload.sha256}
        empty="Not reloaded since the start."
      />
    </Panel>
  );
}

type DryRunEffect = DryRun["items"][number];

const DRY_RUN: Field<DryRunEffect>[] = [
  ["Effect", (item) => foreign(`${item.kind} ${item.action}`)],
  ["Target", (item) => foreign((item.cluster ? `${item.cluster}: ` : "") + item.target)],
  ["Detail", (item) => multiline(item.detail)],
  ["Error", (item) => <span class="error">{multiline(item.error)}</span>],
  ["Age", (item) => ago(item.ageMs), "number"],
];

export function DryRunEffects({ effects: { data, error } }: { effects: Loaded<DryRun> }) {
  const items = data?.items ?? [];
  const dropped = data?.dropped ?? 0;
  return (
    <Panel
      title="Dry run: effects that were not carried out"
      aside={dropped > 0 ? <span class="muted">{plural(dropped, "effect")} dropped from this list</span> : undefined}
    >
      <Unavailable message={error} />
      {data && <List label="Effects of the dry run" items={items} fields={DRY_RUN} empty="No effects yet." />}
    </Panel>
  );
}
