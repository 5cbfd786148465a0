from __future__ import annotations

import unittest

from support import PluginTest, pod

SITE = """
    from informant import again, log, reconcile, related

    @reconcile(
        "v1", "Pod", fields=["/metadata", "/status"], when=["labels", "/status"], label_selector="app",
        owns=[related("v1", "Secret", when="/data")],
        watches=[related("v1", "LimitRange", by="namespace"), related("v1", "ConfigMap", by_label="pod")],
        min_interval="10s",
    )
    def site(pod, request):
        behind = " behind" if request.cache_is_behind else ""
        log.info("%s %s %s%s", request, request.reason, "gone" if pod is None else pod.status.phase, behind)
        return None if pod is None else again(seconds=3)
"""


class Reconcilers(PluginTest):
    def test_the_manifest_names_what_leads_to_an_object(self) -> None:
        driver = self.start(SITE)
        self.assertEqual(driver.manifest["roles"], ["reconciler"])
        self.assertEqual(
            driver.manifest["reconciler"],
            {
                "for": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "payload": {"fields": ["/metadata", "/status"]},
                    "labelSelector": "app",
                    "when": ["labels", "/status"],
                },
                "owns": [{"apiVersion": "v1", "kind": "Secret", "when": ["/data"]}],
                "watches": [
                    {"apiVersion": "v1", "kind": "LimitRange", "by": "namespace"},
                    {"apiVersion": "v1", "kind": "ConfigMap", "by": {"label": "pod"}},
                ],
                "minInterval": "10s",
            },
        )

    def test_an_object_is_reconciled_with_and_without_it(self) -> None:
        driver = self.start(SITE)
        driver.put(pod(status={"phase": "Running"}))
        self.assertEqual(driver.reconcile("web/a"), 3)
        driver.delete("web/a")
        self.assertIsNone(driver.reconcile("web/a", reason="related", cache_is_behind=True))
        self.assertEqual(driver.messages, ["info: web/a watch Running", "info: web/a related gone behind"])

    def test_contradictions_are_refused(self) -> None:
        head = "from informant import on, reconcile, related\n"
        function = "def f(object): pass\n"
        both = f"{head}@reconcile('v1', 'Pod')\n{function}@on.add('v1', 'Node')\n{function}"
        self.assertIn("of which a plugin may do one", self.refused(both))
        twice = f"{head}@reconcile('v1', 'Pod')\n{function}@reconcile('v1', 'Node')\n{function}"
        self.assertIn("reconciles already; a plugin has one", self.refused(twice))
        ways = f"{head}@reconcile('v1', 'Pod', owns=[related('v1', 'Secret', by='owner', by_label='x')])\n{function}"
        self.assertIn("an object leads there in one way", self.refused(ways))
        text = f"{head}@reconcile('v1', 'Pod', owns=['Secret'])\n{function}"
        self.assertIn("'Secret' is no kind", self.refused(text))


if __name__ == "__main__":
    unittest.main()
