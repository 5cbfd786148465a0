"""``kube.children`` in a test: the writes that make some objects those that belong to another one.

What the API server does with owners of fields, and defaults that it sets, are not simulated: the fields of a child are
applied like a merge patch.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from ..errors import KubeError
from ..host import Address, Child, Children, Owner
from .cluster import Cluster, merged

#: As in Informant.
CHILDREN_MAX = 1_000
OWNER_UID_LABEL = "informant.dev/owner-uid"
PLUGIN_LABEL = "informant.dev/plugin"

_WHOLE_KINDS = ("ConfigMap", "Secret", "Role", "RoleBinding", "ResourceQuota", "NetworkPolicy")
_KEPT = ("apiVersion", "kind", "metadata", "status")
_FORCE = b'{"force":true}'

Key = tuple[int, str, str]


def set_children(
    cluster: Cluster, owner: Owner, children: list[Child], *, owns: list[Any], plugin: str, is_behind: bool
) -> Children:
    """Defers the writes. ``owns`` are the kinds of the manifest; ``is_behind``: the cache may lack something."""
    if len(children) > CHILDREN_MAX:
        message = f"an object may have {CHILDREN_MAX} children, and these are {len(children)}"
        raise KubeError("too-large", message)
    by = (owner.source, owner.namespace, owner.name)
    if not owner.uid or (cluster.objects.get(by) or {"metadata": {}})["metadata"].get("uid") != owner.uid:
        raise KubeError("not-found", f"{_text(by)} is gone; the API server deletes what it owned")
    wanted: set[Key] = set()
    written, refused = 0, []
    for child in children:
        document = _document(child, owns)
        key = _key(cluster, owner, document)
        label = f"{document['kind']} {_text(key)}"
        if key in wanted:
            raise KubeError("invalid", f"{label} is twice among the children")
        wanted.add(key)
        present = cluster.objects.get(key)
        if present is not None and not _belongs_to(present, owner.uid):
            refused.append(label)
        # It is made again when it is gone.
        elif present is None or not _is_terminating(present):
            _complete(document, key, cluster.sources[owner.source], owner, plugin)
            written += _defer(cluster, key, document, present, child.whole)
    if is_behind:
        why = "the cache has not seen all earlier writes for this object"
        return Children(written, 0, refused, why)
    unwanted = [key for key in _labeled(cluster, owner, owns, plugin) if key not in wanted]
    for key in unwanted:
        metadata = cluster.objects[key]["metadata"]
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        options = json.dumps({"preconditions": preconditions}).encode()
        cluster.defer("delete", _address(cluster, key), options, is_child=True)
    return Children(written, len(unwanted), refused, None)


def _document(child: Child, owns: list[Any]) -> Any:
    document = json.loads(child.object)
    metadata = document.get("metadata") or {}
    if not (document.get("apiVersion") and document.get("kind") and metadata.get("name")):
        raise KubeError("invalid", "a child needs apiVersion, kind and metadata.name")
    api_version, kind = document["apiVersion"], document["kind"]
    if not any((rule["apiVersion"], rule["kind"]) == (api_version, kind) for rule in owns):
        what = f"{kind} {metadata['name']}: {api_version} {kind}"
        raise KubeError("invalid", f"{what} is not in `reconciler.owns` of the manifest: name it there")
    if child.whole and kind not in _WHOLE_KINDS:
        kinds = ", ".join(_WHOLE_KINDS)
        raise KubeError("invalid", f"only {kinds} can be set whole; let the fields of a {kind} be applied")
    return _normalized(document) if child.whole else document


def _normalized(document: Any) -> Any:
    """As the API server stores it."""
    whole = {name: value for name, value in document.items() if name not in ("status", "stringData")}
    if document["kind"] == "Secret":
        texts = (document.get("stringData") or {}).items()
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts}
        whole = {"type": "Opaque", **whole, "data": {**(document.get("data") or {}), **encoded}}
    return {name: value for name, value in whole.items() if not _is_empty(value)}


def _key(cluster: Cluster, owner: Owner, document: Any) -> Key:
    """Where the cache has the child, or will have it."""
    metadata = document["metadata"]
    namespace = metadata.get("namespace") or owner.namespace
    named = {**document, "metadata": {"name": metadata["name"], "namespace": namespace}}
    key = cluster.key_of(named, cluster.sources[owner.source].cluster)
    is_namespaced, what = cluster.sources[key[0]].namespaced, f"{document['kind']} {metadata['name']}"
    if owner.namespace and (not is_namespaced or namespace != owner.namespace):
        message = f"an owner in the namespace {owner.namespace} can only own objects there"
        raise KubeError("invalid", f"{what}: {message}; the API server would delete others")
    if is_namespaced and not namespace:
        raise KubeError("invalid", f"{what} needs metadata.namespace, because its owner has none")
    return (key[0], namespace if is_namespaced else "", metadata["name"])


def _complete(document: Any, key: Key, source: Any, owner: Owner, plugin: str) -> None:
    """Adds to the metadata whose it is."""
    metadata = document["metadata"] = dict(document["metadata"])
    if key[1]:
        metadata["namespace"] = key[1]
    owners = metadata.get("ownerReferences") or []
    if any(other.get("controller") for other in owners):
        label = f"{document['kind']} {_text(key)}"
        message = "metadata.ownerReferences has a controller, and an object has one: its owner"
        raise KubeError("invalid", f"{label}: {message}")
    reference = {"apiVersion": source.api_version, "kind": source.kind, "name": owner.name, "uid": owner.uid}
    metadata["ownerReferences"] = [*owners, {**reference, "controller": True, "blockOwnerDeletion": True}]
    own = {OWNER_UID_LABEL: owner.uid, PLUGIN_LABEL: plugin}
    metadata["labels"] = {**(metadata.get("labels") or {}), **own}


def _defer(cluster: Cluster, key: Key, document: Any, present: Any, whole: bool) -> bool:
    """Whether a write is made, unless the object turns out to be as it should."""
    at = _address(cluster, key)
    if not whole:
        # As in Informant, one that changes nothing counts and is left out.
        if present is None or merged(present, document) != present:
            cluster.defer("patch", at, "apply", _bytes(document), _FORCE, is_child=True)
        return True
    if present is None:
        cluster.defer("create", at._replace(name=""), _bytes(document), b"", is_child=True)
        return True
    after = {name: value for name, value in present.items() if name in _KEPT}
    after = {**after, **document, "metadata": _merged_metadata(present["metadata"], document["metadata"])}
    before = {name: value for name, value in present.items() if name in _KEPT or not _is_empty(value)}
    if after == before:
        return False
    cluster.defer("update", at, _bytes(after), b"", is_child=True)
    return True


def _merged_metadata(present: Any, wanted: Any) -> Any:
    """Labels, annotations and owners are added to those that are there."""
    both = {**wanted, **present}
    for name in ("labels", "annotations"):
        if name in both:
            both[name] = {**(present.get(name) or {}), **(wanted.get(name) or {})}
    owners = {owner["uid"]: owner for of in (present, wanted) for owner in of.get("ownerReferences") or []}
    return {**both, "ownerReferences": list(owners.values())}


def _labeled(cluster: Cluster, owner: Owner, owns: list[Any], plugin: str) -> list[Key]:
    """The objects that the plugin has made for the owner."""
    kinds = {(rule["apiVersion"], rule["kind"]) for rule in owns}
    of_cluster = cluster.sources[owner.source].cluster

    def is_its(key: Key, object: Any) -> bool:
        info, labels = cluster.sources[key[0]], object["metadata"].get("labels") or {}
        is_here = info.cluster == of_cluster and owner.namespace in ("", key[1])
        has_labels = (labels.get(OWNER_UID_LABEL), labels.get(PLUGIN_LABEL)) == (owner.uid, plugin)
        is_kind = (info.api_version, info.kind) in kinds
        return is_kind and is_here and has_labels and _belongs_to(object, owner.uid) and not _is_terminating(object)

    return [key for key, object in sorted(cluster.objects.items()) if is_its(key, object)]


def _belongs_to(object: Mapping[str, Any], uid: str) -> bool:
    owners = object["metadata"].get("ownerReferences") or []
    return any(owner.get("uid") == uid and owner.get("controller") for owner in owners)


def _is_terminating(object: Mapping[str, Any]) -> bool:
    return object["metadata"].get("deletionTimestamp") is not None


def _is_empty(value: Any) -> bool:
    """What the API server leaves out."""
    return value is None or value in ({}, [], "")


def _address(cluster: Cluster, key: Key) -> Address:
    info = cluster.sources[key[0]]
    return Address(info.cluster, info.resource, key[1], key[2])


def _bytes(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def _text(key: Key) -> str:
    return f"{key[1]}/{key[2]}" if key[1] else key[2]
