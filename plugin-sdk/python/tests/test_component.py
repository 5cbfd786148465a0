"""Tests of the built script runner, and of a component: in wasmtime, over the fake host of the test kit.

``cargo xtask python-runner`` sets the environment variables and installs what the tests need.
"""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import textwrap
import threading
import unittest
import unittest.mock
from typing import Any

from support import ROOT, pod

#: The built runner.
RUNNER = os.environ.get("INFORMANT_PYTHON_RUNNER")

#: A folder in which componentize-py is installed.
COMPONENTIZE = os.environ.get("INFORMANT_COMPONENTIZE_PY")

if RUNNER is not None:
    from component_host import Component, Failure, Instance, custom_sections, engine_of

    ENGINE = engine_of()


@unittest.skipUnless(RUNNER, "INFORMANT_PYTHON_RUNNER does not name the built runner")
class Runner(unittest.TestCase):
    component: Any

    @classmethod
    def setUpClass(cls) -> None:
        cls.component = Component.from_file(ENGINE, RUNNER)

    def instance(self, text: str, name: str = "handler.py", **options: Any) -> Any:
        """An instance of the script, without a call yet."""
        instance = Instance(ENGINE, self.component, (name, textwrap.dedent(text).lstrip("\n")), **options)
        self.addCleanup(instance.close)
        return instance

    def start(self, text: str, **context: Any) -> Any:
        """An instance of the script that is ready."""
        instance = self.instance(text)
        instance.init(**context)
        return instance

    def example(self, name: str = "crash_loop.py") -> Any:
        with open(os.path.join(ROOT, "examples", name), encoding="utf-8") as file:
            return self.instance(file.read(), name)

    def fails(self, call: Any, *arguments: Any) -> Any:
        with self.assertRaises(Failure) as caught:
            call(*arguments)
        return caught.exception

    def test_the_example_reports_and_hands_over_its_state(self) -> None:
        manifest = self.example().describe()
        self.assertEqual(
            (manifest["name"], manifest["roles"]), ("crash-loop-python", ["event-handler", "sync-handler", "state"])
        )
        first, second = self.example(), self.example()
        first.init(config={"min-restarts": 2})
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        status = {"containerStatuses": [{"name": "app", "restartCount": 2, "state": waiting}]}
        self.assertIsNone(first.put(pod(uid="u", status=status)))
        first.synced(0)
        second.init(because="swap")
        second.restore(first.save())
        self.assertEqual(second.save(), first.save())
        self.assertIn(b'"looping_at":2', first.save())
        self.assertEqual(
            [str(line) for line in first.host.logs],
            [
                "warn: web/a: container app is crash-looping: 2 restarts",
                "info: source 0 is synced; in all sources 1 containers crash-looping, 0 OOM kills seen",
            ],
        )

    def test_the_runner_says_what_it_runs(self) -> None:
        sections = custom_sections(str(RUNNER))
        described = json.loads(sections["informant:runner"])
        instance = self.start(
            """
            import sys
            from informant import CONTRACT, log, on

            @on.upsert("v1", "Pod")
            def f(pod): log.info("%d.%d.%d %s", *sys.version_info[:3], CONTRACT)
            """
        )
        instance.put(pod())
        version, contract = instance.host.logs[0].message.split()
        expected = {"language": "Python", "suffixes": ["py"], "version": version, "contract": contract}
        self.assertEqual(described, expected)
        self.assertEqual(json.loads(sections["informant-sdk"])["contract"], contract)

    def test_every_import_of_the_contract_can_be_called(self) -> None:
        instance = self.start(
            """
            from informant import HostError, KubeError, again, kube, kv, log, metrics, on, recorder, store

            count = metrics.counter("count", labels=["a"])
            gauge = metrics.gauge("gauge", labels=["a"])
            ages = metrics.histogram("age")

            @on.upsert("v1", "Pod", old=True)
            def f(pod, event):
                log.info("%s %s", event.reason, event.old and event.old.labels, extra={"n": 1})
                (source,) = store.sources("pods")
                log.info("%s %s %s", source.resource, source.state, source.is_synced)
                log.info("%s", [store.get(event, "web", "a").name, store.find("pods", "web", "none")])
                log.info("%s", [found.key for found in store.list("pods", label_selector="!x", fields=["/metadata"])])
                log.info("%s", [found.key for found in store.by_index("pods", "node", "n")])
                (key,) = store.index_keys("pods", "node", "n")
                log.info("%s %s", key.name, list(store.index_values("pods", "node")))
                config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
                kube.create(kube.address("v1/configmaps", "web"), config_map)
                kube.update(event, dict(pod))
                kube.patch(event, labels={"a": "b"})
                kube.apply(event, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
                log.info("%s %s", kube.now.get(event).name, len(list(kube.now.list("v1/pods"))))
                log.info("%s", kube.now.patch(event, annotations={"c": "d"}, dry_run=True).annotations)
                kube.delete(event)
                try:
                    kube.now.create(event, dict(pod))
                except KubeError as error:
                    log.info("%s %s %s", error.code, error.status, error.reason)
                try:
                    store.find("none", "", "")
                except HostError as error:
                    log.info("%s", error.code)
                kv.set("k", {"ü": 1})
                kv.delete("gone")
                log.info("%s %s %s", kv.get("k"), kv.set_if_absent("k"), list(kv.list()))
                count.add(2, a="x")
                gauge.set(1, a="y")
                gauge.replace([(3, {"a": "z"})])
                ages.observe(0.5)
                recorder.warning(event, "Crashing", "ü", related=recorder.reference("v1", "Node", name="n"))
                try:
                    recorder.normal(event, "not camel case", "")
                except HostError as error:
                    log.info("%s", error.code)
                return again(seconds=2)
            """
        )
        host = instance.host
        for name, type, labels in (("count", "counter", ["a"]), ("gauge", "gauge", ["a"]), ("age", "histogram", [])):
            host.declared[name] = {"name": name, "type": type, "labels": labels}
        host.indexes[("pods", "node")] = lambda object: ["n"]
        host.cluster.add_source("pods", "v1", "Pod", "", True)
        self.assertEqual(instance.put(pod(labels={"l": "1"})), 2000)
        self.assertEqual(
            [line.message for line in host.logs],
            [
                "watch None",
                "v1/pods live True",
                "['a', None]",
                "['web/a']",
                "['web/a']",
                "a ['n']",
                "a 1",
                "{'c': 'd'}",
                "already-exists 409 AlreadyExists",
                "unknown-informer",
                "{'ü': 1} False ['k']",
                "invalid",
            ],
        )
        self.assertEqual(host.logs[0].fields, {"n": "1"})
        writes = [(write.verb, write.object) for write in host.cluster.writes]
        self.assertEqual(
            writes,
            [("create", "web/c"), ("update", "web/a"), ("patch", "web/a"), ("patch", "web/a"), ("delete", "web/a")],
        )
        self.assertEqual(dict(host.keys), {"k": {"ü": 1}})
        expected = {("count", (("a", "x"),)): 2, ("gauge", (("a", "z"),)): 3, ("age", ()): [0.5]}
        self.assertEqual(host.series, expected)
        (recorded,) = host.events
        self.assertEqual(str(recorded), "Warning Crashing Pod web/a: ü")
        self.assertEqual((recorded.action, str(recorded.related)), ("Crashing", "Node n"))
        self.assertEqual((recorded.regarding.uid, recorded.regarding.api_version), ("uid-1", "v1"))

    def test_a_timer_runs_and_its_failures_are_reported(self) -> None:
        text = """
            from informant import RetryAfter, log, timer

            @timer("poll", every="10s", at_start=True)
            def poll(tick):
                if tick.attempt:
                    raise RetryAfter(1.5, "busy")
                log.info("%s %s %s", tick, tick.scheduled.isoformat(), tick.missed)
            """
        described = self.instance(text).describe()
        self.assertEqual(described["roles"], ["timer-handler"])
        self.assertEqual(described["timers"], [{"name": "poll", "every": "10s", "atStart": True}])
        instance = self.start(text)
        instance.tick("poll", "2026-03-30T06:00:00.123456789Z", missed=2)
        self.assertEqual(instance.host.logs[0].message, "poll 2026-03-30T06:00:00.123456+00:00 2")
        failed = self.fails(lambda: instance.tick("poll", attempt=1))
        self.assertEqual((failed.kind, failed.after_ms), ("retry-after", 1500))
        self.assertEqual(self.fails(instance.tick, "pool").kind, "permanent")

    def test_a_reconciler_sets_children_status_and_finalizer(self) -> None:
        text = """
            from informant import KubeError, kube, log, reconcile, related

            @reconcile("v1", "Pod", owns=[related("v1", "Secret")])
            def f(pod, request):
                if not kube.finalize(request, pod, lambda: None):
                    return
                secrets = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}} for name in "ab"]
                done = kube.children(request, fields=secrets[:1], whole=secrets[1:])
                log.info("%s", tuple(done))
                kube.set_status(request, pod, {"written": done.written, "conditions": kube.conditions_of(done)})
                try:
                    kube.children(request, fields=[])
                except KubeError as error:
                    log.info("%s %s", error.code, error)
            """
        instance = self.start(text)
        instance.host.reconciler = self.instance(text).describe()["reconciler"]
        instance.reconcile(pod(uid="u"))
        cluster = instance.host.cluster
        (key,) = cluster.objects
        self.assertEqual(cluster.objects[key]["metadata"]["finalizers"], ["informant.dev/test"])
        other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "web", "name": "a"}}
        cluster.put(other)
        instance.reconcile(cluster.objects[key])
        lines = [line.message for line in instance.host.logs]
        message = "invalid the call has set its children already: set all of them at once"
        self.assertEqual(lines, ["(1, 0, ['Secret web/a'], None)", message])
        verbs = [(write.verb, write.resource, write.object) for write in cluster.writes[1:]]
        self.assertEqual(verbs, [("create", "v1/secrets", "web/b"), ("patch", "v1/pods/status", "web/a")])
        refused, pruned = cluster.objects[key]["status"]["conditions"]
        self.assertEqual((refused["status"], refused["message"]), ("True", "Secret web/a"))
        self.assertEqual((pruned["status"], pruned["message"]), ("False", ""))

    def test_index_values_are_computed(self) -> None:
        instance = self.start(
            """
            from informant import index

            @index("image", "v1", "Pod")
            def image(pod): return pod.all("/spec/containers/*/image")
            """,
            role="index",
        )
        self.assertEqual(instance.index(pod(spec={"containers": [{"image": "x"}, {"image": "y"}]})), [["x", "y"]])

    def test_an_exception_keeps_the_instance(self) -> None:
        instance = self.start(
            """
            from informant import Permanent, RetryAfter, on
            seen = []

            @on.upsert("v1", "Pod")
            def f(pod):
                seen.append(pod.name)
                if pod.name == "retry":
                    raise RetryAfter(1.5, "busy")
                if pod.name == "never":
                    raise Permanent("no")
                return {}[len(seen)]
            """
        )
        kinds = [
            (failed.kind, failed.message, failed.after_ms)
            for failed in (self.fails(instance.put, pod(name)) for name in ("a", "retry", "never"))
        ]
        self.assertEqual(
            kinds,
            [
                ("retryable", "handler.py:11: KeyError: 1", None),
                ("retry-after", "handler.py:8: RetryAfter: busy", 1500),
                ("permanent", "handler.py:10: Permanent: no", None),
            ],
        )
        self.assertEqual(self.fails(instance.put, pod("b")).message, "handler.py:11: KeyError: 4")

    def test_an_invalid_script_is_refused_with_its_line(self) -> None:
        for text, message in (
            ("x = 1\nprint((1\n", "handler.py:2:7: SyntaxError: '(' was never closed"),
            ("1 / 0\n", "handler.py:1: ZeroDivisionError: division by zero"),
            ("x = 1\n", "no function is registered that Informant would call"),
            ("import asyncio\n", "handler.py:1: ImportError: asyncio does not work in Informant"),
            ("import requests\n", "handler.py:1: imports requests, but a script can import the standard library"),
            ("import tkinter\n", "a module of the standard library that scripts cannot use"),
            ("from informant import settings\nsettings(a=1)\n", "config: unknown key `b`"),
        ):
            with self.subTest(text):
                failed = self.fails(lambda text=text: self.instance(text).describe(config={"b": 1}))
                self.assertIn(message, failed.message)

    def test_recursion_is_an_exception_before_the_stack_ends(self) -> None:
        instance = self.start(
            """
            import functools
            from informant import on

            class Attributes:
                def __getattr__(self, name): return getattr(self, name + "x")

            class Order:
                def __lt__(self, other): return sorted([Order(), Order()])

            @functools.lru_cache(None)
            def cached(n): return cached(n + 1)

            CALLS = {
                "function": lambda: CALLS["function"](),
                "attributes": lambda: Attributes().a,
                "order": lambda: Order() < Order(),
                "cached": lambda: cached(0),
                "map": lambda: list(map(CALLS["map"], [])) or list(map(lambda _: CALLS["map"](), [1])),
                "format": lambda: "{0.x}".format(Attributes()),
            }

            @on.upsert("v1", "Pod")
            def f(pod): CALLS[pod.name]()
            """
        )
        for name in ("function", "attributes", "order", "cached", "map", "format"):
            with self.subTest(name):
                self.assertIn("RecursionError", self.fails(instance.put, pod(name)).message)

    def test_objects_nested_too_deeply_are_dead_letters(self) -> None:
        instance = self.start("from informant import on\n@on.upsert('v1', 'Pod')\ndef f(pod): pod.name\n")
        nested: Any = []
        for _ in range(900):
            nested = [nested]
        failed = self.fails(instance.put, pod(spec={"a": nested}))
        self.assertEqual(failed.kind, "permanent")
        self.assertIn("the object has more than 500 levels", failed.message)

    def test_an_instance_takes_less_than_16_mb(self) -> None:
        with unittest.mock.patch("component_host.MEMORY_BYTES", 16_000_000):
            instance = self.start("from informant import on\n@on.upsert('v1', 'Pod')\ndef f(pod): pod.name\n")
        for _ in range(10):
            instance.put(pod())

    def test_instances_have_different_random_numbers(self) -> None:
        text = """
            import random
            from informant import log, on

            @on.startup
            def start(): log.info("%s", random.random())

            @on.synced
            def synced(): pass
            """
        first, second = self.start(text), self.start(text)
        self.assertNotEqual(first.host.logs, second.host.logs)

    def test_what_is_printed_is_written_line_by_line(self) -> None:
        instance = self.start("from informant import on\n@on.upsert('v1', 'Pod')\ndef f(pod): print('seen', pod.key)\n")
        instance.put(pod())
        self.assertEqual(instance.stdout, "seen web/a\n")

    def test_useful_modules_can_be_imported(self) -> None:
        instance = self.start(
            """
            import collections, dataclasses, datetime, decimal, enum, hashlib, ipaddress, re, statistics, tomllib, uuid
            import yaml
            from informant import log, on

            @dataclasses.dataclass
            class Pair:
                a: int

            @on.upsert("v1", "Pod")
            def f(pod):
                log.info("%s", yaml.safe_dump(pod.metadata, sort_keys=True))
                log.info("%s %s", yaml.safe_load("a: [1]"), Pair(1))
                "ü".encode("latin-1"), "ü".encode("idna"), b"x".decode("cp1252")
            """
        )
        instance.put(pod(uid="u"))
        lines = [line.message for line in instance.host.logs]
        self.assertEqual(lines, ["name: a\nnamespace: web\nresourceVersion: '1'\nuid: u\n", "{'a': [1]} Pair(a=1)"])

    def test_requests_are_sent_over_wasi_http(self) -> None:
        received = []

        class Service(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received.append((self.path, self.headers["x-key"], self.headers["content-type"], len(body)))
                self.send_response(429 if self.path == "/busy" else 200)
                self.send_header("Retry-After", "7")
                self.end_headers()
                self.wfile.write(b'{"ok": true}')

            def log_message(self, *_: Any) -> None:
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Service)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        instance = self.start(
            """
            from informant import HttpError, http, log, on

            @on.upsert("v1", "Pod")
            def f(pod):
                port = pod.labels["port"]
                body = {"x": "y" * 100_000}
                answer = http.post(f"http://127.0.0.1:{port}/{pod.name}", json=body, headers={"X-Key": "k"})
                answer.ensure_ok()
                log.info("%s %s", answer.status, answer.json())
                try:
                    http.get("http://127.0.0.1:1/", timeout=5)
                except HttpError as error:
                    log.info("%s %s", error.code, error)
                try:
                    http.get("http://127.0.0.1:1/", headers={"host": "x"})
                except HttpError as error:
                    log.info("%s %s", error.code, error)
            """
        )
        labels = {"port": str(server.server_port)}
        instance.put(pod(labels=labels))
        self.assertEqual(
            [line.message for line in instance.host.logs],
            [
                "200 {'ok': True}",
                "connect GET http://127.0.0.1:1: no connection",
                "invalid GET http://127.0.0.1:1: plugins cannot set the header host",
            ],
        )
        self.assertEqual(received, [("/a", "k", "application/json", 100_009)])
        failed = self.fails(instance.put, pod("busy", labels=labels))
        self.assertEqual((failed.kind, failed.after_ms), ("retry-after", 7000))


@unittest.skipUnless(RUNNER and COMPONENTIZE, "INFORMANT_COMPONENTIZE_PY does not name a folder with componentize-py")
class BuiltComponent(unittest.TestCase):
    def test_an_app_module_becomes_a_component(self) -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            app = """
                from informant.component import *
                import handlers
                """
            handlers = """
                from informant import index, log, on, plugin, settings

                plugin("app", version="1.0.0")
                config = settings(index="name", greeting=str)

                try:
                    import socket
                except ImportError as error:
                    refused = str(error)

                @on.upsert("v1", "Pod")
                def f(pod, event):
                    if pod.name == "bad":
                        pod.spec.missing.more
                    log.info("%s %s", config.greeting, event)
                    log.info("%s", refused)

                @index(lambda: config.index, "v1", "Pod")
                def name(pod): return pod.name
                """
            for name, text in (("app.py", app), ("handlers.py", handlers)):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(textwrap.dedent(text))
            output = os.path.join(folder, "app.wasm")
            call = "import sys; sys.path.insert(0, sys.argv.pop(1)); import componentize_py; componentize_py.script()"
            paths = ["-p", folder, "-p", ROOT]
            command = [sys.executable, "-I", "-c", call, str(COMPONENTIZE), "componentize", *paths, "app", "-o", output]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            component = Component.from_file(ENGINE, output)
        described, refused, instance = (Instance(ENGINE, component) for _ in range(3))
        for made in (described, refused, instance):
            self.addCleanup(made.close)
        manifest = described.describe(config={"greeting": "hello", "index": "by-name"})
        self.assertEqual(manifest["indexes"]["names"], ["by-name"])
        with self.assertRaisesRegex(Failure, "config: `greeting` is missing: set it to a string"):
            refused.describe()
        instance.init(config={"greeting": "hello"})
        instance.put(pod())
        lines = [line.message for line in instance.host.logs]
        self.assertEqual(lines[0], "hello web/a")
        self.assertIn("socket does not work in Informant", lines[1])
        with self.assertRaisesRegex(
            Failure, "handlers.py:15: AttributeError: 'NoneType' object has no attribute 'more'"
        ):
            instance.put(pod("bad"))


if __name__ == "__main__":
    unittest.main()
