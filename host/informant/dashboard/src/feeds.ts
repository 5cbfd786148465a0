// What the stream's topics have sent so far, one cell each.

import { Cell } from "./cell";
import { History } from "./history";
import type { LogLine, Overview, PluginRow, Replicas, RowsMessage, SourceRow, Why } from "./types";

const LOG_LINES_KEPT = 500;
const EFFECTS_KEPT = 200;

export interface Rows<R> {
  loaded: boolean;
  rows: ReadonlyMap<string, R>;
}

/** A list that only grows at its end. `id` is a stable key for each item. */
interface Tail<T> {
  loaded: boolean;
  name: string;
  items: { id: number; item: T }[];
  dropped: number;
}

export const overview = new Cell<Overview | null>(null);
export const history = new Cell<History>(new History());
export const plugins = new Cell<Rows<PluginRow>>({ loaded: false, rows: new Map() });
export const sources = new Cell<Rows<SourceRow>>({ loaded: false, rows: new Map() });
export const replicas = new Cell<{ received: number; value: Replicas } | null>(null);
export const logs = new Cell<Tail<LogLine>>(empty(""));
export const effects = new Cell<Tail<Why>>(empty(""));

let lastId = 0;

function empty<T>(name: string): Tail<T> {
  return { loaded: false, name, items: [], dropped: 0 };
}

function applyRows<R>(cell: Cell<Rows<R>>, message: RowsMessage<R>, key: (row: R) => string): void {
  const rows = new Map(message.all ? [] : cell.value.rows);
  for (const row of message.changed) rows.set(key(row), row);
  for (const name of message.removed) rows.delete(name);
  cell.set({ loaded: true, rows });
}

function applyTail<T>(cell: Cell<Tail<T>>, name: string, items: T[], dropped: number, first: boolean, kept: number) {
  const before = first || cell.value.name !== name ? empty<T>(name) : cell.value;
  const added = items.map((item) => ({ id: ++lastId, item }));
  cell.set({
    loaded: true,
    name,
    items: [...before.items, ...added].slice(-kept),
    dropped: before.dropped + dropped,
  });
}

/** Takes one message. `first` marks the first one of its topic on a connection: a full state. */
export function receive(topic: string, data: unknown, first: boolean): void {
  const [kind, name = ""] = split(topic);
  switch (kind) {
    case "overview": {
      const message = data as Overview;
      history.set(history.value.with(message.series, message.pod));
      overview.set(message);
      break;
    }
    case "plugins":
      applyRows(plugins, data as RowsMessage<PluginRow>, (row) => row.name);
      break;
    case "sources":
      applyRows(sources, data as RowsMessage<SourceRow>, (row) => row.key);
      break;
    case "replicas":
      replicas.set({ received: Date.now(), value: data as Replicas });
      break;
    case "logs": {
      const message = data as { items: LogLine[]; dropped?: number };
      applyTail(logs, name, message.items, message.dropped ?? 0, first, LOG_LINES_KEPT);
      break;
    }
    case "why":
      applyTail(effects, name, (data as { items: Why[] }).items, 0, first, EFFECTS_KEPT);
      break;
  }
}

function split(topic: string): [string, string?] {
  const colon = topic.indexOf(":");
  return colon < 0 ? [topic] : [topic.slice(0, colon), topic.slice(colon + 1)];
}
