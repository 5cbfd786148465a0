package main

import (
	"strings"
	"testing"

	"informant.example/plugin-sdk/go/informanttest"
)

type object = map[string]any

// owned is the metadata of an object that the object with this uid controls.
func owned(name, uid, kind, ownerName, ownerUID string) object {
	owner := object{"kind": kind, "name": ownerName, "uid": ownerUID, "controller": true}
	return object{"namespace": "web", "name": name, "uid": uid, "ownerReferences": []object{owner}}
}

func pod(name, reason string) object {
	container := object{"name": "app", "state": object{"waiting": object{"reason": reason}}}
	return object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": owned(name, "u-"+name, "ReplicaSet", "shop-1", "u-shop-1"),
		"status":   object{"containerStatuses": []object{container}},
	}
}

// byOwner is the index of the configuration.
const byOwner = "/metadata/ownerReferences/*/uid"

// start has the objects, and indexes with these values, if any.
func start(t *testing.T, values any) *informanttest.Plugin {
	p := informanttest.New(t, nil)
	p.Informer("replicasets", "apps/v1", "ReplicaSet")
	put(t, p, object{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": object{"namespace": "web", "name": "shop", "uid": "u-shop", "labels": object{"app": "shop"}},
	})
	put(t, p, object{
		"apiVersion": "apps/v1", "kind": "ReplicaSet",
		"metadata": owned("shop-1", "u-shop-1", "Deployment", "shop", "u-shop"),
	})
	if values != nil {
		p.Index("replicasets", "owner", values)
		p.Index("pods", "owner", values)
	}
	return p
}

func put(t *testing.T, p *informanttest.Plugin, o object) {
	t.Helper()
	if err := p.Put(o); err != nil {
		t.Fatal(err)
	}
}

func isLabeled(p *informanttest.Plugin) bool {
	return strings.Contains(p.Object("web/shop"), `"crashing":"true"`)
}

func TestADeploymentIsLabeledWhileOneOfItsPodsCrashes(t *testing.T) {
	p := start(t, byOwner)
	put(t, p, pod("shop-1-a", "ContainerCreating"))
	if isLabeled(p) {
		t.Fatal("no pod crashes")
	}
	put(t, p, pod("shop-1-a", "CrashLoopBackOff"))
	put(t, p, pod("shop-1-b", "CrashLoopBackOff"))
	put(t, p, pod("shop-1-a", ""))
	if !isLabeled(p) {
		t.Fatal("one pod crashes")
	}
	if err := p.Delete("web/shop-1-b"); err != nil {
		t.Fatal(err)
	}
	if isLabeled(p) {
		t.Fatal("the pod that crashed is gone")
	}
	if writes := p.Writes(); len(writes) != 2 {
		t.Error(writes)
	}
}

func TestAnIndexMayBeAFunction(t *testing.T) {
	p := start(t, func(o *struct {
		Metadata struct{ OwnerReferences []struct{ UID string } }
	}) (uids []string) {
		for _, owner := range o.Metadata.OwnerReferences {
			uids = append(uids, owner.UID)
		}
		return uids
	})
	put(t, p, pod("shop-1-a", "CrashLoopBackOff"))
	if !isLabeled(p) {
		t.Error("one pod crashes")
	}
}

func TestAMissingIndexSaysHowToAddIt(t *testing.T) {
	remedy := `informer "replicasets" has no index "owner" in this test; ` +
		`add it with p.Index("replicasets", "owner", "/metadata/ownerReferences/*/uid")`
	if err := start(t, nil).Put(pod("shop-1-a", "")); err == nil || !strings.Contains(err.Error(), remedy) {
		t.Error(err)
	}
}

func TestAPodOfAnotherOwnerIsIgnored(t *testing.T) {
	p := start(t, byOwner)
	job := pod("job", "CrashLoopBackOff")
	job["metadata"] = owned("job", "u-job", "Job", "job", "u")
	put(t, p, job)
	if isLabeled(p) {
		t.Error(p.Writes())
	}
}
