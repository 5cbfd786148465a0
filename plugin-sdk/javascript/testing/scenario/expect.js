// Compares what an `expect` has with what happened.
import { isMapping, keyText } from "../cluster.js";
import { STREAMS, entriesOf } from "./format.js";
import { durationOf } from "./yaml.js";

/** In these members, `*` stands for any text. */
const WITH_PATTERNS = ["error", "message", "note", "url"];

const shown = (value) => (value === undefined ? "nothing" : JSON.stringify(value));

/** The regular expression of a text in which `*` stands for any text, and `\*` for an asterisk. */
export function pattern(text) {
  const parts = text.split(/(\\\*|\*)/).map((part) => {
    if (part === "*") return ".*";
    return (part === "\\*" ? "*" : part).replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  });
  return new RegExp(`^${parts.join("")}$`, "s");
}

/** Whether nothing matches: `null`, and a mapping all of whose members are so. */
const expectsNothing = (expected) => {
  const members = isMapping(expected) ? Object.values(expected) : [];
  return expected === null || (members.length > 0 && members.every(expectsNothing));
};

/** What differs, as `path: expected …, found …`; undefined if nothing does. */
export function difference(expected, found, path = "", isPattern = false) {
  if ((found === undefined || found === null) && expectsNothing(expected)) return undefined;
  if (expected === null) return `${path}: expected nothing, found ${shown(found)}`;
  if (isPattern && typeof expected === "string" && typeof found === "string" && pattern(expected).test(found))
    return undefined;
  if (isMapping(expected) && isMapping(found)) {
    return first(Object.entries(expected), ([name, value]) =>
      difference(value, found[name], path === "" ? name : `${path}.${name}`, WITH_PATTERNS.includes(name)),
    );
  }
  if (Array.isArray(expected) && Array.isArray(found) && expected.length === found.length) {
    return first([...expected.entries()], ([at, value]) => difference(value, found[at], `${path}[${at}]`));
  }
  return Object.is(expected, found) ? undefined : `${path}: expected ${shown(expected)}, found ${shown(found)}`;
}

const first = (list, find) => list.map(find).find((found) => found !== undefined);

/** What differs in an entry of a stream. */
function entryDifference(stream, expected, found) {
  if (stream === "calls" && typeof expected.requeueAfter === "string") {
    return difference({ ...expected, requeueAfter: durationOf(expected.requeueAfter) }, found);
  }
  if (stream !== "http") return difference(expected, found);
  const { body, headers = {}, ...rest } = expected;
  const lowercase = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  return (
    difference({ ...rest, headers: lowercase }, found) ??
    (body === undefined ? undefined : bodyDifference(body, found.body))
  );
}

function bodyDifference(expected, found) {
  if (typeof expected === "string" || expected === null)
    return difference(expected, found || (expected === null ? null : ""), "body", true);
  try {
    return difference(expected, JSON.parse(found), "body");
  } catch {
    return `body: expected the JSON ${shown(expected)}, found ${shown(found)}`;
  }
}

/** What differs in a list: complete and in order or, with `includes`, with others between. */
export function streamDifferences(stream, node, found) {
  const { isPart, entries } = entriesOf(node, STREAMS[stream]);
  const differences = [];
  if (isPart) {
    let rest = found;
    for (const { entry, value } of entries) {
      const at = rest.findIndex((candidate) => entryDifference(stream, value, candidate) === undefined);
      if (at < 0) return [`${entry.place}: ${entry.name}: not found: ${shown(value)}; there are: ${shown(rest)}`];
      rest = rest.slice(at + 1);
    }
    return [];
  }
  for (const [at, { entry, value }] of entries.entries()) {
    const why = at < found.length ? entryDifference(stream, value, found[at]) : `missing: ${shown(value)}`;
    if (why !== undefined) differences.push(`${entry.place}: ${entry.name}: ${why}`);
  }
  for (const extra of found.slice(entries.length))
    differences.push(`${node.place}: ${node.name}: one too many: ${shown(extra)}`);
  return differences;
}

/** What differs in the members that say what is the case now. `state` has the objects, indexes and so on. */
export function stateDifferences({ node, references, objects }, state) {
  const differences = [];
  const check = (at, why) => why !== undefined && differences.push(`${at.place}: ${at.name}: ${why}`);
  for (const { entry, object } of objects) {
    const found = state.object(object);
    check(entry, found === undefined ? "the object does not exist" : difference(object, found));
  }
  for (const reference of references) {
    if (state.exists(reference)) check(reference.node, `${reference.text} exists`);
  }
  const each = (name, call) =>
    node.has(name) &&
    node
      .at(name)
      .members()
      .forEach(([key, value]) => check(value, call(key, value)));
  each("kv", (key, { value }) => kvDifference(value, state.kv(key)));
  each("metrics", (series, { value }) => difference(value, state.metric(series, node.at("metrics"))));
  if (node.has("indexes")) {
    for (const [informer, indexes] of node.at("indexes").members()) {
      for (const [index, values] of indexes.members()) {
        for (const [value, keys] of values.members()) {
          check(
            keys,
            difference([...keys.value].sort(), state.index(informer, index, value, values).map(keyText).sort()),
          );
        }
      }
    }
  }
  return differences;
}

/** A text is the bytes of a value, or the JSON of a text. */
function kvDifference(expected, text) {
  if (text === expected || (text === undefined && expectsNothing(expected))) return undefined;
  if (text === undefined) return `expected ${shown(expected)}, but the key is not set`;
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    return `expected ${shown(expected)}, found ${shown(text)}`;
  }
  return difference(expected, found);
}
