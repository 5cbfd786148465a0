// Reads a scenario file, with the lines of its values.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

import { isMapping } from "../cluster.js";

/** A scenario file, or the driver, cannot do what is written there. */
export class ScenarioError extends Error {
  name = "ScenarioError";
}

/** A value of the file, which knows where it is. */
export class Node {
  #file;
  #lineOf;
  #path;
  constructor(file, lineOf, value, path = []) {
    this.#file = file;
    this.#lineOf = lineOf;
    this.#path = path;
    this.value = value;
  }

  static async read(file) {
    const { LineCounter, parseDocument } = await yaml();
    const counter = new LineCounter();
    const document = parseDocument(readFileSync(file, "utf8"), { lineCounter: counter });
    const [error] = document.errors;
    if (error !== undefined)
      throw new ScenarioError(`${file}:${error.linePos?.[0].line ?? 1}: ${error.message.split("\n")[0]}`);
    const lineOf = (path) => {
      const offset = document.getIn(path, true)?.range?.[0];
      return offset === undefined ? undefined : counter.linePos(offset).line;
    };
    return new Node(file, lineOf, document.toJS(), []);
  }

  /** `FILE:LINE`. */
  get place() {
    for (let end = this.#path.length; end >= 0; end--) {
      const line = this.#lineOf(this.#path.slice(0, end));
      if (line !== undefined) return `${this.#file}:${line}`;
    }
    return `${this.#file}:1`;
  }

  /** `steps[1].expect.calls`. */
  get name() {
    return this.#path
      .map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`))
      .join("")
      .replace(/^\./, "");
  }

  fail(message) {
    throw new ScenarioError(`${this.place}: ${this.name === "" ? "" : `${this.name}: `}${message}`);
  }

  /** Fails because a driver cannot do it. */
  needsInformant(what = "this", remedy = "") {
    this.fail(`a Driver cannot do ${what}: run the scenario with \`informant plugin test\`${remedy}`);
  }

  has(member) {
    return this.value?.[member] !== undefined;
  }

  at(member) {
    return new Node(this.#file, this.#lineOf, this.value?.[member], [...this.#path, member]);
  }

  /** The members of a mapping, as nodes by name. Others than the `known` are an error. */
  members(known) {
    if (!isMapping(this.value)) this.fail(`${JSON.stringify(this.value)} is not a mapping`);
    for (const name of Object.keys(this.value)) {
      if (known !== undefined && !known.includes(name))
        this.at(name).fail(`there is no such member; there are ${known.join(", ")}`);
    }
    return Object.keys(this.value).map((name) => [name, this.at(name)]);
  }

  list() {
    if (!Array.isArray(this.value)) this.fail(`${JSON.stringify(this.value)} is not a list`);
    return this.value.map((_, at) => this.at(at));
  }

  text() {
    return typeof this.value === "string" ? this.value : this.fail(`${JSON.stringify(this.value)} is not a text`);
  }

  /** The YAML documents of a text. */
  async documents() {
    const { LineCounter, parseAllDocuments } = await yaml();
    const counter = new LineCounter();
    const documents = parseAllDocuments(this.text(), { lineCounter: counter, prettyErrors: false });
    const [error] = documents.flatMap(({ errors }) => errors);
    if (error !== undefined) this.fail(`line ${counter.linePos(error.pos[0]).line} of the text: ${error.message}`);
    return documents.map((document) => document.toJS());
  }

  /** Milliseconds. */
  duration() {
    return (
      durationOf(this.value) ?? this.fail(`${JSON.stringify(this.value)} is not a duration: write it as 30s or 5m`)
    );
  }
}

const SECOND_NS = 1_000_000_000n;

/** Nanoseconds and names, as in Informant. */
const UNITS = new Map(
  [
    [1n, "ns nsec nanos"],
    [1_000n, "us usec \u00b5s"],
    [1_000_000n, "ms msec millis"],
    [SECOND_NS, "s sec secs second seconds"],
    [60n * SECOND_NS, "m min mins minute minutes"],
    [3_600n * SECOND_NS, "h hr hrs hour hours"],
    [86_400n * SECOND_NS, "d day days"],
    [604_800n * SECOND_NS, "w wk wks week weeks"],
    [2_630_016n * SECOND_NS, "M month months"],
    [31_557_600n * SECOND_NS, "y yr yrs year years"],
  ].flatMap(([unit, names]) => names.split(" ").map((name) => [name, unit])),
);

const DIGITS = String.raw`([0-9](?:\s*[0-9])*)\s*`;
const SPAN = String.raw`\s*${DIGITS}(?:\.\s*${DIGITS})?([A-Za-z\u00b5]+)`;

/** The milliseconds of `1m 30s`, or undefined. Reads what config.toml may have. */
export function durationOf(text) {
  if (text === "0") return 0;
  if (typeof text !== "string" || !new RegExp(`^(?:${SPAN})+\\s*$`).test(text)) return undefined;
  let total = 0n;
  for (const [, whole, part = "", unit] of text.matchAll(new RegExp(SPAN, "g"))) {
    const unitNs = UNITS.get(unit);
    if (unitNs === undefined) return undefined;
    const digits = part.replace(/\s/g, "");
    // What is left of a fraction must be whole seconds or, of a unit below an hour, whole nanoseconds.
    const stepNs = unitNs >= 3_600n * SECOND_NS ? SECOND_NS : 1n;
    const [steps, scale] = [BigInt(digits) * (unitNs / stepNs), 10n ** BigInt(digits.length)];
    if (steps % scale !== 0n || (digits !== "" && unitNs === 1n)) return undefined;
    total += BigInt(whole.replace(/\s/g, "")) * unitNs + (steps / scale) * stepNs;
  }
  return Number(total) / 1_000_000;
}

/** The package that reads YAML: next to the kit, or where the tests run. */
async function yaml() {
  for (const from of [import.meta.url, pathToFileURL(`${process.cwd()}/`)]) {
    try {
      return createRequire(from)("yaml");
    } catch (error) {
      if (error.code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  throw new ScenarioError("scenario files need the package yaml: `npm install --save-dev yaml`");
}
