from __future__ import annotations

import json
import os
import re
import unittest

from support import ROOT, PluginTest

from informant.host import CONTRACT, LEVELS, REASONS


class Contract(unittest.TestCase):
    def test_the_contract_in_the_package_is_that_of_the_project(self) -> None:
        copies = [os.path.join(ROOT, *path) for path in (("informant", "wit", "deps"), ("..", "..", "wit"))]
        texts = []
        for folder in copies:
            with open(os.path.join(folder, "informant.wit"), encoding="utf-8") as file:
                texts.append(file.read())
        self.assertEqual(*texts, "copy wit/informant.wit to plugin-sdk/python/informant/wit/deps")
        self.assertIn(f"package informant:plugin@{CONTRACT};", texts[0])

    def test_reasons_and_levels_are_those_of_the_contract(self) -> None:
        with open(os.path.join(ROOT, "informant", "wit", "deps", "informant.wit"), encoding="utf-8") as file:
            text = file.read()

        def cases(enum: str) -> tuple[str, ...]:
            body = re.search(rf"enum {enum} {{(.*?)}}", text, re.DOTALL)
            assert body is not None
            return tuple(re.findall(r"([a-z-]+),?", re.sub(r"//.*", "", body[1])))

        self.assertEqual(cases("reason"), REASONS)
        self.assertEqual(cases("level"), LEVELS)


class Manifest(PluginTest):
    def test_a_minimal_manifest_has_no_member_at_its_default(self) -> None:
        driver = self.start("from informant import on\n@on.upsert('*', '*')\ndef f(object): pass\n")
        text = json.dumps(driver.manifest, separators=(",", ":"))
        self.assertEqual(text, '{"name":"handler","version":"0","roles":["event-handler"]}')

    def test_roles_that_are_played_are_listed(self) -> None:
        driver = self.start(
            """
            from informant import index, on, plugin, state

            plugin("all", version="1.2.3", parallel=True, writes="seen")
            seen = state({})

            @on.add("v1", "Pod", payload="none")
            def add(pod): pass

            @on.synced
            def synced(source): pass

            @index("node", "v1", "Pod", payload="metadata", )
            def node(pod): return pod.name
            """
        )
        self.assertEqual(
            driver.manifest,
            {
                "name": "all",
                "version": "1.2.3",
                "roles": ["event-handler", "sync-handler", "index-funcs", "state"],
                "events": [{"apiVersion": "v1", "kind": "Pod", "payload": "none"}],
                "indexes": {
                    "names": ["node"],
                    "objects": [{"apiVersion": "v1", "kind": "Pod", "payload": "metadata"}],
                },
                "parallel": True,
                "writes": "seen",
            },
        )

    def test_needs_and_metrics_are_stated(self) -> None:
        driver = self.start(
            """
            from informant import metrics, needs, needs_events, on

            needs_events()
            needs_events()
            needs("get", "patch", resource="v1/pods", namespaces=["web"], subresources="status")
            metrics.counter("restarts", labels=["namespace"])
            metrics.histogram("age", "Age of pods, in seconds.", buckets=[1, 10])

            @on.synced
            def synced(): pass
            """
        )
        kube = {"verbs": ["get", "patch"], "resource": "v1/pods", "namespaces": ["web"], "subresources": ["status"]}
        self.assertEqual(driver.manifest["needs"], [{"events": {}}, {"kube": kube}])
        self.assertEqual(
            driver.manifest["metrics"],
            [
                {"name": "restarts", "type": "counter", "help": "Restarts.", "labels": ["namespace"]},
                {"name": "age", "type": "histogram", "help": "Age of pods, in seconds.", "buckets": [1, 10]},
            ],
        )

    def test_payloads_add_up(self) -> None:
        for options, payload in (
            (("fields=['/a']", "payload='metadata'"), {"fields": ["/a", "/metadata"]}),
            (("fields=['/a']", "payload='whole'"), None),
            (("payload='none'", "payload='metadata'"), "metadata"),
            (("payload='none'", "payload='none'"), "none"),
            (("payload='none'", "fields=['/a', '/b']"), {"fields": ["/a", "/b"]}),
            (("", "fields=['/a']"), {"fields": ["/a"]}),
            (("payload=lambda: ['/a']", "payload=lambda: 'metadata'"), {"fields": ["/a", "/metadata"]}),
            (("payload=lambda: 'none'", ""), "none"),
            (("", ""), None),
        ):
            with self.subTest(options):
                first, second = options
                driver = self.start(
                    f"from informant import on\n@on.add('v1', 'Pod', {first})\ndef f(pod): pass\n"
                    f"@on.delete('v1', 'Pod', {second})\ndef g(pod): pass\n"
                )
                self.assertEqual(driver.manifest["events"][0].get("payload"), payload)

    def test_options_may_depend_on_the_config(self) -> None:
        text = """
            from informant import index, on, settings

            config = settings(name="image", namespaces=[])

            @on.add("v1", "Pod", namespaces=lambda: config.namespaces, fields=lambda: ["/spec"])
            def add(pod): pass

            @index(lambda: config.name, "v1", "Pod")
            def image(pod): return "x"
            """
        driver = self.start(text, config={"name": "picture", "namespaces": ["web"]})
        self.assertEqual(driver.manifest["indexes"]["names"], ["picture"])
        self.assertEqual(driver.manifest["events"][0]["namespaces"], ["web"])
        self.assertEqual(
            driver.index({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}), {"picture": ["x"]}
        )

    def test_a_plugin_that_handles_nothing_is_refused(self) -> None:
        message = self.refused("def on_add(pod): pass\n")
        self.assertIn("no function is registered that Informant would call", message)


if __name__ == "__main__":
    unittest.main()
