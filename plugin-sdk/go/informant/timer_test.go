package informant_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
)

// ticks logs a run, and returns this error.
func ticks(err error) informant.TimerHandler {
	return func(_ *informant.Context, t *informant.Tick) error {
		slog.Info(fmt.Sprintf("%s %s missed %d attempt %d", t.Name, t.Scheduled.Format(time.RFC3339), t.Missed, t.Attempt))
		return err
	}
}

func TestTimersAreWrittenToTheManifest(t *testing.T) {
	checkManifest(t, func() {
		informant.Timer("report", informant.Cron("0 8 * * 1-5").In("Europe/Berlin").SkipMissed(), ticks(nil))
		informant.Timer("nightly", informant.Cron("30 2 * * *").In("UTC"), ticks(nil))
		informant.Timer("sweep", informant.Every(90*time.Minute).Jitter(1500*time.Millisecond).AtStart(), ticks(nil))
		informant.Setup(func(*informant.Info) error {
			informant.Timer("often", informant.Every(10*time.Second), ticks(nil))
			return nil
		})
	}, `"roles":["timer-handler"],"timers":[{"name":"report","cron":"0 8 * * 1-5","zone":"Europe/Berlin",`+
		`"missed":"skip"},{"name":"nightly","cron":"30 2 * * *"},`+
		`{"name":"sweep","every":"1h 30m","jitter":"1s 500ms","atStart":true},{"name":"often","every":"10s"}]`)
}

func TestTimersAreOneOfSeveralRoles(t *testing.T) {
	checkManifest(t, func() {
		informant.For[informant.Object]("v1", "Pod").OnUpsert(done)
		informant.OnSynced(func(*informant.Context, *informant.Synced) error { return nil })
		informant.Timer("sweep", informant.Every(time.Minute), ticks(nil))
	}, `"roles":["event-handler","timer-handler","sync-handler"],"events":[{"apiVersion":"v1","kind":"Pod"}],`+
		`"timers":[{"name":"sweep","every":"1m"}]`)
}

func TestTimersThatCannotRunAreRefused(t *testing.T) {
	for expected, register := range map[string]func(){
		"a timer has no name": func() { informant.Timer("", informant.Every(time.Minute), ticks(nil)) },
		`the timer "a" is registered twice`: func() {
			informant.Timer("a", informant.Every(time.Minute), ticks(nil))
			informant.Timer("a", informant.Cron("0 8 * * *"), ticks(nil))
		},
		`the timer "a" runs every 99ms: pass`: func() {
			informant.Timer("a", informant.Every(99*time.Millisecond), ticks(nil))
		},
		`the timer "a" runs every 0s: pass Cron`: func() { informant.Timer("a", informant.Cron(""), ticks(nil)) },
		`the timer "a" has In, which belongs to Cron`: func() {
			informant.Timer("a", informant.Every(time.Minute).In("Europe/Berlin"), ticks(nil))
		},
		`the timer "a" has a negative Jitter`: func() {
			informant.Timer("a", informant.Every(time.Minute).Jitter(-1), ticks(nil))
		},
	} {
		checkRefused(t, register, expected)
	}
}

func TestTheHandlerReceivesTheRun(t *testing.T) {
	informant.Register(t, func() { informant.Timer("sweep", informant.Every(time.Minute), ticks(nil)) })
	p := informanttest.New(t, nil)
	must(t, p.TickWith(informant.Tick{
		Name: "sweep", Scheduled: time.Date(2026, 3, 1, 9, 0, 0, 0, time.FixedZone("", 3_600)), Missed: 2, Attempt: 1,
	}))
	checkLogs(t, p, "info: sweep 2026-03-01T08:00:00Z missed 2 attempt 1")
	must(t, p.Tick("sweep"))
	if logs := p.Logs(); len(logs) != 1 {
		t.Fatal(logs)
	}
	checkError(t, p.Tick("report"), `the plugin has no timer "report"; there are sweep`)
}

func TestAPluginWithoutTimersHasNoneToRun(t *testing.T) {
	informant.Register(t, func() { informant.For[informant.Object]("v1", "Pod").OnUpsert(done) })
	checkError(t, informanttest.New(t, nil).Tick("sweep"), "the plugin has no timers")
}

func TestFailedRunsAreRetriedUnlessTheErrorIsTerminal(t *testing.T) {
	failure := errors.New("busy")
	informant.Register(t, func() {
		informant.Timer("sweep", informant.Every(time.Minute), func(ctx *informant.Context, t *informant.Tick) error {
			slog.Info("sweep", "attempt", t.Attempt)
			return errors.Join(ctx.KV.Set("swept", []byte("yes")), failure)
		})
	})
	p := informanttest.New(t, nil)
	checkError(t, p.Tick("sweep"), "busy")
	failure = informant.RetryAfter(time.Minute, failure)
	var later error = p.Retry()
	checkError(t, later, "busy")
	checkText(t, p.KV(), "map[]")
	failure = informant.TerminalError(errors.New("gone"))
	if err := p.Tick("sweep"); !informant.IsTerminal(err) {
		t.Fatal(err)
	}
	must(t, p.Retry())
	failure = nil
	must(t, p.Tick("sweep"))
	checkText(t, p.KV(), "map[swept:yes]")
	checkLogs(t, p, "info: sweep attempt=0", "info: sweep attempt=1", "info: sweep attempt=0", "info: sweep attempt=0")
}

// scenario runs a scenario, which is JSON and thus YAML.
func scenario(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.scenario.yaml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	informanttest.Scenario(t, file, json.Unmarshal)
}

func TestScenariosRunTimersAndRetryThem(t *testing.T) {
	failures := 2
	informant.Register(t, func() {
		informant.Timer("sweep", informant.Every(time.Minute), func(ctx *informant.Context, run *informant.Tick) error {
			if failures--; failures >= 0 {
				return errors.New("busy")
			}
			return ticks(nil)(ctx, run)
		})
	})
	scenario(t, `{"steps": [
		{"wait": "1h", "expect": {"calls": [], "events": []}},
		{"timer": "sweep", "expect": {"calls": [
			{"call": "on-timer", "timer": "sweep", "missed": 0, "attempt": 0, "result": "retry", "error": "busy"}]}},
		{"wait": "1s", "expect": {"calls": [{"call": "on-timer", "attempt": 1, "result": "retry"}]}},
		{"timer": "sweep", "expect": {"calls": []}},
		{"wait": "2s", "expect": {"calls": [{"call": "on-timer", "missed": 1, "attempt": 0, "result": "ok"}],
			"log": ["sweep 2026-01-01T01:00:01Z missed 1 attempt 0"]}},
		{"timer": "sweep", "expect": {"calls": ["on-timer sweep"], "deadLetters": []}}
	]}`)
}

func TestATimerWithATerminalErrorIsNoDeadLetter(t *testing.T) {
	informant.Register(t, func() {
		informant.Timer("sweep", informant.Every(time.Minute), ticks(informant.TerminalError(errors.New("never"))))
	})
	scenario(t, `{"steps": [
		{"timer": "sweep", "expect": {"calls": [{"call": "on-timer", "result": "permanent"}], "deadLetters": []}},
		{"wait": "1h", "expect": {"calls": []}}
	]}`)
}
