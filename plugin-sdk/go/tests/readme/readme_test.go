package main

import (
	"os"
	"regexp"
	"testing"

	"informant.example/plugin-sdk/go/informanttest"
)

// pages has the pages with Go, and the files that their blocks show.
var pages = map[string][]string{
	"../../README.md": {"main.go", "site/main.go", "main_test.go"},
	"../../../../docs/coming-from-controller-runtime.md": {"../../examples/pod-count/main.go"},
	"../../../../docs/guides/owners.md":                  {"../../examples/crash-label/main.go"},
}

func TestPagesShowTheCodeOfFiles(t *testing.T) {
	for page, files := range pages {
		text := read(t, page)
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text, -1)
		if len(blocks) != len(files) {
			t.Fatalf("%d blocks of Go in %s, expected %d", len(blocks), page, len(files))
		}
		for at, file := range files {
			if blocks[at][1] != read(t, file) {
				t.Errorf("block %d of Go in %s is not %s", at+1, page, file)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
