// Reports containers that crash-loop or were OOM-killed: the example of the other SDKs in Go, with the same reports.
//
// Each report is one line at level warn:
//
//	web/checkout-7d9f: container app is crash-looping: 5 restarts, last exit code 1 (Error)
//	web/checkout-7d9f: container app was OOM-killed: exit code 137, seen once, 6 restarts
//
// The plugin remembers its reports by the uid of the pod until the pod is deleted, and hands them over to its next
// version.
package main

import (
	"fmt"
	"log/slog"

	"informant.example/plugin-sdk/go/informant"
)

var config = struct {
	// MinRestarts is the number of restarts from which a crash loop is reported.
	MinRestarts int `json:"min-restarts"`
}{MinRestarts: 1}

// reported has the reports by the uid of the pod, then by container.
var reported = map[string]map[string]Reported{}

func init() {
	informant.Plugin("crash-loop-go", "0.1.0")
	informant.Config(&config)
	informant.State(&reported)
	informant.For[Pod]("v1", "Pod", informant.ChangedOnly()).OnUpsert(report).OnDelete(forget)
	informant.OnSynced(summarize)
}

func report(_ *informant.Context, e *informant.Event, pod *Pod) (informant.Result, error) {
	for _, container := range pod.containers() {
		state := reported[e.UID][container.Name]
		for _, line := range state.update(container, config.MinRestarts) {
			slog.Warn(fmt.Sprintf("%v: container %s %s", e, container.Name, line))
		}
		// Only containers with reports take memory.
		if state == (Reported{}) {
			delete(reported[e.UID], container.Name)
			continue
		}
		if reported[e.UID] == nil {
			reported[e.UID] = map[string]Reported{}
		}
		reported[e.UID][container.Name] = state
	}
	return informant.Result{}, nil
}

func forget(_ *informant.Context, e *informant.Event, _ *Pod) (informant.Result, error) {
	delete(reported, e.UID)
	return informant.Result{}, nil
}

func summarize(_ *informant.Context, s *informant.Synced) error {
	looping, killed := 0, 0
	for _, containers := range reported {
		for _, container := range containers {
			if container.IsLooping {
				looping++
			}
			killed += container.OOMKills
		}
	}
	slog.Info(fmt.Sprintf("source %d is synced; in all sources %d containers crash-looping, %d OOM kills seen",
		s.Source, looping, killed))
	return nil
}

func main() {}
