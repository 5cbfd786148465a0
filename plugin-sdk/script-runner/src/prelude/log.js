// The log, and globals that QuickJS lacks.
import { format } from "informant:errors";

const native = globalThis.native;

// A line is UTF-8, which has no unpaired surrogates.
const logAt = (level) => (...values) => native.log(level, values.map(format).join(" ").toWellFormed());

export const log = Object.freeze({ trace: logAt(0), debug: logAt(1), info: logAt(2), warn: logAt(3), error: logAt(4) });

globalThis.console = Object.freeze({ ...log, log: log.info });

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
