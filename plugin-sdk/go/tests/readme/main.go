// Labels Deployments without replicas.
package main

import (
	"log/slog"

	"informant.example/plugin-sdk/go/informant"
)

// Deployment has the fields of a Deployment that the handler receives.
type Deployment struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
}

func init() {
	informant.Needs("apps/v1/deployments", informant.Patch)
	informant.For[Deployment]("apps/v1", "Deployment", informant.ChangedOnly()).OnUpsert(labelIdle)
}

// labelIdle is called when a Deployment was added, or when its labels or replicas have changed.
func labelIdle(ctx *informant.Context, e *informant.Event, d *Deployment) (informant.Result, error) {
	var label any // null in the patch removes the label
	if d.Spec.Replicas == 0 {
		label = "true"
	}
	_, isLabeled := d.Metadata.Labels["idle"]
	if isLabeled == (label != nil) {
		return informant.Result{}, nil
	}
	slog.Info("label changed", "deployment", e.String(), "replicas", d.Spec.Replicas)
	type object = map[string]any
	return informant.Result{}, ctx.Kube.Patch(e, object{"metadata": object{"labels": object{"idle": label}}})
}

func main() {}
