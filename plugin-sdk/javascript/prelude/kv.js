// What the plugin remembers. Values are JSON.
import { kv as host, shown } from "informant:errors";

const textOf = (key, value) => {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`kv: the value of ${shown(key)} is ${shown(value)}, which is not JSON`);
  return text;
};

export const kv = Object.freeze({
  get: (key) => host.get(String(key)),
  set: (key, value) => host.set(String(key), textOf(key, value)),
  setIfAbsent: (key, value = true) => host.setIfAbsent(String(key), textOf(key, value)),
  delete: (key) => host.delete(String(key)),
  list(prefix = "") {
    const keys = [];
    let more = [""];
    while ((more = host.list(String(prefix), more.at(-1))).length > 0) keys.push(...more);
    return keys;
  },
});
