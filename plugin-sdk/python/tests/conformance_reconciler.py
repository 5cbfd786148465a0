"""The reconciler of the conformance kit in Python. tests/guests/README.md describes what it does."""

from informant import Permanent, again, kube, log, needs_events, plugin, reconcile, recorder, related, timer

plugin("conformance-reconciler", version="1")
needs_events()


def set_children(request, text):
    """The children that the text names."""

    def maps(are_fields):
        names = [name for name in text.split(",") if name and name.startswith("fields-") == are_fields]
        data = {"of": text}
        return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data} for name in names]

    done = kube.children(request, fields=maps(True), whole=maps(False))
    skipped = str(bool(done.prune_skipped)).lower()
    log.info(f"written={done.written} pruned={done.pruned} refused={','.join(done.refused)} skipped={skipped}")
    return done


@reconcile("v1", "Pod", when=["/spec", "/metadata/annotations"], owns=related("v1", "ConfigMap"))
def reconciled(pod, request):
    text = "" if pod is None else pod.at("/spec/text", "")
    state = "gone" if pod is None else f"text={text}"
    behind = " behind" if request.cache_is_behind else ""
    log.info(f"reconcile {request} {request.reason} {request.attempt} {state}{behind}")
    action = "" if pod is None else pod.annotations.get("do", "")
    if action.startswith("event"):
        recorder.warning(request, "Seen", text)
    match action:
        case "children":
            set_children(request, text)
        case "status":
            conditions = kube.conditions_of(set_children(request, text))
            kube.set_status(request, pod, {"text": text, "conditions": conditions})
        case "finalize":
            is_wanted = kube.finalize(request, pod, lambda: log.info("clean up"))
            log.info(f"finalize={str(is_wanted).lower()}")
        case "retryable" | "event-retryable" if request.attempt == 0:
            raise RuntimeError(text)
        case "event-permanent":
            raise Permanent(text)
        case "requeue" if request.reason != "requeue-after":
            return again(seconds=0.1)
    return None


@timer("fails", every="1h")
@timer("poll", every="10s")
def ran(tick):
    scheduled = tick.scheduled.strftime("%Y-%m-%dT%H:%M:%SZ")
    log.info(f"timer {tick.name} {scheduled} missed={tick.missed} attempt={tick.attempt}")
    pod = recorder.reference("v1", "Pod", "web", "a", uid="uid-web-a")
    recorder.normal(pod, "Ticked", f"{tick.name} has run, attempt {tick.attempt}")
    if tick.name == "fails" and tick.attempt == 0:
        raise RuntimeError("asked to fail")
