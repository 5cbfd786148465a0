// The log, and globals that QuickJS lacks.
import { format } from "informant:errors";

const native = globalThis.native;

// A line is UTF-8, which has no unpaired surrogates.
const write = (level, values, fields) => native.log(level, values.map(format).join(" ").toWellFormed(), fields);

const isPlain = (value) => typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;

// Names and values in turn. A value is JSON.
const fieldsOf = (object) => Object.entries(object).flatMap(([name, value]) => [name.toWellFormed(), (JSON.stringify(value) ?? JSON.stringify(format(value))).toWellFormed()]);

// A message and an object: a line with fields.
const logAt = (level) => (...values) => {
  const [message, fields] = values;
  if (values.length !== 2 || typeof message !== "string" || !isPlain(fields)) return write(level, values, []);
  let flat;
  try {
    flat = fieldsOf(fields);
  } catch {
    // It has no JSON: a cycle, or a BigInt.
    return write(level, values, []);
  }
  return write(level, [message], flat);
};

export const log = Object.freeze({ trace: logAt(0), debug: logAt(1), info: logAt(2), warn: logAt(3), error: logAt(4) });

const printAt = (level) => (...values) => write(level, values, []);

globalThis.console = Object.freeze({ trace: printAt(0), debug: printAt(1), info: printAt(2), warn: printAt(3), error: printAt(4), log: printAt(2) });

const bytesOf = (input) => {
  if (input instanceof Uint8Array) return input;
  if (input instanceof ArrayBuffer) return new Uint8Array(input);
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  throw new TypeError("decode takes an ArrayBuffer or a view of one");
};

// Limits the number of arguments of a call, and so the use of the stack.
const CHUNK = 8192;

// One character for each byte.
export const latin = (bytes) => {
  const parts = [];
  for (let at = 0; at < bytes.length; at += CHUNK) parts.push(String.fromCharCode.apply(null, bytes.subarray(at, at + CHUNK)));
  return parts.join("");
};

globalThis.TextDecoder ??= class TextDecoder {
  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    if (!/^\s*(utf-?8|unicode-1-1-utf-8)\s*$/i.test(label)) throw new RangeError(`only UTF-8 is supported, not ${label}`);
    this.encoding = "utf-8";
    this.fatal = fatal;
    this.ignoreBOM = ignoreBOM;
  }
  decode(input = new Uint8Array(0), { stream = false } = {}) {
    if (stream) throw new TypeError("stream is not supported: decode the whole text in one call");
    const text = native.decode(latin(bytesOf(input)), this.fatal);
    if (text === undefined) throw new TypeError("the bytes are not UTF-8");
    return !this.ignoreBOM && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  }
};

globalThis.TextEncoder ??= class TextEncoder {
  get encoding() {
    return "utf-8";
  }
  encode(input = "") {
    return native.encode(String(input).toWellFormed());
  }
};
