// The children of an object in a test: what `kube.children` defers, as far as the cluster of the test can tell.
//
// The plugin reads each kind in `owns`: a kind without a source gets one.
import { isDeepStrictEqual } from "node:util";

import { failed, isMapping, keyText } from "./cluster.js";

/** As in Informant. */
const CHILDREN_MAX = 1_000;
const OWNER_UID_LABEL = "informant.dev/owner-uid";
const PLUGIN_LABEL = "informant.dev/plugin";
const WHOLE_KINDS = ["ConfigMap", "Secret", "Role", "RoleBinding", "ResourceQuota", "NetworkPolicy"];

/** Members that an update keeps. */
const KEPT = ["apiVersion", "kind", "metadata", "status"];

const invalid = (message) => failed("invalid", message);

/** Defers what makes the objects in `wanted`, texts of JSON, those that belong to the owner. Returns what is done. */
export function deferChildren(cluster, { plugin, owns, owner, isBehind }, wanted) {
  if (wanted.length > CHILDREN_MAX)
    throw failed("too-large", `an object may have ${CHILDREN_MAX} children, and these are ${wanted.length}`);
  if (owner.uid === "" || cluster.object(owner.key)?.metadata.uid !== owner.uid)
    throw failed("not-found", `${keyText(owner.key)} is gone; the API server deletes what it owned`);
  const done = { written: 0, pruned: 0, refused: [] };
  const keys = [];
  for (const { text, isWhole } of wanted) {
    const child = childOf(cluster, owns, owner, JSON.parse(text));
    if (keys.some((key) => isDeepStrictEqual(key, child.key)))
      throw invalid(`${child.label} is twice among the children`);
    keys.push(child.key);
    const present = cluster.object(child.key);
    if (present !== undefined && !belongsTo(present, owner)) done.refused.push(child.label);
    // One that is being deleted is made again when it is gone.
    else if (present === undefined || !isTerminating(present))
      done.written += write(
        cluster,
        { ...child, document: completed(cluster, plugin, owner, child), isWhole },
        present,
      );
  }
  if (isBehind) return { ...done, pruneSkipped: "the cache has not seen all earlier writes for this object" };
  for (const { key, object } of unwanted(cluster, plugin, owns, owner, keys)) {
    const { uid, resourceVersion } = object.metadata;
    cluster.deferChild("delete", addressOf(cluster, key), JSON.stringify({ preconditions: { uid, resourceVersion } }));
    done.pruned += 1;
  }
  return done;
}

/** The key of a child, and what it is called in messages. */
function childOf(cluster, owns, owner, document) {
  const { apiVersion, kind, metadata } = document;
  if (![apiVersion, kind, metadata?.name].every((text) => typeof text === "string" && text !== ""))
    throw invalid("a child needs apiVersion, kind and metadata.name");
  const what = `${kind} ${metadata.name}`;
  if (!owns.some((rule) => rule.apiVersion === apiVersion && rule.kind === kind))
    throw invalid(`${what}: ${apiVersion} ${kind} is not in \`reconciler.owns\` of the manifest: name it there`);
  const ofOwner = owner.key.namespace;
  const namespace = metadata.namespace || ofOwner;
  const key = cluster.keyOf({ apiVersion, kind, metadata: { ...metadata, namespace } }, clusterOf(cluster, owner));
  const { namespaced } = cluster.sources[key.source];
  if (ofOwner !== "" && (!namespaced || namespace !== ofOwner)) {
    const why = `an owner in the namespace ${ofOwner} can only own objects there`;
    throw invalid(`${what}: ${why}; the API server would delete others`);
  }
  if (namespaced && namespace === "") throw invalid(`${what} needs metadata.namespace, because its owner has none`);
  const placed = { ...key, namespace: namespaced ? namespace : "" };
  return { key: placed, document, kind, label: `${kind} ${keyText(placed)}` };
}

const clusterOf = (cluster, { key }) => cluster.sources[key.source].cluster;

function addressOf(cluster, { source, namespace, name }) {
  const { cluster: of, resource } = cluster.sources[source];
  return { cluster: of, resource, namespace, name, subresource: "" };
}

const belongsTo = ({ metadata }, { uid }) =>
  (metadata.ownerReferences ?? []).some((owner) => owner.uid === uid && owner.controller === true);

const isTerminating = ({ metadata }) => metadata.deletionTimestamp !== undefined;

/** The document of a child, with what says whose it is. */
function completed(cluster, plugin, owner, { key, document, label }) {
  const { labels, ownerReferences, namespace, ...metadata } = document.metadata;
  if ((ownerReferences ?? []).some(({ controller }) => controller === true))
    throw invalid(`${label}: metadata.ownerReferences has a controller, and an object has one: its owner`);
  const { apiVersion, kind } = cluster.sources[owner.key.source];
  const { uid } = owner;
  const reference = { apiVersion, kind, name: owner.key.name, uid, controller: true, blockOwnerDeletion: true };
  return {
    ...document,
    metadata: {
      ...metadata,
      ...(key.namespace === "" ? {} : { namespace: key.namespace }),
      ownerReferences: [...(ownerReferences ?? []), reference],
      labels: { ...labels, [OWNER_UID_LABEL]: uid, [PLUGIN_LABEL]: plugin },
    },
  };
}

/** Defers the write of a child. Returns the number of writes: none if it is as it should be. */
function write(cluster, { key, kind, document, isWhole, label }, present) {
  const address = addressOf(cluster, key);
  if (!isWhole) {
    cluster.deferChild("patch", address, "apply", JSON.stringify(document), JSON.stringify({ force: true }));
    return 1;
  }
  if (!WHOLE_KINDS.includes(kind))
    throw invalid(`${label}: only ${WHOLE_KINDS.join(", ")} can be set whole; let the fields of a ${kind} be applied`);
  const { status, ...wanted } = withoutEmpty(kind === "Secret" ? storedSecret(document) : document);
  if (present === undefined) {
    cluster.deferChild("create", { ...address, name: "" }, JSON.stringify(wanted), "");
    return 1;
  }
  const kept = Object.fromEntries(Object.entries(present).filter(([name]) => KEPT.includes(name)));
  const updated = { ...kept, ...wanted, metadata: mergedMetadata(present.metadata, wanted.metadata) };
  if (isDeepStrictEqual(updated, { ...withoutEmpty(present), ...kept })) return 0;
  cluster.deferChild("update", address, JSON.stringify(updated), "");
  return 1;
}

/** A Secret as the API server stores it. */
function storedSecret({ stringData = {}, data = {}, type = "Opaque", ...secret }) {
  const encoded = Object.entries(stringData).map(([name, text]) => [name, Buffer.from(text).toString("base64")]);
  return { ...secret, type, data: { ...data, ...Object.fromEntries(encoded) } };
}

const isEmpty = (value) =>
  value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0);

const withoutEmpty = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) => !isEmpty(value)));

/** Adds to the metadata of an object what is wanted; others' stays. */
function mergedMetadata(present, wanted) {
  const merged = { ...present };
  for (const [name, value] of Object.entries(wanted)) {
    if (name === "ownerReferences") {
      const isNew = ({ uid }) => !value.some((owner) => owner.uid === uid);
      merged[name] = [...(present[name] ?? []).filter(isNew), ...value];
    } else if (isMapping(value)) merged[name] = { ...present[name], ...value };
    else if (!(name in present) || name === "finalizers") merged[name] = value;
  }
  return merged;
}

/** What the plugin has made for the owner, and is no longer wanted. */
function unwanted(cluster, plugin, owns, owner, keys) {
  const isOwned = ({ key, object }) => {
    const { apiVersion, kind, metadata } = object;
    const { labels = {} } = metadata;
    return (
      cluster.sources[key.source].cluster === clusterOf(cluster, owner) &&
      owns.some((rule) => rule.apiVersion === apiVersion && rule.kind === kind) &&
      ["", key.namespace].includes(owner.key.namespace) &&
      labels[OWNER_UID_LABEL] === owner.uid &&
      labels[PLUGIN_LABEL] === plugin &&
      belongsTo(object, owner)
    );
  };
  const isWanted = ({ key }) => keys.some((wanted) => isDeepStrictEqual(wanted, key));
  return cluster.rows().filter((row) => isOwned(row) && !isWanted(row) && !isTerminating(row.object));
}
