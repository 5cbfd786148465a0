// Metrics of the script's own, which its manifest declares.
import { metrics as host, shown } from "informant:errors";

const numberOf = (name, value) => {
  if (typeof value !== "number") throw new TypeError(`metrics: the value of ${shown(name)} is ${shown(value)}, which is not a number`);
  return value;
};

// Each name is followed by its value.
const pairs = (labels = {}) => Object.entries(labels).flatMap(([name, value]) => [name, String(value).toWellFormed()]);

const change = (call) => (name, value, labels) => call(String(name), numberOf(name, value), pairs(labels));

const add = change(host.add);

export const metrics = Object.freeze({
  add: (name, amount = 1, labels = {}) => add(name, amount, labels),
  set: change(host.set),
  observe: change(host.observe),
  replace(name, samples) {
    // An object without an iterator would be an empty list, which removes all series.
    if (typeof samples?.[Symbol.iterator] !== "function" || typeof samples === "string") {
      throw new TypeError(`metrics: the samples of ${shown(name)} are ${shown(samples)}, which is not a list`);
    }
    const list = Array.from(samples);
    const values = list.map(({ value }) => numberOf(name, value));
    host.replace(String(name), values, list.map(({ labels }) => pairs(labels)));
  },
});
