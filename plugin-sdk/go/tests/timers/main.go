// Has two timers, and logs "NAME SCHEDULED missed=N attempt=N" at each run. With `event = true` in its config, it then
// records an Event about a pod. With `fail = "retry"` or "permanent", each run fails so at its end; with "trap", it
// traps.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"informant.example/plugin-sdk/go/informant"
)

var config struct {
	Fail  string `json:"fail"`
	Event bool   `json:"event"`
}

func init() {
	informant.Config(&config)
	informant.Timer("poll", informant.Every(10*time.Second), run)
	informant.Timer("report", informant.Cron("0 8 * * *").In("Europe/Berlin"), run)
}

func run(ctx *informant.Context, t *informant.Tick) error {
	slog.Info(fmt.Sprintf("%s %s missed=%d attempt=%d", t.Name, t.Scheduled.Format(time.RFC3339Nano), t.Missed, t.Attempt))
	if config.Event {
		pod := informant.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "web", Name: "a", UID: "uid-a"}
		if err := ctx.Recorder.Eventf(pod, informant.Warning, "Ticked", "%s has run", t.Name); err != nil {
			return err
		}
	}
	switch config.Fail {
	case "retry":
		return errors.New("asked to fail")
	case "permanent":
		return informant.TerminalError(errors.New("asked to fail"))
	case "trap":
		os.Exit(1)
	}
	return nil
}

func main() {}
