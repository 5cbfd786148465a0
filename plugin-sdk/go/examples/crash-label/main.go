// Labels each Deployment whose pods crash again and again, until none does.
package main

import (
	"log/slog"

	"informant.example/plugin-sdk/go/informant"
)

// Pod has the fields of a pod that the plugin reads.
type Pod struct {
	Metadata Owned `json:"metadata"`
	Status   struct {
		ContainerStatuses []struct {
			State struct {
				Waiting struct {
					Reason string `json:"reason"`
				} `json:"waiting"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// Object is a ReplicaSet or a Deployment, of which only metadata is read.
type Object struct {
	Metadata Owned `json:"metadata"`
}

// Owned is the metadata of an object that has an owner.
type Owned struct {
	Name            string            `json:"name"`
	UID             string            `json:"uid"`
	Labels          map[string]string `json:"labels"`
	OwnerReferences []Owner           `json:"ownerReferences"`
}

// Owner is an OwnerReference of meta/v1.
type Owner struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Controller bool   `json:"controller"`
}

func init() {
	informant.WaitUntilSeen()
	informant.Needs("apps/v1/deployments", informant.Patch)
	informant.For[Pod]("v1", "Pod", informant.ChangedOnly()).OnUpsert(onPod).OnDelete(onPod)
	informant.For[Object]("apps/v1", "Deployment", informant.ChangedOnly()).OnUpsert(onDeployment)
}

func onPod(ctx *informant.Context, e *informant.Event, pod *Pod) (informant.Result, error) {
	if pod == nil {
		return informant.Result{}, nil
	}
	deployment, err := deploymentOf(ctx, e.Namespace, pod)
	if err != nil || deployment == nil {
		return informant.Result{}, err
	}
	return informant.Result{}, label(ctx, e.Namespace, deployment)
}

func onDeployment(ctx *informant.Context, e *informant.Event, deployment *Object) (informant.Result, error) {
	return informant.Result{}, label(ctx, e.Namespace, deployment)
}

// deploymentOf goes up, from the pod by its ReplicaSet to its Deployment. It returns nil if the pod has none.
func deploymentOf(ctx *informant.Context, namespace string, pod *Pod) (*Object, error) {
	replicaSet, err := ownerOf(ctx, namespace, pod.Metadata, "ReplicaSet", "replicasets")
	if err != nil || replicaSet == nil {
		return nil, err
	}
	return ownerOf(ctx, namespace, replicaSet.Metadata, "Deployment", "deployments")
}

func ownerOf(ctx *informant.Context, namespace string, of Owned, kind, informer string) (*Object, error) {
	for _, owner := range of.OwnerReferences {
		if owner.Controller && owner.Kind == kind {
			found := new(Object)
			isThere, err := ctx.Store.Find(informer, namespace, owner.Name, found)
			if err != nil || !isThere {
				return nil, err
			}
			return found, nil
		}
	}
	return nil, nil
}

// label compares the label of the Deployment with its pods.
func label(ctx *informant.Context, namespace string, deployment *Object) error {
	crashing, err := crashingPods(ctx, deployment.Metadata.UID)
	if err != nil {
		return err
	}
	var want any // null in the patch removes the label
	if crashing > 0 {
		want = "true"
	}
	if _, isLabeled := deployment.Metadata.Labels["crashing"]; isLabeled == (want != nil) {
		return nil
	}
	name := deployment.Metadata.Name
	slog.Info("label changed", "deployment", namespace+"/"+name, "crashing", crashing)
	at := informant.Address{Resource: "apps/v1/deployments", Namespace: namespace, Name: name}
	type object = map[string]any
	labels := object{"crashing": want}
	return ctx.Kube.Patch(at, object{"metadata": object{"uid": deployment.Metadata.UID, "labels": labels}})
}

// crashingPods goes down, from the Deployment by its ReplicaSets to their pods.
func crashingPods(ctx *informant.Context, uid string) (int, error) {
	crashing := 0
	ofDeployment := informant.Query{Index: "owner", Value: uid}
	for replicaSet, err := range informant.ListAs[Object](ctx.Store, "replicasets", ofDeployment) {
		if err != nil {
			return 0, err
		}
		ofReplicaSet := informant.Query{Index: "owner", Value: replicaSet.Object.Metadata.UID}
		for pod, err := range informant.ListAs[Pod](ctx.Store, "pods", ofReplicaSet) {
			if err != nil {
				return 0, err
			}
			if pod.Object.isCrashing() {
				crashing++
			}
		}
	}
	return crashing, nil
}

func (p *Pod) isCrashing() bool {
	for _, container := range p.Status.ContainerStatuses {
		if container.State.Waiting.Reason == "CrashLoopBackOff" {
			return true
		}
	}
	return false
}

func main() {}
