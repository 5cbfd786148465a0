// The table of all sources: one watched resource each, with its state and its part of the cache.

import { h } from "preact";
import { useCell } from "./cell";
import { sources } from "./feeds";
import { bytes, count } from "./format";
import { Pill, sourceTone, urgency } from "./state";
import { Table, type Column } from "./table";
import type { SourceRow } from "./types";
import { Page } from "./view";

function idText(id: number | null): string {
  return id === null ? "" : `#${id}`;
}

const COLUMNS: Column<SourceRow>[] = [
  { label: "Resource", width: 15.5, value: (row) => row.resource },
  {
    label: "State",
    width: 9.5,
    value: (row) => urgency(sourceTone(row.state)),
    show: (row) => <Pill tone={sourceTone(row.state)} text={row.state} />,
  },
  { label: "Namespace", width: 8, value: (row) => row.namespace ?? "all" },
  { label: "Cluster", width: 6, value: (row) => row.cluster || "local" },
  { label: "Informer", width: 8, value: (row) => row.informer },
  { label: "Objects", width: 6.5, value: (row) => row.objects, number: count },
  { label: "Cache", width: 6.5, value: (row) => row.bytes, number: bytes },
  { label: "Heads", width: 5.5, value: (row) => row.heads, number: count },
  { label: "Relists", width: 5.5, value: (row) => row.relists, number: count },
  { label: "Indexes", width: 8.5, value: (row) => row.indexes.join(", ") },
  { label: "Problem", width: 11, grow: true, value: (row) => row.trouble ?? "" },
  { label: "ID", width: 4.5, value: (row) => row.id, number: idText },
];

function searched(row: SourceRow): unknown[] {
  const place = [row.namespace, row.cluster || "local", row.informer, idText(row.id)];
  return [row.resource, row.state, row.trouble, ...place, ...row.indexes];
}

export function Sources({ query }: { query: URLSearchParams }) {
  const { loaded, rows } = useCell(sources);
  return (
    <Page title="Sources" topic="sources" done={loaded}>
      <Table
        unit="source"
        columns={COLUMNS}
        rows={rows}
        searched={searched}
        query={query}
        hint="resource, state, namespace, #id"
      />
    </Page>
  );
}
