// Logs the phase of each pod.
package main

import (
	"fmt"
	"log/slog"

	"informant.example/plugin-sdk/go/informant"
)

// Pod has the fields of a pod that the handler receives.
type Pod struct {
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

func init() {
	informant.For[Pod]("v1", "Pod").OnUpsert(greet)
}

// greet is called when a pod was added or changed.
func greet(_ *informant.Context, e *informant.Event, pod *Pod) (informant.Result, error) {
	slog.Info(fmt.Sprintf("%v is %s", e, pod.Status.Phase))
	return informant.Result{}, nil
}

func main() {}
