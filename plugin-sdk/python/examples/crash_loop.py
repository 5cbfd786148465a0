"""Reports containers that crash-loop or were OOM-killed: the example of the Rust SDK in Python, same reports.

The plugin remembers its reports by the uid of the pod until the pod is deleted, and hands them to its next version.
"""

from informant import Permanent, log, on, plugin, settings, state

# Ephemeral containers are never restarted. The messages of the state are not read: they change with each back-off.
LISTS = ["/status/initContainerStatuses", "/status/containerStatuses"]
MEMBERS = [
    "name",
    "restartCount",
    "state/waiting/reason",
    "state/running/startedAt",
    "state/terminated/reason",
    "state/terminated/exitCode",
    "lastState/terminated/reason",
    "lastState/terminated/exitCode",
]

plugin("crash-loop-python", version="0.1.0")
config = settings(min_restarts=1)

# By pod uid, then container: is_looping, oom_kills, looping_at and oom_killed_at; -1: no report yet.
seen = state({"pods": {}})


@on.startup
def check_config():
    if config.min_restarts < 0:
        raise Permanent("config: `min-restarts` is negative")


# An update is handled like an add: the pod now has this state.
@on.upsert("v1", "Pod", fields=[f"{of}/*/{member}" for of in LISTS for member in MEMBERS], changed_only=True)
def report_pod(pod, event):
    statuses = [*pod.all("/status/initContainerStatuses/*"), *pod.all("/status/containerStatuses/*")]
    for container in statuses:
        name = container.name or ""
        reported, reports = update(seen.pods.get(event.uid, {}).get(name) or no_reports(), container)
        for text in reports:
            log.warning("%s: container %s %s", event, name, text)
        # Only containers with reports take memory.
        if has_reports(reported):
            seen.pods.setdefault(event.uid, {})[name] = reported
        else:
            seen.pods.get(event.uid, {}).pop(name, None)


@on.delete("v1", "Pod")
def forget_pod(_, event):
    seen.pods.pop(event.uid, None)


@on.synced
def summarize(source):
    reported = [container for containers in seen.pods.values() for container in containers.values()]
    looping = sum(container["is_looping"] for container in reported)
    killed = sum(container["oom_kills"] for container in reported)
    log.info("%s is synced; in all sources %d containers crash-looping, %d OOM kills seen", source, looping, killed)


def no_reports():
    return {"is_looping": False, "oom_kills": 0, "looping_at": -1, "oom_killed_at": -1}


def has_reports(reported):
    return reported != no_reports()


def counted(restarts):
    return f"{restarts} restart{'' if restarts == 1 else 's'}"


def ended_runs(container):
    """The ended runs in the status, oldest first: the number of restarts before each, and how it ended."""
    restarts, now = container.restartCount or 0, container.state or {}
    last = (container.lastState or {}).get("terminated")
    # A restart is counted when the container starts. Until then, the last run is the one that has just ended.
    before = restarts - 1 if "running" in now or "terminated" in now else restarts
    runs = []
    if last is not None and before >= 0:
        runs.append((before, last))
    if "terminated" in now:
        runs.append((restarts, now["terminated"]))
    return runs


def update(before, container):
    """The new state of a container from its current status, and the new reports."""
    restarts, now = container.restartCount or 0, container.state or {}
    # After a restart of the kubelet, the count of a container may start again from a lower number.
    was_reset = restarts < max(before["looping_at"], before["oom_killed_at"])
    reported = no_reports() if was_reset else dict(before)
    reports = []
    runs = ended_runs(container)
    for run, ended in runs:
        if ended.reason != "OOMKilled" or run <= reported["oom_killed_at"]:
            continue
        reported["oom_killed_at"] = run
        reported["oom_kills"] += 1
        times = "once" if reported["oom_kills"] == 1 else f"{reported['oom_kills']} times"
        reports.append(f"was OOM-killed: exit code {ended.exitCode or 0}, seen {times}, {counted(restarts)}")
    is_waiting = (now.get("waiting") or {}).get("reason") == "CrashLoopBackOff"
    reported["is_looping"] = is_waiting and restarts >= config.min_restarts
    if reported["is_looping"] and restarts > reported["looping_at"]:
        reported["looping_at"] = restarts
        how = ""
        if runs:
            last = runs[-1][1]
            how = f", last exit code {last.exitCode or 0} ({last.reason or ''})"
        reports.append(f"is crash-looping: {counted(restarts)}{how}")
    return reported, reports
