from __future__ import annotations

import unittest

from support import PluginTest, pod

from informant import HostError
from informant.testing import Driver, Failed

READS = """
from informant import index, log, on, store

@index("image", "v1", "Pod", fields=["/spec/containers/*/image"])
def image(pod):
    return pod.all("/spec/containers/*/image")

@on.upsert("v1", "ConfigMap")
def read(_, event):
    log.info("%s", RESULT)
"""


def image(name: str, *images: str, namespace: str = "web", **members: object) -> dict[str, object]:
    return pod(name, namespace, spec={"containers": [{"name": "c", "image": value} for value in images]}, **members)


CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "web", "name": "cm"}}


class Store(PluginTest):
    def read(self, expression: str, driver: Driver | None = None) -> str:
        """What an expression reads."""
        driver = self.start(READS.replace("RESULT", expression)) if driver is None else driver
        driver.add(image("a", "x", labels={"app": "one"}))
        driver.add(image("b", "x", "y", labels={"app": "two"}))
        driver.add(image("c", "z", namespace="api"))
        driver.put(CONFIG_MAP)
        self.driver = driver
        return driver.messages[-1].removeprefix("info: ")

    def test_objects_are_listed_page_by_page(self) -> None:
        for limit in (1, 100_000):
            driver = self.start(READS.replace("RESULT", "[pod.key for pod in store.list('pods')]"))
            driver.host.page_bytes_max = limit
            self.assertEqual(self.read("", driver), "['api/c', 'web/a', 'web/b']")
        self.assertEqual(len(self.driver.reads), 1)

    def test_a_list_can_be_narrowed(self) -> None:
        for options, expected in (
            ("namespace='web'", "['web/a', 'web/b']"),
            ("label_selector='app in (two)'", "['web/b']"),
            ("limit=2", "['api/c', 'web/a']"),
            ("limit=0", "[]"),
        ):
            with self.subTest(options):
                self.assertEqual(self.read(f"[pod.key for pod in store.list('pods', {options})]"), expected)

    def test_fields_are_projected(self) -> None:
        read = "dict(next(store.list('pods', fields=['/metadata/name'])))"
        self.assertEqual(self.read(read), "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'c'}}")

    def test_get_and_find_return_an_object_or_none(self) -> None:
        self.assertEqual(self.read("store.find('pods', 'web', 'a').labels.app"), "one")
        self.assertEqual(self.read("store.get('pods', 'web', 'none')"), "None")
        self.assertEqual(self.read("store.get(event, 'web', 'cm').name"), "cm")
        self.assertEqual(self.read("store.get(store.sources('pods')[0], 'web', 'b').name"), "b")

    def test_the_indexes_of_the_plugin_can_be_read(self) -> None:
        self.assertEqual(self.read("[pod.name for pod in store.by_index('pods', 'image', 'x')]"), "['a', 'b']")
        self.assertEqual(self.read("[key[1:] for key in store.index_keys('pods', 'image', 'y')]"), "[('web', 'b')]")
        self.assertEqual(self.read("list(store.index_values('pods', 'image'))"), "['x', 'y', 'z']")

    def test_an_object_on_which_the_index_fails_has_no_values(self) -> None:
        text = READS.replace("RESULT", "list(store.index_values('pods', 'image'))")
        fails = "if pod.name == 'b': raise ValueError('odd')\n    return pod.all"
        driver = self.start(text.replace("return pod.all", fails))
        self.read("", driver)
        self.assertEqual(driver.messages[-1], "info: ['x', 'z']")
        with self.assertRaisesRegex(Failed, "odd"):
            driver.index(image("b", "x"))

    def test_a_test_adds_an_index_by_a_pointer_or_a_function(self) -> None:
        pointer = "/metadata/ownerReferences/*/uid"
        for values in (pointer, lambda pod: pod.all(pointer), lambda pod: pod.metadata.ownerReferences[0].uid):
            read = "[key.name for key in store.index_keys('pods', 'owner', 'u1')]"
            driver = self.start(READS.replace("RESULT", read))
            driver.add_index("pods", "owner", values)
            for name, uids in (("a", ["u1", "u2"]), ("b", ["u10"])):
                owned = pod(name)
                owned["metadata"]["ownerReferences"] = [{"uid": uid} for uid in uids]
                driver.add(owned)
            driver.put(CONFIG_MAP)
            self.assertEqual(driver.messages, ["info: ['a']"])

    def test_a_missing_or_wrong_index_says_what_to_write(self) -> None:
        driver = self.start(READS.replace("RESULT", "list(store.index_keys('pods', 'owner', 'u1'))"))
        driver.add(pod())
        remedy = 'add it with driver.add_index("pods", "owner", "/metadata/ownerReferences/*/uid")'
        message = self.fails(driver.put, CONFIG_MAP).message
        self.assertIn(f"informer 'pods' has no index 'owner' in this test; {remedy}", message)
        for values in (None, ["/spec"], "spec.nodeName", {}):
            with self.assertRaisesRegex(TypeError, r"^add_index\('pods', 'owner', .*\): values must be a JSON pointer"):
                driver.add_index("pods", "owner", values)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "name is not a name"):
            driver.add_index("pods", lambda pod: [], "/spec")  # type: ignore[arg-type]
        driver.add_index("pods", "owner", lambda pod: {})
        message = self.fails(driver.put, CONFIG_MAP).message
        self.assertIn("add_index('pods', 'owner', <function", message)

    def test_more_index_values_than_a_page_are_read(self) -> None:
        driver = self.start(READS.replace("RESULT", "len(list(store.index_values('pods', 'image')))"))
        driver.add(image("many", *(f"image-{number:04}" for number in range(2_500))))
        self.assertEqual(self.read("", driver), "2503")

    def test_sources_say_what_they_are(self) -> None:
        source = "store.sources('pods')[0]"
        members = f"({source}.informer, {source}.state, {source}.is_synced, {source}.partial, {source}.kind)"
        self.assertEqual(self.read(members), "('pods', 'live', True, False, 'Pod')")

    def test_reads_stay_in_the_cluster_of_the_call(self) -> None:
        for options, expected in (("", "['web/a']"), (", clusters='all'", "['web/a', 'web/a']")):
            driver = self.start(READS.replace("RESULT", f"[pod.key for pod in store.list('pods'{options})]"))
            driver.add_source("pods", "v1", "Pod", cluster="east")
            driver.add_source("pods", "v1", "Pod", cluster="west")
            driver.add_source("configmaps", "v1", "ConfigMap", cluster="west")
            driver.add(pod(), cluster="east")
            driver.add(pod(), cluster="west")
            driver.put(CONFIG_MAP, cluster="west")
            self.assertEqual(driver.messages, [f"info: {expected}"])

    def test_errors_have_codes(self) -> None:
        for read, kind, message in (
            ("store.find('none', '', '')", "permanent", "no informer named 'none'"),
            ("list(store.by_index('pods', 'none', ''))", "permanent", "has no index 'none'"),
            ("list(store.list('pods', label_selector='a b'))", "permanent", "not a valid requirement"),
            ("store.list(3)", "retryable", "TypeError: store: 3 is not an informer"),
            ("list(store.list('pods', clusters='east'))", "retryable", "clusters is 'east'"),
        ):
            with self.subTest(read):
                failed = self.fails(self.read, read)
                self.assertEqual(failed.kind, kind)
                self.assertIn(message, failed.message)

    def test_reads_can_be_refused_in_a_test(self) -> None:
        driver = self.start(READS.replace("RESULT", "store.find('pods', 'web', 'a')"))
        driver.add(pod())
        driver.refuse_store(HostError("not-ready", "not yet"))
        failed = self.fails(driver.put, CONFIG_MAP)
        self.assertEqual((failed.kind, failed.message), ("retryable", "handler.py:9: HostError: not yet"))


class Indexes(PluginTest):
    def test_values_are_texts(self) -> None:
        driver = self.start(
            """
            from informant import index

            @index("many", "v1", "Pod")
            def many(pod): return ["a", 1, True, None, "a", 1.5]

            @index("one", "v1", "Pod")
            def one(pod): return pod.name

            @index("node", "v1", "Node")
            def node(node): return node.name
            """
        )
        self.assertEqual(driver.manifest["indexes"]["names"], ["many", "one", "node"])
        self.assertEqual(driver.index(pod()), {"many": ["a", "1", "true", "1.5"], "one": ["a"], "node": []})

    def test_only_declared_fields_are_there(self) -> None:
        driver = self.start(
            """
            from informant import index

            @index("x", "v1", "Pod", fields=["/spec"])
            def x(pod): return pod.status.phase
            """
        )
        self.assertEqual(driver.index(pod(status={"phase": "Running"})), {"x": []})

    def test_host_calls_are_refused_in_index_functions(self) -> None:
        driver = self.start(
            "from informant import index, kv\n@index('x', 'v1', 'Pod')\ndef x(pod): return kv.get('a')\n"
        )
        failed = self.fails(driver.index, pod())
        self.assertIn("handler.py:3: HostError: kv cannot be used in an index function", failed.message)

    def test_other_values_are_errors(self) -> None:
        for value in ("{}", "[[]]", "b'x'", "object()"):
            with self.subTest(value):
                driver = self.start(
                    f"from informant import index\n@index('x', 'v1', 'Pod')\ndef x(pod): return {value}\n"
                )
                self.assertIn("a value is a string, a number or a boolean", self.fails(driver.index, pod()).message)

    def test_wrong_declarations_are_refused(self) -> None:
        for text, message in (
            ("@index('x')\ndef x(pod): pass", "missing 2 required positional arguments"),
            ("@index(3, 'v1', 'Pod')\ndef x(pod): pass", "needs the name of the index first"),
            ("@index('x', 'v1', 'Pod')\n@index('x', 'v1', 'Pod')\ndef x(pod): pass", "has another function already"),
        ):
            with self.subTest(text):
                self.assertIn(message, self.refused(f"from informant import index\n{text}\n"))


if __name__ == "__main__":
    unittest.main()
