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
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

func init() {
	informant.Needs("apps/v1/replicasets", informant.Patch)
	informant.For[ReplicaSet]("apps/v1", "ReplicaSet").When("labels").Reconcile(reconcile).
		Owns(informant.Related("v1", "Pod").When("/metadata/ownerReferences"))
}

// reconcile compares the label of a ReplicaSet with the cache. It is nil if it is gone.
func reconcile(ctx *informant.Context, r *informant.Request, rs *ReplicaSet) (done informant.Result, err error) {
	if rs == nil {
		return done, nil
	}
	pods, err := ctx.Store.IndexKeys("pods", "owner", r.UID)
	if err != nil {
		return done, err
	}
	count := strconv.Itoa(len(pods))
	if rs.Metadata.Labels["pod-count"] == count {
		return done, nil
	}
	slog.Info("counted", "replicaset", r.String(), "pods", count)
	at := informant.Address{Resource: "apps/v1/replicasets", Namespace: r.Namespace, Name: r.Name}
	type object = map[string]any
	labels := object{"pod-count": count}
	return done, ctx.Kube.Patch(at, object{"metadata": object{"uid": r.UID, "labels": labels}})
}

func main() {}
