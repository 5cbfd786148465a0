import assert from "node:assert/strict";
import { test } from "node:test";

import { Driver } from "./informant/testing/index.js";

test("a pod is greeted with its phase", async () => {
  const driver = await Driver.start("handler.js");
  const metadata = { namespace: "web", name: "a" };
  await driver.put({ apiVersion: "v1", kind: "Pod", metadata, status: { phase: "Running" } });
  assert.deepEqual(driver.messages, ["info: web/a is Running"]);
});
