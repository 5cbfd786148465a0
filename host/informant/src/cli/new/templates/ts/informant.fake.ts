// What the module "informant" is in tests. Add what your handlers use, and let it answer as a test needs.

export const config = {};
export const log = console;
export const store = { get: () => undefined, list: () => [], byIndex: () => [] };

/** The writes of the handlers: verb, address, document. */
export const writes: unknown[][] = [];

const writer = (verb: string) => (...args: unknown[]) => void writes.push([verb, ...args]);
const writers = () => ({
  create: writer("create"),
  update: writer("update"),
  patch: writer("patch"),
  apply: writer("apply"),
  delete: writer("delete"),
});
export const kube = { get: () => undefined, list: () => [], ...writers(), defer: writers() };

export class Permanent extends Error {}
export class RetryAfter extends Error {}
