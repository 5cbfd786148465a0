// Replaces Informant in tests of a script, under `node --test`. No component is built.
export { Driver, SETTLE_CALLS_MAX } from "./driver.js";
export { Failed } from "./instance.js";
export { runScenario, scenario } from "./scenario.js";
