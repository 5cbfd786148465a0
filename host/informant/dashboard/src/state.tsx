// States as pills: a symbol and a word, so that color is never the only sign.

import { h } from "preact";
import { shown } from "./text";
import type { Plugin, PluginRow } from "./types";

export type Tone = "ok" | "warn" | "bad" | "busy" | "idle";

const PLUGIN_TONES: Record<string, Tone> = {
  running: "ok",
  failing: "bad",
  "not-ready": "warn",
  restarting: "warn",
  paused: "idle",
  standby: "idle",
  quarantined: "bad",
  refused: "bad",
  loading: "busy",
  draining: "busy",
  stopped: "idle",
};

const SOURCE_TONES: Record<string, Tone> = {
  live: "ok",
  syncing: "busy",
  discovering: "busy",
  forbidden: "bad",
  refused: "bad",
  stale: "warn",
  unreachable: "bad",
};

const STANDING_TONES: Record<string, Tone> = {
  alone: "ok",
  acting: "ok",
  standby: "idle",
  "not-joined": "warn",
  acquiring: "busy",
  "handing-over": "busy",
  releasing: "busy",
};

const SHAPES: Record<Tone, string> = {
  ok: "M2.5 6.5l2.5 2.5 4.5-6",
  warn: "M6 1.5L11 10.5H1zM6 5v2.5M6 8.9v.2",
  bad: "M2.5 2.5l7 7M9.5 2.5l-7 7",
  busy: "M6 1.5a4.5 4.5 0 1 1-4.5 4.5M6 3.5V6l2 1.5",
  idle: "M3 6h6",
};

/** A plugin that runs, or stands by, can have a problem all the same. */
export function pluginTone({ state, because, failing, deadLetters }: Plugin | PluginRow): Tone {
  const tone = PLUGIN_TONES[state] ?? "warn";
  return tone !== "bad" && (failing || deadLetters || (because && tone === "ok")) ? "warn" : tone;
}

export function sourceTone(state: string): Tone {
  return SOURCE_TONES[state.toLowerCase()] ?? "warn";
}

export function standingTone(standing: string): Tone {
  return STANDING_TONES[standing] ?? "warn";
}

export function resultTone(result: string): Tone {
  return result === "ok" ? "ok" : result === "filtered" || result === "requeued" ? "idle" : "bad";
}

/** The order in which states need attention: the worst first. */
export function urgency(tone: Tone): number {
  return ["bad", "warn", "busy", "idle", "ok"].indexOf(tone);
}

export function Symbol({ tone }: { tone: Tone }) {
  return (
    <svg class={`symbol ${tone}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      <path d={SHAPES[tone]} />
    </svg>
  );
}

export function Pill({ tone, text, title }: { tone: Tone; text: string; title?: string | null }) {
  return (
    <span class={`pill ${tone}`} title={title ? shown(title) : undefined}>
      <Symbol tone={tone} />
      <bdi>{shown(text)}</bdi>
    </span>
  );
}
