// What scripts import: `import { … } from "informant"`. The types are in plugin-sdk/javascript/informant.d.ts.
const native = globalThis.native;

export { HostError, HttpError, KubeError, Permanent, RetryAfter } from "informant:errors";
export { ensureOk, fetch } from "informant:http";
export { kube } from "informant:kube";
export { kv } from "informant:kv";
export { log } from "informant:log";
export { metrics } from "informant:metrics";
export { recorder } from "informant:recorder";
export { store } from "informant:store";

const freeze = (value) => {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(freeze);
  return value;
};

export const context = freeze({ ...native.context, config: native.context.config ?? {} });
export const config = context.config;
