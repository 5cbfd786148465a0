"""The examples of the documentation work."""

from __future__ import annotations

import os
import re
import unittest

from support import ROOT, PluginTest, pod

PAGES = (("README.md",), ("..", "..", "docs", "reference", "python-api.md"))
FIRST_SCRIPT = ("..", "..", "docs", "start", "first-python-script.md")


def examples(*path: str) -> list[str]:
    """The Python code of a page."""
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)


class Documentation(PluginTest):
    def test_examples_of_plugins_load(self) -> None:
        loaded = 0
        for page in PAGES:
            for text in examples(*page):
                if "@on." in text:
                    self.assertTrue(self.start(text).manifest["events"])
                    loaded += 1
        self.assertEqual(loaded, 2)

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

    def passes(self, test: str, name: str) -> None:
        """Runs the only test of the class `name`."""
        path = self.write(test, "test_page.py")
        namespace: dict[str, object] = {"__name__": "test_page"}
        with open(path, encoding="utf-8") as file:
            exec(compile(file.read(), path, "exec"), namespace)
        case = namespace[name]
        assert isinstance(case, type) and issubclass(case, unittest.TestCase)
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
        self.assertEqual((result.testsRun, result.errors, result.failures), (1, [], []))

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
