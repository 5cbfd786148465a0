"""The plugin of plugin-sdk/scenarios, whose README describes what it does."""

from informant import (
    KubeError,
    Permanent,
    RetryAfter,
    again,
    http,
    index,
    kube,
    kv,
    log,
    metrics,
    on,
    plugin,
    state,
    store,
)

plugin("scribe")
calls = metrics.counter("handled", "Calls.", labels=["call"])
memory = state({"handled": 0})
seen = set()

FIELDS = ["/metadata/annotations", "/metadata/labels", "/status/phase"]


def phase_of(pod):
    return (pod.status.phase if pod else None) or "-"


def begin(call, message, event):
    memory.handled += 1
    log.info(message, extra={"handled": memory.handled})
    kv.set("last", event.key)
    calls.add(call=call)


@on.upsert("v1", "Pod", fields=FIELDS, old=True, changed_only=True)
def handle(pod, event):
    if event.type == "add":
        begin("add", f"add {event} {phase_of(pod)}", event)
    else:
        begin("update", f"update {event} {phase_of(event.old)} to {phase_of(pod)}", event)
    action = ACTIONS.get(pod.annotations.get("do"))
    return action(pod, event) if action else None


@on.delete("v1", "Pod", fields=FIELDS)
def gone(last, event):
    begin("delete", f"delete {event} {phase_of(last)}", event)
    wanted = last.annotations.get("do")
    if wanted == "never-delete" and event.reason != "requeue":
        raise Permanent("never")
    if wanted == "fail-delete" and event.attempt == 0:
        raise RuntimeError("not yet")


@on.synced
def synced():
    log.info("synced with %d pods", len(list(store.list("pods"))))
    if kv.get("never"):
        raise Permanent("never")


@index("node", "v1", "Pod", fields=["/spec/nodeName"])
def node(pod):
    return pod.spec.nodeName


def fail(_, event):
    if event.attempt < 2:
        raise RuntimeError("not yet")


def later(_, event):
    if event.name not in seen:
        seen.add(event.name)
        raise RetryAfter(30, "later")


def never(*_):
    raise Permanent("never")


def label(pod, event):
    if pod.labels.get("seen") != "yes":
        kube.patch(event, labels={"seen": "yes"})


def label_fail(pod, event):
    label(pod, event)
    if event.attempt == 0 and pod.labels.get("seen") != "yes":
        raise RuntimeError("not yet")


def create(_, event):
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": event.name}}
    try:
        kube.now.create(kube.address("v1/configmaps", event.namespace), document)
    except KubeError as error:
        if error.code != "already-exists":
            raise
        log.info("exists")


def ask_again(_, event):
    return None if event.reason == "requeue-after" else again(seconds=60)


def post(pod, event):
    response = http.post(f"https://example.com/{event.name}", json={"phase": phase_of(pod)})
    if response.status != 200:
        raise RuntimeError(f"answered {response.status}")


def nodes(*_):
    pods = store.by_index("pods", "node", "n1", fields=["/metadata/name"])
    log.info("neighbors %s", ",".join(sorted(pod.name for pod in pods)))


ACTIONS = {
    "fail": fail,
    "later": later,
    "never": never,
    "label": label,
    "label-fail": label_fail,
    "create": create,
    "again": ask_again,
    "post": post,
    "nodes": nodes,
}
