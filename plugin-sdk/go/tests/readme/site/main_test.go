package main

import (
	"strings"
	"testing"

	"informant.example/plugin-sdk/go/informanttest"
)

func TestASiteHasItsObjectsAndAStatus(t *testing.T) {
	p := informanttest.New(t, nil)
	site := `{"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"namespace": "web", "name": "shop"},
		"spec": {"title": "Shop"}}`
	if err := p.Put(site); err != nil {
		t.Fatal(err)
	}
	var resources []string
	for range 2 {
		if err := p.Reconcile("web/shop"); err != nil {
			t.Fatal(err)
		}
		for _, write := range p.Writes() {
			resources = append(resources, write.Verb+" "+write.Resource)
		}
	}
	expected := "patch v1/services, create v1/configmaps, patch example.com/v1/sites/status"
	if made := strings.Join(resources, ", "); made != expected {
		t.Error(made)
	}
}
