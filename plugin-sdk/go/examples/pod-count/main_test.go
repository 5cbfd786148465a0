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

func TestTheLabelFollowsThePods(t *testing.T) {
	p := start(t)
	expect(t, p, "0")
	put(t, p, pod("shop-a"))
	put(t, p, pod("shop-b"))
	expect(t, p, "2")
	if err := p.Delete("web/shop-a"); err != nil {
		t.Fatal(err)
	}
	expect(t, p, "1")
}

func TestItsOwnWriteCausesNoOther(t *testing.T) {
	p := start(t)
	put(t, p, pod("shop-a"))
	if _, err := p.Settle(); err != nil {
		t.Fatal(err)
	}
	if writes := p.Writes(); len(writes) != 2 {
		t.Error(writes)
	}
}

func TestAPodWithoutOwnerIsIgnored(t *testing.T) {
	p := start(t)
	put(t, p, object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"namespace": "web", "name": "alone"}})
	expect(t, p, "0")
}
