// Converts the exceptions of a plugin into failures for Informant.

// The maximum number of functions in an error, innermost first.
const FRAMES_MAX = 5;
const SHOWN_CHARS_MAX = 200;

/** Throw it for an event that must not be retried: it becomes a dead letter. */
export class Permanent extends Error {
  get name() {
    return "Permanent";
  }
}

/** Throw it to have the event retried after this many milliseconds. */
export class RetryAfter extends Error {
  constructor(milliseconds, message = "not yet", options) {
    super(message, options);
    this.milliseconds = milliseconds;
  }
  get name() {
    return "RetryAfter";
  }
}

/** A host call failed. `code` is the contract's error code (`denied`, `not-ready` …). */
export class HostError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
  get name() {
    return "HostError";
  }
}

/** A call of `kube` failed, at the API server or before Informant sent it. */
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
  /** Whether a write may have succeeded although no response arrived. */
  get mayBeDone() {
    return this.code === "timeout" || this.code === "unavailable";
  }
}

// Codes of calls that would fail again.
const PERMANENT_HOST_CODES = ["denied", "unknown-informer", "unknown-index", "unsupported", "invalid"];
const PERMANENT_KUBE_CODES = ["denied", "invalid", "too-large", "unsupported"];

const isPermanent = (error) =>
  error instanceof Permanent ||
  (error instanceof HostError && PERMANENT_HOST_CODES.includes(error.code)) ||
  (error instanceof KubeError && PERMANENT_KUBE_CODES.includes(error.code));

// The delay before the retry, if the exception sets one.
const retryDelay = (error) => {
  if (error instanceof RetryAfter) return error.milliseconds;
  return error instanceof KubeError ? error.retryAfterMs : undefined;
};

/** Calls the host. Its error arrives as a record in `payload`. */
export const callHost = (call) => {
  try {
    return call();
  } catch (error) {
    const { code, message } = error?.payload ?? {};
    if (code === undefined) throw error;
    throw new HostError(code, message);
  }
};

export const format = (value) => {
  if (typeof value === "string") return value;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  try {
    return (typeof value === "object" && value !== null ? JSON.stringify(value) : undefined) ?? String(value);
  } catch (error) {
    return `a value of type ${typeof value} (${error.message})`;
  }
};

// The frames of a stack that are in the plugin: `    at check (handler.js:3:11)`, or without a function `    at handler.js:3:11`.
const frames = (stack) => {
  const found = [];
  for (const line of String(stack ?? "").split("\n")) {
    const [, named, inside, alone] = /^\s*at (?:(.*?) \((.*:\d+(?::\d+)?)\)|(.*:\d+(?::\d+)?))$/.exec(line) ?? [];
    const location = inside ?? alone;
    if (location === undefined || location.includes("informant-plugin-sdk/")) continue;
    found.push({ location: location.replace(/^(?:file:\/\/)?\.?\//, ""), name: named?.startsWith("<") ? undefined : named });
  }
  return found;
};

/** The message for an exception, with file, line and column: `handler.js:6:37: RangeError: too far (in check < onAdd)`. */
export const messageOf = (error, called) => {
  if (!(error instanceof Error)) {
    let text = typeof error === "string" ? JSON.stringify(error) : format(error);
    if (text.length > SHOWN_CHARS_MAX) text = `${text.slice(0, SHOWN_CHARS_MAX)}…`;
    return `${called} threw ${text}, which is not an Error and has no location; write throw new Error(…)`;
  }
  const path = frames(error.stack);
  const names = path.map(({ name }) => name).filter((name) => name !== undefined).slice(0, FRAMES_MAX);
  const location = path.length > 0 ? `${path[0].location}: ` : "";
  return `${location}${error.name}: ${error.message}${names.length > 1 ? ` (in ${names.join(" < ")})` : ""}`;
};

/** The contract's failure for an exception. */
export const failure = (error, called) => {
  const message = messageOf(error, called);
  if (isPermanent(error)) return { tag: "permanent", val: message };
  const ms = retryDelay(error);
  if (ms !== undefined) return { tag: "retry-after", val: { message, afterMs: Math.max(0, Math.round(ms)) } };
  return { tag: "retryable", val: message };
};
