package informant_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
)

// Timestamp reads itself, as metav1.Time of k8s.io/api does.
type Timestamp struct{ time.Time }

type Meta struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Created     Timestamp         `json:"creationTimestamp"`
}

type Container struct {
	Image string   `json:"image"`
	Args  []string `json:"args"`
	Ports map[string]struct {
		Number int `json:"number"`
	} `json:"a/b~c"`
}

type TypeMeta struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
}

type Pod struct {
	TypeMeta `json:",inline"`
	Meta     `json:"metadata"`
	Spec     struct {
		Containers []*Container `json:"containers"`
		hidden     int
	} `json:"spec"`
	Ignored int `json:"-"`
}

// Tree contains itself.
type Tree struct {
	Spec struct {
		Children []Tree `json:"children"`
		Name     string `json:"name"`
	} `json:"spec"`
}

func done[T any](*informant.Context, *informant.Event, *T) (informant.Result, error) {
	return informant.Result{}, nil
}

func checkManifest(t *testing.T, register func(), expected string) {
	t.Helper()
	informant.Register(t, func() {
		informant.Plugin("tested", "1")
		register()
	})
	manifest := informanttest.New(t, nil).Manifest()
	if expected = `{"name":"tested","version":"1",` + expected + "}"; manifest != expected {
		t.Fatalf("the manifest is\n%s\nexpected\n%s", manifest, expected)
	}
}

func checkRefused(t *testing.T, register func(), expected string) {
	t.Helper()
	informant.Register(t, register)
	if _, err := informanttest.Start(t, nil); err == nil || !strings.Contains(err.Error(), expected) {
		t.Fatalf("refused with %v, expected %q", err, expected)
	}
}

func TestTheFieldsOfTheTypeAreThePayload(t *testing.T) {
	checkManifest(t, func() {
		informant.For[Pod]("v1", "Pod").OnUpsert(done)
	}, `"roles":["event-handler"],"events":[{"apiVersion":"v1","kind":"Pod","payload":{"fields":[`+
		`"/metadata/labels","/metadata/annotations","/metadata/creationTimestamp","/spec/containers/*/image",`+
		`"/spec/containers/*/args","/spec/containers/*/a~1b~0c/*/number"]}}]`)
}

func TestATypeThatContainsItselfIsRequestedWhole(t *testing.T) {
	checkManifest(t, func() {
		informant.For[Tree]("example.com/v1", "Tree").OnUpsert(done)
	}, `"roles":["event-handler"],"events":[{"apiVersion":"example.com/v1","kind":"Tree",`+
		`"payload":{"fields":["/spec/children","/spec/name"]}}]`)
}

func TestMembersAtTheirDefaultAreNotWritten(t *testing.T) {
	checkManifest(t, func() {
		informant.For[informant.Object]("*", "*").OnUpsert(done)
	}, `"roles":["event-handler"]`)
}

func TestPlayedRolesAreListed(t *testing.T) {
	checkManifest(t, func() {
		pods := informant.For[map[string]any]("v1", "Pod").OnUpsert(done)
		pods.OnSynced(func(*informant.Context, *informant.Synced) error { return nil })
		pods.Index("all", func(*map[string]any) ([]string, error) { return nil, nil })
		informant.State(new(int))
	}, `"roles":["event-handler","sync-handler","index-funcs","state"],"events":[{"apiVersion":"v1","kind":"Pod"}],`+
		`"indexes":{"names":["all"],"objects":[{"apiVersion":"v1","kind":"Pod"}]}`)
}

func TestOptionsAreWritten(t *testing.T) {
	checkManifest(t, func() {
		informant.For[Pod]("v1", "Pod", informant.Fields("/spec/nodeName"), informant.ChangedOnly(), informant.Old(),
			informant.Namespaces("a", ""), informant.LabelSelector("x=y")).OnDelete(done)
		informant.For[struct{}]("v1", "Node").OnAdd(done)
		informant.For[Pod]("v1", "Event", informant.NoPayload()).OnAdd(done)
		informant.For[Pod]("v1", "Secret", informant.MetadataOnly()).OnAdd(done)
		informant.Needs("v1/pods", informant.Patch, informant.Delete).Namespaces("a").Names("b").Subresources("status")
		informant.NeedsEvents()
		informant.Counter("seen", "Seen texts", "text")
		informant.Histogram("sizes", "Bytes", []float64{2, 4})
		informant.Parallel()
		informant.WaitUntilSeen()
	}, `"roles":["event-handler"],"events":[{"apiVersion":"v1","kind":"Pod","payload":{"fields":["/spec/nodeName"]},`+
		`"old":true,"changedOnly":true,"namespaces":["a",""],"labelSelector":"x=y"},`+
		`{"apiVersion":"v1","kind":"Node","payload":"none"},{"apiVersion":"v1","kind":"Event","payload":"none"},`+
		`{"apiVersion":"v1","kind":"Secret","payload":"metadata"}],`+
		`"needs":[{"kube":{"verbs":["patch","delete"],"resource":"v1/pods","namespaces":["a"],"names":["b"],`+
		`"subresources":["status"]}},{"events":{}}],`+
		`"metrics":[{"name":"seen","type":"counter","help":"Seen texts","labels":["text"]},`+
		`{"name":"sizes","type":"histogram","help":"Bytes","buckets":[2,4]}],"parallel":true,"writes":"seen"`)
}

func TestTheDefaultNameIsThatOfThePackage(t *testing.T) {
	informant.Register(t, func() { informant.For[Pod]("v1", "Pod").OnUpsert(done) })
	var manifest struct{ Name, Version string }
	if err := json.Unmarshal([]byte(informanttest.New(t, nil).Manifest()), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Name != "informant" || manifest.Version != "0" {
		t.Fatal(manifest)
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	checkRefused(t, func() {}, "the plugin registers nothing")
	checkRefused(t, func() {
		informant.For[struct{}]("v1", "Pod", informant.ChangedOnly()).OnUpsert(done)
	}, "v1 Pod: ChangedOnly and Old compare the payload, but there is none")
	checkRefused(t, func() {
		informant.For[Pod]("v1", "Pod").OnAdd(done)
		informant.For[Pod]("v1", "Pod").OnUpdate(done)
	}, "v1 Pod is registered twice")
	checkRefused(t, func() {
		informant.For[struct{}]("v1", "Pod").Index("a", func(*struct{}) ([]string, error) { return nil, nil })
	}, "there is nothing to index")
}

func TestWrongRegistrationsPanicWithTheReason(t *testing.T) {
	type untagged struct {
		Status struct {
			Phase string
		} `json:"status"`
	}
	for expected, register := range map[string]func(){
		"has no json tag; write `json:\"phase\"`": func() { informant.For[untagged]("v1", "Pod") },
		"/run: JSON has no values for a field of type func()": func() {
			informant.For[struct {
				Run func() `json:"run"`
			}]("v1", "Pod")
		},
		"OnUpsert of v1 Pod: there is a handler": func() {
			informant.For[Pod]("v1", "Pod").OnAdd(done).OnUpsert(done)
		},
		"informant.State is called twice":    func() { informant.State(new(int)); informant.State(new(int)) },
		"informant.Config: pass the address": func() { informant.Config(5) },
		`the index "a" of v1 Pod is registered twice`: func() {
			values := func(*Pod) ([]string, error) { return nil, nil }
			informant.For[Pod]("v1", "Pod").Index("a", values).Index("a", values)
		},
	} {
		informant.Register(t, func() {
			defer func() {
				if cause := fmt.Sprint(recover()); !strings.Contains(cause, expected) {
					t.Errorf("panicked with %q, expected %q", cause, expected)
				}
			}()
			register()
		})
	}
}

func TestSetupRegistersWhatDependsOnTheConfiguration(t *testing.T) {
	var config struct {
		Label string `json:"label"`
	}
	informant.Register(t, func() {
		informant.Config(&config)
		informant.Setup(func(*informant.Info) error {
			if config.Label == "" {
				return fmt.Errorf("config: set `label`")
			}
			informant.For[Pod]("v1", "Pod").Index(config.Label, func(pod *Pod) ([]string, error) {
				return []string{pod.Labels[config.Label]}, nil
			})
			return nil
		})
	})
	if _, err := informanttest.Start(t, nil); fmt.Sprint(err) != "config: set `label`" {
		t.Fatal(err)
	}
	p := informanttest.New(t, map[string]string{"label": "app"})
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b","labels":{"app":"web"}}}`
	if values, err := p.IndexValues("app", pod); err != nil || len(values) != 1 || values[0] != "web" {
		t.Fatal(values, err)
	}
}

func TestTheConfigurationIsReadStrictly(t *testing.T) {
	config := checkedConfig{Limit: 3, Names: []string{"a"}}
	informant.Register(t, func() {
		informant.Config(&config)
		informant.For[Pod]("v1", "Pod").OnUpsert(done)
	})
	for given, expected := range map[string]string{
		`{"limits": 1}`:                  "config: unknown key `limits`",
		`{"limit": "1"}`:                 "config: `limit` is a string, expected a Go int",
		`{"limit": 0}`:                   "config: `limit` must be at least 1",
		`{"names": ["b"], "limit": 500}`: "<nil>",
		`{}`:                             "<nil>",
	} {
		t.Run(given, func(t *testing.T) {
			p, err := informanttest.Start(t, json.RawMessage(given))
			if fmt.Sprint(err) != expected {
				t.Fatal(err)
			}
			if p != nil && given == "{}" && (config.Limit != 3 || config.Names[0] != "a") {
				t.Fatalf("the defaults are %v", config)
			}
		})
	}
}

type checkedConfig struct {
	Limit int      `json:"limit"`
	Names []string `json:"names"`
}

func (c *checkedConfig) Validate() error {
	if c.Limit < 1 {
		return fmt.Errorf("`limit` must be at least 1")
	}
	return nil
}

func TestReconcilerNamesWhatLeadsToIt(t *testing.T) {
	checkManifest(t, func() {
		informant.For[Pod]("v1", "Pod", informant.Fields("/spec")).Reconcile(reconciled).When("generation").
			Owns(informant.Related("v1", "Secret").When("/data")).
			Watches(informant.Related("v1", "LimitRange").ByNamespace()).
			Watches(informant.Related("v1", "ConfigMap").ByLabel("pod")).
			MinInterval(1500 * time.Millisecond)
	}, `"roles":["reconciler"],"reconciler":{"for":{"apiVersion":"v1","kind":"Pod","payload":{"fields":["/spec"]},`+
		`"when":["generation"]},"owns":[{"apiVersion":"v1","kind":"Secret","when":["/data"]}],`+
		`"watches":[{"apiVersion":"v1","kind":"LimitRange","by":"namespace"},`+
		`{"apiVersion":"v1","kind":"ConfigMap","by":{"label":"pod"}}],"minInterval":"1s 500ms"}`)
}

func reconciled(*informant.Context, *informant.Request, *Pod) (informant.Result, error) {
	return informant.Result{}, nil
}
