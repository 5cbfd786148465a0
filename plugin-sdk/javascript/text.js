// TextDecoder and TextEncoder for UTF-8, which QuickJS lacks. If the engine has its own (StarlingMonkey), those are used.

// Limits the number of arguments of a call, and so the use of the stack.
const CHUNK = 8192;

const bytesOf = (input) => {
  if (input instanceof Uint8Array) return input;
  if (input instanceof ArrayBuffer) return new Uint8Array(input);
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  throw new TypeError("decode takes an ArrayBuffer or a view of one");
};

// One character for each byte.
const latin = (bytes) => {
  if (bytes.length <= CHUNK) return String.fromCharCode.apply(null, bytes);
  const parts = [];
  for (let at = 0; at < bytes.length; at += CHUNK) parts.push(String.fromCharCode.apply(null, bytes.subarray(at, at + CHUNK)));
  return parts.join("");
};

// The length of the character at `at`, or 0 if it is invalid; `good` is the number of bytes to skip then.
const sequence = (bytes, at) => {
  const first = bytes[at];
  if (first < 0x80) return { length: 1, good: 1 };
  const length = first >= 0xc2 && first <= 0xdf ? 2 : first >= 0xe0 && first <= 0xef ? 3 : first >= 0xf0 && first <= 0xf4 ? 4 : 0;
  if (length === 0) return { length: 0, good: 1 };
  for (let next = 1; next < length; next++) {
    const low = next > 1 ? 0x80 : first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
    const high = next > 1 ? 0xbf : first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
    const byte = bytes[at + next];
    if (byte === undefined || byte < low || byte > high) return { length: 0, good: next };
  }
  return { length, good: length };
};

// The slow path for invalid UTF-8: U+FFFD replaces invalid bytes.
const decodeLossy = (bytes) => {
  const parts = [];
  for (let at = 0; at < bytes.length; ) {
    const { length, good } = sequence(bytes, at);
    parts.push(length === 0 ? "\ufffd" : decodeURIComponent(escape(latin(bytes.subarray(at, at + length)))));
    at += good;
  }
  return parts.join("");
};

class Utf8Decoder {
  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    if (!/^\s*(utf-?8|unicode-1-1-utf-8)\s*$/i.test(label)) throw new RangeError(`only UTF-8 is supported, not ${label}`);
    this.encoding = "utf-8";
    this.fatal = fatal;
    this.ignoreBOM = ignoreBOM;
  }

  decode(input = new Uint8Array(0), { stream = false } = {}) {
    if (stream) throw new TypeError("stream is not supported: decode the whole text in one call");
    const bytes = bytesOf(input);
    let text = latin(bytes);
    if (/[\x80-\xff]/.test(text)) {
      try {
        text = decodeURIComponent(escape(text));
      } catch (error) {
        if (this.fatal) throw new TypeError("this is not UTF-8", { cause: error });
        text = decodeLossy(bytes);
      }
    }
    return !this.ignoreBOM && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  }
}

class Utf8Encoder {
  get encoding() {
    return "utf-8";
  }

  encode(input = "") {
    let text = String(input);
    // Replaces unpaired surrogates.
    if (/[^\x00-\x7f]/.test(text)) text = unescape(encodeURIComponent(text.toWellFormed()));
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
    return bytes;
  }
}

globalThis.TextDecoder ??= Utf8Decoder;
globalThis.TextEncoder ??= Utf8Encoder;

const decoder = new TextDecoder();
const encoder = new TextEncoder();

export const decoded = (bytes) => JSON.parse(decoder.decode(bytes instanceof Uint8Array ? bytes : Uint8Array.from(bytes)));
export const encoded = (value) => encoder.encode(JSON.stringify(value));
