// In tests, the module "informant" is informant.fake.js.
import { register } from "node:module";

const fake = new URL("./informant.fake.js", import.meta.url).href;
const hooks = `export const resolve = (name, context, next) =>
  name === "informant" ? { url: ${JSON.stringify(fake)}, shortCircuit: true } : next(name, context);`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
