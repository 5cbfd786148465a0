from __future__ import annotations

import unittest
from typing import Any

from support import PluginTest, pod

from informant import KubeError
from informant.testing import Driver, Write

CALLS = """
from informant import KubeError, kube, log, on, store

@on.upsert("v1", "Pod")
def f(pod, event):
    if event.name == "a":
        CALL
"""


class Kube(PluginTest):
    def call(self, call: str, *others: dict[str, Any]) -> Driver:
        """The driver after a call of a handler of the pod a."""
        driver = self.start(CALLS.replace("CALL", call))
        for other in others:
            driver.add(other)
        driver.put(pod("a", labels={"app": "x"}, uid="u"))
        return driver

    def test_a_patch_is_deferred(self) -> None:
        driver = self.call('log.info("%s", kube.patch(event, {"spec": {"nodeName": "n"}}))')
        self.assertEqual(driver.messages, ["info: None"])
        self.assertEqual(driver.writes, [Write("patch", "v1/pods", "web/a", {"spec": {"nodeName": "n"}})])
        self.assertEqual(driver.object("web/a")["spec"], {"nodeName": "n"})

    def test_labels_and_annotations_are_merged_into_the_patch(self) -> None:
        driver = self.call(
            'kube.patch(pod, {"metadata": {"labels": {"a": "1"}}}, labels={"app": None}, annotations={"n": "v"})'
        )
        document = {"metadata": {"labels": {"a": "1", "app": None}, "annotations": {"n": "v"}}}
        self.assertEqual(driver.writes[0].document, document)
        self.assertEqual(driver.object("web/a")["metadata"]["labels"], {"a": "1"})

    def test_the_status_is_a_subresource(self) -> None:
        for call in (
            'kube.patch(event, {"status": {"phase": "Done"}}, subresource="status")',
            'kube.patch(kube.status(event), {"status": {"phase": "Done"}})',
        ):
            driver = self.call(call)
            self.assertEqual(driver.writes[0].resource, "v1/pods/status")
            self.assertEqual(driver.object("web/a")["status"], {"phase": "Done"})

    def test_objects_are_created_updated_and_deleted(self) -> None:
        driver = self.call(
            """
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
        kube.create(kube.address("v1/configmaps", "web"), document)
        kube.apply(kube.address("v1/configmaps", "web", "c"), {**document, "data": {"k": "v"}}, force=True)
        kube.apply(kube.address("v1/configmaps", "web", "applied"), {**document, "metadata": {}})
        kube.update(kube.address("v1/configmaps", "web", "old"), {**document, "metadata": {"labels": {"a": "b"}}})
        kube.delete(store.find("pods", "web", "b"), propagation_policy="Foreground")
        """.strip(),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": "web", "name": "old"},
                "data": {"x": "y"},
            },
            pod("b"),
        )
        verbs = [(write.verb, write.resource, write.object) for write in driver.writes]
        self.assertEqual(
            verbs,
            [
                ("create", "v1/configmaps", "web/c"),
                ("patch", "v1/configmaps", "web/c"),
                ("patch", "v1/configmaps", "web/applied"),
                ("update", "v1/configmaps", "web/old"),
                ("delete", "v1/pods", "web/b"),
            ],
        )
        # The address names them, whatever the document says.
        self.assertEqual(driver.object("web/c")["data"], {"k": "v"})
        self.assertEqual(driver.object("web/applied")["data"], {})
        self.assertEqual(driver.object("web/old")["metadata"]["labels"], {"a": "b"})
        self.assertEqual(driver.object("web/c")["data"], {"k": "v"})
        self.assertEqual(driver.object("web/old")["data"], {})
        self.assertIsNone(driver.object("web/b"))

    def test_calls_of_now_reach_the_api_server_at_once(self) -> None:
        driver = self.call(
            """
        patched = kube.now.patch(event, labels={"b": "c"})
        log.info("%s %s", patched.labels, kube.now.get(event).labels)
        log.info("%s", kube.now.get(kube.address("v1/pods", "web", "none")))
        log.info("%s", [other.key for other in kube.now.list("v1/pods", label_selector="b", namespace="web")])
        log.info("%s", len(list(kube.now.list(kube.address("v1/pods", "web"), limit=1))))
        kube.now.delete(patched)
        """.strip(),
            pod("b"),
        )
        labels = {"app": "x", "b": "c"}
        self.assertEqual(driver.messages, [f"info: {labels} {labels}", "info: None", "info: ['web/a']", "info: 1"])
        self.assertIsNone(driver.object("web/a"))

    def test_a_deferred_delete_needs_the_uid(self) -> None:
        failed = self.fails(self.call, 'kube.delete(kube.address("v1/pods", "web", "a"))')
        self.assertEqual(failed.kind, "permanent")
        self.assertIn("a deferred delete needs preconditions.uid", failed.message)
        self.assertEqual(self.call('kube.delete(kube.address("v1/pods", "web", "a"), uid="other")').writes, [])

    def test_a_deferred_write_that_fails_becomes_the_failure(self) -> None:
        failed = self.fails(self.call, 'kube.patch(kube.address("v1/pods", "web", "none"), labels={"a": "b"})')
        self.assertEqual((failed.kind, failed.message), ("retryable", 'KubeError: v1/pods "none" not found'))

    def test_errors_have_code_status_and_reason(self) -> None:
        driver = self.call(
            """
        try:
            kube.now.create(event, dict(pod))
        except KubeError as error:
            log.info("%s %s %s %s", error.code, error.status, error.reason, error.may_be_done)
        """.strip()
        )
        self.assertEqual(driver.messages, ["info: already-exists 409 AlreadyExists False"])

    def test_wrong_arguments_are_errors(self) -> None:
        for call, message in (
            ('kube.patch("web/a", {})', "kube: str is not an address: pass the event"),
            ("kube.patch(event)", "pass a document, labels or annotations"),
            ("kube.patch(event, 3)", "the document is 3, which is not a dict"),
            ("kube.patch(event, [], labels={})", "belong to a merge or strategic patch"),
            ('kube.patch(event, {}, type="apply")', "unknown type 'apply'"),
        ):
            with self.subTest(call):
                self.assertIn(message, self.fails(self.call, call).message)

    def test_writes_are_refused_outside_of_handlers(self) -> None:
        message = self.refused(
            """
            from informant import kube, on

            @on.startup
            def start():
                kube.patch(kube.address("v1/pods", "web", "a"), labels={"a": "b"})

            @on.add("v1", "Pod")
            def f(pod): pass
            """
        )
        self.assertIn("KubeError: kube cannot be used in init", message)

    def test_own_writes_are_delivered_until_they_settle(self) -> None:
        driver = self.start(
            """
            from informant import kube, on

            @on.upsert("v1", "Pod")
            def f(pod, event):
                if "seen" not in pod.labels:
                    kube.patch(event, labels={"seen": "yes"})
            """
        )
        driver.put(pod())
        self.assertEqual((driver.settle(), driver.settle(), len(driver.writes)), (1, 0, 1))
        endless = self.start(
            """
            from informant import kube, on

            @on.upsert("v1", "Pod")
            def f(pod, event):
                kube.patch(event, labels={"seen": pod.metadata.resourceVersion})
            """
        )
        endless.put(pod())
        with self.assertRaisesRegex(AssertionError, "each write causes another"):
            endless.settle()

    def test_calls_can_be_refused_in_a_test(self) -> None:
        driver = self.start(CALLS.replace("CALL", "kube.now.get(event)"))
        driver.refuse_kube(KubeError("too-many-requests", "slow down", 429, "TooManyRequests", 3000))
        failed = self.fails(driver.put, pod())
        self.assertEqual((failed.kind, failed.failure.after_ms), ("retry-after", 3000))

    def test_the_cluster_is_that_of_the_object(self) -> None:
        driver = self.start(CALLS.replace("CALL", 'kube.patch(event, labels={"a": "b"})'))
        driver.add_source("pods", "v1", "Pod", cluster="east")
        driver.add_source("pods", "v1", "Pod", cluster="west")
        driver.put(pod(), cluster="west")
        self.assertEqual(driver.writes[0].cluster, "west")


if __name__ == "__main__":
    unittest.main()
