"""Children: the objects that belong to the one that is reconciled, all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import events
from . import host as _host
from .events import Event, Request
from .host import Child, Children, Owner
from .objects import Object
from .targets import document_of

#: The most objects that the message of a condition lists.
LISTED_MAX = 20

__all__ = ["Children", "children", "conditions_of", "owner_reference"]


def children(
    request: Request,
    *,
    fields: Iterable[Mapping[str, Any]] | None = None,
    whole: Iterable[Mapping[str, Any]] | None = None,
) -> Children:
    """Makes these the objects that belong to the one that is reconciled: ``kube.children(request, fields=[service])``.

    Call it once in a call of the reconciler, with all of them: others that the plugin has made for the object are
    deleted. ``owns`` of the reconciler names their kinds. Each object has apiVersion, kind and metadata.name; without
    metadata.namespace it is in that of its owner. An object that exists and belongs to somebody else stays as it is.

    ``fields``: the fields of these are applied, and those that others have set stay. ``whole``: everything but metadata
    and status becomes as it is here; for ConfigMap, Secret, Role, RoleBinding, ResourceQuota and NetworkPolicy.

    The writes are deferred. They do not count as writes of the call.
    """
    if not isinstance(request, Request):
        name = type(request).__name__
        raise TypeError(f"kube.children: {name} is not the request that the reconciler is called with")
    if fields is None and whole is None:
        # By mistake, that would delete all.
        raise TypeError("kube.children: pass fields or whole; fields=[] is for an object without children")
    owner = Owner(request._source_id, request.namespace, request.name, request.uid)
    wanted = [*_wanted("fields", fields or (), False), *_wanted("whole", whole or (), True)]
    return _host.active.kube_children(owner, wanted)


def owner_reference(owner: Event | Mapping[str, Any], *, controller: bool = True) -> dict[str, Any]:
    """What ``metadata.ownerReferences`` of an object has about its owner, which is an event or an object.

    An object has one controller. With ``controller=False``, it is an owner besides: the object stays until all its
    owners are gone.
    """
    if isinstance(owner, Event):
        info = events.details_of(owner._source_id)
        members = (info.api_version, info.kind, owner.name, owner.uid)
    elif isinstance(owner, Mapping):
        object = owner if isinstance(owner, Object) else Object(owner)
        members = (object.get("apiVersion", ""), object.get("kind", ""), object.name, object.uid)
    else:
        raise TypeError(f"kube.owner_reference: {type(owner).__name__} is not an object: pass the event or an object")
    if not all(members):
        raise TypeError(
            "kube.owner_reference: an owner has apiVersion, kind, name and uid; if it was read without its name and "
            'uid, add "/metadata/name" and "/metadata/uid" to fields'
        )
    reference = dict(zip(("apiVersion", "kind", "name", "uid"), members, strict=True))
    return {**reference, "controller": controller, "blockOwnerDeletion": True}


def conditions_of(done: Children) -> list[dict[str, Any]]:
    """The conditions ``ChildrenRefused`` and ``PruneSkipped``, which tell users what ``kube.children`` has not done."""
    refused = ", ".join(done.refused[:LISTED_MAX])
    if len(done.refused) > LISTED_MAX:
        refused += f" and {len(done.refused) - LISTED_MAX} more"
    return [
        _condition("ChildrenRefused", "OwnedByOthers", refused, "NoneRefused"),
        _condition("PruneSkipped", "CacheIncomplete", done.prune_skipped or "", "NoneSkipped"),
    ]


def _condition(type: str, reason: str, message: str, reason_otherwise: str) -> dict[str, Any]:
    if message:
        return {"type": type, "status": "True", "reason": reason, "message": message}
    return {"type": type, "status": "False", "reason": reason_otherwise, "message": ""}


def _wanted(name: str, objects: Any, whole: bool) -> Iterator[Child]:
    if isinstance(objects, Mapping):
        raise TypeError(f"kube.children: {name} is one object: pass a list of objects")
    for object in objects:
        if not isinstance(object, Mapping):
            raise TypeError(f"kube.children: {name} contains {object!r}, which is not an object")
        yield Child(document_of(object), whole)
