// Errors that scripts throw and catch.
const native = globalThis.native;

const MILLISECONDS_MAX = 2 ** 32 - 1;
const SHOWN_CHARS_MAX = 200;

export const format = (value) => {
  if (typeof value === "string") return value;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (typeof value === "object" && value !== null) {
    try {
      return JSON.stringify(value) ?? String(value);
    } catch (error) {
      return `${Object.prototype.toString.call(value)} (${error.message})`;
    }
  }
  return String(value);
};

/** A value in an error. */
export const shown = (value) => {
  const text = typeof value === "string" ? JSON.stringify(value) : format(value);
  return text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text;
};

/**
 * The delay in milliseconds that the contract can pass: the nearest to `value`, such as 0 for a time that is over.
 * Undefined if it is no number.
 */
export const delay = (value) =>
  typeof value === "number" && !Number.isNaN(value) ? Math.min(Math.max(Math.round(value), 0), MILLISECONDS_MAX) : undefined;

export const DELAY = "a number of milliseconds";

const named = (type, name) => Object.defineProperty(type.prototype, "name", { value: name, configurable: true, writable: true });

export class Permanent extends Error {}
named(Permanent, "Permanent");

export class RetryAfter extends Error {
  constructor(milliseconds, message = "not yet", options) {
    const valid = delay(milliseconds);
    if (valid === undefined) throw new TypeError(`RetryAfter: ${shown(milliseconds)} is not ${DELAY}`);
    super(message, options);
    this.milliseconds = valid;
  }
}
named(RetryAfter, "RetryAfter");

export class HostError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}
named(HostError, "HostError");

export class KubeError extends HostError {
  get mayBeDone() {
    return this.code === "timeout" || this.code === "unavailable";
  }
}
named(KubeError, "KubeError");

export class HttpError extends HostError {}
named(HttpError, "HttpError");

// The runner's functions throw an Error with a `code`. It gets its class here and keeps its stack.
const hostCall = (type, call) => (...args) => {
  try {
    return call(...args);
  } catch (error) {
    throw error?.code === undefined ? error : Object.setPrototypeOf(error, type.prototype);
  }
};
export const store = Object.fromEntries(Object.entries(native.store).map(([name, call]) => [name, hostCall(HostError, call)]));
export const kube = Object.fromEntries(Object.entries(native.kube).map(([name, call]) => [name, hostCall(KubeError, call)]));
export const metrics = Object.fromEntries(Object.entries(native.metrics).map(([name, call]) => [name, hostCall(HostError, call)]));
export const recorder = Object.fromEntries(Object.entries(native.recorder).map(([name, call]) => [name, hostCall(HostError, call)]));
export const kv = Object.fromEntries(Object.entries(native.kv).map(([name, call]) => [name, hostCall(HostError, call)]));
export const http = Object.fromEntries(Object.entries(native.http).map(([name, call]) => [name, typeof call === "function" ? hostCall(HttpError, call) : call]));

// Codes of calls that would fail again.
const PERMANENT_STORE_CODES = ["denied", "not-here", "unknown-informer", "unknown-index", "unsupported", "invalid"];
const PERMANENT_KUBE_CODES = ["denied", "not-here", "invalid", "too-large", "unsupported"];
const PERMANENT_HTTP_CODES = ["denied", "invalid", "request-too-large", "response-too-large"];

/** What follows from an exception: "permanent", the delay before the retry, or undefined for the usual back-off. */
export const consequence = (error) => {
  if (error instanceof Permanent || error?.code === "too-deep") return "permanent";
  if (error instanceof RetryAfter) return error.milliseconds;
  if (error instanceof KubeError) return PERMANENT_KUBE_CODES.includes(error.code) ? "permanent" : error.retryAfterMs;
  if (error instanceof HttpError) return PERMANENT_HTTP_CODES.includes(error.code) ? "permanent" : undefined;
  return error instanceof HostError && PERMANENT_STORE_CODES.includes(error.code) ? "permanent" : undefined;
};
