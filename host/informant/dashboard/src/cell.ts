// How the page avoids needless drawing: values that components watch, components that skip equal properties, and a
// queue that spreads heavy drawing over frames.

import { Component, options } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

// In a task of its own: reading a message and drawing it together could block a slow machine for too long.
options.debounceRendering = setTimeout;

/** What takes long to make, when it is first needed: as part of the script, it would block a slow machine for too long. */
export function lazy<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

export class Cell<T> {
  private listeners = new Set<() => void>();

  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set(value: T): void {
    if (Object.is(value, this.current)) return;
    this.current = value;
    for (const listener of [...this.listeners]) listener();
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useCell<T>(cell: Cell<T>): T {
  const [, redraw] = useState({});
  useLayoutEffect(() => cell.listen(() => redraw({})), [cell]);
  return cell.value;
}

/** A component that is drawn again only when one of its properties is another value. */
export abstract class Pure<P> extends Component<P> {
  shouldComponentUpdate(next: Readonly<P>): boolean {
    for (const key in next) if (next[key as keyof P] !== (this.props as P)[key as keyof P]) return true;
    return false;
  }
}

const queue = new Set<() => void>();

function drain(): void {
  const [task] = queue;
  if (!task) return;
  queue.delete(task);
  // First, as a task may fail.
  if (queue.size > 0) schedule();
  task();
}

function schedule(): void {
  // A hidden page has no frames, and it does not matter whether it draws in one piece.
  if (document.hidden) setTimeout(drain);
  else requestAnimationFrame(() => setTimeout(drain));
}

/** Runs `task` in a frame of its own, after the tasks queued before it. Returns a function that cancels it. */
export function inOwnFrame(task: () => void): () => void {
  queue.add(task);
  if (queue.size === 1) schedule();
  return () => queue.delete(task);
}

/** How many of `total` items to draw now: grows by `step` per frame, so that a long list never blocks the page. */
export function useGrowing(total: number, step: number, first = step): number {
  const [limit, setLimit] = useState(first);
  useLayoutEffect(() => (limit < total ? inOwnFrame(() => setLimit(limit + step)) : undefined), [limit < total, limit]);
  return Math.min(limit, total);
}
