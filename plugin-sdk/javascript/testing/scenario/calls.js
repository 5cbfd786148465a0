// The calls of a scenario: retries, dead letters and a clock that only `wait` moves.
import { Failed } from "../instance.js";

/** 2026-01-01T00:00:00Z. */
export const START_MS = Date.UTC(2026, 0, 1);

/** As in Informant, without what it adds at random. */
const BACK_OFF_FIRST_MS = 1_000;
const BACK_OFF_MAX_MS = 300_000;
const REQUEUE_MIN_MS = 100;

/** The most events of the plugin's own writes after one call. */
const EVENTS_MAX = 1_000;

/** Calls the plugin for what happens, as Informant does. */
export class Calls {
  now = START_MS;
  #driver;
  #root;
  #setClock;
  /** Calls that are due later, by key: retries, which have `failures`, and calls that the plugin asked for. */
  #timers = new Map();
  deadLetters = new Map();

  constructor(driver, root, setClock) {
    this.#driver = driver;
    this.#root = root;
    this.#setClock = setClock;
  }

  /** Delivers what an object is now. While a retry is due, that delivers it. */
  async event(key, before, reason) {
    const id = JSON.stringify(key);
    const was = before !== undefined && this.#driver.selects(before, key) ? before : undefined;
    const now = this.#received(key);
    const retry = this.#retry(id);
    // What follows is delivered after the end of the object before.
    if (retry?.call.what === "deleted" || (was === undefined && now === undefined)) return;
    let call = { what: "object", reason, known: this.deadLetters.has(id) ? "maybe" : "exactly", before: was };
    if (now === undefined) call = { what: "deleted", reason, last: was, finalStateUnknown: false };
    else if (retry !== undefined) call = { ...retry.call, reason };
    if (retry === undefined) await this.make(key, call);
    else Object.assign(retry, { attempt: 0, call });
  }

  /** The object of a key, if the plugin receives it. */
  #received(key) {
    const object = this.#driver.host.cluster.object(key);
    return object !== undefined && this.#driver.selects(object, key) ? object : undefined;
  }

  #retry(id) {
    const timer = this.#timers.get(id);
    return timer?.failures === undefined ? undefined : timer;
  }

  /** Makes a call that somebody asks for, unless a retry is due. */
  async ask(key, call) {
    if (this.#retry(JSON.stringify(key)) === undefined) await this.make(key, call);
    await this.settle();
  }

  /** Runs a timer. While a retry is due, that stands for the run, too. */
  async tick(timer) {
    const call = { what: "timer", scheduled: this.now, missed: 0 };
    const retry = this.#retry(JSON.stringify({ timer }));
    if (retry === undefined) await this.make({ timer }, call);
    else Object.assign(retry, { attempt: 0, call: { ...call, missed: retry.call.missed + 1 } });
    await this.settle();
  }

  /** Delivers the events of the plugin's own writes. */
  async settle() {
    const { changed } = this.#driver.host.cluster;
    for (let events = 1; changed.length > 0; events++) {
      if (events > EVENTS_MAX)
        this.#root.fail(`the plugin still writes after ${EVENTS_MAX} events: compare before writing`);
      const { key, before } = changed.shift();
      await this.event(key, before, "watch");
    }
  }

  /**
   * Makes a call, and keeps what follows from it. `what` it delivers is one of these:
   * - `object`: what an object is when the call is made. The plugin knows the state `before` it `exactly` if it has
   *   accepted that, or received none. `maybe`: a call has failed since, so it is called even if nothing that it
   *   receives has changed. `asked`: somebody asked for the call, an update without an old state.
   * - `deleted`: the end of an object, whose `last` state this is.
   * - `synced`: the end of a list.
   * - `timer`: a run of the timer that the key names. It was due at `scheduled`, and stands for `missed` earlier ones.
   */
  async make(key, call, { attempt = 0, failures = 0 } = {}) {
    const id = JSON.stringify(key);
    const calls = this.#driver.calls.length;
    let failed;
    try {
      await this.#call(key, call, attempt);
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      failed = error;
    }
    // An event that the plugin is not called for cancels nothing.
    if (failed === undefined && this.#driver.calls.length === calls) return;
    this.#timers.delete(id);
    if (failed === undefined || failed.kind === "permanent") {
      await this.#end(key, call, failed);
      return;
    }
    const again = call.known === "exactly" ? { ...call, known: "maybe" } : call;
    // A wait that the handler asked for does not lengthen the next back-off.
    const counted = failed.kind === "retry-after" ? failures : failures + 1;
    const due = this.now + (failed.afterMs ?? Math.min(BACK_OFF_FIRST_MS * 2 ** failures, BACK_OFF_MAX_MS));
    this.#timers.set(id, { key, due, call: again, attempt: attempt + 1, failures: counted });
  }

  /** A call has succeeded, or is not retried. */
  async #end(key, call, failed) {
    const id = JSON.stringify(key);
    this.deadLetters.delete(id);
    if (failed === undefined) this.#keepRequeue(key);
    // A dead letter is about an object.
    else if (!["synced", "timer"].includes(call.what)) this.deadLetters.set(id, { key, message: failed.message, call });
    // It was created again while the delete was retried.
    if (call.what === "deleted" && this.#received(key) !== undefined) await this.event(key, undefined, "watch");
  }

  async #call(key, { what, reason, known, before, last, finalStateUnknown, scheduled, missed }, attempt) {
    const driver = this.#driver;
    const now = what === "object" ? this.#received(key) : undefined;
    // A swap may have removed it.
    const isThere = what === "timer" && driver.timers.includes(key.timer);
    if (isThere) await driver.tick(key.timer, { scheduled, missed, attempt });
    else if (what === "synced") await driver.syncedSource(key.source, attempt);
    else if (what === "deleted") await driver.callDelete(key, last, finalStateUnknown, { reason, attempt });
    else if (now !== undefined && known === "exactly") await driver.deliver(key, before, now, { reason, attempt });
    else if (now !== undefined) {
      const isNew = known === "maybe" && before === undefined;
      await driver.upsert(key, before, now, { reason, attempt, isNew });
    }
  }

  /** Keeps the call that the plugin has asked for. */
  #keepRequeue(key) {
    const requeue = this.#driver.requeueOf(key);
    if (requeue === undefined) return;
    const { afterMs, deleted } = requeue;
    const reason = "requeue-after";
    const call =
      deleted === undefined ? { what: "object", reason, known: "asked" } : { what: "deleted", reason, ...deleted };
    const due = this.now + Math.max(afterMs, REQUEUE_MIN_MS);
    this.#timers.set(JSON.stringify(key), { key, due, call });
  }

  async wait(milliseconds) {
    const end = this.now + milliseconds;
    for (;;) {
      const [timer] = [...this.#timers.values()].filter(({ due }) => due <= end).sort((a, b) => a.due - b.due);
      if (timer === undefined) break;
      this.#setNow(Math.max(timer.due, this.now));
      this.#timers.delete(JSON.stringify(timer.key));
      await this.make(timer.key, timer.call, timer);
      await this.settle();
    }
    this.#setNow(end);
  }

  #setNow(now) {
    this.now = now;
    this.#setClock(now);
  }

  async redeliver(key) {
    const letter = this.deadLetters.get(JSON.stringify(key));
    const isGone = letter?.call.what === "deleted" && this.#received(key) === undefined;
    // An object is delivered as if for the first time.
    const call = isGone ? letter.call : { what: "object", known: "maybe" };
    await this.ask(key, { ...call, reason: "requeue" });
  }
}
