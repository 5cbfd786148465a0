// What a scenario file has: see docs/reference/scenarios.md. Checked before anything runs.
import { dirname, resolve } from "node:path";

import { isMapping, resourceOf } from "../cluster.js";
import { isPointer } from "../projection.js";
import { Node } from "./yaml.js";

const MEMBERS = ["config", "http", "kv", "name", "objects", "path", "plugin", "steps"];
const ACTIONS = ["apply", "delete", "http", "patch", "requeue", "swap", "timer", "trigger", "wait"];
const ANSWER = ["after", "body", "error", "headers", "method", "status", "times", "url"];
const EXPECT = [
  "absent",
  "calls",
  "deadLetters",
  "events",
  "http",
  "indexes",
  "kv",
  "log",
  "metrics",
  "objects",
  "refused",
  "writes",
];

/** What is in a list of an `expect`, with the members of an entry, and what a text is short for. */
export const STREAMS = {
  calls: {
    members: ["attempt", "call", "error", "missed", "object", "reason", "requeueAfter", "result", "timer"],
    short(text) {
      const [call, ...rest] = text.split(" ");
      const about = call === "on-timer" ? "timer" : "object";
      return { call, ...(rest.length > 0 && { [about]: rest.join(" ") }), result: "ok" };
    },
  },
  log: { members: ["fields", "level", "message"], short: (message) => ({ message }) },
  writes: { members: ["document", "kind", "object", "result", "subresource", "verb"] },
  events: { members: ["action", "note", "reason", "regarding", "related", "type"] },
  http: { members: ["body", "error", "headers", "method", "status", "url"] },
  deadLetters: { members: ["error", "object"], short: (object) => ({ object }) },
};

const CHOICES = {
  call: ["on-add", "on-update", "on-delete", "on-timer", "on-synced", "save", "restore"],
  verb: ["create", "update", "patch", "delete"],
  level: ["info", "warn", "error"],
  kind: ["merge", "json", "strategic", "apply"],
  type: ["Normal", "Warning"],
};

/** Sections of the process, which have no effect. */
const IGNORED = ["admin", "cache", "cluster", "health", "http", "state"];
const INFORMER = ["index", "resource"];
const PLUGIN = ["allow", "component", "config", "informers", "script"];

/** Reads and checks a file. `override` replaces its `path`. */
export async function readScenario(file, override) {
  const root = await Node.read(file);
  if (root.has("time")) root.at("time").needsInformant();
  root.members(MEMBERS);
  const folder = dirname(file);
  const { plugin, informers } = configOf(root);
  const path = root.has("path") ? root.at("path").text() : (plugin.path ?? undefined);
  if (!root.has("steps")) root.fail("the scenario has no `steps`: write what happens");
  const own = path === undefined ? undefined : resolve(folder, path);
  const steps = await Promise.all(members(root, "steps", (node) => node.list()).map((step) => stepOf(step, folder)));
  for (const step of steps) {
    // A swap by the same plugin.
    if (step.action === "swap" && step.value === own) step.value = override ?? own;
  }
  const kv = members(root, "kv", (node) => node.members());
  return {
    path: override ?? own ?? root.fail("name the script: path: handler.js"),
    plugin,
    informers,
    objects: root.has("objects") ? await objectsOf(root.at("objects")) : [],
    kv: Object.fromEntries(kv.map(([key, { value }]) => [key, value])),
    answers: members(root, "http", answersOf),
    steps,
    root,
  };
}

/** What `read` finds in a member; nothing if it is absent. */
const members = (node, name, read) => (node.has(name) ? read(node.at(name)) : []);

/** The plugin's section and the informers of `config`. */
function configOf(root) {
  const nothing = { name: "test", config: {}, allow: {}, path: undefined, informers: undefined };
  if (!root.has("config")) return { plugin: nothing, informers: [] };
  const config = root.at("config");
  if (typeof config.value === "string")
    config.needsInformant("a config.toml (Node has no reader of TOML)", ", or write its sections here as YAML");
  for (const [name, section] of config.members()) {
    if (!["informer", "plugin", ...IGNORED].includes(name)) section.needsInformant();
  }
  const informers = members(config, "informer", (node) => node.members()).map(informerOf);
  const sections = members(config, "plugin", (node) => node.members());
  const wanted = root.has("plugin") ? root.at("plugin").text() : undefined;
  const [name, section] = sections.find(([name]) => name === (wanted ?? name)) ?? [];
  if (wanted !== undefined && name === undefined) root.at("plugin").fail(`config has no section plugin.${wanted}`);
  if (wanted === undefined && sections.length > 1)
    config.at("plugin").fail("there are several plugins: name one in the member `plugin`");
  if (section === undefined) return { plugin: nothing, informers };
  for (const [member, node] of section.members()) {
    if (!PLUGIN.includes(member)) node.needsInformant();
  }
  const { allow = {}, config: settings = {}, informers: names, script, component } = section.value;
  return { plugin: { name, allow, config: settings, path: script ?? component, informers: names }, informers };
}

function informerOf([name, node]) {
  for (const [member, value] of node.members()) {
    if (!INFORMER.includes(member)) value.needsInformant();
  }
  const resource = node.at("resource");
  if (resource.text().includes("*")) resource.needsInformant("informers of several resources");
  const indexes = members(node, "index", (index) => index.members()).map(([index, pointer]) => {
    if (!isPointer(pointer.value))
      pointer.fail(`${JSON.stringify(pointer.value)} is not a JSON pointer: write it as /spec/nodeName`);
    return [index, pointer.value];
  });
  return { name, resource: resource.value, indexes, node: resource };
}

async function stepOf(node, folder) {
  if (node.has("replay")) node.at("replay").needsInformant();
  node.members([...ACTIONS, "expect"]);
  const [action, second] = ACTIONS.filter((name) => node.has(name));
  if (second !== undefined)
    node.fail(`a step has two actions, ${action} and ${second}: make a step of its own for ${second}`);
  const value = action === undefined ? undefined : await actionOf(action, node.at(action), folder);
  return { node, action, value, expect: node.has("expect") ? expectOf(node.at("expect")) : undefined };
}

async function actionOf(name, node, folder) {
  switch (name) {
    case "apply":
      return objectsOf(node);
    case "patch":
      return objectOf(node.value, node);
    case "wait":
      return node.duration();
    case "http":
      return answersOf(node);
    case "timer":
      return node.text();
    case "swap":
      return resolve(folder, node.text());
    default:
      return name === "requeue" && node.value === "all" ? undefined : referenceOf(node);
  }
}

/** One object, a list of objects, or a text with documents. */
async function objectsOf(node) {
  const given = typeof node.value === "string" ? await node.documents() : [node.value].flat();
  return given.map((object) => objectOf(object, node));
}

/** A namespace that an object leaves out is `default`, unless the kind has none. */
function objectOf(object, node) {
  const { apiVersion, kind, metadata } = object ?? {};
  for (const [member, value] of Object.entries({ apiVersion, kind, "metadata.name": metadata?.name })) {
    if (typeof value !== "string" || value === "") node.fail(`an object lacks ${member}`);
  }
  const namespace = metadata.namespace ?? (isClusterScoped(object) ? undefined : "default");
  return { ...object, metadata: { ...metadata, ...(namespace === undefined ? {} : { namespace }) } };
}

const CLUSTER_SCOPED = [
  "ClusterRole",
  "ClusterRoleBinding",
  "CustomResourceDefinition",
  "IngressClass",
  "Namespace",
  "Node",
  "PersistentVolume",
  "PriorityClass",
  "RuntimeClass",
  "StorageClass",
];

const isClusterScoped = ({ kind }) => CLUSTER_SCOPED.includes(kind);

/** `v1/pods shop/web-0`. */
function referenceOf(node) {
  const [, resource, , namespace = "", name] =
    /^([^ /]+(\/[^ /]+){1,2}) (?:([^ /]+)\/)?([^ /]+)$/.exec(node.text()) ?? [];
  if (name === undefined)
    node.fail(`"${node.value}" is not a reference: write RESOURCE NAMESPACE/NAME, as in v1/pods shop/web-0`);
  return { text: node.value, resource, namespace, name, node };
}

function answersOf(node) {
  return node.list().map((answer) => {
    for (const [name, member] of answer.members(ANSWER)) {
      if (name === "after") member.needsInformant();
    }
    if (!answer.has("url")) answer.fail("an answer has no `url`; `*` stands for any text");
    const { error } = answer.value;
    const errors = ["connect", "dns", "timeout"];
    if (error !== undefined && !errors.includes(error))
      answer.at("error").fail(`there is no error ${error}; there are ${errors.join(", ")}`);
    return { ...answer.value, ...(answer.has("method") && { method: answer.at("method").text().toUpperCase() }) };
  });
}

function expectOf(node) {
  node.members(EXPECT);
  for (const stream of Object.keys(STREAMS).filter((name) => node.has(name)))
    entriesOf(node.at(stream), STREAMS[stream]);
  const references = node.has("absent") ? node.at("absent").list().map(referenceOf) : [];
  const objects = node.has("objects")
    ? node
        .at("objects")
        .list()
        .map((entry) => ({ entry, object: objectOf(entry.value, entry) }))
    : [];
  return { node, references, objects };
}

/** The expected entries of a stream. */
export function entriesOf(node, { members, short }) {
  const isPart = isMapping(node.value);
  if (isPart) node.members(["includes"]);
  const entries = (isPart ? node.at("includes") : node).list().map((entry) => {
    if (typeof entry.value === "string" && short !== undefined) return { entry, value: short(entry.value) };
    for (const [name, member] of entry.members(members)) {
      const choices = CHOICES[name];
      if (choices !== undefined && !choices.includes(member.value))
        member.fail(`"${member.value}" is none of ${choices.join(", ")}`);
      if (["regarding", "related"].includes(name) && !/^(\S+ \S+)?$/.test(member.value ?? ""))
        member.fail(
          `${JSON.stringify(member.value)} is not an object: write KIND NAMESPACE/NAME, as in Pod shop/web-0`,
        );
      if (name === "requeueAfter" && member.value !== null) member.duration();
    }
    return { entry, value: entry.value };
  });
  return { isPart, entries };
}

export const referenceText = ({ apiVersion, kind, metadata: { namespace, name } }) =>
  `${resourceOf(apiVersion, kind)} ${namespace === undefined ? name : `${namespace}/${name}`}`;
