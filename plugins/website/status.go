package main

import (
	"fmt"
	"slices"
	"strings"

	"informant.example/plugin-sdk/go/informant"
)

// Reasons of the condition Ready. The reason of a failed Deployment is that of its condition.
const (
	deploying = "Deploying"
	available = "Available"
	nameTaken = "NameTaken"
)

// Deployment has the fields of a Deployment that the plugin reads.
type Deployment struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		Replicas int `json:"replicas"`
		Template struct {
			Spec struct {
				Containers []struct {
					Name  string `json:"name"`
					Image string `json:"image"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64                 `json:"observedGeneration"`
		ReadyReplicas      int                   `json:"readyReplicas"`
		UpdatedReplicas    int                   `json:"updatedReplicas"`
		Conditions         []informant.Condition `json:"conditions"`
	} `json:"status"`
}

// readiness returns the condition Ready of a Website, with its Deployment in the cache, and the children that were
// refused.
func (site *Website) readiness(deployment *Deployment, refused []string) informant.Condition {
	status, replicas := deployment.Status, site.Spec.Replicas
	ready := informant.Condition{Type: "Ready", Status: informant.ConditionFalse, Reason: deploying}
	ready.Message = fmt.Sprintf("%d of %d replicas are ready", status.ReadyReplicas, replicas)
	failure, hasFailed := deployment.failure()
	switch {
	case len(refused) > 0:
		ready.Reason, ready.Message = nameTaken, "Exists already, and does not belong to it: "+strings.Join(refused, ", ")
	case !site.isObservedBy(deployment):
	case hasFailed:
		ready.Reason, ready.Message = failure.Reason, failure.Message
	case status.UpdatedReplicas >= replicas && status.ReadyReplicas >= replicas:
		ready.Status, ready.Reason = informant.ConditionTrue, available
	}
	return ready
}

// isObservedBy reports whether the status of a Deployment is about what the Website wants: the writes of this call come
// later.
func (site *Website) isObservedBy(deployment *Deployment) bool {
	if deployment.Spec.Replicas != site.Spec.Replicas ||
		deployment.Status.ObservedGeneration < max(deployment.Metadata.Generation, 1) {
		return false
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name == containerName {
			return container.Image == site.Spec.Image
		}
	}
	return false
}

// failure returns the condition that says why a Deployment makes no progress.
func (d *Deployment) failure() (informant.Condition, bool) {
	if failed, _ := conditionOf(d.Status.Conditions, "ReplicaFailure"); failed.Status == informant.ConditionTrue {
		return failed, true
	}
	progressing, _ := conditionOf(d.Status.Conditions, "Progressing")
	return progressing, progressing.Status == informant.ConditionFalse
}

// conditionOf returns the condition of a type.
func conditionOf(conditions []informant.Condition, name string) (condition informant.Condition, isThere bool) {
	at := slices.IndexFunc(conditions, func(c informant.Condition) bool { return c.Type == name })
	if at < 0 {
		return condition, false
	}
	return conditions[at], true
}
