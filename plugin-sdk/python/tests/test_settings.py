from __future__ import annotations

import unittest

from support import PluginTest, pod

TEXT = """
from informant import config as table, context, log, on, settings

config = settings(min_restarts=3, rate=0.5, url=str, tags=[], limits={}, dry_run=False, anything=None)

@on.add("v1", "Pod")
def add(pod):
    log.info("%s %s %s %s", config.min_restarts, config.rate, config.url, config.dry_run)
    log.info("%s %s", dict(table), context["plugin"])
"""


class Settings(PluginTest):
    def test_defaults_are_replaced_by_the_config(self) -> None:
        driver = self.start(TEXT, config={"url": "x", "min-restarts": 7, "rate": 2}, name="restarts")
        driver.put(pod())
        self.assertEqual(
            driver.messages,
            ["info: 7 2.0 x False", "info: {'url': 'x', 'min-restarts': 7, 'rate': 2} restarts"],
        )

    def test_unknown_keys_are_refused_with_the_nearest_name(self) -> None:
        for key, hint in (("min-restart", "did you mean `min-restarts`?"), ("x", "known are `anything`, `dry-run`")):
            with self.subTest(key):
                message = self.refused(TEXT, config={"url": "x", key: 1})
                self.assertTrue(message.startswith(f"config: unknown key `{key}`"), message)
                self.assertIn(hint, message)

    def test_values_of_another_type_are_refused(self) -> None:
        for given, message in (
            ({"min-restarts": "3"}, "config: `min-restarts` is '3', which is not an integer"),
            ({"min-restarts": True}, "config: `min-restarts` is True, which is not an integer"),
            ({"min-restarts": 1.5}, "config: `min-restarts` is 1.5, which is not an integer"),
            ({"rate": "1"}, "config: `rate` is '1', which is not a number"),
            ({"dry-run": 1}, "config: `dry-run` is 1, which is not a boolean"),
            ({"tags": "a"}, "config: `tags` is 'a', which is not an array"),
            ({"limits": []}, "config: `limits` is [], which is not a table"),
            ({"min-restarts": 1, "min_restarts": 2}, "config: `min-restarts` and `min_restarts` are the same"),
        ):
            with self.subTest(given):
                self.assertIn(message, self.refused(TEXT, config={"url": "x", **given}))

    def test_a_required_key_must_be_there(self) -> None:
        self.assertIn("config: `url` is missing: set it to a string", self.refused(TEXT))

    def test_settings_can_be_read_at_the_top_level(self) -> None:
        text = (
            "from informant import on, settings\nc = settings(a=1)\nb = c.a + 1\n@on.synced\ndef f(): assert b == 3\n"
        )
        self.start(text, config={"a": 2}).synced()
        message = self.refused("from informant import settings\nc = settings(abc=1)\nc.abd\n")
        self.assertIn("handler.py:3: AttributeError: there is no setting abd; did you mean abc?", message)

    def test_without_settings_every_config_is_accepted(self) -> None:
        self.start("from informant import on\n@on.synced\ndef f(): pass\n", config={"anything": 1})


if __name__ == "__main__":
    unittest.main()
