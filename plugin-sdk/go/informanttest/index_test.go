package informanttest

import (
	"slices"
	"testing"
)

func TestAnIndexHasTheScalarsAtAPointer(t *testing.T) {
	o, err := objectOf(`{"a": [{"b": "x"}, {"b": 1}, {"b": "x"}, {"b": null}, {"b": {}}], "c/d": true}`)
	if err != nil {
		t.Fatal(err)
	}
	for pointer, expected := range map[string][]string{
		"/a/*/b": {"1", "x"}, "/a/1/b": {"1"}, "/c~1d": {"true"}, "/a/length": nil, "/*/*/b": {"1", "x"}, "/a": nil,
	} {
		if found := scalarsAt(o, pointer); !slices.Equal(found, expected) {
			t.Errorf("%s: %q", pointer, found)
		}
	}
}

func TestOtherValuesOfAnIndexAreRefused(t *testing.T) {
	for _, values := range []any{
		nil, "spec.nodeName", []string{"/spec"}, func(string) []string { return nil }, func(*object) string { return "" },
	} {
		if _, err := indexFunction(values); err == nil {
			t.Errorf("%T is accepted", values)
		}
	}
}
