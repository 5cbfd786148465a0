"""Runs a scenario: the plugin in a driver, with retries, dead letters and a clock that only ``wait`` moves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

from ...dispatch import Failed
from ...errors import HostError, HttpError, KubeError
from ...host import ROLES, HttpRequest
from ..cluster import merged, resource_of
from ..driver import Driver
from .expect import difference, fits, kv_difference, members_differences, shown, stream_differences
from .format import STREAMS, Expect, Reference, Scenario, Step, reference_text
from .happened import call_of, expected_calls, key_text, line_of, write_of
from .nodes import Node

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

#: Seconds; as in Informant, without what it adds at random.
BACK_OFF_FIRST = 1.0
BACK_OFF_MAX = 300.0
REQUEUE_MIN = 0.1

#: The most events of the plugin's own writes after one step.
EVENTS_MAX = 1_000

_ROLES = {
    "on-add": "event-handler",
    "on-update": "event-handler",
    "on-delete": "event-handler",
    "on-synced": "sync-handler",
    "save": "state",
    "restore": "state",
}
_DEFINITIONS = ("v1/namespaces", "apiextensions.k8s.io/v1/customresourcedefinitions")
_SERIES = re.compile(r"(?P<name>[A-Za-z0-9_]+)(?:\{(?P<labels>.*)\})?")
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_count", "_sum", "_bucket")}

_NO_STATE = "kv needs the state database; add this line to config.toml: [state]"
_INDEX_REMEDY = "add it to the scenario: config: {{ informer: {{ {0}: {{ index: {{ {1}: {2} }} }} }} }}"

#: A call of the plugin, given the attempt.
Call = Callable[[int], Any]


@dataclass
class Timer:
    """A call that is due later: a retry, or one that the plugin asked for."""

    key: Any
    due: float
    attempt: int
    call: Call
    #: The state before the event, as the plugin knows it. For retries.
    before: Any = None
    is_retry: bool = True
    #: Failures that lengthen the back-off: not the waits that the plugin asked for.
    failures: int = 0


class Run:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._driver: Driver | None = None
        self._refusal: str | None = None
        self._now = 0.0
        self._answers = [dict(answer) for answer in scenario.answers]
        self._requests: list[dict[str, Any]] = []
        self._timers: dict[Any, Timer] = {}
        self._dead_letters: dict[Any, tuple[str, Call]] = {}

    def all(self) -> list[str]:
        """Runs all steps. Returns what differs."""
        differences: list[str] = []
        self._refusable(self._start)
        for step in self._scenario.steps:
            if self._driver is not None:
                self._act(step)
            if step.expect is not None:
                differences += self._compare(step.expect)
            if self._refusal is not None:
                differences.append(f"{step.node.place}: {step.node.name}: the plugin was refused: {self._refusal}")
            self._refusal = None
            if self._driver is None:
                break
        return differences

    # --- what happens ---

    @property
    def _started(self) -> Driver:
        assert self._driver is not None
        return self._driver

    def _start(self) -> None:
        scenario = self._scenario
        plugin, allow = scenario.plugin, scenario.plugin.allow or {}
        driver = self._driver = Driver(scenario.path, config=plugin.config, name=plugin.name, log_level="info")
        for key, value in scenario.kv.items():
            driver.host.keys.rows[key] = (value if isinstance(value, str) else json.dumps(value)).encode()
        if "http" in allow:
            driver.serve_http(self._answer)
        if "kube" not in allow:
            driver.refuse_kube(KubeError("denied", "not granted (allow.kube)"))
        if not plugin.has_kv:
            driver.host.kv_error = HostError("denied", _NO_STATE)
        driver.host.index_remedy = _INDEX_REMEDY.format
        rules = driver.manifest.get("events", [])
        types = {resource_of(rule["apiVersion"], rule["kind"]): (rule["apiVersion"], rule["kind"]) for rule in rules}
        for object in self._objects():
            types[resource_of(object["apiVersion"], object["kind"])] = (object["apiVersion"], object["kind"])
        watched: set[tuple[str, str]] = set()
        for informer in scenario.informers:
            if plugin.informers is not None and informer.name not in plugin.informers:
                continue
            if informer.resource not in types:
                informer.node.needs_informant(f"a resource that no object of the scenario has ({informer.resource})")
            watched.add(types[informer.resource])
            driver.add_source(informer.name, *types[informer.resource])
            for index, pointer in informer.indexes.items():
                driver.add_index(informer.name, index, pointer)
        for rule in rules:
            kind = (rule["apiVersion"], rule["kind"])
            if "*" not in kind and kind not in watched:
                watched.add(kind)
                driver.add_source(resource_of("", rule["kind"]).lstrip("/"), *kind)
        driver._watched = watched
        self._check_what_can_match()
        for object in scenario.objects:
            self._apply(object, "initial")
        if self._has("sync-handler"):
            for info in [info for info in driver.host.cluster.sources if (info.api_version, info.kind) in watched]:
                self._make((info.id,), partial(driver._synced, info.id))

    def _objects(self) -> list[Any]:
        """All objects that the scenario writes."""
        objects = list(self._scenario.objects)
        for step in self._scenario.steps:
            if step.action == "apply":
                objects += step.value
            elif step.action == "patch":
                objects.append(step.value)
        return objects

    def _has(self, role: str) -> bool:
        return role in self._started.manifest.get("roles", ROLES)

    def _refusable(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Failed as failed:
            self._refusal = failed.message

    def _act(self, step: Step) -> None:
        value, cluster = step.value, self._started.host.cluster
        if step.action == "apply":
            for object in value:
                self._apply(object, "watch")
        elif step.action == "patch":
            key = cluster.key_of(value)
            if key not in cluster.objects:
                step.node.fail(f"{reference_text(value)} does not exist: apply it first")
            self._change(key, merged(cluster.objects[key], value), "watch")
        elif step.action == "delete":
            self._delete(value)
        elif step.action == "wait":
            self._wait(value)
        elif step.action == "http":
            self._answers = [dict(answer) for answer in value]
        elif step.action == "swap":
            self._refusable(lambda: self._started.swap(value))
        elif step.action == "trigger":
            key = self._existing(value)
            self._make(key, lambda attempt: self._again(key, "trigger", attempt))
            self._settle()
        elif step.action == "requeue":
            self._redeliver(value)

    def _apply(self, object: Any, reason: str) -> None:
        namespace = object["metadata"].get("namespace")
        if namespace not in (None, "default"):
            self._create_namespace(namespace, reason)
        self._change(self._started.host.cluster.key_of(object), object, reason)

    def _create_namespace(self, name: str, reason: str) -> None:
        """Namespaces that do not exist are created first."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        key = self._started.host.cluster.key_of(namespace)
        if key not in self._started.host.cluster.objects:
            self._change(key, namespace, reason)

    def _change(self, key: Any, after: Any, reason: str) -> None:
        """Writes an object to the cluster, and delivers the event."""
        cluster = self._started.host.cluster
        before = cluster.objects.get(key)
        if before is not None:
            kept = {name: before["metadata"][name] for name in ("uid", "resourceVersion")}
            after = {**after, "metadata": {**after["metadata"], **kept}}
            # The API server writes nothing then.
            if before == after:
                return
        cluster.put(after)
        self._event(key, before, reason)

    def _delete(self, reference: Reference) -> None:
        cluster = self._started.host.cluster
        key = self._existing(reference)
        before = cluster.objects[key]
        if before["metadata"].get("finalizers"):
            time = (START + timedelta(seconds=self._now)).strftime("%Y-%m-%dT%H:%M:%SZ")
            self._change(key, merged(before, {"metadata": {"deletionTimestamp": time}}), "watch")
            return
        del cluster.objects[key]
        self._event(key, before, "watch")

    def _existing(self, reference: Reference) -> Any:
        key = self._key_of(reference)
        if key is None:
            reference.node.fail(f"{reference.text} does not exist")
        return key

    def _key_of(self, reference: Reference) -> Any:
        cluster = self._started.host.cluster
        for key in cluster.objects:
            if (cluster.sources[key[0]].resource, *key[1:]) == (
                reference.resource,
                reference.namespace,
                reference.name,
            ):
                return key
        return None

    def _event(self, key: Any, before: Any, reason: str) -> None:
        """Delivers what an object is now; ``before`` is its previous state. While a retry is due, that delivers it."""
        driver = self._started
        timer = self._timers.get(key)
        known = timer.before if timer is not None and timer.is_retry else before

        def call(attempt: int) -> Any:
            now = driver.host.cluster.objects.get(key)
            if now is not None:
                return driver._deliver(key, known, now, reason, attempt)
            if before is not None and driver._selects(before):
                return driver._call_delete(reason, attempt, key, before, False)
            return None

        if timer is not None and timer.is_retry:
            timer.attempt, timer.call = 0, call
        else:
            self._make(key, call, before=before)
        self._settle()

    def _settle(self) -> None:
        """Delivers the events of the plugin's own writes."""
        changed = self._started.host.cluster.changed
        events = 0
        while changed:
            events += 1
            if events > EVENTS_MAX:
                self._scenario.root.fail(f"the plugin still writes after {EVENTS_MAX} events: compare before writing")
            self._event(*changed.pop(0), "watch")

    def _again(self, key: Any, reason: str, attempt: int) -> Any:
        """Calls the plugin for an object that has not changed."""
        object = self._started.host.cluster.objects.get(key)
        if object is None or not self._started._selects(object):
            return None
        return self._started._upsert(reason, attempt, key, False, None, object)

    def _make(self, key: Any, call: Call, attempt: int = 0, before: Any = None, failures: int = 0) -> None:
        """Makes a call, and keeps what follows from it."""
        driver = self._started
        calls = len(driver.calls)
        try:
            call(attempt)
        except Failed as failed:
            self._forget(key)
            if failed.kind == "permanent":
                self._dead_letters[key] = (failed.message, call)
            elif failed.kind == "retry-after":
                due = self._now + failed.failure.after_ms / 1000
                self._timers[key] = Timer(key, due, attempt + 1, call, before, failures=failures)
            else:
                due = self._now + min(BACK_OFF_FIRST * 2**failures, BACK_OFF_MAX)
                self._timers[key] = Timer(key, due, attempt + 1, call, before, failures=failures + 1)
            return
        # An event that the plugin is not called for cancels nothing.
        if len(driver.calls) == calls:
            return
        self._forget(key)
        requeue = driver._requeues.get(key)
        if requeue is not None:
            due = self._now + max(requeue.seconds, REQUEUE_MIN)

            def again(attempt: int) -> Any:
                driver._requeues.pop(key, None)
                if requeue.deleted is not None:
                    return driver._call_delete("requeue-after", attempt, key, *requeue.deleted)
                return self._again(key, "requeue-after", attempt)

            self._timers[key] = Timer(key, due, 0, again, is_retry=False)

    def _forget(self, key: Any) -> None:
        """A call of a key ends what is due for it."""
        self._timers.pop(key, None)
        self._dead_letters.pop(key, None)

    def _wait(self, seconds: float) -> None:
        end = self._now + seconds
        while True:
            due = sorted((timer for timer in self._timers.values() if timer.due <= end), key=lambda timer: timer.due)
            if not due:
                break
            timer = due[0]
            self._now = max(self._now, timer.due)
            del self._timers[timer.key]
            self._make(timer.key, timer.call, timer.attempt, timer.before, timer.failures)
            self._settle()
        self._now = end

    def _redeliver(self, reference: Reference | None) -> None:
        """Redelivers dead letters."""
        wanted = None if reference is None else self._existing(reference)
        due = [(key, call) for key, (_, call) in self._dead_letters.items() if wanted in (None, key)]
        if reference is not None and not due:
            reference.node.fail(f"{reference.text} is no dead letter")
        for key, call in due:
            again = call if len(key) == 1 else lambda attempt, key=key: self._again(key, "requeue", attempt)
            self._make(key, again)
        self._settle()

    def _answer(self, request: HttpRequest) -> Any:
        """The answer to an HTTP request: of the first that matches and is not used up."""
        url = f"{request.scheme}://{request.authority}{request.path}"
        headers = {name.lower(): value for name, value in request.headers}
        made: dict[str, Any] = {"method": request.method, "url": url, "headers": headers, "body": request.body.decode()}
        self._requests.append(made)
        for answer in self._answers:
            is_its = answer.get("method") in (None, request.method) and fits(answer["url"], url)
            if not is_its or answer.get("times") == 0:
                continue
            if "times" in answer:
                answer["times"] -= 1
            if "error" in answer:
                made["error"] = answer["error"]
                raise HttpError(answer["error"], f"the scenario answers with {answer['error']}")
            made["status"] = answer.get("status", 200)
            return made["status"], answer.get("headers", {}), answer.get("body", "")
        made["error"] = "connect"
        raise HttpError("connect", f"the scenario has no answer to {request.method} {url}")

    # --- what is expected ---

    def _check_what_can_match(self) -> None:
        """Refuses expectations that can never match, and objects that nothing would notice."""
        watched = self._started._watched or set()
        resources = {resource_of(*kind) for kind in watched}
        for step in self._scenario.steps:
            for object in step.value if step.action == "apply" else []:
                resource = resource_of(object["apiVersion"], object["kind"])
                is_covered = "kube" in (self._scenario.plugin.allow or {}) or resource in _DEFINITIONS
                if resource not in resources and not is_covered:
                    why = f"no informer of the plugin watches {resource}, and allow.kube does not cover it"
                    step.node.at("apply").fail(why)
            for call, object, node in expected_calls(step.expect):
                if not self._has(_ROLES[call]):
                    node.fail(f"the plugin has no function for {call}")
                resource = (object or "").split(" ")[0]
                if resource and resource not in resources:
                    node.fail(f"no informer of the plugin watches {resource}")
            if step.expect is not None and step.expect.node.has("metrics"):
                for series, node in step.expect.node.at("metrics").members():
                    self._series(series, node)

    def _compare(self, expect: Expect) -> list[str]:
        node, differences = expect.node, []
        happened = self._happened()
        for stream in STREAMS:
            if node.has(stream):
                differences += stream_differences(stream, node.at(stream), happened[stream])
        if self._driver is not None:
            differences += self._state_differences(expect)
            self._driver.clear()
            self._requests.clear()
        if node.has("refused"):
            at = node.at("refused")
            if self._refusal is None:
                differences.append(f"{at.place}: refused: the plugin was not refused")
            elif not fits(at.text(), self._refusal):
                differences.append(f"{at.place}: refused: expected {shown(at.value)}, found {shown(self._refusal)}")
            self._refusal = None
        return differences

    def _happened(self) -> dict[str, list[Any]]:
        """What the streams of an ``expect`` are compared with."""
        if self._driver is None:
            return {stream: [] for stream in STREAMS}
        host = self._driver.host
        return {
            "calls": [call_of(call) for call in self._driver.calls],
            "log": [line_of(line) for line in host.logs if line.level not in ("trace", "debug")],
            "writes": [write_of(sent) for sent in host.cluster.sent],
            "http": self._requests,
            "deadLetters": [
                {"object": self._shown(key), "error": error} for key, (error, _) in self._dead_letters.items()
            ],
        }

    def _shown(self, key: Any) -> str:
        source = self._started.host.cluster.sources[key[0]]
        return f"source {source.id}" if len(key) == 1 else f"{source.resource} {key_text(key)}"

    def _state_differences(self, expect: Expect) -> list[str]:
        node, cluster = expect.node, self._started.host.cluster
        differences = []
        for entry, object in expect.objects:
            found = cluster.objects.get(cluster.key_of(object))
            why = "the object does not exist" if found is None else difference(object, found)
            if why is not None:
                differences.append(f"{entry.place}: {entry.name}: {why}")
        for reference in expect.references:
            if self._key_of(reference) is not None:
                differences.append(f"{reference.node.place}: {reference.node.name}: {reference.text} exists")
        rows = self._started.host.keys.rows
        differences += members_differences(node, "kv", lambda key, at: kv_difference(at.value, rows.get(key)))
        differences += members_differences(
            node, "metrics", lambda name, at: difference(at.value, self._metric(name, at))
        )
        if node.has("indexes"):
            for informer, indexes in node.at("indexes").members():
                for index, values in indexes.members():
                    for value, keys in values.members():
                        why = difference(sorted(keys.value), self._indexed(informer, index, value, keys))
                        if why is not None:
                            differences.append(f"{keys.place}: {keys.name}: {why}")
        return differences

    def _indexed(self, informer: str, index: str, value: str, node: Node) -> list[str]:
        driver = self._started
        known = driver.host.indexes.get((informer, index))
        if known is None and index not in driver.host.own_indexes:
            node.fail(f"neither the manifest nor informer.{informer}.index in config declares the index {index}")
        values = known or (lambda object: driver.index(object).get(index, []))
        sources = [info.id for info in driver.host.cluster.sources if info.informer == informer]
        if not sources:
            node.fail(f"the plugin has no informer {informer}")
        objects = driver.host.cluster.objects.items()
        found = [key for key, object in objects if key[0] in sources and value in values(object)]
        return sorted(map(key_text, found))

    def _series(self, series: str, node: Node) -> tuple[str, str, dict[str, str]]:
        """The metric of ``failures_total{namespace="shop"}``, the suffix, and the labels."""
        parsed = _SERIES.fullmatch(series)
        if parsed is None:
            node.fail(f'"{series}" is no series')
        labels = dict(re.findall(r'([A-Za-z0-9_]+)="([^"]*)"', parsed["labels"] or ""))
        for metric, declared in self._started.host.declared.items():
            for suffix in _SUFFIXES[declared["type"]]:
                if parsed["name"] == metric + suffix:
                    return metric, suffix, labels
        node.fail(f"the manifest declares no metric {parsed['name']}; a counter ends in _total")

    def _metric(self, series: str, node: Node) -> float | None:
        name, suffix, labels = self._series(series, node)
        bound = labels.pop("le", "+Inf")
        value = self._started.metric(name, **labels)
        if not isinstance(value, list):
            return value
        if suffix == "_sum":
            return sum(value)
        return len([one for one in value if suffix == "_count" or bound == "+Inf" or one <= float(bound)])
