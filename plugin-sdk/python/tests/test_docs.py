"""The examples of the documentation work."""

from __future__ import annotations

import os
import re
import unittest

from support import ROOT, PluginTest, pod

PAGES = (("README.md",), ("..", "..", "docs", "reference", "python-api.md"))
FIRST_SCRIPT = ("..", "..", "docs", "start", "first-python-script.md")
FROM_KOPF = ("..", "..", "docs", "coming-from-kopf.md")
OWNERS = ("..", "..", "docs", "guides", "owners.md")


def examples(*path: str) -> list[str]:
    """The Python code of a page."""
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)


def owned(kind: str, name: str, owner_kind: str = "", owner: str = "") -> dict[str, object]:
    """An object that another one controls."""
    references = [{"kind": owner_kind, "name": owner, "uid": f"uid-{owner}", "controller": True}] if owner else []
    metadata = {"namespace": "web", "name": name, "uid": f"uid-{name}", "ownerReferences": references}
    return {"apiVersion": "v1" if kind == "Pod" else "apps/v1", "kind": kind, "metadata": metadata}


class Documentation(PluginTest):
    def test_examples_of_plugins_load(self) -> None:
        loaded = 0
        for page in PAGES:
            for text in examples(*page):
                if "@on." in text:
                    self.assertTrue(self.start(text).manifest["events"])
                    loaded += 1
        self.assertEqual(loaded, 2)

    def test_the_example_of_timers_runs(self) -> None:
        (text,) = [text for text in examples(*PAGES[1]) if "@timer" in text]
        driver = self.start(text)
        driver.add(pod(status={"phase": "Failed"}))
        for timer in ("report", "poll"):
            driver.tick(timer)
        self.assertEqual(driver.messages, ["info: 1 pods have failed"] * 2)

    def test_the_example_of_reconcilers_runs(self) -> None:
        (text,) = [text for text in examples(*PAGES[1]) if "@reconcile" in text]
        driver = self.start(text)
        removed: list[str] = []
        driver.serve_http(lambda request: (removed.append(f"{request.method} {request.url}"), 200)[1])
        driver.add(
            {
                "apiVersion": "example.com/v1",
                "kind": "Site",
                "metadata": {"namespace": "web", "name": "shop", "generation": 1},
                "spec": {"page": "Hello"},
            }
        )
        for _ in range(3):
            driver.reconcile("web/shop")
        self.assertEqual(driver.object("web/shop", "ConfigMap")["data"], {"index.html": "Hello"})
        self.assertEqual(driver.object("web/shop", "Service")["spec"]["ports"], [{"port": 80}])
        site = driver.object("web/shop", "Site")
        statuses = {condition["type"]: condition["status"] for condition in site["status"]["conditions"]}
        self.assertEqual(statuses, {"Ready": "True", "ChildrenRefused": "False", "PruneSkipped": "False"})
        # Adding the finalizer, two children, the status.
        self.assertEqual(len(driver.writes), 4)
        site["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        driver.reconcile("web/shop")
        self.assertEqual(removed, ["DELETE https://dns.example.com/shop"])
        self.assertIsNone(driver.object("web/shop", "Site"))

    def test_the_example_of_a_test_passes(self) -> None:
        handler, test = examples("README.md")
        self.write(handler)
        self.passes(test, "LabelIdle")

    def test_the_first_script_passes_its_test_and_has_its_index(self) -> None:
        handler, index, test = examples(*FIRST_SCRIPT)
        self.write(handler, "hello.py")
        self.passes(test, "LabelTeam")
        driver = self.start(handler.replace("import kube", "import index, kube") + "\n\n" + index)
        containers = [{"image": "nginx:1.25"}, {"image": "redis:8"}]
        self.assertEqual(driver.index(pod(spec={"containers": containers})), {"image": ["nginx:1.25", "redis:8"]})

    def test_the_example_of_kopf_passes_its_test(self) -> None:
        handler, test = examples(*FROM_KOPF)
        self.write(handler, "ephemeral.py")
        self.passes(test, "KeepClaim", tests=2)

    def test_a_deployment_is_labeled_while_one_of_its_pods_crashes(self) -> None:
        handler, test = examples(*OWNERS)
        self.write(handler, "crash_label.py")
        self.passes(test, "CrashLabel")
        driver = self.start(handler)
        driver.add_source("pods", "v1", "Pod")
        driver.add_source("replicasets", "apps/v1", "ReplicaSet")
        for informer in ("replicasets", "pods"):
            driver.add_index(informer, "owner", "/metadata/ownerReferences/*/uid")
        driver.put(owned("Deployment", "shop"))
        driver.put(owned("ReplicaSet", "shop-1", "Deployment", "shop"))
        for name, reason in (("a", "CrashLoopBackOff"), ("b", "CrashLoopBackOff"), ("a", None)):
            status = {"containerStatuses": [{"name": "app", "state": {"waiting": {"reason": reason}}}]}
            driver.put({**owned("Pod", name, "ReplicaSet", "shop-1"), "status": status})
        self.assertEqual(driver.object("web/shop")["metadata"]["labels"], {"crashing": "true"})
        driver.delete("web/b")
        self.assertEqual(driver.object("web/shop")["metadata"]["labels"], {})
        self.assertEqual(len(driver.writes), 2)

    def passes(self, test: str, name: str, tests: int = 1) -> None:
        """Runs the tests of the class `name`."""
        path = self.write(test, "test_page.py")
        namespace: dict[str, object] = {"__name__": "test_page"}
        with open(path, encoding="utf-8") as file:
            exec(compile(file.read(), path, "exec"), namespace)
        case = namespace[name]
        assert isinstance(case, type) and issubclass(case, unittest.TestCase)
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
        self.assertEqual((result.testsRun, result.errors, result.failures), (tests, [], []))

    def test_the_listed_modules_are_those_of_the_runner(self) -> None:
        with open(os.path.join(ROOT, "..", "..", "docs", "reference", "python-api.md"), encoding="utf-8") as file:
            listed = re.search(r"PyYAML \(`yaml`.*?\n\n(.*?)\n\n", file.read(), re.DOTALL)
        with open(os.path.join(ROOT, "runner", "informant_runner.py"), encoding="utf-8") as file:
            modules = re.search(r'MODULES = """(.*?)"""', file.read(), re.DOTALL)
        assert listed is not None and modules is not None
        implied = {"__future__", "collections.abc", "os.path", "urllib", "yaml"}
        self.assertEqual(set(re.findall(r"`([\w.]+)`", listed[1])), set(modules[1].split()) - implied)


if __name__ == "__main__":
    unittest.main()
