package main

import (
	"strings"
	"testing"

	"informant.example/plugin-sdk/go/informanttest"
)

func TestADeploymentWithoutReplicasIsLabeled(t *testing.T) {
	p := informanttest.New(t, nil)
	shop := `{"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": {"namespace": "web", "name": "shop"}, "spec": {"replicas": 0}}`
	if err := p.Put(shop); err != nil {
		t.Fatal(err)
	}
	if stored := p.Object("web/shop"); !strings.Contains(stored, `"labels":{"idle":"true"}`) {
		t.Error(stored)
	}
}
