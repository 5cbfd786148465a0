package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"informant.example/plugin-sdk/go/informanttest"
)

func TestScenariosOfAllLanguages(t *testing.T) {
	files, err := filepath.Glob("../../scenarios/*.scenario.yaml")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { informanttest.Scenario(t, file, yaml.Unmarshal) })
	}
}

// recorder keeps what a scenario reports.
type recorder struct {
	testing.TB
	lines    []string
	cleanups []func()
}

func (r *recorder) Errorf(format string, arguments ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, arguments...))
}

func (r *recorder) Fatalf(format string, arguments ...any) {
	r.Errorf(format, arguments...)
	runtime.Goexit()
}

func (r *recorder) Cleanup(call func()) {
	r.cleanups = append(r.cleanups, call)
}

// reported returns what the scenario with this text reports.
func reported(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.scenario.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, cleanup := range r.cleanups {
				cleanup()
			}
		}()
		informanttest.Scenario(r, file, yaml.Unmarshal)
	}()
	<-done
	return strings.ReplaceAll(strings.Join(r.lines, "\n"), filepath.Dir(file)+"/", "")
}

const pod = "{ apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, annotations: { do: never } } }"

func TestWhatDiffersIsListed(t *testing.T) {
	text := reported(t, `steps:
  - apply: `+pod+`
    expect:
      calls: [on-synced, { call: on-add, result: ok }]
      log: []
      absent: [v1/pods web/a]
      kv: { last: a }
`)
	expected := strings.Join([]string{
		`a.scenario.yaml: steps[0].expect.calls[1]: result: expected "ok", found "permanent"`,
		`a.scenario.yaml: steps[0].expect.log: one too many: {"fields":{},"level":"info","message":"synced with 0 pods"}`,
		`a.scenario.yaml: steps[0].expect.log: one too many: {"fields":{"handled":1},"level":"info","message":"add web/a -"}`,
		`a.scenario.yaml: steps[0].expect.absent[0]: v1/pods web/a exists`,
		`a.scenario.yaml: steps[0].expect.kv.last: expected "a", but the key is not set`,
	}, "\n")
	if text != expected {
		t.Errorf("found:\n%s", text)
	}
}

func TestACallAsTextIsOneThatSucceeded(t *testing.T) {
	for calls, expected := range map[string]string{
		"[on-synced, on-add v1/pods web/a]": `calls[1]: result: expected "ok", found "permanent"`,
		"{ includes: [on-add] }":            `not found: {"call":"on-add","result":"ok"}`,
	} {
		found := reported(t, "steps: [{ apply: "+pod+", expect: { calls: "+calls+" } }]")
		if !strings.Contains(found, expected) {
			t.Errorf("%s: %s", calls, found)
		}
	}
}

func TestAMappingThatExpectsNothingMatchesWhatIsAbsent(t *testing.T) {
	for labels, isAbsent := range map[string]bool{
		"{ a: null, b: { c: null } }": true, "{}": false, "{ a: null, b: {} }": false, "{ a: null, b: c }": false,
	} {
		found := reported(t, strings.ReplaceAll("steps: [{ apply: "+pod+", expect: { kv: { last: LABELS }, objects: ["+
			"{ apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, labels: LABELS } }] } }]", "LABELS", labels))
		differs := strings.Contains(found, "metadata.labels: expected ") && strings.Contains(found, "the key is not set")
		if isAbsent != (found == "") || isAbsent == differs {
			t.Errorf("%s: %s", labels, found)
		}
	}
}

func TestIndexesOfInformersInTheConfigurationAreThere(t *testing.T) {
	config := "config: { informer: { pods: { resource: v1/pods, index: { owner: POINTER } } }, plugin: { scribe: {} } }\n"
	steps := "steps: [{ apply: { apiVersion: v1, kind: Pod, metadata: { namespace: web, name: a, ownerReferences: " +
		"[{ uid: u1 }] } }, expect: { indexes: { pods: { owner: { u1: [web/a] } } } } }]"
	for text, expected := range map[string]string{
		strings.Replace(config, "POINTER", "/metadata/ownerReferences/*/uid", 1): "",
		strings.Replace(config, "POINTER", "metadata.uid", 1):                    `owner: "metadata.uid" is not a JSON pointer`,
		"": `informer "pods" has no index "owner" in this test; add it to the scenario: config: { informer: { pods: {`,
	} {
		if found := reported(t, text+steps); !strings.Contains(found, expected) || expected == "" && found != "" {
			t.Errorf("%s: %s", text, found)
		}
	}
}

func TestMistakesInAFileAreRefused(t *testing.T) {
	informant := "run the scenario with `informant plugin test`"
	for text, expected := range map[string]string{
		"steps: [{ aply: 1 }]": "steps[0].aply: there is no such member; there are apply, delete,",
		"name: a":              "a.scenario.yaml: the scenario has no `steps`",
		"steps: [{ apply: " + pod + ", wait: 1s }]":                 "steps[0]: a step has two actions, apply and wait",
		"steps: [{ wait: 10 }]":                                     "steps[0].wait: 10 is not a duration: write",
		"steps: [{ delete: web/a }]":                                `steps[0].delete: "web/a" is not a reference`,
		"steps: [{ delete: v1/pods web/a }]":                        "steps[0].delete: v1/pods web/a does not exist",
		"steps: [{ requeue: v1/pods web/a }]":                       "requeue: the plugin has no dead letter of v1/pods web/a",
		"steps: [{ requeue: all }]":                                 "steps[0].requeue: the plugin has no dead letter",
		"steps: [{ expect: { calls: [{ call: on-change }] } }]":     "calls[0].call: there is no such call;",
		"steps: [{ expect: { calls: [on-add v1/nodes a] } }]":       "no informer of the plugin watches v1/nodes",
		"steps: [{ expect: { calls: [on-timer a] } }]":              "the plugin has no function for on-timer",
		"steps: [{ timer: a }]":                                     "steps[0].timer: the plugin has no timers",
		"steps: [{ timer: 1 }]":                                     "steps[0].timer: 1 is not a text",
		"steps: [{ expect: { events: [Seen] } }]":                   `events[0]: "Seen" is not a mapping`,
		"steps: [{ expect: { events: [{ type: Error }] } }]":        "events[0].type: there is no such type; there are Normal,",
		"steps: [{ expect: { events: [{ reason: Seen }] } }]":       "events[0]: the plugin's section in config lacks `allow:",
		"steps: [{ expect: { metrics: { seen: 1 } } }]":             "the manifest declares no metric seen",
		"config: config.toml\nsteps: []":                            informant,
		"config: { plugin: { scribe: { limits: {} } } }\nsteps: []": informant,
		"http: [{ url: x, after: 1s }]\nsteps: []":                  informant,
		"http: [{ url: x, method: 1 }]\nsteps: []":                  "http[0].method: 1 is not a text",
		"steps: [{ replay: call.json }]":                            informant,
	} {
		if found := reported(t, text); !strings.Contains(found, expected) {
			t.Errorf("%s: %s", text, found)
		}
	}
}
