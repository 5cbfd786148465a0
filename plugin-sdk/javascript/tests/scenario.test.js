import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { runScenario, scenario } from "informant-plugin/testing";

import { durationOf } from "../testing/scenario/yaml.js";

const shared = new URL("../../scenarios/", import.meta.url);
const scribe = new URL("scribe.js", import.meta.url);

for (const file of readdirSync(shared).filter((name) => name.endsWith(".scenario.yaml")))
  scenario(new URL(file, shared), { path: scribe });

const folder = mkdtempSync(join(tmpdir(), "informant-"));
after(() => rmSync(folder, { recursive: true }));

/** The message of the error of a scenario, without the folder. */
const errorOf = async (text) => {
  const file = join(folder, "a.scenario.yaml");
  writeFileSync(file, text);
  const error = await assert
    .rejects(runScenario(file, { path: scribe }))
    .then(() => runScenario(file, { path: scribe }).catch((error) => error));
  return error.message.replaceAll(`${folder}/`, "");
};

const POD = "{ apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, annotations: { do: never } } }";

test("what differs is listed with lines", async () => {
  const text = `steps:
  - apply: ${POD}
    expect:
      calls: [on-synced, { call: on-add, result: ok }]
      log: []
      absent: [v1/pods web/a]
      kv: { last: a }
`;
  assert.equal(
    await errorOf(text),
    `a.scenario.yaml:4: steps[0].expect.calls[1]: result: expected "ok", found "permanent"
a.scenario.yaml:5: steps[0].expect.log: one too many: {"level":"info","message":"synced with 0 pods","fields":{}}
a.scenario.yaml:5: steps[0].expect.log: one too many: {"level":"info","message":"add web/a -","fields":{"handled":1}}
a.scenario.yaml:6: steps[0].expect.absent[0]: v1/pods web/a exists
a.scenario.yaml:7: steps[0].expect.kv.last: expected "a", but the key is not set`,
  );
});

test("mistakes in a file have a line and a remedy", async () => {
  const cases = {
    "steps: [{ aply: 1 }]": "a.scenario.yaml:1: steps[0].aply: there is no such member; there are apply, delete,",
    "name: a": "a.scenario.yaml:1: the scenario has no `steps`",
    [`steps: [{ apply: ${POD}, wait: 1s }]`]: "a.scenario.yaml:1: steps[0]: a step has two actions, apply and wait",
    "steps:\n- wait: 10": "a.scenario.yaml:2: steps[0].wait: 10 is not a duration: write it as 30s or 5m",
    "steps:\n- delete: web/a":
      'a.scenario.yaml:2: steps[0].delete: "web/a" is not a reference: write RESOURCE NAMESPACE/NAME',
    "steps:\n- delete: v1/pods web/a": "a.scenario.yaml:2: steps[0].delete: v1/pods web/a does not exist",
    "steps: [{ requeue: v1/pods web/a }]": "steps[0].requeue: the plugin has no dead letter of v1/pods web/a",
    "steps: [{ requeue: all }]": "a.scenario.yaml:1: steps[0].requeue: the plugin has no dead letter",
    "steps: [{ expect: { calls: [{ call: on-change }] } }]": 'calls[0].call: "on-change" is none of on-add,',
    "steps:\n- expect: { calls: [on-add v1/nodes a] }":
      "a.scenario.yaml:2: steps[0].expect.calls[0]: no informer of the plugin watches v1/nodes",
    "steps: [{ expect: { metrics: { seen: 1 } } }]": "the manifest declares no metric seen; a counter ends in _total",
    "steps: [{ apply: { apiVersion: v1, kind: Node, metadata: { name: a } } }]":
      "no informer of the plugin watches v1/nodes, and allow.kube",
    "steps: [": "a.scenario.yaml:1: ",
  };
  for (const [text, message] of Object.entries(cases)) {
    const found = await errorOf(text);
    assert.ok(found.includes(message), `${text}: ${found}`);
  }
});

test("writes without an end are refused", async () => {
  const script = `import { kube } from "informant";
export const onAdd = (pod, event) =>
  kube.defer.patch(event, { metadata: { annotations: { version: pod.metadata.resourceVersion } } });
export const onUpdate = onAdd;`;
  writeFileSync(join(folder, "busy.js"), script);
  const file = join(folder, "busy.scenario.yaml");
  const plugin = "{ informers: [pods], allow: { kube: [{ resource: v1/pods, verbs: [patch] }] } }";
  const config = `config: { informer: { pods: { resource: v1/pods } }, plugin: { busy: ${plugin} } }`;
  writeFileSync(file, `path: busy.js\n${config}\nsteps: [{ apply: ${POD} }]`);
  await assert.rejects(runScenario(file), { message: /:1: the plugin still writes after 1000 events/ });
});

test("a call as text is one that succeeded", async () => {
  const expected = (calls) => `steps: [{ apply: ${POD}, expect: { calls: ${calls} } }]`;
  const difference = 'calls[1]: result: expected "ok", found "permanent"';
  assert.ok((await errorOf(expected("[on-synced, on-add v1/pods web/a]"))).includes(difference));
  assert.ok((await errorOf(expected("{ includes: [on-add] }"))).includes('not found: {"call":"on-add","result":"ok"}'));
});

test("a mapping that expects nothing matches what is absent", async () => {
  const object = "apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, labels: ";
  const expected = (labels) => `steps: [{ apply: ${POD}, expect: { objects: [{ ${object}${labels} } }] } }]`;
  const file = join(folder, "nothing.scenario.yaml");
  writeFileSync(file, expected("{ crashing: null, deep: { a: null } }"));
  await runScenario(file, { path: scribe });
  for (const labels of ["{}", "{ crashing: null, a: {} }", "{ crashing: null, a: b }"])
    assert.match(await errorOf(expected(labels)), /metadata\.labels: expected .*, found nothing/);
});

test("indexes of informers in the configuration are there", async () => {
  const config = "config: { informer: { pods: { resource: v1/pods, index: { OWNER } } }, plugin: { scribe: {} } }\n";
  const pods = `{ apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, ownerReferences: [{ uid: u1 }] } }`;
  const rest = `steps: [{ apply: ${pods}, expect: { indexes: { pods: { owner: { u1: [web/a] } } } } }]`;
  const file = join(folder, "index.scenario.yaml");
  writeFileSync(file, config.replace("OWNER", '"owner": /metadata/ownerReferences/*/uid') + rest);
  await runScenario(file, { path: scribe });
  const wrong = await errorOf(config.replace("OWNER", "owner: metadata.uid") + rest);
  assert.ok(wrong.includes('informer.pods.index.owner: "metadata.uid" is not a JSON pointer'), wrong);
  const absent = await errorOf(rest);
  assert.ok(absent.includes("neither the manifest nor informer.pods.index in config declares the index owner"), absent);
});

test("durations are those of config.toml", () => {
  const read = {
    0: 0,
    "500ms": 500,
    "1m 30s": 90_000,
    "1m30s": 90_000,
    "1d": 86_400_000,
    "1.5h": 5_400_000,
    " 1 0 s ": 10_000,
    "1M": 2_630_016_000,
    "2weeks 1 day": 1_296_000_000,
    "10\u00b5s": 0.01,
  };
  for (const [text, ms] of Object.entries(read)) assert.equal(durationOf(text), ms, text);
  for (const wrong of ["", "5", "1x", "s", "1.s", ".5s", "-1s", "1,5s", "1.0001h", "1.5ns", "1H", "1m, 30s", 5, null])
    assert.equal(durationOf(wrong), undefined, String(wrong));
});

test("a value of kv that is no JSON differs", async () => {
  const found = await errorOf('kv: { raw: "{" }\nsteps: [{ expect: { kv: { raw: a } } }]');
  assert.equal(found, 'a.scenario.yaml:2: steps[0].expect.kv.raw: expected "a", found "{"');
});

test("a text with broken YAML is refused as a whole", async () => {
  const text = (inner) => `steps:\n  - apply: |\n      kind: Pod\n      ${inner}\n`;
  const place = "a.scenario.yaml:2: steps[0].apply: line";
  const open = await errorOf(text("a: ["));
  assert.ok(open.startsWith(`${place} 3 of the text: `), open);
  const twice = await errorOf(text("kind: Node"));
  assert.ok(twice.startsWith(`${place} 2 of the text: `), twice);
});

test("what only Informant can do is refused", async () => {
  const informant = "run the scenario with `informant plugin test`";
  for (const text of [
    "config: config.toml\nsteps: []",
    "config: { plugin: { scribe: { limits: { cpu: 1s } } } }\nsteps: []",
    "http: [{ url: x, after: 1s }]\nsteps: []",
    "steps: [{ replay: call.json }]",
    "time: 2026-11-28T11:21:16Z\nsteps: []",
  ]) {
    const found = await errorOf(text);
    assert.ok(found.includes(informant), `${text}: ${found}`);
  }
});

test("a plugin that is refused fails the scenario, unless it is expected", async () => {
  const broken = join(folder, "broken.js");
  writeFileSync(broken, "export const onadd = () => {};");
  const file = join(folder, "refused.scenario.yaml");
  writeFileSync(file, 'path: broken.js\nsteps: [{ expect: { refused: "*did you mean onAdd?" } }]');
  await runScenario(file);
  writeFileSync(file, "path: broken.js\nsteps: [{ expect: { calls: [] } }]");
  await assert.rejects(runScenario(file), {
    message: /:2: steps\[0\]: the plugin was refused: broken\.js exports onadd/,
  });
});

const TIMED = `import { RetryAfter, log, recorder, store } from "informant";
export const manifest = {
  events: [{ apiVersion: "v1", kind: "Pod" }],
  timers: [{ name: "sweep", every: "5m" }, { name: "report", cron: "0 8 * * *" }],
};
export const onAdd = (pod, event) => recorder.event(event, { reason: "Seen", note: \`phase: \${pod.status?.phase}\` });
export const onTimer = ({ name, scheduled, attempt }) => {
  log.info(\`\${name} \${scheduled}\`);
  for (const pod of store.list("pods"))
    recorder.event(pod, { type: "Warning", reason: "Old", related: { apiVersion: "v1", kind: "Node", name: "n1" } });
  if (name === "report" && attempt < 2) throw attempt === 0 ? new Error("not yet") : new RetryAfter(30_000, "later");
};
`;

/** Runs steps on the script with timers. Returns what differs. */
const runTimed = async (steps, allow = "{ events: true }") => {
  const script = join(folder, "timed.js");
  writeFileSync(script, TIMED);
  const file = join(folder, "timed.scenario.yaml");
  writeFileSync(file, `path: timed.js\nconfig: { plugin: { timed: { allow: ${allow} } } }\nsteps:\n${steps}`);
  return runScenario(file).then(
    () => "",
    (error) => error.message.replaceAll(`${folder}/`, ""),
  );
};

test("a timer runs in its step, and records Events", async () => {
  const found = await runTimed(`
  - apply: ${POD}
    expect: { events: [{ type: Normal, reason: Seen, action: Seen, note: "phase: *", regarding: Pod web/a, related: null }] }
  - timer: sweep
    expect:
      calls: [on-timer sweep]
      log: ["sweep 2026-01-01T00:00:00Z"]
      events: [{ type: Warning, reason: Old, related: Node n1 }]
  - wait: 1h
    expect: { calls: [], events: [] }
`);
  assert.equal(found, "");
});

test("a retry of a timer stands for the next run", async () => {
  const failed = "call: on-timer, timer: report, result: retry";
  const found = await runTimed(`
  - apply: ${POD}
  - wait: 1m
  - expect: {}
  - timer: report
    expect: { calls: [{ ${failed}, missed: 0, attempt: 0, error: "*not yet" }], events: [], deadLetters: [] }
  - wait: 1s
    expect: { calls: [{ ${failed}, missed: 0, attempt: 1, requeueAfter: 30s }], log: ["report 2026-01-01T00:01:00Z"] }
  - timer: report
    expect: { calls: [] }
  - wait: 30s
    expect: { calls: [{ ${failed}, missed: 1, attempt: 0 }], log: ["report 2026-01-01T00:01:01Z"] }
  - wait: 1m
    expect:
      calls: [{ ${failed}, missed: 1, attempt: 1 }, { call: on-timer, missed: 1, attempt: 2, result: ok }]
      events: [{ reason: Old }]
  - timer: report
    expect: { calls: [{ ${failed}, missed: 0, attempt: 0 }] }
`);
  assert.equal(found, "");
});

test("mistakes about timers and Events have a remedy", async () => {
  const cases = {
    "- timer: swep": 'timed.scenario.yaml:4: steps[0].timer: the plugin has no timer "swep"; it has sweep, report',
    "- expect: { calls: [on-timer swep] }": 'steps[0].expect.calls[0]: the plugin has no timer "swep"; it has sweep',
    "- expect: { events: [{ type: Error }] }": '"Error" is none of Normal, Warning',
    "- expect: { events: [{ object: web/a }] }": "there is no such member; there are action, note, reason, regarding,",
    "- expect: { events: [{ regarding: web/a }] }": '"web/a" is not an object: write KIND NAMESPACE/NAME',
    "- { timer: sweep, expect: { events: [{ reason: Old }] } }": 'events[0]: missing: {"reason":"Old"}',
  };
  for (const [steps, message] of Object.entries(cases)) {
    const found = await runTimed(steps);
    assert.ok(found.includes(message), `${steps}: ${found}`);
  }
  const apply = `- { apply: ${POD}, expect: { calls: [on-add v1/pods web/a] } }`;
  const denied = 'calls[0]: result: expected "ok", found "permanent"';
  for (const allow of ["{}", "{ events: false }"]) assert.ok((await runTimed(apply, allow)).includes(denied));
  assert.ok((await errorOf("steps: [{ timer: sweep }]")).includes('the plugin has no timer "sweep"; it has none'));
});
