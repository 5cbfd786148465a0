// Labels each ReplicaSet with the number of its pods.
package main

import (
	"log/slog"
	"strconv"

	"informant.example/plugin-sdk/go/informant"
)

// ReplicaSet has the fields of a ReplicaSet that the plugin reads.
type ReplicaSet struct {
	Metadata struct {
		UID    string            `json:"uid"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

// Pod has the fields of a pod that the plugin reads.
type Pod struct {
	Metadata struct {
		OwnerReferences []struct {
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			Controller bool   `json:"controller"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
}

func init() {
	informant.Needs("apps/v1/replicasets", informant.Patch)
	informant.For[ReplicaSet]("apps/v1", "ReplicaSet", informant.ChangedOnly()).OnUpsert(onReplicaSet)
	informant.For[Pod]("v1", "Pod", informant.ChangedOnly()).OnUpsert(onPod).OnDelete(onPod)
}

func onReplicaSet(ctx *informant.Context, e *informant.Event, _ *ReplicaSet) (informant.Result, error) {
	return informant.Result{}, reconcile(ctx, e.Namespace, e.Name)
}

// onPod is called for added, changed and deleted pods. The pod is nil if only its name is known.
func onPod(ctx *informant.Context, e *informant.Event, pod *Pod) (informant.Result, error) {
	if pod == nil {
		return informant.Result{}, nil
	}
	for _, owner := range pod.Metadata.OwnerReferences {
		if owner.Controller && owner.Kind == "ReplicaSet" {
			return informant.Result{}, reconcile(ctx, e.Namespace, owner.Name)
		}
	}
	return informant.Result{}, nil
}

// reconcile compares the label of a ReplicaSet with the cache.
func reconcile(ctx *informant.Context, namespace, name string) error {
	var rs ReplicaSet
	isThere, err := ctx.Store.Find("replicasets", namespace, name, &rs)
	if err != nil || !isThere {
		return err
	}
	pods, err := ctx.Store.IndexKeys("pods", "owner", rs.Metadata.UID)
	if err != nil {
		return err
	}
	count := strconv.Itoa(len(pods))
	if rs.Metadata.Labels["pod-count"] == count {
		return nil
	}
	slog.Info("counted", "replicaset", namespace+"/"+name, "pods", count)
	at := informant.Address{Resource: "apps/v1/replicasets", Namespace: namespace, Name: name}
	type object = map[string]any
	labels := object{"pod-count": count}
	return ctx.Kube.Patch(at, object{"metadata": object{"uid": rs.Metadata.UID, "labels": labels}})
}

func main() {}
