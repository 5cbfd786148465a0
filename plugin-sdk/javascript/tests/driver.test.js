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

const OWNS = `
import { kube, log } from "informant";
export const manifest = {
  reconciler: {
    for: { apiVersion: "example.com/v1", kind: "Site" },
    owns: [{ apiVersion: "apps/v1", kind: "Deployment" }, { apiVersion: "v1", kind: "Secret" }],
  },
};
export const reconcile = (site, request) => {
  log.info(JSON.stringify(kube.children(request, site?.spec.children ?? [])));
  if (site?.spec.again) kube.children(request, []);
};
export const onSynced = (source) => kube.children(source, []);
`;

const site = (children, more) => ({
  apiVersion: "example.com/v1",
  kind: "Site",
  metadata: { namespace: "web", name: "shop", uid: "u1" },
  spec: { children, ...more },
});

const deployment = (name, more) => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name, ...more },
  spec: { replicas: 2 },
});

const secret = (name, stringData = {}) => ({ apiVersion: "v1", kind: "Secret", metadata: { name }, stringData });

/** What a reconciliation of the site has returned from `kube.children`. */
const doneWith = async (driver, options) => {
  driver.clear();
  await driver.reconcile("web/shop", options);
  return JSON.parse(driver.messages[0].replace("info: ", ""));
};

test("children are written with what says whose they are", async () => {
  const driver = await start(OWNS, { name: "sites" });
  const labels = { "informant.dev/owner-uid": "u1", "informant.dev/plugin": "sites" };
  driver.add(site({ fields: [deployment("a", { labels: { app: "a" } })], whole: [secret("b", { key: "value" })] }));
  assert.deepEqual(await doneWith(driver), { written: 2, pruned: 0, refused: [] });
  assert.deepEqual(
    driver.writes.map(({ verb, kind, object }) => [verb, kind, object]),
    [
      ["patch", "apply", "web/a"],
      ["create", undefined, "web/b"],
    ],
  );
  const { metadata, spec } = driver.object("web/a");
  const owner = { apiVersion: "example.com/v1", kind: "Site", name: "shop", uid: "u1" };
  assert.deepEqual(metadata.ownerReferences, [{ ...owner, controller: true, blockOwnerDeletion: true }]);
  assert.deepEqual([metadata.labels, spec.replicas], [{ app: "a", ...labels }, 2]);
  const stored = driver.object("web/b");
  assert.deepEqual([stored.type, stored.data, stored.metadata.labels], ["Opaque", { key: "dmFsdWU=" }, labels]);
});

test("what is given whole is written only if it differs", async () => {
  const driver = await start(OWNS);
  driver.add(site({ whole: [secret("b", { key: "value" })] }));
  await driver.reconcile("web/shop");
  assert.equal((await doneWith(driver)).written, 0);
  const stored = structuredClone(driver.object("web/b"));
  Object.assign(stored.metadata.labels, { theirs: "1" });
  driver.add({ ...stored, data: { ...stored.data, theirs: "eA==" } });
  assert.equal((await doneWith(driver)).written, 1);
  const { data, metadata } = driver.object("web/b");
  assert.deepEqual([data, metadata.labels.theirs], [{ key: "dmFsdWU=" }, "1"]);
  assert.equal((await doneWith(driver)).written, 0);
});

test("children that are no longer wanted are deleted", async () => {
  const driver = await start(OWNS);
  driver.add(site([deployment("a"), deployment("b"), secret("c")]));
  await driver.reconcile("web/shop");
  driver.add(secret("other"));
  driver.add(site([deployment("a")]));
  const behind = await doneWith(driver, { cacheIsBehind: true });
  assert.deepEqual([behind.pruned, typeof behind.pruneSkipped], [0, "string"]);
  assert.deepEqual(await doneWith(driver), { written: 1, pruned: 2, refused: [] });
  const exist = ["web/a", "web/b", "web/c", "other"].map((key) => driver.object(key) !== undefined);
  assert.deepEqual(exist, [true, false, false, true]);
  driver.add(site([]));
  assert.deepEqual(await doneWith(driver), { written: 0, pruned: 1, refused: [] });
});

test("objects of others are refused as children", async () => {
  const driver = await start(OWNS);
  const theirs = (uid, controller) => ({ namespace: "web", ownerReferences: [{ uid, controller }] });
  driver.add(deployment("unowned", { namespace: "web" }));
  driver.add(deployment("plain", theirs("u1", false)));
  driver.add(deployment("other", theirs("u2", true)));
  driver.add(site(["unowned", "plain", "other"].map((name) => deployment(name))));
  const refused = ["unowned", "plain", "other"].map((name) => `Deployment web/${name}`);
  assert.deepEqual(await doneWith(driver), { written: 0, pruned: 0, refused });
  assert.deepEqual(driver.writes, []);
});

test("children do not count as writes of the call", async () => {
  const driver = await start(OWNS);
  driver.add(site(Array.from({ length: 150 }, (_, number) => secret(`s${number}`))));
  assert.equal((await doneWith(driver)).written, 150);
  driver.add(site(Array.from({ length: 1_001 }, (_, number) => secret(`s${number}`))));
  const message = /KubeError: an object may have 1000 children, and these are 1001$/;
  await assert.rejects(driver.reconcile("web/shop"), { kind: "permanent", message });
});

test("mistakes in children are refused", async () => {
  const driver = await start(OWNS);
  const controller = { ownerReferences: [{ uid: "u2", controller: true }] };
  for (const [given, message] of [
    [site({}), "kube.children: {} has no list of objects; for no children, pass []"],
    [site({ field: [] }), "kube.children has no option field; it has fields and whole"],
    [site({ whole: secret("a") }), "which is not a list of objects"],
    [site([null]), "kube.children: fields contains null, which is not an object"],
    [site([{ apiVersion: "v1", kind: "Secret", metadata: {} }]), "a child needs apiVersion, kind and metadata.name"],
    [site([pod("a")]), "Pod a: v1 Pod is not in `reconciler.owns` of the manifest: name it there"],
    [site([deployment("a", { namespace: "api" })]), "an owner in the namespace web can only own objects there"],
    [site([secret("a"), secret("a")]), "Secret web/a is twice among the children"],
    [site({ whole: [deployment("a")] }), "Deployment web/a: only ConfigMap, Secret, Role,"],
    [site([deployment("a", controller)]), "Deployment web/a: metadata.ownerReferences has a controller"],
    [site([], { again: true }), "the call has set its children already: set all of them at once"],
  ]) {
    driver.add(given);
    await assert.rejects(driver.reconcile("web/shop"), (error) => {
      assert.ok(error.message.includes(message), error.message);
      return true;
    });
  }
  await assert.rejects(driver.reconcile("web/gone"), {
    kind: "retryable",
    message: /web\/gone is gone; the API server/,
  });
  await assert.rejects(driver.synced("sites"), { message: /\{"id":0\} is not the request that reconcile receives/ });
});

const FINALIZED = `
import { RetryAfter, kube, log } from "informant";
export const manifest = { reconciler: { for: { apiVersion: "v1", kind: "Pod" PAYLOAD } } };
const cleanups = {
  done: () => log.info("cleanup"),
  awaited: async () => { await null; log.info("cleanup"); },
  fails: () => { throw new Error("fails"); },
  rejects: async () => { throw new RetryAfter(5_000, "later"); },
  no: () => false,
  requeues: async () => ({ requeueAfter: 5_000 }),
};
export const reconcile = async (pod, request) => {
  const proceeds = kube.finalize(request, pod, cleanups[pod?.spec?.cleanup ?? "done"]);
  log.info(\`\${request} \${await proceeds}\`);
};
`;

const deleted = (cleanup, finalizers) => ({
  ...pod("a", { spec: { cleanup } }),
  metadata: { namespace: "web", name: "a", finalizers, deletionTimestamp: "2026-01-01T00:00:00Z" },
});

test("nothing happens before the finalizer is there", async () => {
  const driver = await start(FINALIZED.replace("PAYLOAD", ""), { name: "sites" });
  const finalizers = ["example.com/theirs", "informant.dev/sites"];
  driver.add({ ...pod("a", { spec: {} }), metadata: { ...pod("a").metadata, finalizers: finalizers.slice(0, 1) } });
  await driver.reconcile("web/a");
  const [{ kind, document }] = driver.writes;
  assert.deepEqual([kind, document], ["merge", { metadata: { resourceVersion: "1", finalizers } }]);
  await driver.reconcile("web/a");
  assert.deepEqual(driver.messages, ["info: web/a false", "info: web/a true"]);
  assert.equal(driver.writes.length, 1);
  assert.deepEqual(driver.object("web/a").metadata.finalizers, finalizers);
});

test("a cleanup that succeeds removes the finalizer", async () => {
  for (const cleanup of ["done", "awaited"]) {
    const driver = await start(FINALIZED.replace("PAYLOAD", ""));
    driver.add(deleted(cleanup, ["informant.dev/test", "example.com/theirs"]));
    await driver.reconcile("web/a");
    assert.deepEqual(driver.object("web/a").metadata.finalizers, ["example.com/theirs"]);
    await driver.reconcile("web/a");
    await driver.reconcile("web/gone");
    assert.deepEqual(driver.messages, [
      "info: cleanup",
      ...["a", "a", "gone"].map((name) => `info: web/${name} false`),
    ]);
    assert.equal(driver.writes.length, 1);
  }
});

test("a cleanup that fails keeps the finalizer", async () => {
  const driver = await start(FINALIZED.replace("PAYLOAD", ""));
  for (const [cleanup, expected] of Object.entries({
    fails: { kind: "retryable", message: /Error: fails/ },
    rejects: { kind: "retry-after", afterMs: 5_000 },
    no: { message: /cleanup returned false; if it is not done yet, throw new RetryAfter/ },
    requeues: { message: /cleanup returned \{"requeueAfter":5000\}; if it is not done yet/ },
  })) {
    driver.add(deleted(cleanup, ["informant.dev/test"]));
    await assert.rejects(driver.reconcile("web/a"), expected);
    assert.deepEqual([driver.writes, driver.object("web/a").metadata.finalizers.length], [[], 1]);
  }
});

test("a finalizer of an object that lacks others' is refused", async () => {
  for (const [payload, message] of [
    [', payload: "none"', "reconcile receives objects without /metadata/finalizers: add it to the fields in"],
    [
      ', payload: { fields: ["/metadata/finalizers"] }',
      "reconcile receives objects without /metadata/deletionTimestamp",
    ],
  ]) {
    const driver = await start(FINALIZED.replace("PAYLOAD", payload));
    driver.add(pod("a", { spec: {} }));
    await assert.rejects(driver.reconcile("web/a"), (error) => error.message.includes(message));
  }
  const payload = ', payload: { fields: ["/metadata/*", "/spec"] }, when: ["generation"]';
  const driver = await start(FINALIZED.replace("PAYLOAD", payload));
  driver.add(pod("a", { spec: {} }));
  await driver.reconcile("web/a");
  assert.equal(driver.writes.length, 1);
});

const WITH_STATUS = `
import { kube } from "informant";
export const manifest = { reconciler: { for: { apiVersion: "v1", kind: "Pod" PAYLOAD } } };
export const reconcile = (pod, request) => kube.setStatus(request, pod, JSON.parse(pod.spec.status));
`;

/** A driver of a script that sets a status, and a function that has it set one. */
const startStatus = async (payload = "") => {
  const driver = await start(WITH_STATUS.replace("PAYLOAD", payload));
  const setStatus = async (status, { generation } = {}) => {
    const present = driver.object("web/a") ?? pod("a");
    const metadata = { ...present.metadata, ...(generation && { generation }) };
    driver.add({ ...present, metadata, spec: { status: JSON.stringify(status) } });
    driver.clear();
    await driver.reconcile("web/a");
    return driver.writes.map(({ document }) => document.status);
  };
  return { driver, setStatus };
};

test("a status is written if it differs", async () => {
  const { driver, setStatus } = await startStatus();
  assert.deepEqual(await setStatus({ phase: "Ready", ports: [{ port: 80 }], empty: {} }), [
    { phase: "Ready", ports: [{ port: 80 }], empty: {} },
  ]);
  const [{ resource, kind, document }] = driver.writes;
  assert.deepEqual([resource, kind, document.metadata], ["v1/pods/status", "merge", { resourceVersion: "1" }]);
  assert.deepEqual(await setStatus({ ports: [{ port: 80 }], none: null, other: {} }), []);
  assert.deepEqual(await setStatus({ ports: [{ port: 81 }] }), [{ ports: [{ port: 81 }] }]);
  assert.deepEqual(await setStatus({ phase: null }), [{ phase: null }]);
  assert.deepEqual(driver.object("web/a").status, { ports: [{ port: 81 }], empty: {} });
  assert.deepEqual(await setStatus({}, { generation: 3 }), [{ observedGeneration: 3 }]);
});

test("conditions are merged by their type", async () => {
  const { driver, setStatus } = await startStatus();
  const theirs = { type: "Theirs", status: "True", reason: "Theirs", lastTransitionTime: "2025-01-01T00:00:00Z" };
  const ours = {
    type: "Ready",
    status: "False",
    reason: "Waits",
    message: "",
    lastTransitionTime: "2025-01-01T00:00:00Z",
  };
  driver.add({ ...pod("a"), status: { conditions: [ours, theirs] } });
  const { lastTransitionTime, ...given } = ours;
  assert.deepEqual(await setStatus({ conditions: [given] }), []);
  const changed = { ...given, reason: "Starts" };
  assert.deepEqual(await setStatus({ conditions: [changed] }, { generation: 2 }), [
    { observedGeneration: 2, conditions: [{ observedGeneration: 2, ...changed, lastTransitionTime }, theirs] },
  ]);
  const [{ conditions }] = await setStatus({
    conditions: [
      { ...given, status: "True" },
      { ...given, type: "Synced" },
    ],
  });
  assert.deepEqual(
    conditions.map(({ type }) => type),
    ["Ready", "Theirs", "Synced"],
  );
  assert.match(conditions[0].lastTransitionTime, /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  assert.notEqual(conditions[0].lastTransitionTime, lastTransitionTime);
  assert.deepEqual(await setStatus({ conditions: [{ ...given, status: "True" }] }), []);
});

test("a status of an outdated object is a conflict", async () => {
  const driver = await start(`
    import { kube } from "informant";
    export const manifest = { reconciler: { for: { apiVersion: "v1", kind: "Pod" } } };
    export const reconcile = (pod, request) => {
      kube.setStatus(request, pod, { phase: "Ready" });
      kube.patch(request, { metadata: { labels: { a: "b" } } });
    };`);
  driver.add(pod("a"));
  await assert.rejects(driver.reconcile("web/a"), { kind: "retryable", message: /the object has been modified/ });
});

test("mistakes in a status are refused", async () => {
  const refused = async (status, message, payload) => {
    const { setStatus } = await startStatus(payload);
    await assert.rejects(setStatus(status), (error) => {
      assert.ok(error.message.includes(message), error.message);
      return true;
    });
  };
  await refused("Ready", 'kube.setStatus: the status is "Ready", which is not an object');
  await refused({ conditions: {} }, "the conditions are {}, which is not a list");
  await refused({ conditions: [{ type: "Ready", status: true, reason: "A" }] }, "all text, but the status is true");
  await refused({ conditions: [{ type: "Ready", status: "True" }] }, "all text, but the reason is undefined");
  const yes = { type: "Ready", status: "Yes", reason: "A" };
  await refused({ conditions: [yes] }, 'the condition Ready is "Yes"; it must be True, False, Unknown');
  const without = "reconcile receives objects without /status: add it to the fields in reconciler.for.payload";
  await refused({}, without, ', payload: { fields: ["/spec", "/status/phase"] }');
  const driver = await start(`
    import { kube } from "informant";
    export const manifest = { reconciler: { for: { apiVersion: "v1", kind: "Pod" } } };
    const given = { a: () => undefined, b: (pod) => ({ ...pod, metadata: { ...pod.metadata, uid: "other" } }) };
    export const reconcile = (pod, request) => kube.setStatus(request, given[request.name](pod), {});`);
  for (const name of ["a", "b"]) driver.add(pod(name));
  await assert.rejects(driver.reconcile("web/a"), { message: /undefined is not an object; if it is gone, there is/ });
  await assert.rejects(driver.reconcile("web/b"), { message: /the object is not web\/b, which the request is about/ });
});

test("conditions and owners are made for children", async () => {
  const driver = await start(`
    import { kube, log } from "informant";
    export const onAdd = (pod, event) => {
      log.info("", { a: kube.ownerReference(pod), b: kube.ownerReference(event, { controller: false }) });
      for (const done of [{ refused: [] }, { refused: pod.spec.refused, pruneSkipped: "v1 Secret: not live" }])
        log.info("", Object.fromEntries(kube.conditionsOf(done).map(({ type, ...rest }) => [type, rest])));
    };
    export const onUpdate = ({ metadata, ...pod }) => kube.ownerReference({ ...pod, metadata: { name: metadata.name } });`);
  const names = Array.from({ length: 22 }, (_, number) => `Secret web/s${number}`);
  await driver.put(pod("a", { spec: { refused: names } }, { uid: "u1" }));
  const owner = { apiVersion: "v1", kind: "Pod", name: "a", uid: "u1", blockOwnerDeletion: true };
  const [owners, none, some] = driver.logs.map(({ fields }) => fields);
  assert.deepEqual(owners, { a: { ...owner, controller: true }, b: { ...owner, controller: false } });
  assert.deepEqual(none, {
    ChildrenRefused: { status: "False", reason: "NoneRefused", message: "" },
    PruneSkipped: { status: "False", reason: "NoneSkipped", message: "" },
  });
  const message = `${names.slice(0, 20).join(", ")} and 2 more`;
  assert.deepEqual(some, {
    ChildrenRefused: { status: "True", reason: "OwnedByOthers", message },
    PruneSkipped: { status: "True", reason: "CacheIncomplete", message: "v1 Secret: not live" },
  });
  await assert.rejects(driver.put(pod("a", {}, { uid: "u1" })), {
    message: /the owner has no uid: pass the whole object/,
  });
});

const TIMED = `
import { Permanent, RetryAfter, log, recorder, store } from "informant";
export const manifest = {
  timers: [
    { name: "report", cron: "0 8 * * 1-5", zone: "Europe/Berlin", missed: "skip" },
    { name: "sweep", every: "5m", zone: "UTC", missed: "once", atStart: false },
  ],
};
export const onTimer = async ({ name, scheduled, missed, attempt }) => {
  await null;
  log.info(\`\${name} \${scheduled} \${missed} \${attempt} \${store.list("pods").length}\`);
  for (const pod of store.list("pods")) recorder.event(pod, { reason: "Reported" });
  if (attempt === 1) throw new RetryAfter(5_000, "later");
  if (attempt === 2) throw new Permanent("never");
  if (attempt === 3) return { requeueAfter: 1_000 };
};
`;

test("a timer runs by its name", async () => {
  const driver = await start(TIMED);
  assert.deepEqual(driver.manifest.roles, ["timer-handler"]);
  assert.deepEqual(driver.manifest.timers[1], { name: "sweep", every: "5m" });
  await driver.put(pod("a"));
  const scheduled = new Date("2026-01-01T08:00:00+01:00");
  await driver.tick("report", { scheduled, missed: 2 });
  await driver.tick("sweep", { scheduled: "2026-01-01T07:05:00Z" });
  assert.deepEqual(driver.messages, [
    "info: report 2026-01-01T07:00:00Z 2 0 1",
    "info: sweep 2026-01-01T07:05:00Z 0 0 1",
  ]);
  assert.deepEqual(driver.calls[0], { call: "on-timer", timer: "report", missed: 2, attempt: 0, result: "ok" });
  assert.deepEqual(
    driver.events.map(({ regarding }) => regarding),
    ["Pod web/a", "Pod web/a"],
  );
  driver.clear();
  assert.deepEqual(driver.events, []);
  await driver.tick("sweep");
  assert.match(driver.messages[0], /^info: sweep \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ 0 0 1$/);
  await assert.rejects(driver.tick("reports"), { message: 'the plugin has no timer "reports"; it has report, sweep' });
  await assert.rejects((await start(WRITES)).tick("a"), { message: /^the plugin has no timers/ });
});

test("a timer fails as handlers of events do", async () => {
  const driver = await start(TIMED);
  driver.addSource("pods", "v1", "Pod");
  driver.add(pod("a"));
  await assert.rejects(driver.tick("report", { attempt: 1 }), { kind: "retry-after", afterMs: 5_000 });
  await assert.rejects(driver.tick("report", { attempt: 2 }), { kind: "permanent" });
  const hint = "onTimer returned { requeueAfter }, but it is about no object: to try again before the next run, throw";
  await assert.rejects(driver.tick("report", { attempt: 3 }), ({ message }) => message.includes(hint));
  assert.deepEqual(
    driver.calls.map(({ result, requeueAfter }) => [result, requeueAfter]),
    [
      ["retry", 5_000],
      ["permanent", undefined],
      ["retry", undefined],
    ],
  );
  assert.deepEqual(driver.events, []);
});

test("a timer is about no cluster", async () => {
  const driver = await start(`
    import { recorder, store } from "informant";
    export const manifest = { timers: [{ name: "a", every: "1h" }] };
    export const onAdd = () => {};
    export const onTimer = ({ missed }) => {
      if (missed > 0) store.list("pods");
      for (const source of store.sources("pods")) {
        const { apiVersion, kind, cluster } = source;
        for (const { metadata: { namespace, name, uid } } of store.list(source))
          recorder.event({ cluster, apiVersion, kind, namespace, name, uid }, { reason: "Seen" });
      }
    };`);
  for (const cluster of ["east", "west"]) {
    driver.addSource("pods", "v1", "Pod", { cluster });
    await driver.put(pod("a"), { cluster });
  }
  await driver.tick("a");
  assert.deepEqual(
    driver.events.map(({ cluster }) => cluster),
    ["east", "west"],
  );
  await assert.rejects(driver.tick("a", { missed: 1 }), { message: /reads several clusters \(east, west\)/ });
});

test("timers and onTimer need each other", async () => {
  const refused = (text, expected) => assert.rejects(start(text), (error) => error.message.includes(expected));
  await refused("export const onTimer = () => {};", "exports onTimer, but the manifest does not say when to call it");
  const timers = (text) => `export const manifest = { timers: ${text} };\nexport const onAdd = () => {};`;
  await refused(timers('[{ name: "a", every: "1h" }]'), "exports a manifest with `timers`, but no function `onTimer`");
  await refused(timers("{}"), "exports a manifest whose `timers` are not a list: {}");
  await refused(TIMED.replace("cron:", "corn:"), "unknown member manifest.timers[0].corn; did you mean cron?");
  await refused(TIMED.replace("onTimer", "onTick"), "exports onTick, which this Informant does not call");
  const driver = await start(`${timers("[]")}\nexport const onTimer = () => {};`);
  assert.deepEqual([driver.manifest.roles, driver.manifest.timers], [["event-handler"], undefined]);
});

const RECORDS = `
import { recorder, store } from "informant";
export const onAdd = (pod, event) => {
  const more = { type: "Warning", reason: "Crashing", note: \`again: \${event}\` };
  if (event.name === "object") recorder.event(pod, { ...more, related: { apiVersion: "v1", kind: "Node", name: "n1" } });
  if (event.name === "event") recorder.event(event, { reason: "Seen", action: "Looking" });
  if (event.name === "long") recorder.event(event, { reason: "Long", note: "€".repeat(400) });
  if (event.name === "many") for (let count = 0; count <= 100; count++) recorder.event(pod, more);
  if (event.name === "fails") {
    recorder.event(pod, more);
    throw new Error("fails");
  }
  if (event.name.startsWith("wrong")) wrong[event.name.slice(5)](pod, more);
};
const wrong = [
  (pod) => recorder.event(pod, "Crashing"),
  (pod) => recorder.event(pod, { note: "again" }),
  (pod, more) => recorder.event(pod, { ...more, type: "Error" }),
  (pod, more) => recorder.event(pod, { ...more, message: "again" }),
  (pod, more) => recorder.event(pod, { ...more, reason: "is crashing" }),
  (pod, more) => recorder.event(pod, { ...more, action: "A".repeat(129) }),
  (pod, more) => recorder.event(undefined, more),
  (pod, more) => recorder.event(pod.metadata, more),
  ({ apiVersion, kind, spec }, more) => recorder.event({ apiVersion, kind, spec }, more),
  ({ apiVersion, kind, metadata: { name } }, more) => recorder.event({ apiVersion, kind, metadata: { name } }, more),
  ({ apiVersion, kind }, more) => recorder.event({ apiVersion, kind, name: "a", namspace: "b" }, more),
];
`;

test("Events are recorded when the call succeeds", async () => {
  const driver = await start(RECORDS);
  driver.addSource("pods", "v1", "Pod", { cluster: "east" });
  await driver.put(pod("object"));
  await driver.put(pod("event"));
  const [regarding, related] = ["Pod web/object", "Node n1"];
  const crashing = { type: "Warning", reason: "Crashing", action: "Crashing", note: "again: web/object" };
  const seen = { type: "Normal", reason: "Seen", action: "Looking", note: "", regarding: "Pod web/event" };
  assert.deepEqual(driver.events, [
    { ...crashing, regarding, related, cluster: "east" },
    { ...seen, cluster: "east" },
  ]);
  await driver.put(pod("long"));
  assert.equal(driver.events.pop().note, "€".repeat(341));
  await assert.rejects(driver.put(pod("fails")), { message: /fails/ });
  await assert.rejects(driver.put(pod("many")), { message: /HostError: a call can record at most 100 Events$/ });
  assert.equal(driver.events.length, 2);
  driver.refuseRecorder({ code: "denied", message: "not granted (allow.events)" });
  const denied = { kind: "permanent", message: /HostError: not granted \(allow\.events\)/ };
  await assert.rejects(driver.put(pod("event", {}, { uid: "other" })), denied);
});

test("an Event that cannot be found is refused", async () => {
  const driver = await start(RECORDS);
  for (const [number, message] of [
    'recorder.event(object, { reason, note }): the second argument is "Crashing"',
    'the reason is undefined; write it in CamelCase: { reason: "CrashLoop" }',
    'the type is "Error"; it must be Normal or Warning',
    "recorder.event has no option message; it has type, reason, action, note, related",
    'HostError: the reason "is crashing" is not CamelCase',
    "HostError: the action has 129 bytes, and may have 128",
    "undefined is no object: pass one, the event, or { apiVersion, kind, namespace, name, uid }",
    "the object has no apiVersion",
    "the object has no name: pass the event instead, or add",
    'the Pod "wrong9" has no namespace: pass the event instead, or add',
    "a reference has no member namspace; it has cluster, apiVersion,",
  ].entries())
    await assert.rejects(driver.put(pod(`wrong${number}`)), (error) => {
      assert.ok(error.message.includes(message), error.message);
      return true;
    });
});

test("an Event gets the uid of the call's object", async () => {
  const sent = [];
  const source = { cluster: "east", apiVersion: "v1", kind: "Pod", namespaced: true };
  const calls = {
    kube: {},
    kv: {},
    metrics: {},
    http: {},
    recorder: { event: ([, , , , name, uid]) => sent.push([name, uid]) },
  };
  const number = 1_000_000;
  globalThis[Symbol.for("informant.realms")].set(number, {
    native: { ...calls, store: { source: () => source }, reasons: [], log: () => {} },
  });
  const [{ beginEvent, beginTick }, { recorder }] = await Promise.all(
    ["store", "recorder"].map((name) => import(`../prelude/${name}.js?informant=${number}`)),
  );
  const record = (name, more) =>
    recorder.event({ apiVersion: "v1", kind: "Pod", namespace: "web", name, ...more }, { reason: "Seen" });
  beginEvent(0, "web", "a", "u1", "7", 0, 0);
  for (const more of [{}, { uid: "u2" }, { namespace: "api" }, { cluster: "west" }, { kind: "Secret" }])
    record("a", more);
  record("b");
  beginTick("sweep", "2026-01-01T00:00:00Z", 0, 0);
  record("a");
  const uids = ["u1", "u2", "", "", ""].map((uid) => ["a", uid]);
  assert.deepEqual(sent, [...uids, ["b", ""], ["a", ""]]);
});
