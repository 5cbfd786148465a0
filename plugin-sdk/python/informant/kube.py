"""Calls the Kubernetes API server with Informant's identity.

The functions of this module write *deferred*: Informant makes the writes in their order once the handler has succeeded,
and none of them if it fails. The functions of ``kube.now`` call the API server at once and wait for the response.

An address is an event, an object that was read, or ``kube.address("v1/pods", "web", "a")``. A deferred delete needs the
uid, which events and objects bring with them.

For reconcilers: ``children`` sets all objects that belong to the one that is reconciled, ``set_status`` writes its
status, and ``finalize`` cleans up before it is gone. They are deferred, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from . import host as _host
from .children import Children, children, conditions_of, owner_reference
from .errors import KubeError
from .events import Event
from .host import Address
from .objects import Object, Origin, parse_object
from .reconciled import finalize, set_status
from .targets import Target, address, address_of, document_of, status

PatchType = Literal["merge", "json", "strategic"]

#: The most objects in a page.
PAGE_MAX = 500

__all__ = [
    "Children",
    "Target",
    "address",
    "apply",
    "children",
    "conditions_of",
    "create",
    "delete",
    "finalize",
    "now",
    "owner_reference",
    "patch",
    "set_status",
    "status",
    "update",
]


class Writes:
    """Writes, either deferred or made at once."""

    def __init__(self, deferred: bool) -> None:
        self._deferred = deferred

    def create(
        self,
        target: Target,
        object: Mapping[str, Any],
        *,
        subresource: str = "",
        field_manager: str | None = None,
        field_validation: str | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Creates an object: ``kube.create(kube.address("v1/configmaps", "web"), {...})``."""
        options = _options(fieldManager=field_manager, fieldValidation=field_validation, dryRun=_dry_run(dry_run))
        at = address_of(target, subresource)
        if not at.subresource:
            # It takes the name from the object.
            at = at._replace(name="")
        return self._written(at, _host.active.kube_create(at, document_of(object), options, self._deferred))

    def update(
        self,
        target: Target,
        object: Mapping[str, Any],
        *,
        subresource: str = "",
        field_manager: str | None = None,
        field_validation: str | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Replaces an object."""
        options = _options(fieldManager=field_manager, fieldValidation=field_validation, dryRun=_dry_run(dry_run))
        at = address_of(target, subresource)
        return self._written(at, _host.active.kube_update(at, document_of(object), options, self._deferred))

    def patch(
        self,
        target: Target,
        document: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        type: PatchType = "merge",
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
        subresource: str = "",
        field_manager: str | None = None,
        field_validation: str | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Changes an object. ``labels`` and ``annotations`` are merged into it; ``None`` as a value removes one.

        In a merge patch, ``None`` removes a member, and lists are replaced. If the document has ``metadata.uid``, only
        the object with this uid is changed.
        """
        if type not in ("merge", "json", "strategic"):
            raise TypeError(f"kube.patch: unknown type {type!r}; use merge, json or strategic, or kube.apply")
        document = _with_metadata(document, type, labels, annotations)
        options = _options(fieldManager=field_manager, fieldValidation=field_validation, dryRun=_dry_run(dry_run))
        at = address_of(target, subresource)
        return self._written(at, _host.active.kube_patch(at, type, document_of(document), options, self._deferred))

    def apply(
        self,
        target: Target,
        object: Mapping[str, Any],
        *,
        force: bool = False,
        subresource: str = "",
        field_manager: str | None = None,
        field_validation: str | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Server-side apply. ``force`` takes ownership of fields from other managers."""
        options = _options(
            fieldManager=field_manager,
            fieldValidation=field_validation,
            dryRun=_dry_run(dry_run),
            force=True if force else None,
        )
        at = address_of(target, subresource)
        return self._written(at, _host.active.kube_patch(at, "apply", document_of(object), options, self._deferred))

    def delete(
        self,
        target: Target,
        *,
        propagation_policy: Literal["Background", "Foreground", "Orphan"] | None = None,
        grace_period_seconds: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        subresource: str = "",
        dry_run: bool = False,
    ) -> None:
        """Deletes an object. With an event or an object, only the one with the same uid."""
        if uid is None:
            uid = target.uid if isinstance(target, (Event, Object)) else None
        preconditions = {"uid": uid or None, "resourceVersion": resource_version}
        options = _options(
            propagationPolicy=propagation_policy,
            gracePeriodSeconds=grace_period_seconds,
            preconditions={name: value for name, value in preconditions.items() if value is not None} or None,
            dryRun=_dry_run(dry_run),
        )
        _host.active.kube_delete(address_of(target, subresource), options, self._deferred)

    def _written(self, at: Address, document: bytes | None) -> Object | None:
        return None if document is None else _object(at, document)


class Now(Writes):
    """Calls that reach the API server at once, and wait for its response. Writes return the object as stored."""

    def __init__(self) -> None:
        super().__init__(deferred=False)

    def get(self, target: Target, *, subresource: str = "") -> Object | None:
        """An object, or ``None``."""
        at = address_of(target, subresource)
        try:
            return _object(at, _host.active.kube_get(at))
        except KubeError as error:
            if error.code == "not-found":
                return None
            raise

    def list(
        self,
        target: Target | str,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int | None = None,
    ) -> Iterator[Object]:
        """Iterates over objects, page by page: ``kube.now.list("v1/pods", namespace="web")``."""
        at = address(target) if isinstance(target, str) else address_of(target, "")
        if not isinstance(target, Address):
            at = at._replace(namespace=namespace or "", name="")
        elif namespace is not None:
            at = at._replace(namespace=namespace)
        cursor, left = "", limit
        while left is None or left > 0:
            size = PAGE_MAX if left is None else min(left, PAGE_MAX)
            options = _options(
                labelSelector=label_selector or None,
                fieldSelector=field_selector or None,
                limit=size,
                **{"continue": cursor or None},
            )
            items, cursor = _host.active.kube_list(at, options)
            for document in items:
                yield _object(at, document)
            if left is not None:
                left -= len(items)
            if cursor == "":
                return


#: Calls that reach the API server at once.
now = Now()

_deferred = Writes(deferred=True)

create = _deferred.create
update = _deferred.update
patch = _deferred.patch
apply = _deferred.apply
delete = _deferred.delete


def _object(at: Address, document: bytes) -> Object:
    object = parse_object(document)
    metadata = object.metadata
    namespace, name, uid = (metadata.get(member) or "" for member in ("namespace", "name", "uid"))
    return Object(object, origin=Origin(None, namespace, name, uid, at.cluster, at.resource))


def _with_metadata(document: Any, type: str, labels: Any, annotations: Any) -> Any:
    given = {"labels": labels, "annotations": annotations}
    metadata = {name: dict(values) for name, values in given.items() if values is not None}
    if not metadata:
        if document is None:
            raise TypeError("kube.patch: pass a document, labels or annotations")
        return document
    if type == "json" or not isinstance(document, (Mapping, _Nothing)):
        raise TypeError("kube.patch: labels and annotations belong to a merge or strategic patch")
    document = dict(document or {})
    own = dict(document.get("metadata") or {})
    for name, values in metadata.items():
        own[name] = {**(own.get(name) or {}), **values}
    document["metadata"] = own
    return document


_Nothing = type(None)


def _options(**members: Any) -> bytes:
    given = {name: value for name, value in members.items() if value is not None}
    return json.dumps(given, separators=(",", ":")).encode() if given else b""


def _dry_run(dry_run: bool) -> Any:
    return ["All"] if dry_run else None
