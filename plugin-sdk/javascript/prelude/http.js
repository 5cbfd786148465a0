// HTTP requests: the global `fetch`, and what follows from a response.
import { HttpError, Permanent, RetryAfter, format, http as host, shown } from "informant:errors";
import { latin } from "informant:log";

const REDIRECTS_MAX = 5;
const REDIRECTS = [301, 302, 303, 307, 308];

// What a script says to one origin only, and what describes a body.
const CREDENTIALS = ["authorization", "cookie", "proxy-authorization"];
const OF_BODY = ["content-type", "content-encoding", "content-language", "content-location", "content-length"];

// The delay if a host asks for one without saying how long, and the longest that it may ask for.
const RETRY_AFTER_DEFAULT_MS = 30_000;
const RETRY_AFTER_MAX_MS = 3_600_000;

const SHOWN_CHARS_MAX = 200;

const OPTIONS = ["method", "headers", "body", "redirect"];

// --- URLs ---

const escaped = (text) => text.toWellFormed().replace(/[^\x21-\x7e]|["<>\\^`{|}]/gu, encodeURIComponent);

/** Scheme, authority, and path with query. A fragment is not sent. */
const parse = (url) => {
  const [, scheme, authority, path, query = ""] = /^(https?):\/\/([^/?#]+)([^?#]*)(\?[^#]*)?(?:#.*)?$/is.exec(url.trim()) ?? [];
  if (scheme === undefined) throw new TypeError(`fetch: ${shown(url)} is not a URL that begins with http:// or https://`);
  return { scheme: scheme.toLowerCase(), authority: authority.toLowerCase(), path: escaped(path || "/"), query: escaped(query) };
};

const originOf = ({ scheme, authority }) => `${scheme}://${authority.replace(scheme === "https" ? /:443$/ : /:80$/, "")}`;

const textOf = (target) => `${target.scheme}://${target.authority}${target.path}${target.query}`;

const withoutDots = (path) => {
  const kept = [];
  const segments = path.split("/").slice(1);
  for (const segment of segments) {
    if (segment === "..") kept.pop();
    else if (segment !== ".") kept.push(segment);
  }
  if (["..", "."].includes(segments.at(-1))) kept.push("");
  return `/${kept.join("/")}`;
};

/** The target of a redirect. */
const redirected = (location, from) => {
  if (/^[a-z][a-z0-9+.-]*:/i.test(location)) return parse(location);
  if (location.startsWith("//")) return parse(`${from.scheme}:${location}`);
  if (location.startsWith("?")) return parse(`${originOf(from)}${from.path}${location}`);
  const target = parse(`${originOf(from)}${location.startsWith("/") ? "" : from.path.replace(/[^/]*$/, "")}${location}`);
  return { ...target, path: withoutDots(target.path) };
};

// --- requests ---

/** The requests in flight by their numbers, and those that wait. */
const inFlight = new Map();
const waiting = [];

const startMore = () => {
  while (inFlight.size < host.inFlightMax && waiting.length > 0) {
    const { request, resolve, reject } = waiting.shift();
    try {
      inFlight.set(host.start(...request), { resolve, reject });
    } catch (error) {
      reject(error);
    }
  }
};

/** Ends a request. */
export const settle = (number, code, message, status, headers, body) => {
  const { resolve, reject } = inFlight.get(number);
  inFlight.delete(number);
  if (code === undefined) resolve({ status, headers: new Headers(pairs(headers)), body });
  else reject(new HttpError(code, message));
  startMore();
};

/** Forgets the requests of a call that failed. */
export const forget = () => {
  inFlight.clear();
  waiting.length = 0;
};

const pairs = (flat) => Array.from({ length: flat.length / 2 }, (_, at) => [flat[2 * at], flat[2 * at + 1]]);

class Headers {
  #values = new Map();
  constructor(entries) {
    for (const [name, value] of entries) {
      const key = String(name).toLowerCase();
      const before = this.#values.get(key);
      this.#values.set(key, before === undefined ? String(value) : `${before}, ${value}`);
    }
  }
  get(name) {
    return this.#values.get(String(name).toLowerCase()) ?? null;
  }
  has(name) {
    return this.#values.has(String(name).toLowerCase());
  }
  forEach(call) {
    this.#values.forEach((value, name) => call(value, name, this));
  }
  keys() {
    return this.#values.keys();
  }
  values() {
    return this.#values.values();
  }
  entries() {
    return this.#values.entries();
  }
  [Symbol.iterator]() {
    return this.entries();
  }
}

class Response {
  // A text or, if it is not UTF-8, bytes.
  #body;
  constructor(target, isRedirected, { status, headers, body }) {
    this.url = textOf(target);
    this.redirected = isRedirected;
    this.status = status;
    this.headers = headers;
    this.#body = body;
  }
  get ok() {
    return this.status >= 200 && this.status < 300;
  }
  /** The text, without a byte order mark. */
  #text() {
    if (typeof this.#body !== "string") return new TextDecoder().decode(this.#body);
    return this.#body.charCodeAt(0) === 0xfeff ? this.#body.slice(1) : this.#body;
  }
  async bytes() {
    return typeof this.#body === "string" ? new TextEncoder().encode(this.#body) : this.#body.slice();
  }
  async arrayBuffer() {
    return (await this.bytes()).buffer;
  }
  async text() {
    return this.#text();
  }
  async json() {
    try {
      return JSON.parse(this.#text());
    } catch (error) {
      throw new SyntaxError(`${originOf(parse(this.url))} answered ${this.status} with a body that is not JSON (${error.message})`);
    }
  }
  /** How the body of a response begins, for errors. */
  static excerpt(response) {
    const text = response.#text().trim();
    return text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text;
  }
}

/** The body as the runner takes it: a text, and whether its characters are bytes. */
const bodyOf = (body) => {
  if (body === undefined || body === null) return undefined;
  if (typeof body === "string") return [body.toWellFormed(), false];
  if (body instanceof ArrayBuffer) return [latin(new Uint8Array(body)), true];
  if (ArrayBuffer.isView(body)) return [latin(new Uint8Array(body.buffer, body.byteOffset, body.byteLength)), true];
  throw new TypeError(`fetch: the body must be a string or bytes, not ${shown(body)}; for an object, write JSON.stringify(…)`);
};

/** The request of the options of `fetch`. */
const requestOf = (options) => {
  const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name));
  if (unknown !== undefined) throw new TypeError(`fetch: there is no option ${unknown}; there are ${OPTIONS.join(", ")}`);
  const { method: given = "GET", headers = {}, body, redirect = "follow" } = options;
  if (!["follow", "error", "manual"].includes(redirect)) {
    throw new TypeError(`fetch: redirect is ${shown(redirect)}; it can be follow, error or manual`);
  }
  const method = String(given).toUpperCase();
  const content = bodyOf(body);
  if (content !== undefined && ["GET", "HEAD"].includes(method)) throw new TypeError(`fetch: a ${method} request has no body`);
  const all = new Headers(typeof headers[Symbol.iterator] === "function" ? headers : Object.entries(headers));
  const hasType = all.has("content-type") || typeof body !== "string";
  return { method, headers: [...all, ...(hasType ? [] : [["content-type", "text/plain;charset=UTF-8"]])], content, redirect };
};

const send = (target, { method, headers, content = ["", false] }) =>
  new Promise((resolve, reject) => {
    const url = [target.scheme, target.authority, target.path + target.query];
    waiting.push({ request: [method, url, headers.flat(), ...content], resolve, reject });
    startMore();
  });

const without = (headers, names) => headers.filter(([name]) => !names.includes(name));

/** The request that follows a redirect. */
const following = (status, request, isSameOrigin) => {
  const { method, headers } = request;
  const kept = isSameOrigin ? headers : without(headers, CREDENTIALS);
  const becomesGet = status === 303 ? method !== "HEAD" : method === "POST" && status < 303;
  return becomesGet ? { ...request, method: "GET", headers: without(kept, OF_BODY), content: undefined } : { ...request, headers: kept };
};

export const fetch = async (resource, options = {}) => {
  // Made here, where it records the line of the script.
  const failure = new HttpError("invalid", "");
  const fail = (code, target, method, why) => Object.assign(failure, { code, message: `${method} ${originOf(target)}: ${why}` });
  let request = requestOf(options);
  let target = parse(String(resource));
  for (let redirects = 0; ; redirects++) {
    const { method } = request;
    let answer;
    try {
      answer = await send(target, request);
    } catch (error) {
      throw fail(error.code ?? "other", target, method, error.message ?? format(error));
    }
    const location = answer.headers.get("location");
    if (request.redirect === "manual" || location === null || !REDIRECTS.includes(answer.status)) {
      return new Response(target, redirects > 0, answer);
    }
    if (request.redirect === "error") throw fail("redirect", target, method, `it redirects to ${shown(location)}`);
    if (redirects === REDIRECTS_MAX) throw fail("redirect", target, method, `more than ${REDIRECTS_MAX} redirects`);
    const next = redirected(location, target);
    request = following(answer.status, request, originOf(next) === originOf(target));
    target = next;
  }
};

globalThis.fetch = fetch;

/** The delay that a response asks for: seconds, or a date. */
const retryAfterMs = (headers) => {
  const asked = headers.get("retry-after")?.trim() ?? "";
  const milliseconds = /^\d+$/.test(asked) ? Number(asked) * 1000 : Date.parse(asked) - Date.now();
  return Number.isNaN(milliseconds) ? RETRY_AFTER_DEFAULT_MS : Math.min(Math.max(milliseconds, 0), RETRY_AFTER_MAX_MS);
};

/** Returns the response of a success. Throws what follows from another one. */
export const ensureOk = (response) => {
  if (!(response instanceof Response)) throw new TypeError(`ensureOk takes a response, not ${shown(response)}; write ensureOk(await fetch(…))`);
  if (response.ok) return response;
  const { status } = response;
  const excerpt = Response.excerpt(response);
  const message = `${originOf(parse(response.url))} answered ${status}${excerpt && `: ${excerpt}`}`;
  if (status === 429 || status === 503) throw new RetryAfter(retryAfterMs(response.headers), message);
  if (status >= 500 || [408, 425].includes(status)) throw Object.assign(new HttpError("status", message), { status });
  throw new Permanent(message);
};
