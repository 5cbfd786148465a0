import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { Driver, Failed } from "informant-plugin/testing";

const folder = mkdtempSync(join(tmpdir(), "informant-"));
after(() => rmSync(folder, { recursive: true }));

let files = 0;

/** A driver of a script with this text. */
const start = (text, options, suffix = "js") => {
  const file = join(folder, `script-${++files}.${suffix}`);
  writeFileSync(file, text);
  return Driver.start(file, options);
};

const pod = (name, { namespace = "web", ...more } = {}, { labels, uid } = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { namespace, name, ...(labels && { labels }), ...(uid && { uid }) },
  ...more,
});

const SELECTS = `
import { log } from "informant";
export const manifest = {
  events: [{
    apiVersion: "v1", kind: "Pod", payload: { fields: ["/status/phase"] }, old: true, changedOnly: true,
    namespaces: ["web"], labelSelector: "app",
  }],
};
export const onAdd = (pod, event) => log.info(\`add \${event} \${JSON.stringify(pod)}\`);
export const onUpdate = (pod, event) => log.info(\`update \${event.old.status.phase} to \${pod.status.phase}\`);
export const onDelete = (last, event) => log.info(\`delete \${last.status.phase} \${event.finalStateUnknown}\`);
`;

const labels = { app: "a" };

test("the plugin receives what its manifest requests", async () => {
  const driver = await start(SELECTS);
  await driver.put(pod("a", { status: { phase: "A", podIP: "1" } }, { labels }));
  await driver.put(pod("a", { status: { phase: "A", podIP: "2" } }, { labels }));
  await driver.put(pod("a", { status: { phase: "B" } }, { labels }));
  await driver.put(pod("a", { namespace: "api" }, { labels }));
  await driver.put({ apiVersion: "v1", kind: "Secret", metadata: { name: "s" } });
  const shown = '{"apiVersion":"v1","kind":"Pod","status":{"phase":"A"}}';
  assert.deepEqual(driver.messages, [`info: add web/a ${shown}`, "info: update A to B"]);
});

test("objects enter and leave a selection", async () => {
  const driver = await start(SELECTS);
  await driver.put(pod("a", { status: { phase: "A" } }));
  await driver.put(pod("a", { status: { phase: "A" } }, { labels }));
  await driver.put(pod("a", { status: { phase: "B" } }));
  assert.deepEqual(
    driver.calls.map(({ call }) => call),
    ["on-add", "on-delete"],
  );
});

test("another uid is a delete and an add", async () => {
  const driver = await start(SELECTS);
  await driver.put(pod("a", { status: { phase: "A" } }, { labels, uid: "1" }));
  await driver.put(pod("a", { status: { phase: "A" } }, { labels, uid: "2" }));
  await driver.delete("web/a", { finalStateUnknown: true });
  assert.deepEqual(
    driver.calls.map(({ call }) => call),
    ["on-add", "on-delete", "on-add", "on-delete"],
  );
  assert.equal(driver.messages.at(-1), "info: delete A true");
  await assert.rejects(driver.delete("web/a"), { message: "the test deletes web/a, which is not in the cache" });
});

const WRITES = `
import { Permanent, RetryAfter, kube, kv, metrics } from "informant";
export const manifest = { metrics: [{ name: "seen", type: "counter", help: "Pods.", labels: ["phase"] }] };
export async function onAdd(pod, event) {
  kv.set("last", event.name);
  metrics.add("seen", 2, { phase: "x" });
  kube.defer.patch(event, { metadata: { labels: { seen: "yes" } } });
  await null;
  if (event.name === "later") throw new RetryAfter(5_000, "later");
  if (event.name === "never") throw new Permanent("never");
  if (event.name === "broken") broken(pod);
  if (event.name === "thrown") throw "a text";
  const pods = { resource: "v1/pods", namespace: "web" };
  if (event.name === "twice") kube.defer.create(pods, { metadata: { name: "twice" } });
}
const broken = (pod) => pod.spec.node.name;
`;

test("what a call changed takes effect when it succeeds", async () => {
  const driver = await start(WRITES);
  await driver.put(pod("a"));
  assert.deepEqual(
    driver.writes.map(({ verb, object, kind }) => [verb, object, kind]),
    [["patch", "web/a", "merge"]],
  );
  assert.deepEqual(driver.object("web/a").metadata.labels, { seen: "yes" });
  assert.equal(await driver.settle(), 1);
  assert.deepEqual([driver.kv, driver.metric("seen", { phase: "x" })], [{ last: "a" }, 2]);
  driver.clear();
  await assert.rejects(driver.put(pod("broken")), Failed);
  assert.deepEqual([driver.writes, driver.kv, driver.metric("seen", { phase: "x" })], [[], { last: "a" }, 2]);
});

test("failures say what follows, and where they are from", async () => {
  const driver = await start(WRITES);
  await assert.rejects(driver.put(pod("later")), { kind: "retry-after", afterMs: 5_000 });
  await assert.rejects(driver.put(pod("never")), { kind: "permanent" });
  await assert.rejects(driver.put(pod("broken")), {
    kind: "retryable",
    message: /^script-\d+\.js:16:34: TypeError: Cannot read properties of undefined .* \(in broken < onAdd\)$/,
  });
  await assert.rejects(driver.put(pod("thrown")), { message: /onAdd threw "a text", which is not an Error/ });
  const exists = /KubeError: v1\/pods "twice" already exists$/;
  await assert.rejects(driver.put(pod("twice")), { kind: "retryable", message: exists });
});

test("a script that Informant would refuse is refused", async () => {
  await assert.rejects(start("export const onadd = () => {};"), {
    kind: "permanent",
    message: /did you mean onAdd\?$/,
  });
  await assert.rejects(start("export const onAdd = (;"), { message: /^script-\d+\.js:1: SyntaxError/ });
  await assert.rejects(start('import "node:fs"; export const onAdd = () => {};'), {
    message: /imports "node:fs" of Node/,
  });
});

test("scripts have their globals, and share no variables", async () => {
  const text = `let calls = 0;
    export const onAdd = () => console.log(++calls, typeof setTimeout);
    export const save = () => calls;
    export const restore = (saved) => { calls = saved; };`;
  const [first, second] = [await start(text), await start(text)];
  for (const driver of [first, first, second]) await driver.put(pod(`pod-${driver.calls.length}`));
  assert.deepEqual(
    [first.messages, second.messages],
    [["info: 1 undefined", "info: 2 undefined"], ["info: 1 undefined"]],
  );
  assert.equal(typeof setTimeout, "function");
  assert.equal(await first.save(), 2);
  await first.swap();
  await first.put(pod("next"));
  assert.equal(first.messages.at(-1), "info: 3 undefined");
});

test("a new version that is refused replaces nothing", async () => {
  const driver = await start("export const onAdd = () => console.log(1);");
  const broken = join(folder, "broken.js");
  writeFileSync(broken, "throw new Error('broken');");
  await assert.rejects(driver.swap(broken), { message: "broken.js:1:7: Error: broken" });
  await driver.put(pod("a"));
  assert.deepEqual(driver.messages, ["info: 1"]);
});

test("requests are answered by the test", async () => {
  const driver = await start(`
    import { ensureOk } from "informant";
    export const onAdd = async (pod, event) => {
      const send = (path) => fetch(\`https://example.com/\${path}\`, { method: "POST", body: path });
      const answers = await Promise.all(["a", "b"].map(send));
      for (const answer of answers) console.log(await ensureOk(answer).json());
    };
    export const onUpdate = () => new Promise(() => {});`);
  await assert.rejects(driver.put(pod("a")), {
    kind: "permanent",
    message: /call serveHttp of the driver in the test /,
  });
  driver.serveHttp(async ({ url, body }) => ({ body: { url, body } }));
  await driver.put(pod("b"));
  assert.deepEqual(driver.messages, [
    'info: {"url":"https://example.com/a","body":"a"}',
    'info: {"url":"https://example.com/b","body":"b"}',
  ]);
  driver.serveHttp(() => ({ status: 503, headers: { "retry-after": "7" } }));
  await assert.rejects(driver.put(pod("c")), { kind: "retry-after", afterMs: 7_000 });
  driver.serveHttp(() => ({ error: "dns" }));
  await assert.rejects(driver.put(pod("d")), { kind: "retryable", message: /HttpError: POST https:\/\/example.com: / });
  await assert.rejects(driver.put(pod("b")), { message: /onUpdate waits for a promise that never settles/ });
});

test("the store has objects and the plugin's own indexes", async () => {
  const driver = await start(`
    import { store } from "informant";
    export const index = (pod) => ({ node: pod.spec?.nodeName });
    export const onAdd = (pod, event) => {
      const found = store.byIndex(event, "node", "n1", { fields: ["/metadata/name"] });
      console.log(found.map(({ metadata }) => metadata.name).join(), store.indexValues("pods", "node").join());
      console.log(store.list("pods", { namespace: "api" }).length);
      console.log(store.get("pods", "web", "a")?.spec.nodeName, store.get("nodes", "", "n1")?.kind);
    };`);
  driver.add({ apiVersion: "v1", kind: "Node", metadata: { name: "n1" } });
  driver.add(pod("a", { spec: { nodeName: "n1" } }));
  driver.add(pod("b", { spec: { nodeName: "n2" } }));
  await driver.put(pod("c", { spec: { nodeName: "n1" } }));
  assert.deepEqual(driver.messages, ["info: a,c n1,n2", "info: 0", "info: n1 Node"]);
  assert.deepEqual(await driver.index(pod("d", { spec: { nodeName: "n3" } })), { node: ["n3"] });
  assert.deepEqual(
    driver.reads.map((read) => read.function),
    ["byIndex", "indexValues", "indexValues", "list", "find", "find"],
  );
});

test("an object on which the index function fails has no values", async () => {
  const driver = await start(`
    import { store } from "informant";
    export const manifest = { indexes: ["node"] };
    export const index = (pod) => ({ node: pod.spec.nodeName });
    export const onAdd = (pod, event) => console.log(store.indexValues("pods", "node").join());
  `);
  driver.add(pod("broken"));
  await driver.put(pod("a", { spec: { nodeName: "n1" } }));
  assert.deepEqual(driver.messages, ["info: n1"]);
  await assert.rejects(driver.index(pod("b")), { message: /TypeError/ });
});

const OWNED = `
  import { store } from "informant";
  export const onAdd = () => {
    const keys = store.indexKeys("pods", "owner", "u1");
    console.log(keys.map(({ name }) => name).join());
  };
`;

test("a test adds an index by a pointer or a function", async () => {
  const withOwners = (name, ...uids) => {
    const object = pod(name);
    object.metadata.ownerReferences = uids.map((uid) => ({ uid }));
    return object;
  };
  for (const values of [
    "/metadata/ownerReferences/*/uid",
    ({ metadata }) => metadata.ownerReferences.map(({ uid }) => uid),
    ({ metadata }) => metadata.ownerReferences[0]?.uid,
  ]) {
    const driver = await start(OWNED);
    driver.addIndex("pods", "owner", values);
    driver.add(withOwners("a", "u1", "u2"));
    driver.add(withOwners("b", "u10"));
    await driver.put(withOwners("c"));
    assert.deepEqual(driver.messages, ["info: a"]);
  }
});

test("a missing or wrong index says what to write", async () => {
  const driver = await start(OWNED);
  const remedy = 'add it with driver.addIndex("pods", "owner", "/metadata/ownerReferences/*/uid")';
  await assert.rejects(driver.put(pod("a")), ({ message }) =>
    message.endsWith(`HostError: informer "pods" has no index "owner" in this test; ${remedy}`),
  );
  for (const values of [undefined, ["/spec"], "spec.nodeName", {}])
    assert.throws(() => driver.addIndex("pods", "owner", values), {
      name: "TypeError",
      message: /^addIndex\("pods", "owner", .*\): `values` must be a JSON pointer such as/,
    });
  assert.throws(() => driver.addIndex("pods", "/spec"), { message: /`values` must be/ });
  assert.throws(() => driver.addIndex("pods", () => [], "/spec"), { message: /`name` is not a name$/ });
});

test("a manifest with an unknown member is refused", async () => {
  const text = (manifest) => `export const manifest = ${JSON.stringify(manifest)};\nexport const onAdd = () => {};`;
  const rule = { apiVersion: "v1", kind: "Pod", changedonly: true };
  await assert.rejects(start(text({ events: [rule] })), {
    kind: "permanent",
    message: /unknown member manifest\.events\[0\]\.changedonly; did you mean changedOnly\?$/,
  });
  await assert.rejects(start(text({ color: 1 })), { message: /manifest\.color; there are name, version, / });
});

test("requeues are made once, and cancelled by the next call", async () => {
  const driver = await start(
    "export const onAdd = (pod, event) => { console.log(event.reason); return { requeueAfter: 60_000 }; };",
  );
  assert.equal(await driver.put(pod("a")), 60_000);
  assert.deepEqual(driver.requeues, { "web/a": 60_000 });
  assert.equal(await driver.runRequeues(), 1);
  await driver.put(pod("a", { spec: {} }));
  assert.deepEqual([driver.requeues, driver.messages], [{}, ["info: watch", "info: requeue-after"]]);
});

test("several clusters have sources of their own", async () => {
  const driver = await start(`
    import { kube, store } from "informant";
    export const onSynced = (source) => console.log(\`\${source} \${source.cluster} \${store.list("pods").length}\`);
    export const onAdd = (pod) => {
      const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } };
      if (pod.kind === "Pod") kube.create({ resource: "v1/configmaps", namespace: "web" }, map);
    };`);
  for (const cluster of ["east", "west"]) driver.addSource("pods", "v1", "Pod", { cluster });
  await driver.put(pod("a"), { cluster: "west" });
  assert.equal(driver.writes[0].cluster, "west");
  await driver.synced();
  assert.deepEqual(driver.messages, ["info: source 0 east 0", "info: source 1 west 1", "info: source 2 west 1"]);
});

test("a script in TypeScript runs as it is", async () => {
  const text = `import type { Event } from "informant";
interface Pod {
  status?: { phase?: string };
}
export const onAdd = (pod: Pod, event: Event): void => {
  console.log(\`\${event} is \${pod.status!.phase}\`);
};
`;
  const driver = await start(text, {}, "ts");
  await driver.put(pod("a", { status: { phase: "Running" } }));
  assert.deepEqual(driver.messages, ["info: web/a is Running"]);
  await assert.rejects(driver.put(pod("b")), { message: /^script-\d+\.ts:6:4[12]: TypeError: / });
});

const skip = process.features.typescript;
test("TypeScript that Informant refuses is refused with its place", { skip }, async () => {
  const handler = "export const onAdd = () => {};\n";
  const erasing = "needs more than erasing its types; ";
  for (const [text, message] of [
    ["export const onAdd = (pod: ) => {};", "1:28: SyntaxError: Type expected."],
    [`${handler}  enum Phase { Failed }`, `2:3: an enum ${erasing}write an object: const Phase = { … } as const`],
    [`${handler}class A { constructor(private name: string) {} }`, `2:23: a parameter property ${erasing}`],
    [`${handler}namespace N { export const a = 1; }`, `2:1: a namespace with code ${erasing}`],
    [`${handler}const a = <any>1;`, `2:11: a type in front of an expression ${erasing}`],
    [`import { Pod } from "informant";\n${handler}`, "if Pod is a type, write `type Pod`"],
  ])
    await assert.rejects(start(text, {}, "ts"), (error) => {
      assert.match(error.message, /^script-\d+\.ts:\d+/);
      assert.ok(error.message.includes(message), `${text}: ${error.message}`);
      return error.kind === "permanent";
    });
  await start(
    `${handler}namespace N { export type A = 1 }\ndeclare enum E { A }\ndeclare module "x" { export const y: 1 }\n` +
      'abstract class B { private x = 1; constructor(readonly: string) {} }\nimport { type Pod, log } from "informant";',
    {},
    "ts",
  );
});

const RECONCILES = `
import { log } from "informant";
export const manifest = {
  reconciler: {
    for: { apiVersion: "v1", kind: "Pod", payload: { fields: ["/status/phase"] }, when: ["/status"] },
    owns: [{ apiVersion: "v1", kind: "Secret" }],
    watches: [{ apiVersion: "v1", kind: "ConfigMap", by: { label: "pod" } }],
  },
};
export const reconcile = (pod, request) => {
  log.info(\`\${request} \${request.reason} \${pod?.status.phase ?? "gone"} \${request.cacheIsBehind}\`);
  return pod && { requeueAfter: 3_000 };
};
`;

test("an object is reconciled with and without it", async () => {
  const driver = await start(RECONCILES);
  assert.deepEqual(driver.manifest.roles, ["reconciler"]);
  await driver.put(pod("a", { status: { phase: "Running" } }));
  assert.equal(await driver.reconcile("web/a"), 3_000);
  await driver.delete("web/a");
  assert.equal(await driver.reconcile("web/a", { reason: "related", cacheIsBehind: true }), undefined);
  assert.deepEqual(driver.messages, ["info: web/a watch Running false", "info: web/a related gone true"]);
});

test("contradictions of a reconciler are refused", async () => {
  const refused = (text, expected) => assert.rejects(start(text), (error) => error.message.includes(expected));
  await refused("export const reconcile = () => {};", "the manifest does not say for which objects");
  await refused(`${RECONCILES}export const onAdd = () => {};`, "of which a plugin may have one");
  const misspelled = RECONCILES.replace("owns:", "own:");
  await refused(misspelled, "unknown member manifest.reconciler.own; did you mean owns?");
});
