from __future__ import annotations

import unittest
from typing import Any

from support import PluginTest, pod

from informant import KubeError
from informant.testing import Driver

SITE = """
    from informant import kube, log, reconcile, related

    @reconcile("v1", "Pod", owns=[related("v1", "ConfigMap"), related("v1", "Secret"), related("v1", "Service")])
    def site(pod, request):
        def config(name="c", **more):
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}
        def secret(name="s", **more):
            return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **more}
        def service(name="v", **more):
            return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, **more}
        done = kube.children(request, CHILDREN)
        log.info("%d %d %s %s", done.written, done.pruned, done.refused, done.prune_skipped)
"""


def owned(kind: str, name: str, uid: str = "u", plugin: str = "test", **members: Any) -> dict[str, Any]:
    """An object that the plugin has made for the pod a."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": uid, "controller": True, "blockOwnerDeletion": True}
    labels = {"informant.dev/owner-uid": uid, "informant.dev/plugin": plugin}
    metadata = {"namespace": "web", "name": name, "uid": f"uid-{name}", "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **members}


class Children(PluginTest):
    def site(self, children: str, *others: dict[str, Any], **owner: Any) -> Driver:
        """A driver with the pod a and these objects, whose reconciler sets these children."""
        driver = self.start(SITE.replace("CHILDREN", children))
        driver.add({**pod(uid="u"), **owner})
        for other in others:
            driver.add(other)
        return driver

    def test_children_are_written_with_owner_and_labels(self) -> None:
        text = "fields=[service(spec={'port': 1})], whole=[config(data={'k': 'v'}), secret(stringData={'p': 'x'})]"
        driver = self.site(text)
        driver.reconcile("web/a")
        self.assertEqual(driver.messages, ["info: 3 0 [] None"])
        verbs = [(write.verb, write.resource, write.object) for write in driver.writes]
        self.assertEqual(
            verbs,
            [
                ("patch", "v1/services", "web/v"),
                ("create", "v1/configmaps", "web/c"),
                ("create", "v1/secrets", "web/s"),
            ],
        )
        for kind, name, content in (
            ("Service", "v", {"spec": {"port": 1}}),
            ("ConfigMap", "c", {"data": {"k": "v"}}),
            ("Secret", "s", {"type": "Opaque", "data": {"p": "eA=="}}),
        ):
            made = driver.object(f"web/{name}")
            for member in ("uid", "resourceVersion"):
                del made["metadata"][member]
            expected = owned(kind, name, **content)
            del expected["metadata"]["uid"]
            self.assertEqual(made, expected)

    def test_what_is_as_it_should_be_is_not_written(self) -> None:
        driver = self.site("fields=[service(spec={'port': 1})], whole=[config(data={'k': 'v'})]")
        driver.reconcile("web/a")
        driver.clear()
        driver.reconcile("web/a")
        self.assertEqual((driver.messages, driver.writes), (["info: 1 0 [] None"], []))

    def test_of_a_whole_object_what_others_added_is_removed(self) -> None:
        present = owned("ConfigMap", "c", data={"k": "v", "theirs": "1"}, binaryData={"b": "eA=="})
        present["metadata"]["labels"]["theirs"] = "1"
        driver = self.site("whole=[config(data={'k': 'v'})]", present)
        driver.reconcile("web/a")
        (write,) = driver.writes
        self.assertEqual((write.verb, write.document["metadata"]["uid"]), ("update", "uid-c"))
        found = driver.object("web/c")
        self.assertEqual((found["data"], "binaryData" in found), ({"k": "v"}, False))
        self.assertEqual(found["metadata"]["labels"]["theirs"], "1")

    def test_fields_of_others_stay(self) -> None:
        driver = self.site("fields=[config(data={'k': 'v'})]", owned("ConfigMap", "c", data={"theirs": "1"}))
        driver.reconcile("web/a")
        self.assertEqual(driver.object("web/c")["data"], {"k": "v", "theirs": "1"})

    def test_objects_of_others_are_refused(self) -> None:
        foreign = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "web", "name": "s"}}
        other = owned("ConfigMap", "c", uid="other")
        driver = self.site("fields=[config(), secret(), service()]", foreign, other)
        driver.reconcile("web/a")
        self.assertEqual(driver.messages, ["info: 1 0 ['ConfigMap web/c', 'Secret web/s'] None"])
        self.assertEqual([write.object for write in driver.writes], ["web/v"])

    def test_what_is_being_deleted_is_left(self) -> None:
        driver = self.site("whole=[config()]")
        terminating = owned("ConfigMap", "c")
        terminating["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])
        driver.add(terminating)
        driver.reconcile("web/a")
        self.assertEqual((driver.messages, driver.writes), (["info: 0 0 [] None"], []))

    def test_what_is_no_longer_a_child_is_deleted(self) -> None:
        unowned = owned("ConfigMap", "unowned")
        del unowned["metadata"]["ownerReferences"]
        driver = self.site(
            "fields=[config()]",
            owned("ConfigMap", "c"),
            owned("ConfigMap", "old"),
            owned("Secret", "old"),
            owned("Pod", "not-in-owns"),
            owned("ConfigMap", "of-other", uid="other"),
            owned("ConfigMap", "of-plugin", plugin="other"),
            unowned,
        )
        driver.reconcile("web/a")
        self.assertEqual(driver.messages, ["info: 1 2 [] None"])
        deleted = [(write.resource, write.object) for write in driver.writes if write.verb == "delete"]
        self.assertEqual(deleted, [("v1/configmaps", "web/old"), ("v1/secrets", "web/old")])

    def test_nothing_is_deleted_while_the_cache_is_behind(self) -> None:
        driver = self.site("whole=[]", owned("ConfigMap", "old"))
        driver.reconcile("web/a", cache_is_behind=True)
        message = "info: 0 0 [] the cache has not seen all earlier writes for this object"
        self.assertEqual((driver.messages, driver.writes), ([message], []))
        driver.reconcile("web/a")
        self.assertEqual([write.verb for write in driver.writes], ["delete"])

    def test_children_do_not_count_as_writes_of_the_call(self) -> None:
        text = "fields=[config(str(n)) for n in range(150)]"
        calls = "for n in range(101): kube.patch(request, labels={'n': str(n)})"
        driver = self.start(f"{SITE.replace('CHILDREN', text)}        {calls}\n")
        driver.add(pod(uid="u"))
        failed = self.fails(driver.reconcile, "web/a")
        self.assertIn("at most 100 writes", failed.message)
        self.assertEqual(driver.writes, [])
        driver = self.start(f"{SITE.replace('CHILDREN', text)}        {calls.replace('101', '100')}\n")
        driver.add(pod(uid="u"))
        driver.reconcile("web/a")
        self.assertEqual(len(driver.writes), 250)
        self.assertIn("1000 children", self.fails(self.site(text.replace("150", "1001")).reconcile, "web/a").message)

    def test_wrong_children_are_errors(self) -> None:
        for text, message in (
            ("", "kube.children: pass fields or whole; fields=[] is for an object without children"),
            ("fields=config()", "kube.children: fields is one object: pass a list of objects"),
            ("whole=['c']", "kube.children: whole contains 'c', which is not an object"),
            ("fields=[{'kind': 'Secret'}]", "a child needs apiVersion, kind and metadata.name"),
            ("fields=[dict(pod)]", "Pod a: v1 Pod is not in `reconciler.owns` of the manifest: name it there"),
            ("whole=[service()]", "RoleBinding, ResourceQuota, NetworkPolicy can be set whole; let the fields of a"),
            ("fields=[config()], whole=[config()]", "ConfigMap web/c is twice among the children"),
            (
                "fields=[{**config(), 'metadata': {'name': 'c', 'namespace': 'other'}}]",
                "ConfigMap c: an owner in the namespace web can only own objects there",
            ),
            (
                "fields=[{**config(), 'metadata': {'name': 'c', 'ownerReferences': [kube.owner_reference(pod)]}}]",
                "ConfigMap web/c: metadata.ownerReferences has a controller, and an object has one",
            ),
        ):
            with self.subTest(text):
                driver = self.site(text)
                self.assertIn(message, self.fails(driver.reconcile, "web/a").message)
                self.assertEqual(driver.writes, [])

    def test_a_cluster_scoped_owner_has_children_in_namespaces(self) -> None:
        text = SITE.replace('"v1", "Pod"', '"v1", "Node"')
        config = "{**config(), 'metadata': {'name': 'c', 'namespace': 'web'}}"
        driver = self.start(text.replace("CHILDREN", f"fields=[{config}]"))
        driver.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        driver.reconcile("n")
        self.assertEqual(driver.object("web/c")["metadata"]["ownerReferences"][0]["kind"], "Node")
        driver = self.start(text.replace("CHILDREN", "fields=[config()]"))
        driver.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        driver.add(owned("ConfigMap", "other"))
        failed = self.fails(driver.reconcile, "n")
        self.assertIn("ConfigMap c needs metadata.namespace, because its owner has none", failed.message)

    def test_children_are_set_once_in_a_call(self) -> None:
        driver = self.start(SITE.replace("CHILDREN", "fields=[]") + "        kube.children(request, fields=[])\n")
        driver.add(pod(uid="u"))
        failed = self.fails(driver.reconcile, "web/a")
        self.assertIn("the call has set its children already: set all of them at once", failed.message)
        self.assertEqual(failed.kind, "permanent")
        driver = self.site("fields=[]")
        driver.reconcile("web/a")
        driver.reconcile("web/a")
        self.assertEqual(len(driver.messages), 2)

    def test_an_object_that_is_gone_has_no_children(self) -> None:
        driver = self.site("fields=[]")
        driver.delete("web/a")
        failed = self.fails(driver.reconcile, "web/a")
        self.assertEqual((failed.kind, "web/a is gone" in failed.message), ("retryable", True))

    def test_only_a_reconciler_has_children(self) -> None:
        text = """
            from informant import kube, on
            from informant.events import Request

            @on.add("v1", "Pod")
            def f(pod, event): kube.children(REQUEST, fields=[])
            """
        for request, message in (
            ("event", "kube.children: Event is not the request that the reconciler is called with"),
            ("Request(event._about, None)", "only reconcile has children: those of the object that it is about"),
        ):
            driver = self.start(text.replace("REQUEST", request))
            self.assertIn(message, self.fails(driver.put, pod()).message)

    def test_children_are_refused_with_all_calls_of_kube(self) -> None:
        driver = self.site("fields=[config()]")
        driver.refuse_kube(KubeError("denied", "not granted"))
        self.assertIn("not granted", self.fails(driver.reconcile, "web/a").message)

    def test_the_result_becomes_conditions(self) -> None:
        text = SITE.replace("CHILDREN", "fields=[secret(f's{n:02}') for n in range(N)]")
        text += "        log.info('%s', [list(c.values()) for c in kube.conditions_of(done)])\n"
        for count, behind, expected in (
            (0, False, [["False", "NoneRefused", ""], ["False", "NoneSkipped", ""]]),
            (
                2,
                True,
                [
                    ["True", "OwnedByOthers", "Secret web/s00, Secret web/s01"],
                    ["True", "CacheIncomplete", "the cache has not seen all earlier writes for this object"],
                ],
            ),
        ):
            driver = self.start(text.replace("range(N)", f"range({count})"))
            driver.add(pod(uid="u"))
            for number in range(count):
                driver.add(owned("Secret", f"s{number:02}", uid="other"))
            driver.reconcile("web/a", cache_is_behind=behind)
            rows = [[type, *row] for type, row in zip(("ChildrenRefused", "PruneSkipped"), expected, strict=True)]
            self.assertEqual(driver.messages[-1], f"info: {rows}")

    def test_a_condition_lists_at_most_20_objects(self) -> None:
        from informant import kube

        done = kube.Children(0, 0, [f"Secret {number}" for number in range(25)], None)
        self.assertTrue(kube.conditions_of(done)[0]["message"].endswith("Secret 18, Secret 19 and 5 more"))


class OwnerReferences(PluginTest):
    def reference(self, owner: str, options: str = "") -> Any:
        driver = self.start(
            f"""
            from informant import kube, on, store

            @on.add("v1", "Pod"{options})
            def f(pod, event):
                kube.patch(event, {{"spec": kube.owner_reference({owner})}})
            """
        )
        driver.put(pod(uid="u"))
        return driver.object("web/a")["spec"]

    def test_a_reference_is_that_of_a_controller(self) -> None:
        expected: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}
        expected.update(controller=True, blockOwnerDeletion=True)
        for owner, options in (("pod", ""), ("dict(pod)", ""), ("pod", ", fields='/spec'"), ("event", "")):
            with self.subTest(owner, options=options):
                self.assertEqual(self.reference(owner, options), expected)
        plain = self.reference("pod, controller=False")
        self.assertEqual(plain, {**expected, "controller": False})

    def test_what_has_no_uid_is_no_owner(self) -> None:
        for owner, message in (
            ("{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'a'}}", "an owner has apiVersion, kind, name"),
            ("store.get('pods', 'web', 'a', fields='/spec')", 'add "/metadata/name" and "/metadata/uid" to fields'),
            ("'web/a'", "kube.owner_reference: str is not an object: pass the event or an object"),
        ):
            with self.subTest(owner):
                self.assertIn(message, self.fails(self.reference, owner).message)


if __name__ == "__main__":
    unittest.main()
