// Projects an object to the fields that a plugin receives, as Informant does: always with apiVersion and kind.

const ABSENT = Symbol("absent");

/** The object projected to a payload of the manifest; undefined if it asks for none. */
export function payload(object, wanted = "whole") {
  if (wanted === "none") return undefined;
  if (wanted === "whole") return structuredClone(object);
  return project(object, wanted === "metadata" ? ["/metadata"] : wanted.fields);
}

/** The object with only the fields at these JSON pointers; whole if there are none. */
export function project(object, pointers) {
  if (pointers.length === 0) return structuredClone(object);
  const paths = [["apiVersion"], ["kind"]];
  for (const pointer of pointers) {
    if (!isPointer(pointer)) throw new Error(`the JSON pointer "${pointer}" does not begin with "/"`);
    paths.push(partsOf(pointer));
  }
  const shown = cut(object, paths);
  return shown === ABSENT ? {} : structuredClone(shown);
}

export const isPointer = (text) => typeof text === "string" && text.startsWith("/");

const partsOf = (pointer) =>
  pointer
    .slice(1)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));

/** The values at a JSON pointer, as texts: those of an index in config.toml. */
export const scalarsAt = (object, pointer) => [...new Set(follow(object, partsOf(pointer)))];

function follow(value, [part, ...rest]) {
  if (part === undefined) return ["string", "number", "boolean"].includes(typeof value) ? [String(value)] : [];
  if (typeof value !== "object" || value === null) return [];
  const isThere = Object.hasOwn(value, part) && !(Array.isArray(value) && part === "length");
  const below = part === "*" ? Object.values(value) : isThere ? [value[part]] : [];
  return below.flatMap((member) => follow(member, rest));
}

/** The value projected to `paths`; `ABSENT` if no path leads through it. */
function cut(value, paths) {
  if (paths.some((path) => path.length === 0)) return value;
  if (paths.length === 0 || typeof value !== "object" || value === null) return ABSENT;
  const below = (name) => paths.filter(([first]) => first === "*" || first === name).map((path) => path.slice(1));
  const isList = Array.isArray(value);
  const members = Object.entries(value).map(([name, member]) => [name, cut(member, below(name)), member]);
  // Elements keep their positions.
  if (isList) return members.map(([, shown, member]) => (shown === ABSENT ? emptyOf(member) : shown));
  return Object.fromEntries(members.filter(([, shown]) => shown !== ABSENT));
}

const emptyOf = (value) => (Array.isArray(value) ? [] : typeof value === "object" && value !== null ? {} : null);
