// Runs scenario files, which `informant plugin test` runs, too: see docs/reference/scenarios.md.
import assert from "node:assert/strict";
import { dirname, relative, resolve } from "node:path";
import { mock, test } from "node:test";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { START_MS } from "./scenario/calls.js";
import { readScenario } from "./scenario/format.js";
import { Run } from "./scenario/run.js";

/** Registers a test that runs the scenario in a file. */
export function scenario(file, options) {
  const found = fileOf(file);
  return test(relative(process.cwd(), found), () => runScenario(found, options));
}

/** Runs the scenario in a file. Throws an AssertionError with all that differs. */
export async function runScenario(file, { path } = {}) {
  const run = new Run(await readScenario(fileOf(file), path === undefined ? undefined : fileOf(path)));
  mock.timers.enable({ apis: ["Date"], now: START_MS });
  try {
    const differences = await run.all((now) => mock.timers.setTime(now));
    assert.ok(differences.length === 0, differences.join("\n"));
  } finally {
    mock.timers.reset();
  }
}

function fileOf(file) {
  if (file instanceof URL) return fileURLToPath(file);
  const folders = [dirname(process.argv[1] ?? "."), process.cwd()];
  return folders.map((folder) => resolve(folder, file)).find(existsSync) ?? resolve(file);
}
