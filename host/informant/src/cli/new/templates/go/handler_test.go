package main

import (
	"slices"
	"testing"

	"informant.example/plugin-sdk/go/informanttest"
)

func TestAPodIsGreetedWithItsPhase(t *testing.T) {
	p := informanttest.New(t, nil)
	pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "web", "name": "a"}, "status": {"phase": "Running"}}`
	if err := p.Put(pod); err != nil {
		t.Fatal(err)
	}
	if logs := p.Logs(); !slices.Equal(logs, []string{"info: web/a is Running"}) {
		t.Errorf("logged %q", logs)
	}
}
