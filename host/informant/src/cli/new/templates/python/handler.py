"""Logs the phase of each pod."""

from informant import log, on


@on.upsert("v1", "Pod", fields=["/status/phase"])
def greet(pod, event):
    """Called when a pod was added or changed."""
    log.info("%s is %s", event, pod.status.phase)
