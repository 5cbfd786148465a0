// Small parts that every page uses: panels, facts, notices, meters, and links to objects and plugins.

import { h, type ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { objectLink, pluginLink } from "./router";
import { Symbol, type Tone } from "./state";
import { code, foreign, multiline, shown } from "./text";
import type { ObjectRef } from "./types";

interface PanelProps {
  title: string;
  aside?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}

export function Panel({ title, aside, class: extra = "", children }: PanelProps) {
  return (
    <section class={`panel ${extra}`} aria-label={title} tabIndex={-1}>
      <div class="panel-head">
        <h2>{title}</h2>
        {aside !== undefined && <div class="panel-aside">{aside}</div>}
      </div>
      {children}
    </section>
  );
}

type Fact = [label: string, value: ComponentChildren] | null;

/** Labels with values. A null leaves its line out. */
export function Facts({ items }: { items: Fact[] }) {
  return (
    <dl class="facts">
      {items.map(
        (item) =>
          item && (
            <div key={item[0]}>
              <dt>{item[0]}</dt>
              <dd>{item[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

export function Notice({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`}>
      <Symbol tone={tone} />
      <div>{children}</div>
    </div>
  );
}

/** A right is missing, or the server cannot give this part. The other parts of the page keep working. */
export function Unavailable({ message }: { message: string | null }) {
  return message === null ? null : <Notice tone="warn">Not available: {multiline(message)}</Notice>;
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

export function Explain({ code }: { code: string | null | undefined }) {
  return code ? (
    <code class="explain" title="This command prints the runbook">
      informant explain {foreign(code)}
    </code>
  ) : null;
}

interface MeterProps {
  label: string;
  value: number;
  max: number | null;
  text: string;
}

/** A bar for a value against its limit. Without a limit there is no bar. */
export function Meter({ label, value, max, text }: MeterProps) {
  if (max === null || max <= 0) return null;
  const share = Math.min(1, value / max);
  const tone = share >= 0.95 ? "bad" : share >= 0.8 ? "warn" : "ok";
  return (
    <div
      class={`meter ${tone}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuenow={Math.min(value, max)}
      aria-valuetext={text}
    >
      <div style={{ width: `${share * 100}%` }} />
    </div>
  );
}

export function PluginName({ name }: { name: string }) {
  return <a href={pluginLink(name)}>{foreign(name)}</a>;
}

/** `cluster: resource namespace/name`, as far as each is known. */
export function objectText(object: ObjectRef): string {
  const name = object.namespace ? `${object.namespace}/${object.name ?? "*"}` : (object.name ?? "");
  return (object.cluster ? `${object.cluster}: ` : "") + object.resource + (name ? ` ${name}` : "");
}

/** An object, as a link to its page. */
export function ObjectName({ object }: { object: ObjectRef }) {
  const text = foreign(objectText(object));
  return object.name ? <a href={objectLink(object)}>{text}</a> : text;
}

export function Hash({ value }: { value: string | null | undefined }) {
  return value ? <span title={shown(value)}>{code(value.slice(0, 12))}</span> : <span>–</span>;
}

/** The first `step` items of a list, and a button for more. */
export function useLimit<T>(items: T[], step: number): [T[], ComponentChildren] {
  const [limit, setLimit] = useState(step);
  const rest = items.length - limit;
  const more = rest > 0 && (
    <button type="button" class="more" onClick={() => setLimit(limit + step)}>
      Show {Math.min(step, rest)} more of {items.length}
    </button>
  );
  return [rest > 0 ? items.slice(0, limit) : items, more];
}

interface ScrollProps {
  label: string;
  class?: string;
  children: ComponentChildren;
}

/** A part that scrolls by itself, also with the keyboard. It is no landmark: its panel is one already. */
export function Scroll({ label, class: extra = "", children }: ScrollProps) {
  return (
    <div class={`scroll ${extra}`} role="group" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}
