from __future__ import annotations

import unittest
from datetime import datetime, timedelta, timezone

from support import PluginTest, pod

REPORT = """
    from informant import kube, kv, log, store, timer

    @timer("report", cron="0 8 * * 1-5", zone="Europe/Berlin", missed="skip", jitter="1m 30s")
    @timer("nightly", cron="0 0 * * *", zone="UTC")
    def report(tick):
        pods = list(store.list("pods"))
        kv.set("runs", kv.get("runs", 0) + 1)
        for pod in pods:
            kube.patch(pod, labels={"reported": tick.name})
        log.info("%s %s missed=%d attempt=%d pods=%d", tick, tick.scheduled, tick.missed, tick.attempt, len(pods))

    @timer("poll", every="10s", at_start=True)
    def poll(): log.info("polled")
"""


class Timers(PluginTest):
    def test_the_manifest_has_no_member_at_its_default(self) -> None:
        driver = self.start(REPORT)
        self.assertEqual((driver.manifest["roles"], "events" in driver.manifest), (["timer-handler"], False))
        weekdays = {"cron": "0 8 * * 1-5", "zone": "Europe/Berlin", "missed": "skip", "jitter": "1m 30s"}
        self.assertEqual(
            driver.manifest["timers"],
            [
                {"name": "nightly", "cron": "0 0 * * *"},
                {"name": "report", **weekdays},
                {"name": "poll", "every": "10s", "atStart": True},
            ],
        )

    def test_a_plugin_without_timers_does_not_play_the_role(self) -> None:
        driver = self.start("from informant import on\n@on.add('v1', 'Pod')\ndef f(pod): pass\n")
        self.assertEqual((driver.manifest["roles"], "timers" in driver.manifest), (["event-handler"], False))

    def test_a_timer_runs_beside_handlers_and_reconcilers(self) -> None:
        timer = "@timer('t', every='1h')\ndef t(): pass\n"
        for other, role in (
            ("@on.add('v1', 'Pod')\ndef f(pod): pass\n", "event-handler"),
            ("@reconcile('v1', 'Pod')\ndef f(pod): pass\n", "reconciler"),
        ):
            driver = self.start(f"from informant import on, reconcile, timer\n{timer}{other}")
            self.assertEqual(driver.manifest["roles"], [role, "timer-handler"])

    def test_a_run_receives_its_tick_and_may_read_and_write(self) -> None:
        driver = self.start(REPORT)
        driver.add(pod())
        due = datetime(2026, 3, 30, 8, tzinfo=timezone(timedelta(hours=2)))
        driver.tick("report", scheduled=due, missed=2, attempt=1)
        driver.tick("poll")
        expected = "info: report 2026-03-30 06:00:00+00:00 missed=2 attempt=1 pods=1"
        self.assertEqual(driver.messages, [expected, "info: polled"])
        self.assertEqual(driver.object("web/a")["metadata"]["labels"], {"reported": "report"})
        self.assertEqual(driver.kv["runs"], 1)
        calls = [(call.call, call.timer, call.missed, call.attempt, call.result) for call in driver.calls]
        self.assertEqual(calls, [("on-timer", "report", 2, 1, "ok"), ("on-timer", "poll", 0, 0, "ok")])

    def test_a_run_is_due_now_by_default(self) -> None:
        driver = self.start(
            """
            from datetime import datetime, timezone
            from informant import log, timer

            @timer("t", every="1h")
            def t(tick): log.info("%s", abs((datetime.now(timezone.utc) - tick.scheduled).total_seconds()) < 60)
            """
        )
        driver.tick("t")
        self.assertEqual(driver.messages, ["info: True"])

    def test_failures_are_those_of_handlers(self) -> None:
        driver = self.start(
            """
            from informant import Permanent, RetryAfter, again, kv, timer

            def fails(name, error):
                @timer(name, every="1h")
                def run():
                    kv.set("seen", True)
                    raise error

            fails("retryable", RuntimeError("no"))
            fails("retry-after", RetryAfter(1.5, "busy"))
            fails("permanent", Permanent("never"))

            @timer("again", every="1h")
            def run(tick): return again(seconds=2)
            """
        )
        for kind in ("retryable", "retry-after", "permanent"):
            failed = self.fails(driver.tick, kind)
            self.assertEqual((failed.kind, dict(driver.kv)), (kind, {}))
        self.assertIn("it is about no object: return nothing", self.fails(driver.tick, "again").message)
        results = [(call.result, call.requeue_after) for call in driver.calls]
        self.assertEqual(results, [("retry", None), ("retry", 1.5), ("permanent", None), ("retry", None)])

    def test_timers_of_the_same_name_are_refused_with_both_functions(self) -> None:
        poll = "@timer('poll', every='{}')\ndef {}(): pass\n"
        message = self.refused(f"from informant import timer\n{poll.format('1s', 'f')}{poll.format('2s', 'g')}")
        self.assertIn("g (handler.py:4) and f (handler.py:2) have a timer of the same name, 'poll'", message)

    def test_what_is_no_schedule_is_refused_with_its_line(self) -> None:
        for options, message in (
            ("'t'", "handler.py:2: @timer('t') has neither cron nor every: write cron="),
            ("'t', every='1s', cron='* * * * *'", "@timer('t') has both cron and every: keep one of them"),
            ("'t', every='1s', zone='UTC'", "@timer('t') has a zone, which belongs to cron: remove it"),
            ("'t', cron='* * * *'", "cron is '* * * *'; write five fields (minute, hour,"),
            ("'t', every=10", 'every is 10; write a text, as in every="10s"'),
            ("'t', every='1s', jitter=1", 'jitter is 1; write a text, as in jitter="1m 30s"'),
            ("'t', every='1s', missed='all'", 'missed is \'all\'; write "once" or "skip"'),
            ("every='1s', name=''", "@timer needs a name and a schedule"),
        ):
            with self.subTest(options):
                text = f"from informant import timer\n@timer({options})\ndef f(): pass\n"
                self.assertIn(message, self.refused(text))
        self.assertIn("needs a name and a schedule", self.refused("from informant import timer\n@timer\ndef f(): 1\n"))
        for function, message in (("async def f(): pass", "is async"), ("def f(a, b): pass", "more than 1 arguments")):
            text = f"from informant import timer\n@timer('t', every='1s')\n{function}\n"
            self.assertIn(message, self.refused(text))

    def test_a_schedule_may_depend_on_the_config(self) -> None:
        text = """
            from informant import settings, timer

            config = settings(cron="0 8 * * *", zone="", eager=False)

            @timer("t", cron=lambda: config.cron, zone=lambda: config.zone or None, at_start=lambda: config.eager)
            def t(): pass
            """
        self.assertEqual(self.start(text).manifest["timers"], [{"name": "t", "cron": "0 8 * * *"}])
        driver = self.start(text, config={"zone": "Asia/Tokyo", "eager": True})
        expected = {"name": "t", "cron": "0 8 * * *", "zone": "Asia/Tokyo", "atStart": True}
        self.assertEqual(driver.manifest["timers"], [expected])
        message = self.refused(text, config={"cron": "daily"})
        self.assertIn("t (handler.py:5): timer 't': cron is 'daily'; write five fields", message)

    def test_an_unknown_timer_is_an_error_that_lists_others(self) -> None:
        driver = self.start(REPORT)
        with self.assertRaisesRegex(LookupError, "no timer 'pool', only nightly, report, poll"):
            driver.tick("pool")
        with self.assertRaisesRegex(LookupError, "no function has the decorator timer"):
            self.start("from informant import on\n@on.synced\ndef f(): pass\n").tick("poll")
        # As config.toml may name it.
        driver.manifest["timers"].append({"name": "pool", "every": "1s"})
        failed = self.fails(driver.tick, "pool")
        expected = ("permanent", "Permanent: no function has the timer 'pool'; did you mean poll?")
        self.assertEqual((failed.kind, failed.message), expected)


if __name__ == "__main__":
    unittest.main()
