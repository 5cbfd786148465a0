// What a plugin throws, as an answer to Informant.

// Functions named in an error, innermost first.
const FRAMES_MAX = 5;
const SHOWN_CHARS_MAX = 200;

/** Thrown: do not try again, the event becomes a dead letter. */
export class Permanent extends Error {
  get name() {
    return "Permanent";
  }
}

/** Thrown: try again after so many milliseconds. */
export class RetryAfter extends Error {
  constructor(milliseconds, message = "not yet", options) {
    super(message, options);
    this.milliseconds = milliseconds;
  }
  get name() {
    return "RetryAfter";
  }
}

/** What the host refused: `code` says why, in the words of the contract (`denied`, `not-ready` …). */
export class HostError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
  get name() {
    return "HostError";
  }
}

/** What the API server, or Informant in its place, answered instead of doing what `kube` was asked for. */
export class KubeError extends Error {
  constructor({ code, status, message, retryAfterMs }) {
    super(message);
    this.code = code;
    if (status > 0) this.status = status;
    if (retryAfterMs > 0) this.retryAfterMs = retryAfterMs;
  }
  get name() {
    return "KubeError";
  }
  /** Whether a write may have been made although there is no answer. */
  get mayBeDone() {
    return this.code === "timeout" || this.code === "unavailable";
  }
}

// Refused again, however often it is asked.
const USELESS = ["denied", "unknown-informer", "unknown-index", "unsupported", "invalid"];
const USELESS_IN_CLUSTER = ["denied", "invalid", "too-large", "unsupported"];

const isUseless = (error) =>
  error instanceof Permanent ||
  (error instanceof HostError && USELESS.includes(error.code)) ||
  (error instanceof KubeError && USELESS_IN_CLUSTER.includes(error.code));

// How long to wait, if what was thrown says so.
const waits = (error) => {
  if (error instanceof RetryAfter) return error.milliseconds;
  return error instanceof KubeError ? error.retryAfterMs : undefined;
};

/** Calls the host: its error comes as a record in `payload`. */
export const asked = (call) => {
  try {
    return call();
  } catch (error) {
    const { code, message } = error?.payload ?? {};
    if (code === undefined) throw error;
    throw new HostError(code, message);
  }
};

export const shown = (value) => {
  if (typeof value === "string") return value;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  try {
    return (typeof value === "object" && value !== null ? JSON.stringify(value) : undefined) ?? String(value);
  } catch (error) {
    return `something of type ${typeof value} (${error.message})`;
  }
};

// The frames of a stack that are the plugin's own: `    at check (handler.js:3:11)`, or without a function `    at handler.js:3:11`.
const frames = (stack) => {
  const found = [];
  for (const line of String(stack ?? "").split("\n")) {
    const [, named, inside, alone] = /^\s*at (?:(.*?) \((.*:\d+(?::\d+)?)\)|(.*:\d+(?::\d+)?))$/.exec(line) ?? [];
    const place = inside ?? alone;
    if (place === undefined || place.includes("informant-plugin-sdk/")) continue;
    found.push({ place: place.replace(/^(?:file:\/\/)?\.?\//, ""), name: named?.startsWith("<") ? undefined : named });
  }
  return found;
};

/** With file, line and column: `handler.js:6:37: RangeError: too far (in check < onAdd)`. */
export const told = (error, called) => {
  if (!(error instanceof Error)) {
    let text = typeof error === "string" ? JSON.stringify(error) : shown(error);
    if (text.length > SHOWN_CHARS_MAX) text = `${text.slice(0, SHOWN_CHARS_MAX)}…`;
    return `${called} threw ${text}, which is no Error and does not say where; write throw new Error(…)`;
  }
  const path = frames(error.stack);
  const names = path.map(({ name }) => name).filter((name) => name !== undefined).slice(0, FRAMES_MAX);
  const place = path.length > 0 ? `${path[0].place}: ` : "";
  return `${place}${error.name}: ${error.message}${names.length > 1 ? ` (in ${names.join(" < ")})` : ""}`;
};

/** The contract's failure for what was thrown. */
export const failure = (error, called) => {
  const message = told(error, called);
  if (isUseless(error)) return { tag: "permanent", val: message };
  const ms = waits(error);
  if (ms !== undefined) return { tag: "retry-after", val: { message, afterMs: Math.max(0, Math.round(ms)) } };
  return { tag: "retryable", val: message };
};
