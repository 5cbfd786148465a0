// Kubernetes Events.
import { format, recorder as host, shown } from "informant:errors";
import { Event, currentCall } from "informant:store";

const OPTIONS = ["type", "reason", "action", "note", "related"];
const TYPES = ["Normal", "Warning"];

// The members of a reference, in the order in which the runner reads them.
const MEMBERS = ["cluster", "apiVersion", "kind", "namespace", "name", "uid"];
const REQUIRED = ["apiVersion", "kind", "name"];

const text = (value) => (value === undefined || value === null ? "" : String(value));

// The contract's reference to an event's object, to an object, or to one that is named by the members of a reference.
const referenceOf = (about) => {
  if (about instanceof Event) return MEMBERS.map((member) => about[member]);
  if (typeof about !== "object" || about === null || Array.isArray(about)) {
    throw new TypeError(`recorder.event: ${shown(about)} is no object: pass one, the event, or { apiVersion, kind, namespace, name, uid }`);
  }
  const { apiVersion, kind, metadata } = about;
  const given = metadata ? { apiVersion, kind, namespace: metadata.namespace, name: metadata.name, uid: metadata.uid } : about;
  const missing = REQUIRED.find((member) => text(given[member]) === "");
  if (missing !== undefined) {
    const hint = 'pass the event instead, or add "/metadata/name", "/metadata/namespace" and "/metadata/uid" to the fields in the manifest';
    throw new TypeError(`recorder.event: the object has no ${missing}${missing === "name" ? `: ${hint}` : ""}`);
  }
  const unknown = Object.keys(given).find((member) => !MEMBERS.includes(member));
  if (unknown !== undefined) throw new TypeError(`recorder.event: a reference has no member ${unknown}; it has ${MEMBERS.join(", ")}`);
  return completed(given);
};

// A reference with what the current call tells about it.
const completed = ({ ...reference }) => {
  const { source, object } = currentCall();
  if (source !== undefined) {
    reference.cluster ??= source.cluster;
    const isOfSource = ["cluster", "apiVersion", "kind"].every((member) => source[member] === reference[member]);
    if (isOfSource && source.namespaced && text(reference.namespace) === "") {
      throw new TypeError(`recorder.event: the ${source.kind} "${reference.name}" has no namespace: pass the event instead, or add "/metadata/namespace" to the fields in the manifest`);
    }
    // Without it, `kubectl describe` does not find the Event.
    if (isOfSource && object.name === reference.name && object.namespace === text(reference.namespace)) reference.uid ??= object.uid;
  }
  return MEMBERS.map((member) => text(reference[member]));
};

export const recorder = Object.freeze({
  event(about, options) {
    if (typeof options !== "object" || options === null || Array.isArray(options)) {
      throw new TypeError(`recorder.event(object, { reason, note }): the second argument is ${shown(options)}`);
    }
    const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name));
    if (unknown !== undefined) throw new TypeError(`recorder.event has no option ${unknown}; it has ${OPTIONS.join(", ")}`);
    const { type = "Normal", reason, action = reason, note = "", related } = options;
    if (!TYPES.includes(type)) throw new TypeError(`recorder.event: the type is ${shown(type)}; it must be ${TYPES.join(" or ")}`);
    for (const [name, value] of Object.entries({ reason, action })) {
      if (typeof value !== "string") throw new TypeError(`recorder.event: the ${name} is ${shown(value)}; write it in CamelCase: { ${name}: "CrashLoop" }`);
    }
    const other = related === undefined || related === null ? undefined : referenceOf(related);
    host.event(referenceOf(about), other, type, reason, action, format(note ?? "").toWellFormed());
  },
});
