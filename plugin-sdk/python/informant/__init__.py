"""Write Informant plugins in Python: handlers for changes of Kubernetes objects.

::

    from informant import again, kube, log, needs, on, settings

    config = settings(max_restarts=3)
    needs("patch", resource="v1/pods")

    @on.upsert("v1", "Pod", fields=["/metadata/labels", "/status"], changed_only=True)
    def restarted(pod, event):
        restarts = sum(pod.all("/status/containerStatuses/*/restartCount"))
        if restarts > config.max_restarts and "restarts" not in pod.labels:
            log.info("%s restarts", event, extra={"restarts": restarts})
            kube.patch(event, labels={"restarts": "high"})
        if pod.status.phase == "Pending":
            return again(seconds=2)
"""

from __future__ import annotations

from . import http, kube, kv, metrics, recorder, store
from .context import Settings, config, context, settings
from .decorators import (
    Again,
    Related,
    State,
    again,
    index,
    needs,
    needs_events,
    on,
    plugin,
    reconcile,
    related,
    state,
    timer,
)
from .errors import HostError, HttpError, KubeError, Permanent, Refused, RetryAfter
from .events import Call, Event, Request, Source, Tick
from .host import CONTRACT
from .logs import log
from .objects import Fields, Object

__version__ = "0.1.0"

__all__ = [
    "CONTRACT",
    "Again",
    "Call",
    "Event",
    "Fields",
    "HostError",
    "HttpError",
    "KubeError",
    "Object",
    "Permanent",
    "Refused",
    "Related",
    "Request",
    "RetryAfter",
    "Settings",
    "Source",
    "State",
    "Tick",
    "again",
    "config",
    "context",
    "http",
    "index",
    "kube",
    "kv",
    "log",
    "metrics",
    "needs",
    "needs_events",
    "on",
    "plugin",
    "reconcile",
    "recorder",
    "related",
    "settings",
    "state",
    "store",
    "timer",
]
