// Label selectors in Kubernetes syntax.

const SET = /^(\S+)\s+(in|notin)\s*\(([^()]*)\)$/;
const EQUALITY = /^([^\s()!=,]+)\s*(!=|==|=)\s*([^\s()!=,]*)$/;
const EXISTENCE = /^(!?)\s*([^\s()!=,]+)$/;

/**
 * Parses `app=web,tier in (a, b),!canary` to functions of labels, all of which have to be true. An empty selector
 * selects everything. Throws if it is not valid.
 */
export function parse(selector) {
  if (selector.trim() === "") return [];
  // Commas within parentheses separate values.
  return selector.split(/,(?![^(]*\))/).map((part) => requirement(part.trim()));
}

/** Whether an object's labels match a selector. */
export const matches = (selector, object) => parse(selector).every((holds) => holds(object.metadata?.labels ?? {}));

function requirement(text) {
  const [, label, verb, list] = SET.exec(text) ?? [];
  if (label !== undefined) {
    const values = list.split(",").map((value) => value.trim());
    return (labels) => values.includes(labels[label]) === (verb === "in");
  }
  const [, name, operator, value] = EQUALITY.exec(text) ?? [];
  if (name !== undefined) return (labels) => (labels[name] === value) === (operator !== "!=");
  const [, not, key] = EXISTENCE.exec(text) ?? [];
  if (key === undefined) throw new Error(`label selector: "${text}" is not a valid requirement`);
  return (labels) => key in labels === (not === "");
}
