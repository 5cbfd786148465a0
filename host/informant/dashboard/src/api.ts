// Requests to the admin API: base path, token, errors, and data that is loaded again while it is visible.

import { useEffect, useState } from "preact/hooks";
import { Cell } from "./cell";

/** Everything before `/dashboard`: empty on the daemon itself, `/SECRET` through the local proxy. */
const base = location.pathname.slice(0, Math.max(0, location.pathname.lastIndexOf("/dashboard"))) + "/api/v1/";

export type Connection = "connecting" | "open" | "lost";

export const connection = new Cell<Connection>("connecting");

/** True while a stream is open or being opened. It then decides what `connection` is; otherwise requests do. */
export const streaming = new Cell(false);

/** What the server last answered instead of data, for the banner. */
export const connectionDetail = new Cell<string | null>(null);

/** Set while the server refuses requests without a valid token. The text says why. */
export const tokenNeeded = new Cell<string | null>(null);

/** The token lives in this variable only and is gone when the page is closed. */
let token: string | null = null;

export function setToken(value: string): void {
  token = value;
  tokenNeeded.set(null);
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string | null,
    message: string,
  ) {
    super(message);
  }
}

/** A path below the API. Each segment is encoded; a resource such as `v1/pods` keeps its slash. */
export function path(segments: string[], query: Record<string, string | undefined> = {}): string {
  const encoded = segments.map((segment) => segment.split("/").map(encodeURIComponent).join("/")).join("/");
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return encoded + (pairs.length ? "?" + new URLSearchParams(pairs) : "");
}

async function errorOf(response: Response): Promise<ApiError> {
  let message = `the server answered with status ${response.status}`;
  let code: string | null = null;
  try {
    const body = (await response.json()) as { code?: unknown; message?: unknown };
    if (typeof body.message === "string") message = body.message;
    if (typeof body.code === "string") code = body.code;
  } catch {
    // Proxies answer with HTML or nothing; the status has to do.
  }
  return new ApiError(response.status, code, message);
}

/** Sends a request. Throws an ApiError for any answer but success; network errors pass through. */
export async function request(url: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const sent = token;
  if (sent) headers.set("Authorization", `Bearer ${sent}`);
  const response = await fetch(base + url, { ...init, headers, cache: "no-store", redirect: "error" });
  if (response.ok) return response;
  const error = await errorOf(response);
  // An answer to an older token must not ask again for the one that was just entered.
  if (error.status === 401 && sent === token) {
    tokenNeeded.set(sent ? `The server did not accept the token: ${error.message}` : error.message);
  }
  throw error;
}

export function post(url: string, body: object): Promise<Response> {
  return request(url, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(30_000),
  });
}

export function messageOf(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  if (error instanceof DOMException && error.name === "TimeoutError") return "The server did not answer in time.";
  return "The server cannot be reached.";
}

export interface Loaded<T> {
  data: T | null;
  error: string | null;
  status: number | null;
  /** True once there is data or an error. */
  settled: boolean;
  reload: () => void;
}

interface Slot<T> {
  url: string | null;
  data: T | null;
  error: string | null;
  status: number | null;
}

/** Loads `url` now and every `everyMs` while the page is visible. The last data stays when a request fails. */
export function useLoaded<T>(
  url: string | null,
  everyMs: number,
  parse: (text: string) => T = (text) => JSON.parse(text) as T,
): Loaded<T> {
  const [slot, setSlot] = useState<Slot<T>>({ url, data: null, error: null, status: null });
  const [turn, setTurn] = useState(0);
  const signedOut = tokenNeeded.value !== null;

  useEffect(() => {
    if (url === null || signedOut) return undefined;
    const abort = new AbortController();
    let timer = 0;
    const load = async () => {
      if (!document.hidden) {
        try {
          const response = await request(url, { signal: AbortSignal.any([abort.signal, AbortSignal.timeout(30_000)]) });
          const data = parse(await response.text());
          if (abort.signal.aborted) return;
          if (!streaming.value) connection.set("open");
          setSlot({ url, data, error: null, status: response.status });
        } catch (error) {
          if (abort.signal.aborted) return;
          const status = error instanceof ApiError ? error.status : null;
          if (!streaming.value) connection.set(status === null ? "lost" : "open");
          setSlot((old) => ({
            url,
            data: old.url === url && status !== 404 ? old.data : null,
            error: messageOf(error),
            status,
          }));
        }
      }
      if (!abort.signal.aborted) timer = window.setTimeout(load, everyMs);
    };
    void load();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [url, everyMs, turn, signedOut]);

  const current = slot.url === url ? slot : { data: null, error: null, status: null };
  return {
    data: current.data,
    error: current.error,
    status: current.status,
    settled: current.data !== null || current.error !== null,
    reload: () => setTurn((value) => value + 1),
  };
}
