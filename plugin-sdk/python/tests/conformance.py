"""The conformance kit in Python. tests/guests/README.md describes what it does."""

from informant import (
    HostError,
    HttpError,
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
    settings,
    state,
    store,
)

# Longer texts are not logged, in bytes.
SHOWN_MAX = 1_000

plugin("conformance", version="1", parallel=True)
config = settings(payload="whole", old="no")
counted = state({"calls": 0})

seen = metrics.counter("seen", "Seen texts", labels=["text"])
bytes_of_text = metrics.gauge("bytes", "Bytes of the last text")
sizes = metrics.histogram("sizes", "Bytes of texts", buckets=[2, 4])
last_object = metrics.gauge("last", "The last object", labels=["name"])
# The manifest lacks it.
undeclared = metrics.Counter("undeclared", [])


def payload():
    return [config.payload] if config.payload.startswith("/") else config.payload


def text_of(pod):
    return "-" if pod is None else pod.at("/spec/text", "-")


def bytes_in(text):
    return len(text.encode())


def shown(pod):
    text = text_of(pod)
    size = bytes_in(text)
    return size if size > SHOWN_MAX else text


def texts(pods):
    return ",".join(text_of(pod) for pod in pods)


def parts_of(pod):
    return "+".join(part for part in ("metadata", "spec") if part in (pod or {})) or "nothing"


def labeled(event):
    return {"metadata": {"uid": event.uid, "labels": {"seen": "yes"}}}


def outcome(done, write, *arguments):
    """What became of a write."""
    try:
        write(*arguments)
    except KubeError as error:
        return error.code
    return done


def act(action, pod, event):
    text, is_first = text_of(pod), event.attempt == 0
    match action:
        case "retryable" if is_first:
            raise RuntimeError(text)
        case "retry-after" if is_first:
            raise RetryAfter(0.05, text)
        case "permanent":
            raise Permanent(text)
        case "trap" if is_first:
            while True:
                pass
        case "requeue" if event.reason != "requeue-after":
            return again(seconds=0.1)
        case "read":
            read()
        case "patch":
            log.info(outcome("patched", kube.now.patch, event, labeled(event)))
        case "call":
            call(event, text)
        case "remember":
            remember(event, is_first and text == "fails")
        case "measure":
            measure(event, text, is_first and text == "fails")
        case "defer":
            defer(event)
    return None


def read():
    found = text_of(store.get("pods", "default", "peer"))
    listed = texts(store.list("pods"))
    keys = len([*store.index_keys("pods", "namespace", "default")])
    everywhere = texts(store.list("pods", clusters="all"))
    log.info(f"found={found} listed={listed} keys={keys} everywhere={everywhere}")


def call(event, text):
    headers = {"content-type": "text/plain", "x-id": event.name}
    try:
        response = http.post("http://a.svc/kit", headers=headers, body=text)
        log.info(f"answered={response.status} {response.text}")
    except HttpError as error:
        log.info(f"failed={'denied' if error.code == 'denied' else 'other'}")


def remember(event, fails):
    count = kv.get("count", 0) + 1
    kv.set("count", count)
    is_new = kv.set_if_absent(f"seen/{event.name}")
    log.info(f"remembered={count} new={str(is_new).lower()} keys={','.join(kv.list('seen/'))}")
    if fails:
        raise RuntimeError("fails")


def measure(event, text, fails):
    seen.add(text=text)
    bytes_of_text.set(bytes_in(text))
    sizes.observe(bytes_in(text))
    last_object.replace([(1, {"name": event.name})])
    try:
        undeclared.add()
    except HostError as error:
        log.info(f"undeclared={'invalid' if error.code == 'invalid' else 'other'}")
    if fails:
        raise RuntimeError("fails")


def defer(event):
    maps = kube.address("v1/configmaps", event.namespace)
    named = kube.address("v1/configmaps", event.namespace, event.name)
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": event.name}}
    create = outcome("deferred", kube.create, maps, document)
    update = outcome("deferred", kube.update, named, document)
    patch = outcome("deferred", kube.patch, event, labeled(event))
    delete = outcome("deferred", kube.delete, event)
    log.info(f"create={create} update={update} patch={patch} delete={delete}")


def handle(name, pod, event):
    counted.calls += 1
    log.info(
        f"{counted.calls} {name} {event} {event.reason} {event.attempt} old={shown(event.old)} sees={parts_of(pod)} "
        f"text={shown(pod)}"
    )
    action = "" if pod is None else pod.annotations.get("do", "")
    if action.startswith("defer-"):
        defer(event)
    return act(action.removeprefix("defer-"), pod, event)


@on.add("*", "*", payload=payload, old=lambda: config.old == "yes")
def added(pod, event):
    return handle("add", pod, event)


@on.update("*", "*", payload=payload)
def updated(pod, event):
    return handle("update", pod, event)


@on.delete("*", "*", payload=payload)
def deleted(last, event):
    return handle("vanish" if event.final_state_unknown else "delete", last, event)


@on.synced
def synced(source, call):
    fields = {"reason": call.reason, "attempt": call.attempt}
    log.info(f"synced {source.informer} {source.cluster}", extra=fields)


@index("text", "*", "*")
def text_value(pod):
    if pod.annotations.get("do") == "no-index":
        raise RuntimeError(text_of(pod))
    return text_of(pod)
