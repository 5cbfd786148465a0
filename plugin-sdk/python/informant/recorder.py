"""Records Kubernetes Events about objects, which ``kubectl describe`` shows.

::

    recorder.warning(pod, "Crashing", "the container app restarted 5 times")

Informant sends them when the handler has succeeded, and none of them if it fails. It needs ``events = true`` in
``allow`` of the plugin's section.

An Event is about an event, an object, or ``recorder.reference("v1", "Pod", "web", "a")``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from . import events
from . import host as _host
from .events import Event
from .host import Regarding
from .objects import Object

#: What an Event is about: an event, an object, or ``recorder.reference(...)``.
Target = Event | Mapping[str, Any] | Regarding

__all__ = ["event", "normal", "reference", "warning"]


def event(
    about: Target,
    reason: str,
    note: str,
    *,
    type: Literal["Normal", "Warning"] = "Normal",
    action: str | None = None,
    related: Target | None = None,
) -> None:
    """Records an Event: ``recorder.event(pod, reason="Evicted", note="its node is drained", related=node)``.

    ``reason`` (why) and ``action`` (what was done, by default the reason) are in CamelCase. ``note`` is for people.
    """
    if type not in ("Normal", "Warning"):
        raise TypeError(f'recorder: type is {type!r}; write "Normal" or "Warning"')
    action = reason if action is None else action
    for member, value in (("reason", reason), ("action", action), ("note", note)):
        if not isinstance(value, str):
            raise TypeError(f"recorder: {member} is {value!r}, which is not a text")
    other = None if related is None else _regarding(related)
    _host.active.recorder_event(_regarding(about), other, type, reason, action, note)


def normal(about: Target, reason: str, note: str, *, action: str | None = None, related: Target | None = None) -> None:
    """Records an Event of the type ``Normal``."""
    event(about, reason, note, type="Normal", action=action, related=related)


def warning(about: Target, reason: str, note: str, *, action: str | None = None, related: Target | None = None) -> None:
    """Records an Event of the type ``Warning``."""
    event(about, reason, note, type="Warning", action=action, related=related)


def reference(
    api_version: str, kind: str, namespace: str = "", name: str = "", *, uid: str = "", cluster: str = ""
) -> Regarding:
    """An object that the plugin has not read: ``recorder.reference("apps/v1", "Deployment", "web", "shop")``.

    ``namespace`` is empty for cluster-scoped objects. ``cluster`` is by default that of the object that the call is
    about.
    """
    return Regarding(cluster, api_version, kind, namespace, name, uid)


def _regarding(target: Any) -> Regarding:
    if isinstance(target, Event):
        info = events.details_of(target._source_id)
        return Regarding(info.cluster, info.api_version, info.kind, target.namespace, target.name, target.uid)
    regarding = _of_object(target) if isinstance(target, Mapping) else target
    if not isinstance(regarding, Regarding):
        raise TypeError(
            f"recorder: {type(target).__name__} is not an object: pass the event, an object, or "
            'recorder.reference("v1", "Pod", NAMESPACE, NAME)'
        )
    if not regarding.api_version or not regarding.kind or not regarding.name:
        raise TypeError(
            "recorder: an object has apiVersion, kind and a name; if it was read without its name and namespace, "
            'add "/metadata/name" and "/metadata/namespace" to fields'
        )
    return regarding if regarding.cluster else regarding._replace(cluster=_cluster_of_call())


def _of_object(target: Mapping[str, Any]) -> Regarding:
    object = target if isinstance(target, Object) else Object(target)
    api_version, kind = object.get("apiVersion", ""), object.get("kind", "")
    return Regarding(_cluster_of(object), api_version, kind, object.namespace, object.name, object.uid)


def _cluster_of(object: Object) -> str:
    """The cluster that an object was read from; empty if it is not known."""
    origin: Any = object._origin
    if origin is None:
        return ""
    return str(origin.cluster if origin.source is None else events.details_of(origin.source).cluster)


def _cluster_of_call() -> str:
    """The cluster of the object or source that the call is about; empty if it is about none."""
    source = events.current_source
    return "" if source is None else events.details_of(source).cluster
