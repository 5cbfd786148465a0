// One chart of an hour, drawn by uPlot: a line, its limit if there is one, and the value under the pointer.

import { h } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { inOwnFrame } from "./cell";
import { bytes, minute, NONE, second } from "./format";
import { History } from "./history";

// Only a call runs its script: as part of ours, it would block a slow machine for too long.
declare function require(name: "uplot"): typeof uPlot;

const HEIGHT = 132;
const AXIS_FONT = "11px system-ui, sans-serif";
/** Steps of a byte axis: powers of two, so that labels are whole KiB, MiB or GiB. */
const BYTE_STEPS = Array.from({ length: 42 }, (_, power) => 2 ** power);
const dark = matchMedia("(prefers-color-scheme: dark)");

interface ChartProps {
  title: string;
  history: History;
  series: string;
  format: (value: number | null | undefined) => string;
  limit: number | null;
  limitName: string | undefined;
}

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function useDark(): boolean {
  const [value, setValue] = useState(dark.matches);
  useEffect(() => {
    const update = () => setValue(dark.matches);
    dark.addEventListener("change", update);
    return () => dark.removeEventListener("change", update);
  }, []);
  return value;
}

/** What a screen reader gets instead of the drawing. */
function summary(title: string, values: (number | null)[], format: ChartProps["format"]): string {
  const known = values.filter((value): value is number => value !== null);
  if (known.length === 0) return `${title}, last hour: no data yet`;
  const last = format(known[known.length - 1]);
  const [low, high] = known.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
  return `${title}, last hour: now ${last}, lowest ${format(low)}, highest ${format(high)}`;
}

function options(width: number, props: ChartProps, end: () => number, point: (index: number | null) => void) {
  const axis = { stroke: color("--muted"), font: AXIS_FONT, ticks: { show: false } };
  const grid = { stroke: color("--line"), width: 1 };
  const result: uPlot.Options = {
    width,
    height: HEIGHT,
    legend: { show: false },
    padding: [8, 18, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "hour" }, points: { size: 6 } },
    scales: {
      x: { time: true, range: () => [end() - History.span, end()] },
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.12 : 1] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 22, space: 60, values: (_, splits) => splits.map(minute) },
      {
        ...axis,
        grid,
        size: 62,
        space: 32,
        values: (_, splits) => splits.map((value) => props.format(value)),
        ...(props.format === bytes && { incrs: BYTE_STEPS }),
      },
    ],
    series: [
      {},
      { stroke: color("--accent"), fill: color("--accent-soft"), width: 1.5, points: { show: false } },
      { stroke: color("--bad"), width: 1, dash: [5, 4], points: { show: false } },
    ],
    hooks: { setCursor: [(plot) => point(plot.cursor.idx ?? null)] },
  };
  return result;
}

export function Chart(props: ChartProps) {
  const { title, history, series, format, limit, limitName } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const end = useRef(history.end);
  const [pointed, setPointed] = useState<number | null>(null);
  const scheme = useDark();

  const times = history.times();
  const values = history.values(series);
  const data: uPlot.AlignedData = [times, values, times.map(() => limit)];
  const latest = useRef(data);
  latest.current = data;
  end.current = history.end;

  useLayoutEffect(() => {
    const element = box.current!;
    const resize = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    const cancel = inOwnFrame(() => {
      plot.current = new (require("uplot"))(
        options(element.clientWidth, props, () => end.current, setPointed),
        latest.current,
        element,
      );
      resize.observe(element);
    });
    return () => {
      cancel();
      resize.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [scheme]);

  useLayoutEffect(() => inOwnFrame(() => plot.current?.setData(data)), [history, limit]);

  const last = values.findLast((value) => value !== null);
  const shownValue = pointed === null ? last : values[pointed];
  return (
    <figure class="chart">
      <figcaption>
        <span>{title}</span>
        <span class="now">
          {pointed !== null && <span class="muted">{second(times[pointed] ?? 0)} </span>}
          <strong>{shownValue == null ? NONE : format(shownValue)}</strong>
          {limit !== null && (
            <span class="muted">
              {" "}
              / {format(limit)} {limitName}
            </span>
          )}
        </span>
      </figcaption>
      <div class="plot" ref={box} role="img" aria-label={summary(title, values, format)} />
    </figure>
  );
}
