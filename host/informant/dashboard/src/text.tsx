// Foreign text: names, logs, errors and objects come from clusters and plugins, so they can carry control characters
// that hide or reorder what a reader sees. Everything foreign goes through `shown` and only ever into text nodes.

import { h } from "preact";

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;
const EACH_INVISIBLE = new RegExp(INVISIBLE.source, "gu");

/** Replaces each control, bidi and other invisible character by its visible escape. `lines` keeps newlines and tabs. */
export function shown(text: unknown, lines = false): string {
  const plain = typeof text === "string" ? text : text == null ? "" : String(text);
  if (!INVISIBLE.test(plain)) return plain;
  return plain.replace(EACH_INVISIBLE, (char) =>
    lines && (char === "\n" || char === "\t") ? char : `\\u{${char.codePointAt(0)!.toString(16)}}`,
  );
}

/** One foreign text, isolated from the direction of the text around it. */
export function foreign(text: unknown) {
  return <bdi>{shown(text)}</bdi>;
}

/** A foreign text that can have several lines: an error, a log line. */
export function multiline(text: unknown) {
  return <bdi class="lines">{shown(text, true)}</bdi>;
}

/** Foreign text that a reader may want to copy: a path, a hash, a command. */
export function code(text: unknown) {
  return <code>{foreign(text)}</code>;
}

/** Indents JSON without parsing it: parsing would change numbers above 2^53 and drop repeated keys. */
export function indented(json: string): string {
  let out = "";
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  // A string, a scalar, or one structural character. White space between them matches nothing and is dropped.
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[^\s"{}[\],:]+|[{}[\],:"]/gs)) {
    if (token === "{" || token === "[") {
      depth++;
      out += token + line();
    } else if (token === "}" || token === "]") {
      depth = Math.max(0, depth - 1);
      out = /[{[]\s*$/.test(out.slice(-200)) ? out.trimEnd() + token : out + line() + token;
    } else if (token === ",") {
      out += token + line();
    } else if (token === ":") {
      out += ": ";
    } else {
      out += token;
    }
  }
  return out;
}
