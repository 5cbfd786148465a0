package main

import (
	"strings"
	"testing"

	"informant.example/plugin-sdk/go/informanttest"
)

type object = map[string]any

// start puts a ReplicaSet into the cache, and defines the index of the configuration.
func start(t *testing.T) *informanttest.Plugin {
	p := informanttest.New(t, nil)
	p.Index("pods", "owner", "/metadata/ownerReferences/*/uid")
	metadata := object{"namespace": "web", "name": "shop", "uid": "u1"}
	put(t, p, object{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata})
	return p
}

func put(t *testing.T, p *informanttest.Plugin, o object) {
	t.Helper()
	if err := p.Put(o); err != nil {
		t.Fatal(err)
	}
}

func pod(name string) object {
	owner := object{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop", "uid": "u1", "controller": true}
	metadata := object{"namespace": "web", "name": name, "ownerReferences": []object{owner}}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
}

func expect(t *testing.T, p *informanttest.Plugin, count string) {
	t.Helper()
	if stored := p.Object("web/shop"); !strings.Contains(stored, `"labels":{"pod-count":"`+count+`"}`) {
		t.Errorf("expected %s pods: %s", count, stored)
	}
}

func reconcileShop(t *testing.T, p *informanttest.Plugin) {
	t.Helper()
	if err := p.Reconcile("web/shop"); err != nil {
		t.Fatal(err)
	}
}

func TestTheLabelFollowsThePods(t *testing.T) {
	p := start(t)
	reconcileShop(t, p)
	expect(t, p, "0")
	put(t, p, pod("shop-a"))
	put(t, p, pod("shop-b"))
	reconcileShop(t, p)
	expect(t, p, "2")
	if err := p.Delete("web/shop-a"); err != nil {
		t.Fatal(err)
	}
	reconcileShop(t, p)
	expect(t, p, "1")
}

func TestItsOwnWriteCausesNoOther(t *testing.T) {
	p := start(t)
	put(t, p, pod("shop-a"))
	reconcileShop(t, p)
	reconcileShop(t, p)
	if writes := p.Writes(); len(writes) != 1 {
		t.Error(writes)
	}
}

func TestAReplicaSetThatIsGoneIsIgnored(t *testing.T) {
	p := start(t)
	if err := p.Reconcile("web/other"); err != nil || len(p.Writes()) != 0 {
		t.Error(err, p.Writes())
	}
}
