// The one stream of the page: opens it with the topics of the view, reads its events, and connects again when it ends.

import { ApiError, connection, connectionDetail, messageOf, path, request, streaming, tokenNeeded } from "./api";
import { Cell } from "./cell";
import { receive } from "./feeds";

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 10_000;
/** The server sends a comment every 10 s. Two missed ones and a little more mean that the connection is dead. */
const SILENCE_MS = 25_000;
/** A stream that lived this long ended on schedule, so the next one opens at once and without a banner. */
const NORMAL_LIFE_MS = 10_000;
/** How long an answer may take before the page reports the connection as lost. */
const SLOW_ANSWER_MS = 3_000;
const RIGHTS_WAIT_MS = 30_000;

/** Topics that the server refused, with its message. */
export const refused = new Cell<ReadonlyMap<string, string>>(new Map());

let running: AbortController | null = null;

/** Closes the current stream and opens one with `topics`. Without topics there is none. */
export function openStream(topics: string[]): void {
  running?.abort();
  running = new AbortController();
  refused.set(new Map());
  streaming.set(topics.length > 0);
  if (topics.length > 0) void run(topics, running.signal);
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", wake);
      removeEventListener("online", wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal.addEventListener("abort", wake);
    addEventListener("online", wake);
  });
}

async function run(topics: string[], signal: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT_MS;
  let wanted = topics;
  while (!signal.aborted) {
    const started = Date.now();
    try {
      await connect(wanted, signal, () => {
        wait = FIRST_WAIT_MS;
        connectionDetail.set(null);
        connection.set("open");
      });
      wanted = topics;
      if (Date.now() - started > NORMAL_LIFE_MS) continue;
      connectionDetail.set(null);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status === 401) {
        // The page opens a stream again once a token is entered.
        if (tokenNeeded.value !== null) return;
        continue;
      }
      if (error instanceof ApiError && error.status === 403) {
        connection.set("open");
        wanted = await withoutRefused(wanted, error.message, signal);
        if (wanted.length > 0) continue;
        await sleep(RIGHTS_WAIT_MS, signal);
        wanted = topics;
        continue;
      }
      connectionDetail.set(error instanceof ApiError ? messageOf(error) : null);
      wanted = topics;
    }
    if (signal.aborted) return;
    connection.set("lost");
    await sleep(wait, signal);
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}

/** One attempt: resolves when the server ends the stream, rejects when it fails or falls silent. */
async function connect(topics: string[], signal: AbortSignal, opened: () => void): Promise<void> {
  const attempt = new AbortController();
  const abort = () => attempt.abort();
  signal.addEventListener("abort", abort);
  let silence = setTimeout(abort, SILENCE_MS);
  const slow = setTimeout(() => connection.set("lost"), SLOW_ANSWER_MS);
  try {
    const url = path(["stream"], { topics: topics.join(",") });
    const response = await request(url, { signal: attempt.signal, headers: { Accept: "text/event-stream" } });
    clearTimeout(slow);
    opened();
    const seen = new Set<string>();
    await read(
      response.body!,
      () => {
        clearTimeout(silence);
        silence = setTimeout(abort, SILENCE_MS);
      },
      (topic, data) => {
        if (signal.aborted) return;
        receive(topic, JSON.parse(data), !seen.has(topic));
        seen.add(topic);
      },
    );
  } finally {
    clearTimeout(slow);
    clearTimeout(silence);
    signal.removeEventListener("abort", abort);
    attempt.abort();
  }
}

/** Splits a body into server-sent events. */
async function read(
  body: ReadableStream<Uint8Array>,
  alive: () => void,
  event: (topic: string, data: string) => void,
): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let topic = "";
  let data: string[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop()!;
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (topic && data.length > 0) event(topic, data.join("\n"));
        topic = "";
        data = [];
      } else if (line.startsWith("event:")) {
        topic = line.slice(6).trim();
      } else if (line.startsWith("data:")) {
        data.push(line.slice(5).trimStart());
      }
    }
  }
}

/**
 * A refusal does not say which topic it is about, so each topic is tried alone, one after the other. The ones that are
 * allowed then share a stream: a missing right must not take the other parts of the view with it.
 */
async function withoutRefused(topics: string[], message: string, signal: AbortSignal): Promise<string[]> {
  const messages = new Map(refused.value);
  const allowed: string[] = [];
  if (topics.length > 1) {
    for (const topic of topics) {
      if (signal.aborted) return [];
      const probe = new AbortController();
      try {
        await request(path(["stream"], { topics: topic }), { signal: AbortSignal.any([probe.signal, signal]) });
        allowed.push(topic);
      } catch (error) {
        if (error instanceof ApiError && error.status === 403) messages.set(topic, error.message);
        else allowed.push(topic);
      } finally {
        probe.abort();
      }
    }
  }
  if (allowed.length === 0 || allowed.length === topics.length) {
    for (const topic of topics) if (!messages.has(topic)) messages.set(topic, message);
    allowed.length = 0;
  }
  refused.set(messages);
  return allowed;
}
