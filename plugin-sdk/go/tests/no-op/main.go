// The benchmark's empty handler: receives pods as a struct of its own and does nothing. Its calls cost what a call costs.
package main

import "informant.example/plugin-sdk/go/informant"

// Pod has nearly all of the benchmark's pod.
type Pod struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase     string `json:"phase"`
		PodIP     string `json:"podIP"`
		StartTime string `json:"startTime"`
	} `json:"status"`
}

func init() {
	informant.For[Pod]("v1", "Pod").OnUpsert(doNothing)
}

func doNothing(*informant.Context, *informant.Event, *Pod) (informant.Result, error) {
	return informant.Result{}, nil
}

func main() {}
