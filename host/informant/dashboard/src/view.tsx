// What all views share: placeholders while data loads, refused topics, and the recovery from a broken view.

import { Component, Fragment, h, type ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useCell, useGrowing } from "./cell";
import { Notice, Unavailable } from "./parts";
import { refused } from "./stream";
import { foreign } from "./text";

/** A notice if the server refused this topic, else null. */
export function useRefused(topic: string) {
  const message = useCell(refused).get(topic);
  return message === undefined ? null : <Unavailable message={message} />;
}

interface PageProps {
  title: string;
  /** The topic that the page cannot do without. */
  topic: string;
  done: boolean;
  children: ComponentChildren;
}

export function Page({ title, topic, done, children }: PageProps) {
  return (
    <>
      <h1 tabIndex={-1}>{title}</h1>
      {useRefused(topic) ?? <Waiting done={done}>{children}</Waiting>}
    </>
  );
}

/** Shows its children once the data is there. The text comes late, so that a fast server shows no flicker. */
export function Waiting({ done, children }: { done: boolean; children: ComponentChildren }) {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    if (done) return undefined;
    const timer = setTimeout(() => setSlow(true), 500);
    return () => clearTimeout(timer);
  }, [done]);
  return done ? <>{children}</> : <p class="waiting muted">{slow && "Loading…"}</p>;
}

/** Shows its children two per frame, from the top: a long page must not block while it is drawn for the first time. */
export function Gradually({ children }: { children: ComponentChildren[] }) {
  return <>{children.slice(0, useGrowing(children.length, 2))}</>;
}

/** A view that fails on unexpected data shows the error. The navigation keeps working. */
export class Guard extends Component<{ children: ComponentChildren }, { error: string | null }> {
  state = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error: error instanceof Error ? error.message : String(error) };
  }

  render() {
    if (this.state.error === null) return this.props.children;
    return <Notice tone="bad">This view failed: {foreign(this.state.error)}. Reload the page to try again.</Notice>;
  }
}
