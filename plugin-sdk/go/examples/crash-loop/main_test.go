package main

import (
	"fmt"
	"slices"
	"testing"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
)

type object = map[string]any

func pod(uid string, container object) object {
	container["name"] = "app"
	return object{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata":   object{"namespace": "web", "name": "checkout", "uid": uid},
		"status": object{
			"phase":             "Running",
			"containerStatuses": []object{container, {"name": "proxy", "restartCount": 0}},
		},
	}
}

func running(restarts int) object {
	started := object{"startedAt": "2026-11-21T00:00:00Z"}
	return object{"restartCount": restarts, "state": object{"running": started}}
}

func crashed(restarts int, reason string, code int) object {
	ended := object{"reason": reason, "exitCode": code}
	return object{"restartCount": restarts, "state": object{"terminated": ended}}
}

func backingOff(restarts int, reason string, code int) object {
	waiting := object{"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}
	return object{
		"restartCount": restarts,
		"state":        object{"waiting": waiting},
		"lastState":    object{"terminated": object{"reason": reason, "exitCode": code}},
	}
}

func check(t *testing.T, p *informanttest.Plugin, container object, expected ...string) {
	t.Helper()
	if err := p.Put(pod("u1", container)); err != nil {
		t.Fatal(err)
	}
	checkLogs(t, p, expected...)
}

func checkLogs(t *testing.T, p *informanttest.Plugin, expected ...string) {
	t.Helper()
	if logs := p.Logs(); !slices.Equal(logs, expected) {
		t.Fatalf("logged %q, expected %q", logs, expected)
	}
}

const once = "warn: web/checkout: container app is crash-looping: 1 restart, last exit code 1 (Error)"

func TestACrashLoopIsReportedOnceForEachRestart(t *testing.T) {
	p := informanttest.New(t, nil)
	check(t, p, running(0))
	check(t, p, crashed(0, "Error", 1))
	check(t, p, backingOff(1, "Error", 1), once)
	check(t, p, backingOff(1, "Error", 1))
	check(t, p, running(2))
	check(t, p, crashed(2, "Error", 3))
	check(t, p, backingOff(2, "Error", 3),
		"warn: web/checkout: container app is crash-looping: 2 restarts, last exit code 3 (Error)")
}

func TestRestartsBelowTheConfiguredMinimumAreNotReported(t *testing.T) {
	p := informanttest.New(t, object{"min-restarts": 3})
	check(t, p, backingOff(2, "Error", 1))
	check(t, p, backingOff(3, "Error", 1),
		"warn: web/checkout: container app is crash-looping: 3 restarts, last exit code 1 (Error)")
}

func TestAnUnknownKeyInTheConfigurationIsRefused(t *testing.T) {
	_, err := informanttest.Start(t, object{"min-restart": 3})
	if fmt.Sprint(err) != "config: unknown key `min-restart`" {
		t.Fatal(err)
	}
}

func TestAnOOMKillIsReportedOnce(t *testing.T) {
	p := informanttest.New(t, nil)
	check(t, p, crashed(0, "OOMKilled", 137),
		"warn: web/checkout: container app was OOM-killed: exit code 137, seen once, 0 restarts")
	restarted := running(1)
	restarted["lastState"] = object{"terminated": object{"reason": "OOMKilled", "exitCode": 137}}
	check(t, p, restarted)
	check(t, p, crashed(1, "OOMKilled", 137),
		"warn: web/checkout: container app was OOM-killed: exit code 137, seen 2 times, 1 restart")
}

func TestALowerCountOfRestartsStartsAgain(t *testing.T) {
	p := informanttest.New(t, nil)
	check(t, p, backingOff(5, "Error", 1),
		"warn: web/checkout: container app is crash-looping: 5 restarts, last exit code 1 (Error)")
	check(t, p, backingOff(1, "Error", 1), once)
}

func TestReportsAreForgottenWithThePod(t *testing.T) {
	p := informanttest.New(t, nil)
	check(t, p, backingOff(1, "Error", 1), once)
	if err := p.Delete("web/checkout"); err != nil {
		t.Fatal(err)
	}
	if len(reported) != 0 {
		t.Fatal(reported)
	}
	check(t, p, backingOff(1, "Error", 1), once)
}

func TestTheNextVersionReportsNothingTwice(t *testing.T) {
	p := informanttest.New(t, nil)
	check(t, p, backingOff(1, "Error", 1), once)
	p.Swap()
	p.Reason(informant.ReasonReplay)
	check(t, p, backingOff(1, "Error", 1))
}

func TestASyncedSourceIsSummarized(t *testing.T) {
	p := informanttest.New(t, nil)
	check(t, p, backingOff(1, "Error", 1), once)
	if err := p.Synced(); err != nil {
		t.Fatal(err)
	}
	checkLogs(t, p, "info: source 1 is synced; in all sources 1 containers crash-looping, 0 OOM kills seen")
}
