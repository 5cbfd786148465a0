package main

import (
	"os"
	"regexp"
	"testing"

	"informant.example/plugin-sdk/go/informanttest"
)

func TestTheCodeOfTheReadmeIsInThisFolder(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1)
	files := []string{"main.go", "main_test.go"}
	if len(blocks) != len(files) {
		t.Fatalf("%d blocks of Go in README.md, expected %d", len(blocks), len(files))
	}
	for at, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(blocks[at][1]) != string(text) {
			t.Errorf("block %d of Go in README.md is not %s", at+1, file)
		}
	}
}

func TestALabelIsRemovedWhenThereAreReplicas(t *testing.T) {
	p := informanttest.New(t, nil)
	metadata := map[string]any{"namespace": "web", "name": "shop", "labels": map[string]any{"idle": "true", "app": "shop"}}
	shop := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": map[string]any{"replicas": 2},
	}
	if err := p.Put(shop); err != nil {
		t.Fatal(err)
	}
	if events, err := p.Settle(); events != 1 || err != nil {
		t.Fatal(events, err)
	}
	if writes := p.Writes(); len(writes) != 1 {
		t.Errorf("%d writes, expected one: %v", len(writes), writes)
	}
}
