"""What a reconciler writes to the object that it is about: its status, and a finalizer.

Each write has the resource version of the object that the reconciler received. If somebody has changed the object
since, the API server refuses the write (``conflict``), and the reconciler is called again, with the object as it is
then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from . import host as _host
from . import registry as _registry
from .context import context
from .events import Request
from .manifest import passes
from .targets import address_of, document_of

__all__ = ["finalize", "set_status"]

_STATES = ("True", "False", "Unknown")


def set_status(request: Request, object: Mapping[str, Any], status: Mapping[str, Any]) -> None:
    """Writes these members into the status of the object, unless it has them. The write is deferred.

    ``None`` as a value removes a member, and lists are replaced; except ``conditions``: these become part of those of
    the object, by their type. A condition has ``type``, ``status``, ``reason`` and, if there is more to say, a
    ``message``. ``lastTransitionTime`` changes with ``status`` only. If the object has a ``metadata.generation``, it
    becomes ``observedGeneration`` of the status and of each of these conditions.

    If somebody has changed the object since, the write is refused, and the reconciler is called again.
    """
    _check("set_status", request, object, "/status", "/metadata/generation")
    present = object.get("status") or {}
    generation = (object.get("metadata") or {}).get("generation")
    observed = {} if generation is None else {"observedGeneration": generation}
    wanted = {**observed, **status}
    conditions = wanted.pop("conditions", None)
    if conditions:
        wanted["conditions"] = _merged(present.get("conditions") or [], conditions, observed)
    # As it is compared: a tuple is a list.
    wanted = json.loads(document_of(wanted))
    if _changes(present, wanted):
        _patch(request, object, "status", {}, {"status": wanted})


def finalize(request: Request, object: Mapping[str, Any] | None, cleanup: Callable[[], None]) -> bool:
    """Whether the object is to be reconciled. For a plugin that has to clean up before its object is gone.

    ::

        if not kube.finalize(request, site, lambda: remove_from_dns(site)):
            return

    The finalizer is ``informant.dev/`` and the name of the plugin. While the object lacks it, it is added, and that
    leads to the next call: nothing has an effect before it is there. When somebody deletes the object, ``cleanup`` is
    called, and then the finalizer is removed. If ``cleanup`` raises, the finalizer stays, and the call fails with that:
    ``RetryAfter`` waits for what takes its time. The writes are deferred.

    If somebody has changed the object since, the write is refused, and the reconciler is called again: also after
    ``cleanup``, which must be able to run twice.
    """
    if object is None:
        return False
    _check("finalize", request, object, "/metadata/finalizers", "/metadata/deletionTimestamp")
    metadata = object.get("metadata") or {}
    own = f"informant.dev/{context['plugin']}"
    finalizers = metadata.get("finalizers") or []
    if metadata.get("deletionTimestamp") is None:
        if own not in finalizers:
            _patch(request, object, "", {"finalizers": [*finalizers, own]})
        return own in finalizers
    if own in finalizers:
        clean: Callable[[], Any] = cleanup
        returned = clean()
        if returned is not None:
            raise TypeError(
                f"kube.finalize: cleanup returned {returned!r}, but it returns nothing: raise RetryAfter if it is not "
                "done yet"
            )
        _patch(request, object, "", {"finalizers": [name for name in finalizers if name != own]})
    return False


def _patch(
    request: Request, object: Mapping[str, Any], subresource: str, metadata: dict[str, Any], more: Any = None
) -> None:
    """Defers a merge patch of exactly this state of the object."""
    version = (object.get("metadata") or {}).get("resourceVersion") or request.resource_version
    document = {"metadata": {"resourceVersion": version, **metadata}, **(more or {})}
    _host.active.kube_patch(address_of(request, subresource), "merge", document_of(document), b"", True)


def _changes(value: Any, patch: Any) -> bool:
    """Whether a merge patch changes a value. An empty object is as good as none."""
    if not isinstance(patch, dict):
        return bool(value != patch)
    if value is not None and not isinstance(value, dict):
        return True
    return any(_changes((value or {}).get(name), member) for name, member in patch.items())


def _merged(present: list[Any], given: Any, observed: Mapping[str, Any]) -> list[Any]:
    """The conditions of the object, with those that are given in their place or at the end."""
    conditions = {condition.get("type"): condition for condition in present}
    for condition in given:
        _check_condition(condition)
        before = conditions.get(condition["type"], {})
        since = before.get("lastTransitionTime") if before.get("status") == condition["status"] else None
        time = since or condition.get("lastTransitionTime") or _now()
        conditions[condition["type"]] = {"message": "", **observed, **condition, "lastTransitionTime": time}
    return list(conditions.values())


def _check_condition(condition: Any) -> None:
    members = ("type", "status", "reason")
    if not isinstance(condition, Mapping) or not all(condition.get(member) for member in members):
        raise TypeError(f"kube.set_status: a condition has type, status and reason, but one is {condition!r}")
    if condition["status"] not in _STATES:
        given = condition["status"]
        raise TypeError(
            f'kube.set_status: status of the condition {condition["type"]} is {given!r}; write "True", "False" or '
            '"Unknown"'
        )


def _check(function: str, request: Any, object: Any, *pointers: str) -> None:
    """Refuses an object that was passed without what is written: what others have set there would be lost."""
    if not isinstance(request, Request):
        name = type(request).__name__
        raise TypeError(f"kube.{function}: {name} is not the request that the reconciler is called with")
    if not isinstance(object, Mapping):
        raise TypeError(f"kube.{function}: {object!r} is not an object")
    uid = (object.get("metadata") or {}).get("uid")
    if uid not in (None, request.uid):
        raise TypeError(f"kube.{function}: the object is not the one that the request is about, {request}")
    reconciler = _registry.active.reconciler
    # An object that the plugin has read itself is as it asked for.
    if reconciler is None or getattr(object, "_origin", None) is not request._about:
        return
    for pointer in pointers:
        if not passes(reconciler.rule, pointer):
            raise TypeError(f"kube.{function}: the reconciler receives objects without {pointer}: add it to fields")


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
