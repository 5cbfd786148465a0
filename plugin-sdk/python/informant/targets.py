"""What calls of ``kube`` are about, and the documents that they send."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import events
from .events import Event
from .host import Address
from .objects import Object

#: What a call is about: an event, an object that was read, or ``kube.address(...)``.
Target = Event | Object | Address


def address(resource: str, namespace: str = "", name: str = "", *, subresource: str = "", cluster: str = "") -> Address:
    """The address of an object, or of the objects in a namespace: ``kube.address("apps/v1/deployments", "web")``.

    ``cluster`` is by default that of the object that the call is about.
    """
    return Address(cluster, resource, namespace, name, subresource)


def status(target: Target) -> Address:
    """The address of an object's status."""
    return address_of(target, "status")


def address_of(target: Any, subresource: str) -> Address:
    """The address of a target. Raises: ``TypeError`` if it is none."""
    if isinstance(target, Address):
        return target._replace(subresource=subresource) if subresource else target
    if isinstance(target, Event):
        info = events.details_of(target._source_id)
        return Address(info.cluster, info.resource, target.namespace, target.name, subresource)
    if isinstance(target, Object) and target._origin is not None:
        origin: Any = target._origin
        if not origin.name:
            raise TypeError(
                "kube: the object was read without its name and namespace: "
                'add "/metadata/name" and "/metadata/namespace" to fields'
            )
        if origin.source is not None:
            info = events.details_of(origin.source)
            return Address(info.cluster, info.resource, origin.namespace, origin.name, subresource)
        return Address(origin.cluster, origin.resource, origin.namespace, origin.name, subresource)
    raise TypeError(
        f"kube: {type(target).__name__} is not an address: pass the event, an object that was read, or "
        'kube.address("v1/pods", NAMESPACE, NAME)'
    )


def document_of(document: Any) -> bytes:
    """The JSON of a document. Raises: ``TypeError`` if it is none."""
    if not isinstance(document, (Mapping, list, tuple)):
        raise TypeError(f"kube: the document is {document!r}, which is not a dict")
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
