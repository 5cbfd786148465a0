import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { onAdd } from "./handler.ts";

test("a pod is greeted with its phase", () => {
  const log = mock.method(console, "log", () => {});
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: "web", name: "a", uid: "1", resourceVersion: "1" },
    status: { phase: "Running" },
  };
  // Informant's events have more members. As text an event is the address of its object.
  const event: any = { toString: () => "web/a" };
  onAdd(pod, event);
  assert.deepEqual(log.mock.calls[0]?.arguments, ["web/a is Running"]);
});
