// Numbers and times for readers: binary units, short durations, local time.

import { h } from "preact";
import { lazy } from "./cell";

const integer = lazy(() => new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 }));
const clockTime = lazy(() => new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" }));
// The Swedish order is year, month, day.
const dayTime = lazy(() => new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "long" }));

/** The text for a value that the server does not have. */
export const NONE = "–";

function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 100) return integer().format(value);
  if (size >= 10) return value.toFixed(1).replace(/\.0$/, "");
  return value.toFixed(2).replace(/\.?0+$/, "") || "0";
}

export function count(value: number | null | undefined): string {
  return value == null ? NONE : integer().format(value);
}

export function bytes(value: number | null | undefined): string {
  if (value == null) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${unit === 0 ? integer().format(size) : size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${units[unit]}`;
}

export function rate(value: number | null | undefined): string {
  if (value == null) return NONE;
  return value > 0 && value < 0.01 ? "<0.01/s" : `${digits(value)}/s`;
}

export function cores(value: number | null | undefined): string {
  if (value == null) return NONE;
  return value > 0 && value < 0.001 ? "<0.001" : `${+value.toFixed(3)}`;
}

export function duration(ms: number | null | undefined): string {
  if (ms == null) return NONE;
  if (ms < 1) return ms <= 0 ? "0 ms" : `${digits(ms)} ms`;
  if (ms < 1000) return `${digits(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${digits(seconds)} s`;
  const pairs: [number, string, number, string][] = [
    [60, "min", 1, "s"],
    [3600, "h", 60, "min"],
    [86400, "d", 3600, "h"],
  ];
  const [big, bigUnit, small, smallUnit] = seconds < 3600 ? pairs[0]! : seconds < 86400 ? pairs[1]! : pairs[2]!;
  const rest = Math.floor((seconds % big) / small);
  return `${integer().format(Math.floor(seconds / big))} ${bigUnit}` + (rest > 0 ? ` ${rest} ${smallUnit}` : "");
}

export function ago(ms: number | null | undefined): string {
  return ms == null ? NONE : ms < 1000 ? "just now" : `${duration(Math.floor(ms / 1000) * 1000)} ago`;
}

export function plural(value: number, one: string, many = one + "s"): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function second(seconds: number): string {
  return clockTime().format(seconds * 1000);
}

export function minute(seconds: number): string {
  return second(seconds).slice(0, 5);
}

/** A point in time. The title has the day and the zone. */
export function Time({ at, day = false }: { at: string | null | undefined; day?: boolean }) {
  const ms = at ? Date.parse(at) : NaN;
  if (Number.isNaN(ms)) return <span>{NONE}</span>;
  const full = dayTime().format(ms);
  return (
    <time dateTime={new Date(ms).toISOString()} title={full}>
      {day ? full : clockTime().format(ms)}
    </time>
  );
}

export function timeZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}
