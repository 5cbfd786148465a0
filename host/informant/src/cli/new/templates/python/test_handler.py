"""Runs under plain CPython: ``python3 -m unittest``."""

import unittest

from informant.testing import Driver


class Greeting(unittest.TestCase):
    """What the handler logs."""

    def test_a_pod_is_greeted_with_its_phase(self):
        driver = Driver("handler.py")
        metadata = {"namespace": "web", "name": "a"}
        driver.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}})
        self.assertEqual(driver.messages, ["info: web/a is Running"])


if __name__ == "__main__":
    unittest.main()
