// The benchmark's reconciler: receives five fields of a pod, reads one ConfigMap from the cache, and writes nothing.
package main

import (
	"errors"

	"informant.example/plugin-sdk/go/informant"
)

type pod struct {
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase             string `json:"phase"`
		ContainerStatuses []struct {
			Name         string `json:"name"`
			Ready        bool   `json:"ready"`
			RestartCount int    `json:"restartCount"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

type settings struct {
	Data map[string]string `json:"data"`
}

var restarts int

func init() {
	informant.For[pod]("v1", "Pod").Reconcile(reconcile).Owns(informant.Related("v1", "ConfigMap"))
}

func reconcile(ctx *informant.Context, r *informant.Request, p *pod) (done informant.Result, err error) {
	if p == nil {
		return done, nil
	}
	var found settings
	if _, err := ctx.Store.Find("configmaps", r.Namespace, "settings", &found); err != nil {
		return done, err
	}
	if found.Data["mode"] == "" || p.Spec.NodeName == "" || p.Status.Phase == "" {
		return done, informant.TerminalError(errors.New("a field is missing"))
	}
	for _, container := range p.Status.ContainerStatuses {
		if container.Ready && container.Name != "" {
			restarts += container.RestartCount
		}
	}
	return done, nil
}

func main() {}
