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

  /** Milliseconds. */
  duration() {
    return (
      durationOf(this.value) ?? this.fail(`${JSON.stringify(this.value)} is not a duration: write it as 30s or 5m`)
    );
  }
}

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The milliseconds of `1m30s`, or undefined. */
export function durationOf(text) {
  if (typeof text !== "string" || !/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(text)) return undefined;
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)];
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0);
}

/** Documents of a text. */
export async function documentsOf(text) {
  const { parseAllDocuments } = await yaml();
  return parseAllDocuments(text).map((document) => document.toJS());
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
