"""Runs a scenario: the plugin in a driver, on a clock that only ``wait`` moves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from ...dispatch import Failed
from ...errors import HostError, HttpError, KubeError
from ...host import ROLES, HttpRequest
from ..cluster import merged, resource_of
from ..driver import Driver
from .calls import Calls, Known, ObjectCall, SyncedCall, TimerCall
from .expect import difference, fits, kv_difference, members_differences, shown, stream_differences
from .format import STREAMS, Expect, Reference, Scenario, Step, reference_text
from .happened import call_of, event_of, expected_calls, key_text, line_of, write_of
from .nodes import Node

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

_ROLES = {
    "on-add": "event-handler",
    "on-update": "event-handler",
    "on-delete": "event-handler",
    "on-timer": "timer-handler",
    "on-synced": "sync-handler",
    "save": "state",
    "restore": "state",
}
_DEFINITIONS = ("v1/namespaces", "apiextensions.k8s.io/v1/customresourcedefinitions")
_SERIES = re.compile(r"(?P<name>[A-Za-z0-9_]+)(?:\{(?P<labels>.*)\})?")
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_count", "_sum", "_bucket")}

_NO_STATE = "kv needs the state database; add this line to config.toml: [state]"
_INDEX_REMEDY = "add it to the scenario: config: {{ informer: {{ {0}: {{ index: {{ {1}: {2} }} }} }} }}"


class Run:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._driver: Driver | None = None
        self._calls: Calls
        self._refusal: str | None = None
        self._answers = [dict(answer) for answer in scenario.answers]
        self._requests: list[dict[str, Any]] = []

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
        if "reconciler" in driver.manifest:
            scenario.root.needs_informant("a reconciler")
        self._calls = Calls(driver, scenario.root)
        for key, value in scenario.kv.items():
            driver.host.keys.rows[key] = (value if isinstance(value, str) else json.dumps(value)).encode()
        if "http" in allow:
            driver.serve_http(self._answer)
        if "kube" not in allow:
            driver.refuse_kube(KubeError("denied", "not granted (allow.kube)"))
        if allow.get("events") is not True:
            driver.refuse_events(HostError("denied", "not granted (allow.events)"))
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
                self._calls.make((info.id,), SyncedCall())

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
            self._calls.wait(value)
        elif step.action == "http":
            self._answers = [dict(answer) for answer in value]
        elif step.action == "swap":
            self._refusable(lambda: self._started.swap(value))
        elif step.action == "trigger":
            self._calls.ask(self._existing(value), ObjectCall("trigger", Known.ASKED))
        elif step.action == "timer":
            self._check_timer(value, step.node.at("timer"))
            self._calls.run_timer(TimerCall(value, START + timedelta(seconds=self._calls.now)))
        elif step.action == "requeue":
            self._redeliver(step.node, value)

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
        self._calls.event(key, before, reason)
        self._calls.settle()

    def _delete(self, reference: Reference) -> None:
        cluster = self._started.host.cluster
        key = self._existing(reference)
        before = cluster.objects[key]
        if before["metadata"].get("finalizers"):
            time = (START + timedelta(seconds=self._calls.now)).strftime("%Y-%m-%dT%H:%M:%SZ")
            self._change(key, merged(before, {"metadata": {"deletionTimestamp": time}}), "watch")
            return
        del cluster.objects[key]
        self._calls.event(key, before, "watch")
        self._calls.settle()

    def _existing(self, reference: Reference) -> Any:
        key = self._key_of(reference)
        if key is None:
            reference.node.fail(f"{reference.text} does not exist")
        return key

    def _key_of(self, reference: Reference) -> Any:
        return next((key for key in self._started.host.cluster.objects if self._is_its(key, reference)), None)

    def _is_its(self, key: Any, reference: Reference) -> bool:
        resource = self._started.host.cluster.sources[key[0]].resource
        return (resource, *key[1:]) == (reference.resource, reference.namespace, reference.name)

    def _redeliver(self, node: Node, reference: Reference | None) -> None:
        """Redelivers dead letters, or the object of a key."""
        keys = list(self._calls.dead_letters)
        if reference is not None:
            keys += self._started.host.cluster.objects
            keys = [key for key in keys if self._is_its(key, reference)][:1]
        if not keys:
            of = "" if reference is None else f" of {reference.text}"
            node.at("requeue").fail(f"the plugin has no dead letter{of}")
        for key in keys:
            self._calls.redeliver(key)

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
            if step.action == "timer":
                self._check_timer(step.value, step.node.at("timer"))
            for call, node in expected_calls(step.expect):
                if not self._has(_ROLES[call["call"]]):
                    node.fail(f"the plugin has no function for {call['call']}")
                if call.get("timer") is not None:
                    self._check_timer(call["timer"], node)
                resource = (call.get("object") or "").split(" ")[0]
                if resource and resource not in resources:
                    node.fail(f"no informer of the plugin watches {resource}")
            if step.expect is not None and step.expect.node.has("metrics"):
                for series, node in step.expect.node.at("metrics").members():
                    self._series(series, node)

    def _check_timer(self, timer: str, node: Node) -> None:
        names = self._started._timers
        if timer not in names:
            node.fail(
                f"the plugin has no timer {timer}, only {', '.join(names)}" if names else "the plugin has no timers"
            )

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
        host, letters = self._driver.host, self._calls.dead_letters.items()
        return {
            "calls": [call_of(call) for call in self._driver.calls],
            "log": [line_of(line) for line in host.logs if line.level not in ("trace", "debug")],
            "writes": [write_of(sent) for sent in host.cluster.sent],
            "http": self._requests,
            "events": [event_of(event) for event in host.events],
            "deadLetters": [{"object": self._shown(key), "error": letter.message} for key, letter in letters],
        }

    def _shown(self, key: Any) -> str:
        source = self._started.host.cluster.sources[key[0]]
        return f"{source.resource} {key_text(key)}"

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
