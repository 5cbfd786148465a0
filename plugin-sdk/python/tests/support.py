"""What the tests have in common."""

from __future__ import annotations

import os
import tempfile
import textwrap
import unittest
from typing import Any

from informant.testing import Driver, Failed

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def pod(name: str = "a", namespace: str = "web", **members: Any) -> dict[str, Any]:
    """A pod. ``labels`` and ``uid`` go into its metadata."""
    metadata: dict[str, Any] = {"namespace": namespace, "name": name}
    metadata.update({member: members.pop(member) for member in ("labels", "uid", "annotations") if member in members})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **members}


class PluginTest(unittest.TestCase):
    """A test that writes plugins."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, text: str, name: str = "handler.py") -> str:
        """Writes a file, and returns its path."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text).lstrip("\n"))
        return path

    def start(self, text: str, **options: Any) -> Driver:
        """A driver of the plugin with this text."""
        return Driver(self.write(text), **options)

    def refused(self, text: str, **options: Any) -> str:
        """Why the plugin with this text is refused."""
        with self.assertRaises(Failed) as caught:
            self.start(text, **options)
        self.assertEqual(caught.exception.kind, "permanent")
        return caught.exception.message

    def fails(self, call: Any, *arguments: Any, **options: Any) -> Failed:
        """The failure of a call."""
        with self.assertRaises(Failed) as caught:
            call(*arguments, **options)
        return caught.exception
