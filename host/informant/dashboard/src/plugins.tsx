// The table of all plugins.

import { Fragment, h } from "preact";
import { useCell } from "./cell";
import { plugins } from "./feeds";
import { bytes, cores, count, duration, rate } from "./format";
import { PluginName } from "./parts";
import { Pill, pluginTone, urgency } from "./state";
import { Table, type Column } from "./table";
import type { PluginRow } from "./types";
import { Page } from "./view";

function alarm(value: number | null) {
  return <span class={value ? "alarm" : "muted"}>{count(value)}</span>;
}

const COLUMNS: Column<PluginRow>[] = [
  { label: "Plugin", width: 12, value: (row) => row.name, show: (row) => <PluginName name={row.name} /> },
  {
    label: "State",
    width: 12,
    value: (row) => urgency(pluginTone(row)),
    show: (row) => (
      <>
        <Pill tone={pluginTone(row)} text={row.state} />
        {row.dryRun && <span class="tag">dry run</span>}
      </>
    ),
  },
  { label: "Events", width: 6, value: (row) => row.perSecond, number: rate },
  { label: "Failing", width: 5.5, value: (row) => row.failing, number: alarm },
  { label: "Dead letters", width: 8, value: (row) => row.deadLetters, number: alarm },
  { label: "Lag", width: 7.5, value: (row) => row.lagMs, number: duration },
  { label: "CPU", width: 5, value: (row) => row.cpu, number: cores },
  { label: "CPU/event", width: 7, value: (row) => row.cpuPerEventMs, number: duration },
  { label: "Memory", width: 6.5, value: (row) => row.memoryBytes, number: bytes },
  { label: "Effects", width: 6, value: (row) => row.effects, number: count },
  { label: "Requests", width: 6.5, value: (row) => row.kubeRequests, number: count },
  { label: "Reason", width: 12, grow: true, value: (row) => row.because ?? "" },
];

function searched(row: PluginRow): unknown[] {
  return [row.name, row.state, row.version, row.because, row.code, row.dryRun && "dry run", ...row.informers];
}

export function Plugins({ query }: { query: URLSearchParams }) {
  const { loaded, rows } = useCell(plugins);
  return (
    <Page title="Plugins" topic="plugins" done={loaded}>
      <Table
        unit="plugin"
        columns={COLUMNS}
        rows={rows}
        searched={searched}
        query={query}
        hint="name, state, informer, reason"
      />
    </Page>
  );
}
