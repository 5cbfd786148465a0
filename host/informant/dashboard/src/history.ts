// An hour of points for the charts. Points are kept by time, so a message can extend or repeat what is there, and a
// restart of the server leaves a gap instead of moving the old points.

import type { Series } from "./types";

const SPAN_SECONDS = 3600;

type Point = (number | null)[];

export class History {
  constructor(
    private readonly pod = "",
    private readonly names: readonly string[] = [],
    private readonly points: ReadonlyMap<number, Point> = new Map(),
    readonly end = 0,
    private readonly step = 10,
  ) {}

  static readonly span = SPAN_SECONDS;

  /** The history with the points of `series`. Points of another pod are not comparable and are dropped. */
  with(series: Series, pod: string): History {
    const step = series.stepSeconds > 0 ? series.stepSeconds : 10;
    const end = Math.round(Date.parse(series.end) / 1000 / step) * step;
    if (!Number.isFinite(end)) return this;
    const same = pod === this.pod && step === this.step && series.names.join() === this.names.join();
    const points = new Map<number, Point>();
    if (same) for (const [time, point] of this.points) if (time > end - SPAN_SECONDS) points.set(time, point);
    const length = Math.max(0, ...series.values.map((values) => values.length));
    for (let back = Math.min(length, SPAN_SECONDS / step) - 1; back >= 0; back--) {
      const time = end - back * step;
      const point = series.values.map((values) => values[values.length - 1 - back] ?? null);
      // A server that just started has no points before its start; the ones known from before stay.
      if (points.has(time) && point.every((value) => value === null)) continue;
      points.set(time, point);
    }
    return new History(pod, series.names, points, end, step);
  }

  /** The times in seconds, one per step of the hour. */
  times(): number[] {
    const steps = SPAN_SECONDS / this.step;
    return Array.from({ length: steps }, (_, index) => this.end - (steps - 1 - index) * this.step);
  }

  /** The values of one series at `times()`, null where there is none. */
  values(name: string): (number | null)[] {
    const index = this.names.indexOf(name);
    return this.times().map((time) => this.points.get(time)?.[index] ?? null);
  }
}
